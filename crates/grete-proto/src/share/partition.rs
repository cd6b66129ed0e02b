//! State of one partition: what is held, and which acknowledgements wait for a request.

use std::collections::{BTreeSet, VecDeque};

use super::acknowledgement::{Acknowledgement, merged};
use super::config::ShareConfig;
use super::held::HeldRecords;
use crate::backoff::Backoff;
use crate::ids::{NodeId, PartitionHandle, TopicPartition};
use crate::time::Nanos;

/// Topic id and number of a partition: its name in requests. A partition that is assigned again keeps its state.
pub(super) type PartitionKey = (u128, i32);

/// Acknowledgements of one partition that are sent together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AckGroup {
    pub(super) acks: Vec<Acknowledgement>,
    /// The broker may have executed an earlier request with them.
    pub(super) uncertain: bool,
}

impl AckGroup {
    pub(super) fn records(&self) -> usize {
        self.acks.iter().map(Acknowledgement::len).sum()
    }

    /// Splits the group into two halves of its records; `None`: it has only one record.
    pub(super) fn halves(self) -> Option<(Self, Self)> {
        let half = self.records() / 2;
        if half == 0 {
            return None;
        }
        let (mut first, mut second, mut left) = (Vec::new(), Vec::new(), half);
        for ack in self.acks {
            let len = ack.len();
            if left >= len {
                left -= len;
                first.push(ack);
            } else if left == 0 {
                second.push(ack);
            } else {
                let middle = ack.first.saturating_add(i64::try_from(left).unwrap_or(i64::MAX));
                first.push(Acknowledgement { last: middle - 1, ..ack });
                second.push(Acknowledgement { first: middle, ..ack });
                left = 0;
            }
        }
        let half = |acks| Self { acks, uncertain: self.uncertain };
        Some((half(first), half(second)))
    }
}

/// Records whose acknowledgement was refused, because their locks have ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct LostRecords {
    pub(super) records: usize,
    pub(super) first: i64,
    /// An earlier request may have acknowledged them.
    pub(super) uncertain: bool,
}

/// Partition of which records are or were acquired.
#[derive(Debug)]
pub(super) struct SharePartition {
    pub(super) tp: TopicPartition,
    /// Handle under which records are handed out; `None`: the partition is not assigned.
    pub(super) slot: Option<PartitionHandle>,
    pub(super) node: NodeId,
    pub(super) leader_epoch: i32,
    pub(super) paused: bool,
    /// Time since which acknowledgements have no leader or are sent again; `None`: the last ones were delivered.
    pub(super) undelivered_since: Option<Nanos>,
    pub(super) held: HeldRecords,
    /// Acknowledgements that no request has carried.
    pending: Vec<Acknowledgement>,
    /// Groups that must go alone: a larger one was refused, or a request was not answered.
    groups: VecDeque<AckGroup>,
    /// Records that were lost since groups began to be halved.
    lost: Option<LostRecords>,
    /// Number of requests in flight with acknowledgements.
    in_flight: usize,
    pub(super) not_before: Nanos,
    pub(super) backoff: Backoff,
}

impl SharePartition {
    pub(super) fn new(tp: TopicPartition, config: &ShareConfig) -> Self {
        Self {
            tp,
            slot: None,
            node: crate::request::NO_NODE,
            leader_epoch: -1,
            paused: false,
            undelivered_since: None,
            held: HeldRecords::default(),
            pending: Vec::new(),
            groups: VecDeque::new(),
            lost: None,
            in_flight: 0,
            not_before: 0,
            backoff: Backoff::new(config.retry_backoff, config.retry_backoff_max),
        }
    }

    /// Returns whether records may be acquired now.
    pub(super) fn is_wanted(&self, now: Nanos) -> bool {
        self.slot.is_some() && !self.paused && self.not_before <= now
    }

    /// Returns whether no acknowledgement waits or is in flight.
    pub(super) fn is_settled(&self) -> bool {
        !self.has_acks() && self.in_flight == 0
    }

    /// Returns whether nothing is left to do for a partition that is not assigned.
    pub(super) fn is_over(&self) -> bool {
        self.slot.is_none() && self.held.is_empty() && self.is_settled()
    }

    /// Adds an acknowledgement of held records, which are held no more.
    pub(super) fn acknowledge(&mut self, ack: Acknowledgement) {
        self.pending.push(ack);
    }

    /// Returns whether there are acknowledgements to send.
    pub(super) fn has_acks(&self) -> bool {
        !self.pending.is_empty() || !self.groups.is_empty()
    }

    /// Takes the acknowledgements of the next request, which are in flight until [`Self::on_answered`].
    pub(super) fn take_acks(&mut self) -> Option<AckGroup> {
        let group = self.groups.pop_front().or_else(|| {
            let acks = merged(std::mem::take(&mut self.pending));
            (!acks.is_empty()).then_some(AckGroup { acks, uncertain: false })
        })?;
        self.on_sent();
        Some(group)
    }

    pub(super) fn on_sent(&mut self) {
        self.in_flight += 1;
    }

    pub(super) fn on_answered(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Sends a group that was not delivered again, before all others and alone.
    pub(super) fn send_again(&mut self, now: Nanos, group: AckGroup) {
        self.undelivered_since.get_or_insert(now);
        self.groups.push_front(group);
    }

    /// Counts a record whose lock has ended.
    pub(super) fn add_lost(&mut self, offset: i64, uncertain: bool) {
        let lost = self.lost.get_or_insert(LostRecords { records: 0, first: offset, uncertain });
        lost.records += 1;
        lost.first = lost.first.min(offset);
        lost.uncertain &= uncertain;
    }

    /// Takes the lost records, when no group is left that has to be halved.
    pub(super) fn take_lost(&mut self) -> Option<LostRecords> {
        if self.groups.is_empty() { self.lost.take() } else { None }
    }

    fn waiting(&self) -> impl Iterator<Item = &Acknowledgement> {
        self.groups.iter().flat_map(|group| &group.acks).chain(&self.pending)
    }

    /// Returns the offsets whose acknowledgements no request has carried, or none that was answered.
    pub(super) fn waiting_offsets(&self) -> BTreeSet<i64> {
        self.waiting().flat_map(Acknowledgement::offsets).collect()
    }

    /// Returns the first offset of an acknowledgement that waits; `None`: none does.
    pub(super) fn first_ack(&self) -> Option<i64> {
        self.waiting().map(|ack| ack.first).min()
    }

    /// Drops what waits. Returns the number of records.
    pub(super) fn drop_acks(&mut self) -> usize {
        self.undelivered_since = None;
        let groups = std::mem::take(&mut self.groups);
        let pending = std::mem::take(&mut self.pending);
        groups.iter().map(AckGroup::records).sum::<usize>() + pending.iter().map(Acknowledgement::len).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::acknowledgement::AckType;
    use super::*;

    #[test]
    fn a_group_is_halved_until_one_record_is_left() {
        let range = |first, last| Acknowledgement { first, last, kind: AckType::Accept };
        let group = AckGroup { acks: vec![range(0, 0), range(4, 9)], uncertain: true };
        let (first, second) = group.halves().unwrap();
        assert_eq!((first.acks.clone(), second.acks.clone()), (vec![range(0, 0), range(4, 5)], vec![range(6, 9)]));
        assert!(second.uncertain);
        let (one, _) = first.halves().unwrap();
        assert_eq!(one.acks, [range(0, 0)]);
        assert_eq!(one.halves(), None);
    }
}
