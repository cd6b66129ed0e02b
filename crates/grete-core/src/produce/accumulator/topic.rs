//! A topic that somebody produces to.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::slot::Slot;
use crate::rng::Rng;
use crate::time::Nanos;

/// When a topic that has just been asked for was used.
pub(super) const NEVER: Nanos = Nanos::MAX;

#[derive(Debug)]
pub(super) struct Topic {
    pub name: Arc<str>,
    /// As many as the topic ever had.
    pub slots: Vec<Slot>,
    /// Partitions that can be written to; 0 while unknown, or while `error` says why not.
    pub count: u32,
    /// What keeps it from being written to.
    pub error: Option<ErrorCode>,
    /// What may pass.
    pub trouble: Option<ErrorCode>,
    /// The metadata is asked about it.
    pub wanted: bool,
    pub last_used: Nanos,
    /// Batches that are not settled.
    pub unsettled: usize,
    /// Where records without a key go now, and how many bytes have gone there.
    pub sticky: u32,
    pub sticky_bytes: usize,
    /// Partitions with a leader.
    available: Vec<u32>,
}

impl Topic {
    pub fn new(name: Arc<str>) -> Self {
        Self {
            name,
            slots: Vec::new(),
            count: 0,
            error: None,
            trouble: None,
            wanted: false,
            last_used: NEVER,
            unsettled: 0,
            sticky: 0,
            sticky_bytes: 0,
            available: Vec::new(),
        }
    }

    /// Takes in which partitions have leaders.
    pub fn set_leaders(&mut self, leaders: impl Iterator<Item = bool>, rng: &mut Rng) {
        let first = self.available.is_empty();
        self.available.clear();
        self.count = 0;
        for (index, has_leader) in (0..).zip(leaders) {
            self.count = index + 1;
            if has_leader {
                self.available.push(index);
            }
        }
        if first || self.available.binary_search(&self.sticky).is_err() {
            self.switch(rng);
        }
    }

    /// Records without a key go to another partition from now on: any of those with a leader, all equally likely
    /// (KIP-794).
    pub fn switch(&mut self, rng: &mut Rng) {
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
        // Without any leader, one is as good as another.
        self.sticky = chosen.unwrap_or_else(|| u32::try_from(rng.below(self.count.into())).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_partitions_with_a_leader_get_records_without_a_key() {
        let (mut topic, mut rng) = (Topic::new("orders".into()), Rng::new(1));
        topic.set_leaders([true, false, true, true].into_iter(), &mut rng);
        let mut seen = [0_u32; 4];
        for _ in 0..3000 {
            topic.switch(&mut rng);
            seen[topic.sticky as usize] += 1;
        }
        assert!(seen[1] == 0 && [0, 2, 3].iter().all(|&partition| (900..1100).contains(&seen[partition])), "{seen:?}");
        let leader = topic.sticky;
        topic.set_leaders((0..4).map(|partition| partition != leader && partition != 1), &mut rng);
        assert!(topic.sticky != leader && topic.sticky != 1, "it moves on when the leader is gone");
        topic.set_leaders([false; 4].into_iter(), &mut rng);
        assert!(topic.sticky < 4 && topic.count == 4, "without any leader, one is as good as another");
    }
}
