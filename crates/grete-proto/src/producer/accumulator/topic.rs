//! State of a topic that the producer writes to.

use std::collections::VecDeque;
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::partition_queue::PartitionQueue;
use super::unassigned::UnassignedRecord;
use crate::rng::Rng;
use crate::time::Nanos;

/// `last_used` of a topic that was tracked but not used yet.
pub(super) const NEVER: Nanos = Nanos::MAX;

#[derive(Debug)]
pub(super) struct Topic {
    pub name: Arc<str>,
    /// Queues of all partitions that the topic ever had.
    pub partitions: Vec<PartitionQueue>,
    /// Number of partitions; 0 while unknown or while `error` is set.
    pub partition_count: u32,
    /// Fatal metadata error.
    pub error: Option<ErrorCode>,
    /// Retriable metadata error.
    pub transient_error: Option<ErrorCode>,
    /// Time of the newest metadata response, if that response reports the topic as unknown.
    pub missing_at: Option<Nanos>,
    /// The topic is part of metadata requests.
    pub tracked: bool,
    pub last_used: Nanos,
    /// Number of incomplete batches and of queued records.
    pub incomplete: usize,
    /// Records that wait for the partitions, in order; empty once the partitions are known.
    pub unassigned: VecDeque<UnassignedRecord>,
    /// Number of incomplete records.
    pub pending: u64,
    /// Partition for records without a key, and the bytes appended to it since the last switch.
    pub sticky: u32,
    pub sticky_bytes: usize,
    /// Partitions with a leader.
    available: Vec<u32>,
}

impl Topic {
    pub fn new(name: Arc<str>) -> Self {
        Self {
            name,
            partitions: Vec::new(),
            partition_count: 0,
            error: None,
            transient_error: None,
            missing_at: None,
            tracked: false,
            last_used: NEVER,
            incomplete: 0,
            unassigned: VecDeque::new(),
            pending: 0,
            sticky: 0,
            sticky_bytes: 0,
            available: Vec::new(),
        }
    }

    /// Updates which partitions have leaders.
    pub fn set_leaders(&mut self, leaders: impl Iterator<Item = bool>, rng: &mut Rng) {
        let first = self.available.is_empty();
        self.available.clear();
        self.partition_count = 0;
        for (index, has_leader) in (0..).zip(leaders) {
            self.partition_count = index + 1;
            if has_leader {
                self.available.push(index);
            }
        }
        if first {
            self.sticky = u32::MAX; // no partition yet: the first one may be any
        }
        if self.available.binary_search(&self.sticky).is_err() {
            self.switch_sticky_partition(rng);
        }
    }

    /// Switches the sticky partition for records without a key: any partition with a leader, all with equal probability
    /// (KIP-794).
    pub fn switch_sticky_partition(&mut self, rng: &mut Rng) {
        self.sticky_bytes = 0;
        let many = self.available.len() as u64;
        let drawn = match self.available.binary_search(&self.sticky) {
            Ok(place) if many > 1 => {
                let other = rng.below(many - 1);
                other + u64::from(other >= place as u64)
            }
            _ => rng.below(many),
        };
        let chosen = usize::try_from(drawn).ok().and_then(|drawn| self.available.get(drawn)).copied();
        // No partition has a leader: choose any.
        self.sticky = chosen.unwrap_or_else(|| u32::try_from(rng.below(self.partition_count.into())).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_records_of_many_producers_go_to_all_partitions() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 4];
        for _ in 0..4000 {
            let mut topic = Topic::new("orders".into());
            topic.set_leaders([true; 4].into_iter(), &mut rng);
            seen[topic.sticky as usize] += 1;
        }
        assert!(seen.iter().all(|count| (900..1100).contains(count)), "{seen:?}");
    }

    #[test]
    fn only_partitions_with_a_leader_get_records_without_a_key() {
        let (mut topic, mut rng) = (Topic::new("orders".into()), Rng::new(1));
        topic.set_leaders([true, false, true, true].into_iter(), &mut rng);
        let mut seen = [0_u32; 4];
        for _ in 0..3000 {
            topic.switch_sticky_partition(&mut rng);
            seen[topic.sticky as usize] += 1;
        }
        assert!(seen[1] == 0 && [0, 2, 3].iter().all(|&partition| (900..1100).contains(&seen[partition])), "{seen:?}");
        let leader = topic.sticky;
        topic.set_leaders((0..4).map(|partition| partition != leader && partition != 1), &mut rng);
        assert!(topic.sticky != leader && topic.sticky != 1, "it moves on when the leader is gone");
        topic.set_leaders([false; 4].into_iter(), &mut rng);
        assert!(topic.sticky < 4 && topic.partition_count == 4, "without any leader, one is as good as another");
    }
}
