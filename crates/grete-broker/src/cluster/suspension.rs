//! Brokers that hang: connections stay open and take requests, and nothing is answered.

use std::collections::BTreeMap;

use super::Cluster;
use super::event::Action;
use crate::ids::{BrokerId, ConnId, Millis, RequestId};
use crate::message::Response;

/// Broker that hangs.
#[derive(Debug)]
pub(super) struct Suspension {
    /// End of the session at the controller; `None`: it has ended, and other brokers have the partitions.
    session_ends: Option<Millis>,
    /// Responses that were due since.
    held: Vec<(RequestId, Response)>,
}

/// All brokers that hang.
#[derive(Debug, Default)]
pub(super) struct Suspensions {
    by_broker: BTreeMap<BrokerId, Suspension>,
}

impl Suspensions {
    pub(super) fn contains(&self, broker: BrokerId) -> bool {
        self.by_broker.contains_key(&broker)
    }

    pub(super) fn remove(&mut self, broker: BrokerId) -> Option<Suspension> {
        self.by_broker.remove(&broker)
    }

    /// Keeps a response until the broker goes on.
    pub(super) fn hold(&mut self, broker: BrokerId, request: RequestId, response: Response) {
        if let Some(suspension) = self.by_broker.get_mut(&broker) {
            suspension.held.push((request, response));
        }
    }

    /// Returns when the first session ends.
    pub(super) fn deadline(&self) -> Option<Millis> {
        self.by_broker.values().filter_map(|suspension| suspension.session_ends).min()
    }
}

impl Cluster {
    /// Lets a broker hang, like a process after SIGSTOP. After `broker.session.timeout.ms` its partitions get other
    /// leaders, and its groups another coordinator, where a broker is left.
    ///
    /// # Errors
    /// The cluster has no such broker, or it is stopped.
    pub fn suspend_broker(&mut self, broker: BrokerId) -> Result<(), String> {
        self.check_broker(broker)?;
        if self.suspensions.contains(broker) {
            return Ok(());
        }
        if !self.live.contains(&broker) {
            return Err(format!("broker {broker} is stopped: start it first"));
        }
        // The only broker is its own controller, whose clock stands still as well.
        let is_last = self.live.len() == 1;
        let session_ends = (!is_last).then(|| self.now.saturating_add(self.config.broker_session_timeout_ms));
        self.suspensions.by_broker.insert(broker, Suspension { session_ends, held: Vec::new() });
        Ok(())
    }

    /// Lets a broker go on that hung: it sends what was due, and handles the requests that came meanwhile.
    ///
    /// # Errors
    /// The cluster has no such broker.
    pub fn resume_broker(&mut self, broker: BrokerId, actions: &mut Vec<Action>) -> Result<(), String> {
        self.check_broker(broker)?;
        let Some(suspension) = self.suspensions.remove(broker) else { return Ok(()) };
        self.effects.replies.extend(suspension.held);
        let live = self.live.clone();
        if self.live.insert(broker) {
            self.elect_all();
            self.fail_over_groups(&live, self.coordinator_shift);
        }
        let of_broker = self.connections.iter().filter(|(_, connection)| connection.broker == broker);
        let waiting: Vec<ConnId> = of_broker.map(|(conn, _)| *conn).collect();
        self.ready.extend(waiting);
        self.settle(actions);
        Ok(())
    }

    /// Takes the partitions of brokers that have hung for too long.
    pub(super) fn fence_suspended(&mut self) {
        let (live, mut is_changed) = (self.live.clone(), false);
        for (broker, suspension) in &mut self.suspensions.by_broker {
            if suspension.session_ends.is_some_and(|end| end <= self.now) {
                suspension.session_ends = None;
                is_changed |= self.live.remove(broker);
            }
        }
        if is_changed {
            self.elect_all();
            self.fail_over_groups(&live, self.coordinator_shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use grete_wire::Frame;

    use super::*;
    use crate::cluster::{BrokerAddress, ClusterConfig, Event};

    /// ApiVersions version 0 without a client id.
    const API_VERSIONS: &[u8] = &[0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];

    fn cluster(brokers: i32) -> Cluster {
        let address = |id| BrokerAddress { id, host: "127.0.0.1".into(), port: 9092, rack: None };
        let mut cluster = Cluster::new(ClusterConfig::new((1..=brokers).map(address).collect()));
        cluster.create_topic("orders", 3, &[]).unwrap();
        let mut actions = Vec::new();
        for broker in 1..=brokers {
            let conn = ConnId(u64::try_from(broker).unwrap());
            cluster.step(0, Event::Accepted { conn, broker, client_host: "127.0.0.1".into() }, &mut actions);
        }
        cluster
    }

    fn ask(cluster: &mut Cluster, now: Millis, conn: u64) -> usize {
        let mut actions = Vec::new();
        let frame = Frame::from(API_VERSIONS.to_vec());
        cluster.step(now, Event::Frame { conn: ConnId(conn), frame }, &mut actions);
        writes(&actions)
    }

    fn writes(actions: &[Action]) -> usize {
        actions.iter().filter(|action| matches!(action, Action::Write { .. })).count()
    }

    fn leaders(cluster: &Cluster) -> Vec<Option<BrokerId>> {
        cluster.topics.get("orders").unwrap().partitions.iter().map(|partition| partition.leader).collect()
    }

    #[test]
    fn a_broker_that_hangs_answers_when_it_goes_on() {
        let mut cluster = cluster(3);
        cluster.suspend_broker(2).unwrap();
        assert_eq!((ask(&mut cluster, 1, 2), ask(&mut cluster, 1, 2), ask(&mut cluster, 1, 1)), (0, 0, 1));
        let mut actions = Vec::new();
        cluster.resume_broker(2, &mut actions).unwrap();
        assert_eq!(writes(&actions), 2);
    }

    #[test]
    fn a_broker_that_hangs_loses_its_partitions_with_its_session() {
        let mut cluster = cluster(3);
        let before = leaders(&cluster);
        cluster.suspend_broker(2).unwrap();
        assert_eq!(leaders(&cluster), before);
        assert_eq!(cluster.suspensions.deadline(), Some(9_000));
        cluster.step(9_000, Event::Tick, &mut Vec::new());
        assert!(before.contains(&Some(2)) && !leaders(&cluster).contains(&Some(2)));
        assert!(cluster.live_broker(2).is_none());
        cluster.resume_broker(2, &mut Vec::new()).unwrap();
        assert!(cluster.live_broker(2).is_some());
        assert_eq!(ask(&mut cluster, 9_001, 2), 1);
    }

    #[test]
    fn the_last_broker_keeps_its_partitions_while_it_hangs() {
        let mut cluster = cluster(1);
        cluster.suspend_broker(1).unwrap();
        assert_eq!(cluster.suspensions.deadline(), None);
        assert_eq!(ask(&mut cluster, 1_000_000, 1), 0);
        assert_eq!(leaders(&cluster), [Some(1); 3]);
    }

    #[test]
    fn a_broker_that_hangs_can_be_stopped() {
        let mut cluster = cluster(3);
        let mut actions = Vec::new();
        cluster.suspend_broker(2).unwrap();
        cluster.stop_broker(2, &mut actions).unwrap();
        assert!(actions.contains(&Action::StopListening(2)));
        assert!(cluster.suspend_broker(2).unwrap_err().contains("stopped"));
        assert!(cluster.suspend_broker(4).is_err());
        cluster.start_broker(2, &mut actions).unwrap();
        assert!(!cluster.suspensions.contains(2) && cluster.live_broker(2).is_some());
    }
}
