//! Status of lanes for status displays, and the committable offsets of lanes.

use std::collections::HashMap;
use std::sync::Arc;

use super::Dispatch;
use super::ids::{ClientId, LaneId};
use super::job::JobKind;
use super::lane::{Lane, LaneFailure, Phase};
use super::offsets::tracker::PendingKind;
use super::outbox::{Committable, DrainedLane};
use super::route_config::RouteConfig;
use super::waits::LaneWait;
use super::waits::facts::JobFacts;
use crate::ids::{NodeId, TopicPartition};
use crate::partition::fetch_wait::FetchWait;
use crate::time::{Nanos, earliest};

/// State of a lane, for status displays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneState {
    /// The lane has nothing to do.
    Idle,
    /// The lane waits for a worker, or for the event loop.
    Ready,
    /// A job is in flight.
    Running,
    /// The lane waits: after a failure, for marks, or paused by the user.
    Paused,
    /// The partition cannot be read: see [`LaneFailure`].
    Failed,
    /// The lane is leaving or stopping.
    Leaving,
}

impl LaneState {
    /// Returns the state's name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Failed => "failed",
            Self::Leaving => "leaving",
        }
    }
}

/// Status of one lane.
#[derive(Debug, Clone)]
pub struct LaneStatus {
    /// Identifier of the lane.
    pub lane: LaneId,
    /// Client of the lane.
    pub client: ClientId,
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Settings of the route.
    pub policy: Arc<RouteConfig>,
    /// State in one word.
    pub state: LaneState,
    /// Next offset to hand out; `None`: unknown.
    pub position: Option<i64>,
    /// Offset that may be committed; `None`: none.
    pub committable: Option<i64>,
    /// Records that are not done; `None`: unknown. The sum of two counts: records handed out and not marked, and
    /// offsets from there to the latest known end of the readable data.
    pub lag: Option<u64>,
    /// Offset of the first record that is handed out and not done.
    pub first_open: Option<i64>,
    /// Timestamp of the first record that is not done, in milliseconds since the epoch; `None`: there is no such
    /// record, or its timestamp is unknown.
    ///
    /// The value is approximate for three kinds of records:
    /// - a record that its job left unmarked, or that its leaving lane dropped: timestamp of the first record handed
    ///   out along with it;
    /// - a fetched record that is not decoded: timestamp from its batch's header;
    /// - a record that is not fetched: timestamp of the last fetched record, which is right before it in the log.
    pub oldest_ms: Option<i64>,
    /// Last time at which a record was done or skipped.
    pub progress_at: Option<Nanos>,
    /// Latest known log start offset; -1 if unknown.
    pub log_start_offset: i64,
    /// Latest known high watermark; -1 if unknown.
    pub high_watermark: i64,
    /// Broker that has sent the last fetched data: the leader, or a follower (KIP-392); `None`: none was fetched.
    pub source: Option<NodeId>,
    /// Epoch of the assignment that contains the partition.
    pub assignment_epoch: u32,
    /// Bytes of fetched and decoded data that wait or are processed.
    pub queued_bytes: usize,
    /// Jobs in flight that have started, without those whose handler has returned.
    pub running_jobs: usize,
    /// Start of the oldest job in flight; `None`: no job has started.
    pub running_since: Option<Nanos>,
    /// Whether a job in flight was reported as stalled.
    pub stalled: bool,
    /// Number of the next run after a failure; else 1.
    pub attempt: u32,
    /// Records that are handed out or decoded, and not done.
    pub in_flight: usize,
    /// Records that are handed out and not marked.
    pub unmarked: usize,
    /// Records that are marked and behind one that is not, so that no commit covers them.
    pub done_ahead: usize,
    /// End of the pause; `None`: no pause, or a pause without end.
    pub paused_until: Option<Nanos>,
    /// Error that keeps the partition from being read; `None`: the partition is readable.
    pub failure: Option<LaneFailure>,
    /// Reason why the lane waits; `None`: all records of the partition are processed.
    pub wait: Option<LaneWait>,
    /// Records that are not processed, as `lag`, and those behind the last stable offset; `None`: unknown.
    pub backlog: Option<u64>,
    /// Time since which the lane has not moved, although records wait, to about a second; `None`: it moves, or no record
    /// waits.
    pub unmoved_since: Option<Nanos>,
    /// Whether the lane has not moved for `stall_after`.
    pub is_unmoved: bool,
    /// Partition that holds most of the memory, with its bytes; only where the lane waits for memory.
    pub memory_holder: Option<(TopicPartition, usize)>,
}

