//! What is given up in one step, told together: a producer that is closed may give up thousands of batches.

use std::collections::BTreeMap;

use crate::ids::TopicPartition;
use crate::produce::accumulator::PartitionId;
use crate::produce::event::{GiveUp, Lost, ProduceAction, ProduceNotice};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Losses(BTreeMap<(GiveUp, PartitionId), Lost>);

impl Losses {
    pub fn add(&mut self, why: GiveUp, id: PartitionId, tp: &TopicPartition, records: u32, unknown: bool) {
        let new = || Lost { tp: tp.clone(), batches: 0, records: 0, unknown: 0 };
        let lost = self.0.entry((why, id)).or_insert_with(new);
        lost.batches += 1;
        lost.records += u64::from(records);
        lost.unknown += if unknown { records.into() } else { 0 };
    }

    /// One notice for each reason.
    pub fn tell(&mut self, out: &mut Vec<ProduceAction>) {
        let mut notices: Vec<(GiveUp, Vec<Lost>)> = Vec::new();
        for ((why, _), loss) in std::mem::take(&mut self.0) {
            match notices.last_mut().filter(|(last, _)| *last == why) {
                Some((_, lost)) => lost.push(loss),
                None => notices.push((why, vec![loss])),
            }
        }
        out.extend(notices.into_iter().map(|(why, lost)| ProduceAction::Notice(ProduceNotice::GivenUp { why, lost })));
    }
}
