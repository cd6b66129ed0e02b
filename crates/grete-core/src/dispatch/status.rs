//! How lanes do, for people to look at; and what of them is to be committed.

use std::sync::Arc;

use super::client::ClientId;
use super::lane::{Lane, LaneId, Phase};
use super::offset_map::OffsetMap;
use super::outbox::{Committable, Drained};
use super::route::RoutePolicy;
use super::tracker::Measure;
use crate::ids::TopicPartition;
use crate::time::Nanos;

/// For status displays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneState {
    /// Nothing to do.
    Idle,
    /// Waits for a worker.
    Ready,
    /// A job is in flight.
    Running,
    /// Waits after a failure, for marks, or paused by the user.
    Paused,
    /// On its way out.
    Leaving,
}

impl LaneState {
    /// In lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Leaving => "leaving",
        }
    }
}

/// How one lane does.
#[derive(Debug, Clone)]
pub struct LaneStatus {
    /// Its name.
    pub lane: LaneId,
    /// Whose.
    pub client: ClientId,
    /// The partition.
    pub tp: TopicPartition,
    /// The route's settings.
    pub policy: Arc<RoutePolicy>,
    /// In one word.
    pub state: LaneState,
    /// The next offset to hand out.
    pub position: Option<i64>,
    /// The offset that may be committed.
    pub committable: Option<i64>,
    /// Records that are not done: those handed out, and as many as there are offsets from there to the end of what may be
    /// read, as last told.
    pub lag: Option<u64>,
    /// The first record handed out and not done.
    pub first_open: Option<i64>,
    /// Timestamp of the first record that is not done, in milliseconds since the epoch, if there is one and it is known.
    ///
    /// Of a record that its job has left unmarked, or that its lane has dropped on its way out, it is that of the first one that was handed out along with it; of one that
    /// is fetched and not decoded, what its batch's header says; of one that is not fetched, that of the last record fetched:
    /// it stands right before it in the log.
    pub oldest_ms: Option<i64>,
    /// When a record was last seen to be done, or passed over.
    pub progress_at: Option<Nanos>,
    /// First offset still there, as last told; -1 if unknown.
    pub log_start_offset: i64,
    /// End of the partition as last told; -1 if unknown.
    pub high_watermark: i64,
    /// The assignment that it belongs to.
    pub assignment_epoch: u32,
    /// Bytes that wait.
    pub queued_bytes: usize,
    /// When the oldest job in flight began.
    pub running_since: Option<Nanos>,
    /// Whether a job in flight has been told as stalled.
    pub stalled: bool,
    /// The coming run's number, where something has failed; else 1.
    pub attempt: u32,
    /// Records handed out or decoded, and not done.
    pub in_flight: usize,
    /// Records handed out and not marked.
    pub unmarked: usize,
    /// When a pause ends, if one has an end.
    pub paused_until: Option<Nanos>,
}

impl Lane {
    /// The offset to commit, if it has grown since the last time.
    pub(super) fn take_committable(&mut self, all: bool) -> Option<Committable> {
        let maps = self.policy().offset_map;
        let nothing = OffsetMap::default();
        let already = self.already.as_deref().unwrap_or(&nothing);
        // Fenced: whoever owns the partition now commits for it.
        let told = self.marks.with(|tracker| {
            tracker.pass_known(already);
            let map = if maps { tracker.offset_map(already) } else { OffsetMap::default() };
            (tracker.committable(), map)
        });
        let (told, map) = told.ok()?;
        let (offset, leader_epoch) = told?;
        let map = if map.runs().iter().all(|run| run.end <= offset) { nothing } else { map };
        let metadata = if maps { map.encode(offset, super::offset_map::MAX_METADATA) } else { String::new() };
        let news = (offset, map);
        if !all && self.committed.as_ref() == Some(&news) {
            return None;
        }
        self.committed = Some(news);
        let (tp, assignment_epoch) = (self.spec.tp.clone(), self.spec.assignment_epoch);
        Some(Committable { tp, offset, leader_epoch, assignment_epoch, metadata })
    }

    pub(super) fn drained(&mut self, lost: bool) -> Drained {
        let commit = if lost { None } else { self.take_committable(false) };
        Drained { lane: self.id, slot: self.spec.slot, tp: self.spec.tp.clone(), lost, commit }
    }

    /// Where what may be read ends.
    fn end(&self) -> Option<i64> {
        [self.readable_end, self.high_watermark].into_iter().filter(|end| *end >= 0).min()
    }

    /// Timestamp of the first record that is not done: of the first open one, and of what it was handed out with, or else of
    /// what comes behind. Without what its jobs in flight know.
    fn oldest(&self, open: Option<(i64, i64)>, more: bool) -> Option<i64> {
        let known = match open {
            Some((offset, at_most)) => {
                let waiting = self.units.iter().flatten().flat_map(|unit| &unit.waiting).chain(&self.loose);
                waiting.filter_map(|piece| piece.timestamp_of(offset)).next().or(Some(at_most))
            }
            None if more => self.next_ms.or(self.newest_ms),
            None => None,
        };
        known.filter(|timestamp| *timestamp >= 0)
    }

    /// Without what its jobs in flight add.
    pub(super) fn status(&self) -> LaneStatus {
        let units = || self.units.iter().flatten();
        let waits = units().filter_map(|unit| unit.until).min();
        let full = self.unmarked().is_some();
        let paused =
            self.paused || full || self.feed_until > 0 || units().any(|unit| unit.until.is_some() || unit.held);
        let state = match self.phase {
            Phase::Active | Phase::Finished if self.jobs > 0 => LaneState::Running,
            Phase::Active | Phase::Finished if self.is_ready() && !self.paused => LaneState::Ready,
            Phase::Active | Phase::Finished if paused => LaneState::Paused,
            Phase::Active | Phase::Finished => LaneState::Idle,
            _ => LaneState::Leaving,
        };
        let (committable, unmarked, reach, open) = self
            .marks
            .with(|tracker| {
                let committable = tracker.committable().map(|(offset, _)| offset);
                (committable, tracker.measure(Measure::Open), tracker.reach(), tracker.oldest())
            })
            .unwrap_or_default();
        let behind = reach.zip(self.end()).map(|(reach, end)| u64::try_from(end - reach).unwrap_or(0));
        let user = if self.paused { self.paused_until } else { None };
        LaneStatus {
            lane: self.id,
            client: self.spec.client,
            tp: self.spec.tp.clone(),
            policy: Arc::clone(&self.spec.policy),
            state,
            position: self.position,
            committable,
            lag: behind.map(|behind| behind + unmarked as u64),
            first_open: open.map(|(offset, _)| offset),
            oldest_ms: self.oldest(open, behind.is_some_and(|behind| behind > 0)),
            progress_at: self.progress_at,
            log_start_offset: self.log_start_offset,
            high_watermark: self.high_watermark,
            assignment_epoch: self.spec.assignment_epoch,
            queued_bytes: self.queued_bytes,
            running_since: None,
            stalled: false,
            attempt: units().map(|unit| unit.attempts.attempt()).max().unwrap_or(1),
            in_flight: self.in_flight,
            unmarked,
            paused_until: user.or(waits).or_else(|| Some(self.feed_until).filter(|until| *until > 0)),
        }
    }
}