impl Dispatch {
    /// Returns the status of each lane of a client; `None`: of all clients.
    #[must_use]
    pub fn lane_statuses(&self, client: Option<ClientId>) -> Vec<LaneStatus> {
        let of_client = |lane: &&Lane| client.is_none_or(|client| lane.spec.client == client);
        let lanes: Vec<&Lane> = self.lanes.iter().flatten().map(|lane| &**lane).filter(of_client).collect();
        let mut statuses: Vec<LaneStatus> = lanes.iter().map(|lane| lane.status()).collect();
        let places: HashMap<LaneId, usize> =
            statuses.iter().enumerate().map(|(at, status)| (status.lane, at)).collect();
        // Timestamps of the first open records, from the jobs that process these records.
        let mut written: Vec<Option<i64>> = vec![None; statuses.len()];
        let mut jobs = vec![JobFacts::default(); statuses.len()];
        for running in self.jobs.all() {
            let Some(&place) = places.get(&running.unit.lane) else { continue };
            let (Some(status), Some(written)) = (statuses.get_mut(place), written.get_mut(place)) else { continue };
            if running.started {
                status.running_since = earliest(status.running_since, Some(running.since));
                status.running_jobs += usize::from(running.kind != JobKind::Decode && running.handled_at.is_none());
            }
            if let Some(jobs) = jobs.get_mut(place) {
                jobs.add(running);
            }
            status.stalled |= running.reported.any();
            status.attempt = status.attempt.max(running.attempt);
            let known = status.first_open.and_then(|open| running.shared.with_batch(|b| b.timestamp_of(open))?);
            *written = known.or(*written);
        }
        let waits = self.lane_waits(&lanes, &jobs);
        let mut holders: HashMap<ClientId, Option<(TopicPartition, usize)>> = HashMap::new();
        for ((status, lane), wait) in statuses.iter_mut().zip(&lanes).zip(waits) {
            let watch = self.clients.get(lane.spec.client.0 as usize).map(|client| &client.watch);
            let unmoved = watch.and_then(|watch| watch.unmoved(lane.id));
            (status.wait, status.unmoved_since) = (wait, unmoved.map(|(since, _)| since));
            status.is_unmoved = unmoved.is_some_and(|(_, is_reported)| is_reported);
            if matches!(wait, Some(LaneWait::Fetch(FetchWait::Memory { .. }))) {
                let client = lane.spec.client;
                status.memory_holder = holders.entry(client).or_insert_with(|| self.memory_holder(client)).clone();
            }
        }
        for ((status, lane), written) in statuses.iter_mut().zip(lanes).zip(written) {
            // A search through all waiting rows is slow, so it is the last resort.
            let known = status.first_open.and_then(|open| written.or_else(|| lane.rows.timestamp_of(open)));
            status.oldest_ms = known.or(status.oldest_ms).filter(|timestamp| *timestamp >= 0);
            if status.state == LaneState::Running && status.running_since.is_none() {
                status.state = LaneState::Ready; // the lane's jobs wait for the event loop
            }
        }
        statuses
    }
}

impl Dispatch {
    /// Returns the partition of a client that holds most bytes, with its bytes; `None`: no lane holds any.
    fn memory_holder(&self, client: ClientId) -> Option<(TopicPartition, usize)> {
        let lanes = self.lanes.iter().flatten().filter(|lane| lane.spec.client == client);
        let most = lanes.max_by_key(|lane| lane.fetch.queued_bytes())?;
        Some((most.spec.tp.clone(), most.fetch.queued_bytes())).filter(|(_, bytes)| *bytes > 0)
    }

