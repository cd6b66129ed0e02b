//! Commits: by the clock, by the user's word, and the last one.

use super::{ConsumerAction, ConsumerCore, ConsumerReply};
use crate::dispatch::Committable;
use crate::fetch::FetchEvent;
use crate::group::{CommitOffset, CommitOutcome, GroupEvent};
use crate::time::Nanos;

/// Numbers from here on are our own, below are users' questions.
const INTERNAL: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Commits {
    interval: Option<Nanos>,
    due: Option<Nanos>,
    next_internal: u32,
    /// The last commit before leaving.
    last: Option<u32>,
}

impl Commits {
    pub(super) fn new(interval: Option<Nanos>) -> Self {
        Self { interval, due: None, next_internal: INTERNAL, last: None }
    }

    pub(super) fn internal_id(&mut self) -> u32 {
        self.next_internal = self.next_internal.wrapping_add(1).max(INTERNAL);
        self.next_internal
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.due
    }

    /// Whether offsets are to be collected now; asking starts the next interval.
    pub(super) fn is_due(&mut self, now: Nanos) -> bool {
        let Some(interval) = self.interval else { return false };
        let due = *self.due.get_or_insert(now + interval);
        if due > now {
            return false;
        }
        self.due = Some(now + interval);
        true
    }
}

impl ConsumerCore {
    pub(super) fn commit(&mut self, now: Nanos, offsets: Vec<Committable>, id: u32, out: &mut Vec<ConsumerAction>) {
        if offsets.is_empty() || self.group.is_none() {
            if id != 0 {
                out.push(ConsumerAction::Reply(id, ConsumerReply::Commit(Vec::new())));
            }
            return;
        }
        self.send_commit(now, offsets, id);
    }

    pub(super) fn send_commit(&mut self, now: Nanos, offsets: Vec<Committable>, id: u32) {
        let offset = |offset: Committable| CommitOffset {
            tp: offset.tp,
            offset: offset.offset,
            leader_epoch: offset.leader_epoch,
            metadata: offset.metadata,
            epoch: offset.assignment_epoch,
        };
        let offsets = offsets.into_iter().map(offset).collect();
        self.group(now, GroupEvent::Commit { offsets, id });
    }

    pub(super) fn commit_result(
        &mut self,
        now: Nanos,
        id: u32,
        results: Vec<CommitOutcome>,
        out: &mut Vec<ConsumerAction>,
    ) {
        let failed = results.iter().filter(|outcome| outcome.result.is_err());
        let failed: Vec<_> = failed.map(|outcome| outcome.tp.clone()).collect();
        if !failed.is_empty() {
            out.push(ConsumerAction::NotCommitted(failed));
        }
        if id != 0 && id < INTERNAL {
            out.push(ConsumerAction::Reply(id, ConsumerReply::Commit(results)));
        }
        self.revocation_committed(now, id);
        if self.commits.last == Some(id) {
            self.leave(now);
        }
    }

    /// The last commit, then out of the group, then the end. The deadline ends it whatever is still missing.
    pub(super) fn close(
        &mut self,
        now: Nanos,
        offsets: Option<Vec<Committable>>,
        deadline: Nanos,
        out: &mut Vec<ConsumerAction>,
    ) {
        self.closing = Some(deadline);
        self.commits.interval = None;
        self.commits.due = None;
        if offsets.is_none() {
            self.config.auto_commit = None; // leaving revokes the lanes, and they would bring theirs
        }
        let offsets = offsets.unwrap_or_default();
        self.fetch(now, FetchEvent::Close);
        if deadline <= now || self.group.is_none() {
            self.finish(out);
        } else if offsets.is_empty() {
            self.leave(now);
        } else {
            let id = self.commits.internal_id();
            self.commits.last = Some(id);
            self.send_commit(now, offsets, id);
        }
    }

    fn leave(&mut self, now: Nanos) {
        let deadline = self.closing.unwrap_or(now);
        self.group(now, GroupEvent::Leave { deadline });
    }

    pub(super) fn left(&mut self, _now: Nanos, out: &mut Vec<ConsumerAction>) {
        if self.closing.is_some() {
            self.finish(out);
        }
    }
}
