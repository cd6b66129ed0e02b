//! How lanes do, for people to look at; and what of them is to be committed.

use std::collections::HashMap;
use std::sync::Arc;

use super::Dispatch;
use super::client::ClientId;
use super::lane::{Lane, LaneId, Phase};
use super::offset_map::OffsetMap;
use super::outbox::{Committable, Drained};
use super::route::RoutePolicy;
use super::tracker::Measure;
use crate::ids::TopicPartition;
use crate::time::{Nanos, earlier};

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

impl Dispatch {
    /// How each lane does.
    #[must_use]
    pub fn statuses(&self, client: Option<ClientId>) -> Vec<LaneStatus> {
        let of_client = |lane: &&Lane| client.is_none_or(|client| lane.spec.client == client);
        let lanes: Vec<&Lane> = self.lanes.iter().flatten().filter(of_client).collect();
        let mut statuses: Vec<LaneStatus> = lanes.iter().map(|lane| lane.status()).collect();
        let places: HashMap<LaneId, usize> =
            statuses.iter().enumerate().map(|(at, status)| (status.lane, at)).collect();
        // When their first open record was written, as the job that works on it knows.
        let mut written: Vec<Option<i64>> = vec![None; statuses.len()];
        for running in self.jobs.all() {
            let Some(&place) = places.get(&running.unit.lane) else { continue };
            let (Some(status), Some(written)) = (statuses.get_mut(place), written.get_mut(place)) else { continue };
            status.running_since = earlier(status.running_since, Some(running.since));
            status.stalled |= running.told.0 || running.told.1;
            status.attempt = status.attempt.max(running.attempt);
            let known = status.first_open.and_then(|open| running.shared.with_batch(|b| b.timestamp_of(open))?);
            *written = known.or(*written);
        }
        for ((status, lane), written) in statuses.iter_mut().zip(lanes).zip(written) {
            // Looking for it among all that wait takes a while: only if it has to be.
            let known = status.first_open.and_then(|open| written.or_else(|| lane.written_at(open)));
            status.oldest_ms = known.or(status.oldest_ms).filter(|timestamp| *timestamp >= 0);
        }
        statuses
    }
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

    /// Timestamp of the record with that offset, if it waits for a job.
    fn written_at(&self, offset: i64) -> Option<i64> {
        let mut waiting = self.units.iter().flatten().flat_map(|unit| &unit.waiting).chain(&self.loose);
        waiting.find_map(|piece| piece.timestamp_of(offset))
    }

    /// Without what its jobs in flight add, and rows that wait.
    fn status(&self) -> LaneStatus {
        // In one go: there may be hundreds of slots.
        let (mut waits, mut held, mut attempt) = (None, false, 1);
        for unit in self.units.iter().flatten() {
            waits = earlier(waits, unit.until);
            held |= unit.held;
            attempt = attempt.max(unit.attempts.attempt());
        }
        let full = self.unmarked().is_some();
        let paused = self.paused || full || self.feed_until > 0 || waits.is_some() || held;
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
        let ahead = self.next_ms.or(self.newest_ms);
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
            oldest_ms: open.map(|(_, at_most)| at_most).or(behind.filter(|behind| *behind > 0).and(ahead)),
            progress_at: self.progress_at,
            log_start_offset: self.log_start_offset,
            high_watermark: self.high_watermark,
            assignment_epoch: self.spec.assignment_epoch,
            queued_bytes: self.queued_bytes,
            running_since: None,
            stalled: false,
            attempt,
            in_flight: self.in_flight,
            unmarked,
            paused_until: user.or(waits).or_else(|| Some(self.feed_until).filter(|until| *until > 0)),
        }
    }
}
