//! Connections of the cluster: opened, ready and lost ones, backoff, outages and mutes.

use std::sync::Arc;

use super::broker_state::is_bootstrap;
use super::event::{ClusterAction, ClusterActions, ClusterLogEvent};
use super::metadata_refresh::MetadataScope;
use super::{BrokerConnection, Cluster};
use crate::connection::{CloseReason, ConnAction, Connection};
use crate::ids::{ConnId, NodeId};
use crate::request::{AddressFault, Channel, Reply, RequestOwner};
use crate::sasl::SaslError;
use crate::time::{MILLI, Nanos};
use crate::transport::TransportAction;

impl Cluster {
    /// Starts to connect. Returns `None` if the node is unknown, already connected, or in backoff.
    pub(super) fn open(
        &mut self,
        now: Nanos,
        id: NodeId,
        channel: Channel,
        out: &mut ClusterActions,
    ) -> Option<ConnId> {
        let node = self.nodes.get_mut(&id)?;
        if node.conn(channel).is_some() || now < node.retry_at {
            return None;
        }
        let name = ConnId(self.next_conn);
        self.next_conn = self.next_conn.wrapping_add(1);
        let timeout = node.setup.next_delay(&mut self.rng);
        let mut conn = Connection::new(Arc::clone(&self.conn_config), now, timeout);
        conn.mute(node.muted_until);
        if node.closed_first_request {
            conn.probe_login();
        }
        node.set_conn(channel, Some(name));
        let host = Arc::clone(&node.address.host);
        out.push(ClusterAction::Transport(TransportAction::Connect {
            conn: name,
            host: Arc::clone(&host),
            port: node.address.port,
        }));
        self.connections.insert(name, BrokerConnection { node: id, channel, conn, host, ready: false });
        self.dirty = true;
        Some(name)
    }

    /// Closes the Join connection of a broker that hangs or is cut off. A JoinGroup may rightly wait for minutes, so
    /// its own timeout would keep the member at a coordinator that is gone. A Fetch does not need this: it has its
    /// request timeout, and its partitions move to other leaders.
    fn close_unresponsive(&mut self, now: Nanos, id: NodeId, out: &mut ClusterActions) {
        let Some(name) = self.nodes.get(&id).and_then(|node| node.conn(Channel::Join)) else { return };
        if let Some(link) = self.connections.get_mut(&name) {
            link.conn.on_closed(now, CloseReason::Silent, &mut self.scratch);
            self.process_conn_actions(now, name, false, out);
        }
    }

    /// Carries out the actions of a connection. `gone`: the driver has closed the socket already.
    pub(super) fn process_conn_actions(&mut self, now: Nanos, name: ConnId, gone: bool, out: &mut ClusterActions) {
        let Some(link) = self.connections.get(&name) else { return };
        let (node, channel) = (link.node, link.channel);
        // Taken out, because a reply or a close can add actions of other connections.
        let mut actions = std::mem::take(&mut self.scratch);
        for action in actions.drain(..) {
            match action {
                ConnAction::Write(bytes) => {
                    out.push(ClusterAction::Transport(TransportAction::Write { conn: name, bytes }))
                }
                ConnAction::Gss(call) => {
                    if let Some(link) = self.connections.get(&name) {
                        let host = Arc::clone(&link.host);
                        out.push(ClusterAction::Transport(TransportAction::Gss { conn: name, host, call }));
                    }
                }
                ConnAction::Reply(token, result) if token.owner == RequestOwner::Cluster => {
                    self.on_metadata_response(now, token.id, node, result, out);
                }
                ConnAction::Reply(token, result) => out.push(ClusterAction::Reply(Reply { token, node, result })),
                ConnAction::Ready => self.on_ready(now, name, node, channel, out),
                ConnAction::Throttled(span) => self.on_throttle(now, node, span, out),
                ConnAction::Close(reason) => {
                    if !gone {
                        out.push(ClusterAction::Transport(TransportAction::CloseConn(name)));
                    }
                    self.on_disconnect(now, name, reason, out);
                }
            }
        }
        self.scratch = actions;
        self.lower_timer(name);
    }

