//! Records that the sender drops in one step, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use crate::ids::TopicPartition;
use crate::producer::batch_promise::Outcome;
use crate::producer::error::FatalError;
use crate::producer::sender::event::{DropReason, DroppedRecords, SenderAction, SenderLogEvent};
use crate::producer::transaction::TransactionCause;

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
    /// The transaction of the records was aborted.
    Aborted(Arc<TransactionCause>),
}

impl DropCause {
    pub fn reason(&self) -> DropReason {
        match self {
            Self::Expired => DropReason::Expired,
            Self::Closed => DropReason::Closed,
            Self::Fatal(_) => DropReason::Fatal,
            Self::Refused(code) => DropReason::Refused(*code),
            Self::Aborted(_) => DropReason::Aborted,
        }
    }

    /// Returns the outcome of records that are dropped; `maybe_written`: a broker may have them.
    pub fn outcome(&self, maybe_written: bool) -> Outcome {
        match self {
            Self::Aborted(_) => Outcome::Aborted,
            _ if maybe_written => Outcome::Unknown,
            _ => Outcome::NotWritten,
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
