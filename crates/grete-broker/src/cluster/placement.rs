//! Placement: brokers that are up, leaders of partitions, coordinators of groups and transactions.

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::ErrorCode;

use super::Cluster;
use super::config::BrokerAddress;
use super::event::Action;
use crate::coordinator_partition::coordinator_partition;
use crate::effects::Change;
use crate::ids::{BrokerId, ConnId, TopicId};
use crate::log::PartitionLog;
use crate::topics::TopicChange;

impl Cluster {
    /// Returns the brokers that are up, in the order of the settings.
    pub(super) fn live_brokers(&self) -> impl Iterator<Item = &BrokerAddress> {
        self.config.brokers.iter().filter(|broker| self.live.contains(&broker.id))
    }

    /// Returns the address of a broker that is up.
    pub(super) fn live_broker(&self, id: BrokerId) -> Option<&BrokerAddress> {
        self.live_brokers().find(|broker| broker.id == id)
    }

    /// Returns the controller: the first broker that is up. -1: none is up.
    pub(super) fn controller(&self) -> BrokerId {
        self.live_brokers().next().map_or(-1, |broker| broker.id)
    }

    /// Returns the coordinator of a group or a transactional id: by the hash of its name, as in Kafka.
    #[must_use]
    pub fn coordinator(&self, name: &str) -> Option<BrokerId> {
        coordinator_of(name, &self.config.brokers, &self.live, self.coordinator_shift)
    }

    /// Moves the coordinators of all groups and transactional ids to the next broker.
    pub fn move_coordinators(&mut self, actions: &mut Vec<Action>) {
        let (live, shift) = (self.live.clone(), self.coordinator_shift);
        self.coordinator_shift += 1;
        self.fail_over_groups(&live, shift);
        self.settle(actions);
    }

    /// Continues groups whose coordinator changed with their durable state: requests that wait at the old coordinator
    /// are refused, as if that broker had crashed. `live` and `shift`: as they were before the change.
    pub(super) fn fail_over_groups(&mut self, live: &BTreeSet<BrokerId>, shift: usize) {
        let brokers = &self.config.brokers;
        let moves = |group: &str| {
            coordinator_of(group, brokers, live, shift)
                != coordinator_of(group, brokers, &self.live, self.coordinator_shift)
        };
        self.groups.fail_over(self.now, moves, &mut self.effects);
    }

    /// Makes a replica the leader of a partition.
    ///
    /// # Errors
    /// The partition does not exist, or the broker holds no replica of the partition or is down.
    pub fn move_leader(&mut self, topic: &str, partition: i32, to: BrokerId) -> Result<(), String> {
        let unknown = || format!("partition {topic}-{partition} does not exist: create the topic first");
        let found = self.topics.get(topic).ok_or_else(unknown)?;
        let id = found.id;
        let replicas = &found.partition(partition).ok_or_else(unknown)?.replicas;
        if !replicas.contains(&to) || !self.live.contains(&to) {
            return Err(format!("broker {to} cannot lead {topic}-{partition}: choose one of {replicas:?} that is up"));
        }
        self.elect(id, partition, Some(to));
        Ok(())
    }

    /// Stops a broker: its connections end, and its partitions get other leaders where a replica is up.
    ///
    /// # Errors
    /// The cluster has no such broker.
    pub fn stop_broker(&mut self, broker: BrokerId, actions: &mut Vec<Action>) -> Result<(), String> {
        self.check_broker(broker)?;
        let was_suspended = self.suspensions.remove(broker).is_some();
        let live = self.live.clone();
        if !self.live.remove(&broker) && !was_suspended {
            return Ok(());
        }
        actions.push(Action::StopListening(broker));
        let of_broker =
            |(conn, connection): (&ConnId, &super::Connection)| (connection.broker == broker).then_some(*conn);
        let closed: Vec<ConnId> = self.connections.iter().filter_map(of_broker).collect();
        for conn in closed {
            self.close_connection(conn, actions);
        }
        self.fetch_sessions.remove(&broker);
        self.elect_all();
        self.fail_over_groups(&live, self.coordinator_shift);
        self.settle(actions);
        Ok(())
    }

    /// Starts a broker that was stopped. Partitions without a leader get one; the others keep theirs.
    ///
    /// # Errors
    /// The cluster has no such broker.
    pub fn start_broker(&mut self, broker: BrokerId, actions: &mut Vec<Action>) -> Result<(), String> {
        self.check_broker(broker)?;
        let live = self.live.clone();
        if !self.suspensions.contains(broker) && self.live.insert(broker) {
            actions.push(Action::Listen(broker));
            self.elect_all();
            self.fail_over_groups(&live, self.coordinator_shift);
            self.settle(actions);
        }
        Ok(())
    }