    /// Resets the backoff after a response, which proves that the broker works.
    pub(super) fn after_frame(&mut self, now: Nanos, name: ConnId, out: &mut ClusterActions) {
        let Some(link) = self.connections.get(&name).filter(|link| link.conn.has_response()) else { return };
        let id = link.node;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.backoff.reset();
            node.closed_first_request = false;
        }
        if self.conn_config.sasl.is_none() {
            self.on_proven(id, out);
        }
        if is_bootstrap(id) {
            self.retire_bootstrap(now, out);
        }
    }

    fn on_ready(&mut self, now: Nanos, name: ConnId, id: NodeId, channel: Channel, out: &mut ClusterActions) {
        if let Some(link) = self.connections.get_mut(&name) {
            self.ready_connections += usize::from(!std::mem::replace(&mut link.ready, true));
            // A broker that has just started may know older features than the others.
            let features = link.conn.versions().map(|versions| versions.features());
            let newest = self.features.map_or(i64::MIN, |known| known.epoch);
            self.features = features.filter(|found| found.epoch >= newest).or(self.features);
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.setup.reset();
        node.set_needed(channel, false);
        let address = node.address.to_string();
        out.push(ClusterAction::LogEvent(ClusterLogEvent::Connected { node: id, channel, address }));
        // Without a login, a ready connection proves little: a listener that expects one closes it at the next request.
        if self.conn_config.sasl.is_some() {
            self.on_proven(id, out);
        }
        if !is_bootstrap(id) {
            self.fell_back = false;
            out.push(ClusterAction::NodeReady { node: id, channel });
        }
        self.retire_bootstrap(now, out);
        self.dirty = true;
    }

    /// Ends the faults and the outage: the broker works, as a login or a response proves.
    fn on_proven(&mut self, id: NodeId, out: &mut ClusterActions) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.fault = None;
        node.login_backoff.reset();
        self.outage = false;
        self.fatal = None;
        if self.login_failure.take().is_some() {
            let address = self.address(id).unwrap_or_default();
            out.push(ClusterAction::LogEvent(ClusterLogEvent::LoginRecovered { address }));
        }
    }

    /// Removes a lost connection. Its requests have got their replies.
    fn on_disconnect(&mut self, now: Nanos, name: ConnId, reason: CloseReason, out: &mut ClusterActions) {
        let Some(link) = self.connections.remove(&name) else { return };
        self.ready_connections -= usize::from(link.ready);
        let (id, channel) = (link.node, link.channel);
        let (negotiated, was_ready) = (link.conn.versions().is_some(), link.ready);
        let is_timeout = matches!(reason, CloseReason::RequestTimeout { .. });
        let silent = channel == Channel::Control && is_timeout;
        self.dirty = true;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.set_conn(channel, None);
        node.set_needed(channel, false);
        // Bytes that make no sense may have named a throttle time that no broker asks for: minutes instead of milliseconds.
        let is_unmuted = reason.is_garbled() && std::mem::take(&mut node.muted_until) > 0;
        if is_unmuted {
            for other in node.conns.into_iter().flatten() {
                if let Some(link) = self.connections.get_mut(&other) {
                    link.conn.unmute();
                }
            }
            out.push(ClusterAction::Unmuted { node: id });
        }
        if !reason.is_expected() {
            // All connections of a broker that dies end at once: count one failure, not three.
            if now >= node.retry_at {
                let delay = node.backoff.next_delay(&mut self.rng);
                let refused =
                    matches!(&reason, CloseReason::Sasl(error) if !matches!(error, SaslError::NoToken { .. }));
                let login_delay = if refused { node.login_backoff.next_delay(&mut self.rng) } else { 0 };
                node.retry_at = now.saturating_add(delay.max(login_delay));
            }
            let (address, failures) = (node.address.to_string(), node.backoff.failures());
            let closes_first = reason == CloseReason::FirstRequestEof;
            node.closed_first_request |= closes_first;
            let fault = reason.address_fault(&address, negotiated, self.config.sasl.is_some());
            node.fault.clone_from(&fault);
            // The log thins the failed attempts of an outage; this one failed, although ApiVersions was answered.
            let log_event = if was_ready && !closes_first {
                ClusterLogEvent::Disconnected { node: id, channel, address, reason }
            } else {
                ClusterLogEvent::ConnectFailed { node: id, channel, address, reason, failures }
            };
            match fault {
                Some(fault) => self.on_address_fault(fault, log_event, out),
                None => out.push(ClusterAction::LogEvent(log_event)),
            }
            // The leaders of a broker that is gone move to other brokers.
            self.refresh.request_refresh(now, MetadataScope::All);
        }
        // The broker hangs or is cut off: its answer to the metadata request would be awaited for another timeout.
        if is_timeout && self.refresh.is_awaited_from(id) {
            self.refresh.on_failure(now, &mut self.rng);
        }
        if !is_bootstrap(id) {
            out.push(ClusterAction::NodeLost { node: id, channel });
        }
        if silent {
            self.close_unresponsive(now, id, out);
        }
        self.drop_if_unlisted(id, out);
        self.check_outage(out);
    }

    /// Removes a broker that is no longer in the metadata, once it has no connections.
    pub(super) fn drop_if_unlisted(&mut self, id: NodeId, out: &mut ClusterActions) {
        let Some(node) = self.nodes.get(&id) else { return };
        if node.listed || is_bootstrap(id) || node.has_conns() {
            return;
        }
        for channel in Channel::ALL.into_iter().filter(|&channel| node.is_needed(channel)) {
            out.push(ClusterAction::NodeLost { node: id, channel });
        }
        self.nodes.remove(&id);
    }

    /// Ends the client if no bootstrap address can be used. A client that has had metadata goes on: its brokers may be
    /// set up anew, and `lost` has the reason meanwhile.
    fn on_address_fault(&mut self, fault: AddressFault, lost: ClusterLogEvent, out: &mut ClusterActions) {
        let mut bootstrap = self.nodes.range(..0).map(|(_, node)| node);
        let mut unusable =
            || bootstrap.all(|node| node.fault.as_ref().is_some_and(|fault| fault.is_certain(node.backoff.failures())));
        let fatal = !self.refresh.has_succeeded() && self.fatal.is_none() && unusable();
        match &fault {
            // The log thins the attempts; the cure is in the log once.
            AddressFault::NotKafka(error) => {
                let not_kafka = matches!(lost, ClusterLogEvent::ConnectFailed { failures: 0 | 1, .. });
                let not_kafka = not_kafka.then(|| ClusterLogEvent::NotKafka(error.clone()));
                out.extend([Some(lost), not_kafka].into_iter().flatten().map(ClusterAction::LogEvent));
            }
            // One line: the fatal event says the same.
            AddressFault::Login(failure) => {
                let again = self.login_failure.replace(failure.clone()).is_some();
                let failed = ClusterLogEvent::LoginFailed { failure: failure.clone(), again };
                out.push(ClusterAction::LogEvent(failed));
            }
            AddressFault::Tls { .. } if fatal => {}
            AddressFault::Tls { .. } => out.push(ClusterAction::LogEvent(lost)),
        }
        if fatal {
            out.push(ClusterAction::LogEvent(ClusterLogEvent::Fatal(fault.clone())));
            self.fatal = Some(fault);
        }
    }

    /// Emits `AllBrokersDown` once, when no connection is open or in progress and every address has failed.
    fn check_outage(&mut self, out: &mut ClusterActions) {
        // Brokers that refuse the login are reachable; that was logged.
        if self.outage || self.fatal.is_some() || self.login_failure.is_some() {
            return;
        }
        let mut addresses = self.nodes.iter().filter(|(id, node)| node.listed || is_bootstrap(**id));
        if addresses.clone().all(|(_, node)| !node.has_conns() && node.backoff.failures() > 0) {
            self.outage = true;
            let addresses = addresses.by_ref().count();
            out.push(ClusterAction::LogEvent(ClusterLogEvent::AllBrokersDown { addresses }));
        }
    }

    /// Closes idle bootstrap connections once a broker of the metadata is ready.
    fn retire_bootstrap(&mut self, now: Nanos, out: &mut ClusterActions) {
        // Must match the brokers that `least_loaded` selects: otherwise the connection would be reopened at once, in a
        // loop.
        let named = self.nodes.range(0..).any(|(&id, node)| node.listed && self.is_ready(id, Channel::Control));
        if named && !self.rebootstrapping {
            self.close_bootstrap(now, out);
        }
    }

    pub(super) fn close_bootstrap(&mut self, now: Nanos, out: &mut ClusterActions) {
        let spare = |link: &BrokerConnection| is_bootstrap(link.node) && link.conn.is_idle();
        let spare: Vec<ConnId> =
            self.connections.iter().filter(|(_, link)| spare(link)).map(|(&name, _)| name).collect();
        for name in spare {
            if let Some(link) = self.connections.get_mut(&name) {
                link.conn.on_closed(now, CloseReason::Retired, &mut self.scratch);
                self.process_conn_actions(now, name, false, out);
            }
        }
    }

    pub(super) fn on_throttle(&mut self, now: Nanos, id: NodeId, throttle_time: Nanos, out: &mut ClusterActions) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.muted_until = node.muted_until.max(now.saturating_add(throttle_time));
        for name in node.conns.into_iter().flatten() {
            if let Some(link) = self.connections.get_mut(&name) {
                link.conn.mute(node.muted_until);
            }
        }
        out.push(ClusterAction::LogEvent(ClusterLogEvent::Throttled { node: id, ms: throttle_time / MILLI }));
        self.dirty = true;
    }

    pub(super) fn unmute(&mut self, now: Nanos, out: &mut ClusterActions) {
        for (&id, node) in &mut self.nodes {
            if node.muted_until > 0 && now >= node.muted_until {
                node.muted_until = 0;
                out.push(ClusterAction::Unmuted { node: id });
            }
        }
    }
}
