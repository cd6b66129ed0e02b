//! Records that the sender drops in one step, and why.

use std::collections::BTreeMap;

use grete_wire::error_code::ErrorCode;

use crate::ids::TopicPartition;
use crate::producer::error::FatalError;
use crate::producer::sender::event::{DropReason, DroppedRecords, SenderAction, SenderLogEvent};

/// Cause of dropped records, with details for the error.
#[derive(Debug, Clone)]
pub(super) enum DropCause {
    /// `delivery.timeout.ms` expired.
    Expired,
    /// The close deadline of the producer passed.
    Closed,
    /// The producer has failed.
    Fatal(FatalError),
    /// The topic cannot be written to.
    Refused(ErrorCode),
}

impl DropCause {
    pub fn reason(&self) -> DropReason {
        match self {
            Self::Expired => DropReason::Expired,
            Self::Closed => DropReason::Closed,
            Self::Fatal(_) => DropReason::Fatal,
            Self::Refused(code) => DropReason::Refused(*code),
        }
    }
}

/// Records dropped in one step, logged together: closing a producer may drop thousands of batches.
#[derive(Debug, Default)]
pub(super) struct DropSummary(BTreeMap<(DropReason, TopicPartition), DroppedRecords>);

impl DropSummary {
    pub fn add(&mut self, why: DropReason, tp: &TopicPartition, records: u32, unknown: bool) {
        let new = || DroppedRecords { tp: tp.clone(), batches: 0, records: 0, unknown: 0 };
        let lost = self.0.entry((why, tp.clone())).or_insert_with(new);
        lost.batches += u32::from(tp.partition >= 0);
        lost.records += u64::from(records);
        lost.unknown += if unknown { records.into() } else { 0 };
    }

    /// Emits one log event for each reason.
    pub fn emit(&mut self, out: &mut Vec<SenderAction>) {
        let mut notices: Vec<(DropReason, Vec<DroppedRecords>)> = Vec::new();
        for ((why, _), loss) in std::mem::take(&mut self.0) {
            match notices.last_mut().filter(|(last, _)| *last == why) {
                Some((_, lost)) => lost.push(loss),
                None => notices.push((why, vec![loss])),
            }
        }
        out.extend(
            notices.into_iter().map(|(why, lost)| {
                SenderAction::LogEvent(SenderLogEvent::RecordsDropped { reason: why, dropped: lost })
            }),
        );
    }
}