    /// Returns those of the ascending `offsets` that are done. Empty for a lane that is gone, lost or abandoned.
    #[must_use]
    pub fn done_offsets(&self, id: LaneId, offsets: &[i64]) -> Vec<i64> {
        let lane = self.lanes.iter().flatten().find(|lane| lane.id == id);
        let done = lane.and_then(|lane| lane.offsets.tracker().with(|tracker| tracker.done_among(offsets)).ok());
        done.unwrap_or_default()
    }
}

impl Lane {
    /// Returns the offset to commit if it or its metadata has changed since the last call, or if `all` is set; else
    /// `None`.
    pub(super) fn take_committable(&mut self, all: bool) -> Option<Committable> {
        let found = self.offsets.take_committable(all, &self.spec.policy)?;
        Some(Committable {
            tp: self.spec.tp.clone(),
            offset: found.offset,
            leader_epoch: found.leader_epoch,
            assignment_epoch: self.spec.assignment_epoch,
            generation: found.generation,
            metadata: found.metadata,
        })
    }

    pub(super) fn drain_result(&mut self, lost: bool) -> DrainedLane {
        let commit = if lost { None } else { self.take_committable(false) };
        DrainedLane { lane: self.id, handle: self.spec.handle, tp: self.spec.tp.clone(), lost, commit }
    }

    /// Returns the lane's status without the parts that come from jobs in flight and waiting rows.
    fn status(&self) -> LaneStatus {
        // One pass, because a lane may have hundreds of slots.
        let (mut waits, mut halted, mut attempt) = (None, false, 1);
        for unit in self.rows.units() {
            waits = earliest(waits, unit.retry_at());
            halted |= unit.is_halted();
            attempt = attempt.max(unit.attempt());
        }
        let (full, too_young) = (self.blocking_unmarked().is_some(), self.fetch.not_before());
        let by_user = self.schedule.is_paused();
        let paused =
            by_user || full || too_young.is_some() || waits.is_some() || halted || self.fetch.is_awaiting_history();
        let state = match self.phase {
            Phase::Active | Phase::Finished if self.failure.is_some() => LaneState::Failed,
            Phase::Active | Phase::Finished if self.schedule.has_jobs() => LaneState::Running,
            Phase::Active | Phase::Finished if self.is_ready() && !by_user => LaneState::Ready,
            Phase::Active | Phase::Finished if paused => LaneState::Paused,
            Phase::Active | Phase::Finished => LaneState::Idle,
            _ => LaneState::Leaving,
        };
        let (committable, unmarked, done_ahead, reach, open) = self
            .offsets
            .tracker()
            .with(|tracker| {
                let committable = tracker.committable().map(|(offset, _)| offset);
                let unmarked = tracker.pending_records(PendingKind::Unmarked);
                (
                    committable,
                    unmarked,
                    tracker.pending_records(PendingKind::FromFirstUnmarked).saturating_sub(unmarked),
                    tracker.handed_out_end(),
                    tracker.oldest_open(),
                )
            })
            .unwrap_or_default();
        let ahead = self.fetch.oldest_ms();
        let behind = reach.zip(self.fetch.readable_end()).map(|(reach, end)| u64::try_from(end - reach).unwrap_or(0));
        LaneStatus {
            lane: self.id,
            client: self.spec.client,
            tp: self.spec.tp.clone(),
            policy: Arc::clone(&self.spec.policy),
            state,
            position: self.offsets.position(),
            committable,
            lag: behind.map(|behind| behind + unmarked as u64),
            first_open: open.map(|(offset, _)| offset),
            oldest_ms: open.map(|(_, at_most)| at_most).or(behind.filter(|behind| *behind > 0).and(ahead)),
            progress_at: self.stats.progress_at(),
            log_start_offset: self.fetch.log_start_offset(),
            high_watermark: self.fetch.high_watermark(),
            source: self.fetch.source(),
            assignment_epoch: self.spec.assignment_epoch,
            queued_bytes: self.fetch.queued_bytes(),
            running_jobs: 0,
            running_since: None,
            stalled: false,
            attempt,
            in_flight: self.rows.in_flight(),
            unmarked,
            done_ahead,
            failure: self.failure.as_deref().cloned(),
            paused_until: self.schedule.paused_until().or(waits).or(too_young),
            wait: None,
            backlog: self.backlog(),
            unmoved_since: None,
            is_unmoved: false,
            memory_holder: None,
        }
    }
}
