//! Connections that no client uses: `connections.max.idle.ms`.

use super::Cluster;
use super::event::Action;
use crate::ids::{ConnId, Millis};

impl Cluster {
    /// Plans the check for idle connections, when a connection is new.
    pub(super) fn plan_idle_check(&mut self) {
        let idle_ms = self.config.connections_max_idle_ms;
        if idle_ms >= 0 && self.next_idle_check.is_none() {
            self.next_idle_check = Some(self.now.saturating_add(idle_ms));
        }
    }

    /// Closes the connections that were idle for too long, if the check is due. The next check is due when the
    /// connection that is unused for longest may be idle for too long: a request costs no timer of its own.
    ///
    /// A connection with a request in progress is not idle, even if the request waits for longer. Kafka closes such a
    /// connection, but its requests do not wait that long.
    pub(super) fn close_idle(&mut self, actions: &mut Vec<Action>) {
        if self.next_idle_check.is_none_or(|due| due > self.now) {
            return;
        }
        let idle_ms = self.config.connections_max_idle_ms;
        let ends_at = |since: Millis| since.saturating_add(idle_ms);
        let late = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.idle_since().is_some_and(|since| ends_at(since) <= self.now));
        for conn in late.map(|(&conn, _)| conn).collect::<Vec<ConnId>>() {
            self.close_connection(conn, actions);
        }
        let kept = self.connections.values().map(|connection| ends_at(connection.idle_since().unwrap_or(self.now)));
        self.next_idle_check = kept.min();
    }
}