    /// Drops the fetch sessions and share sessions of a broker, as a full cache does. Clients learn of it from
    /// FETCH_SESSION_ID_NOT_FOUND and SHARE_SESSION_NOT_FOUND, and open new ones.
    pub fn forget_fetch_sessions(&mut self, broker: BrokerId) {
        self.fetch_sessions.remove(&broker);
        for session in self.share.sessions().of_broker(broker) {
            self.end_session(&session);
        }
    }

    pub(super) fn check_broker(&self, broker: BrokerId) -> Result<(), String> {
        let ids: Vec<BrokerId> = self.config.brokers.iter().map(|address| address.id).collect();
        match ids.contains(&broker) {
            true => Ok(()),
            false => Err(format!("there is no broker {broker}: choose one of {ids:?}")),
        }
    }

    /// Moves partitions away from brokers that the cluster had before a restart and no longer has.
    pub(super) fn reassign_unknown_replicas(&mut self) {
        let known: Vec<BrokerId> = self.config.brokers.iter().map(|broker| broker.id).collect();
        let mut moves = Vec::new();
        for topic in self.topics.iter() {
            for (partition, found) in topic.indexed() {
                let mut replicas = found.replicas.clone();
                replicas.retain(|id| known.contains(id));
                if replicas.is_empty() {
                    let place = usize::try_from(partition).unwrap_or(0);
                    replicas.extend(place.checked_rem(known.len()).and_then(|place| known.get(place)));
                }
                if replicas != found.replicas {
                    moves.push(TopicChange::Reassigned { id: topic.id, partition, replicas });
                }
            }
        }
        for change in moves {
            self.change_topics(change);
        }
    }

    /// Gives each partition whose leader is down another leader, or none.
    pub(super) fn elect_all(&mut self) {
        let mut elections = Vec::new();
        for topic in self.topics.iter() {
            for (index, partition) in topic.indexed() {
                if partition.leader.is_none_or(|leader| !self.live.contains(&leader)) {
                    let leader = partition.in_sync(&self.live).first().copied();
                    if leader != partition.leader {
                        elections.push((topic.id, index, leader));
                    }
                }
            }
        }
        for (id, partition, leader) in elections {
            self.elect(id, partition, leader);
        }
    }

    fn elect(&mut self, id: TopicId, partition: i32, leader: Option<BrokerId>) {
        let epoch = self.topics.by_id(id).and_then(|topic| topic.partition(partition)).map(|found| found.leader_epoch);
        let Some(epoch) = epoch else { return };
        let leader_epoch = epoch.saturating_add(1);
        self.change_topics(TopicChange::Elected { id, partition, leader, leader_epoch });
        if leader.is_some() {
            let begun = |log: &mut PartitionLog| Ok::<_, ErrorCode>((log.begin_leader_epoch(leader_epoch), ()));
            self.with_log((id, partition), |log, _, _, _| begun(log));
        }
        // A Fetch that waits at the old leader ends with NOT_LEADER_OR_FOLLOWER.
        self.complete_fetches(id, partition, true);
    }

    /// Applies a change of the topics and stores it.
    pub(super) fn change_topics(&mut self, change: TopicChange) {
        self.topics.apply(&change);
        if let TopicChange::Created { id, .. } | TopicChange::Configured { id, .. } = &change {
            self.expect_cleaning(*id);
        }
        self.effects.change(Change::Topic(change));
    }

    /// Returns the replicas of new partitions: spread over the brokers, one after the other. Brokers that are down get
    /// replicas only where the others are too few.
    pub(super) fn assign_replicas(
        &self,
        first: usize,
        partitions: usize,
        replication_factor: usize,
    ) -> Vec<Vec<BrokerId>> {
        let (up, down): (Vec<BrokerId>, Vec<BrokerId>) =
            self.config.brokers.iter().map(|broker| broker.id).partition(|id| self.live.contains(id));
        let replica = |partition: usize, place: usize| match place.checked_sub(up.len()) {
            None => up.get((first + partition + place) % up.len().max(1)).copied(),
            Some(place) => down.get((first + partition + place) % down.len().max(1)).copied(),
        };
        (0..partitions)
            .map(|partition| (0..replication_factor).filter_map(|place| replica(partition, place)).collect())
            .collect()
    }

    /// Returns a name as a shared string of the cluster's life.
    pub(super) fn rack_of(broker: &BrokerAddress) -> Option<String> {
        broker.rack.as_ref().map(Arc::to_string)
    }
}

/// Returns the coordinator of a group or a transactional id. `None`: no broker is up.
pub(super) fn coordinator_of(
    name: &str,
    brokers: &[BrokerAddress],
    live: &BTreeSet<BrokerId>,
    shift: usize,
) -> Option<BrokerId> {
    let slot = coordinator_partition(name) + shift;
    let preferred = brokers.get(slot.checked_rem(brokers.len())?)?.id;
    if live.contains(&preferred) {
        return Some(preferred);
    }
    live.iter().nth(slot.checked_rem(live.len())?).copied()
}
