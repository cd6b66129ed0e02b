//! One assigned partition inside one process.

use std::sync::Arc;

use grete_wire::records::RecordError;

use super::ClientId;
use super::feed::Feed;
use super::job::{Finished, JobKind, JobShared, Lease, Running};
use super::outbox::{Committable, Drained};
use super::route::RoutePolicy;
use super::unit::UnitId;
use crate::ids::{Slot, TopicPartition};
use crate::time::Nanos;

/// A lane's name: never the same for two assignments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl LaneId {
    /// As one number.
    #[must_use]
    pub fn as_u64(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.index)
    }
}

/// What a lane is made from.
#[derive(Debug, Clone)]
pub struct LaneSpec {
    /// Whose.
    pub client: ClientId,
    /// The fetcher's index of the partition.
    pub slot: Slot,
    /// The partition.
    pub tp: TopicPartition,
    /// The assignment that it belongs to.
    pub assignment_epoch: u32,
    /// The route's settings.
    pub policy: Arc<RoutePolicy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Active,
    Leaving {
        lost: bool,
    },
    Stopping,
    /// Past its deadline with a job still running.
    Abandoned,
    /// Stopped; kept for its last offset.
    Finished,
}

/// For status displays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneState {
    /// Nothing to do.
    Idle,
    /// Waits for a worker.
    Ready,
    /// A job is in flight.
    Running,
    /// Waits after a failure, or paused by the user.
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
    /// Whether a job has been told as stalled.
    pub stalled: bool,
    /// The coming run's number, where something has failed; else 1.
    pub attempt: u32,
    /// Records handed out or decoded, and not done.
    pub in_flight: usize,
    /// Open records, where marks alone count.
    pub unmarked: usize,
    /// When a pause ends, if one has an end.
    pub paused_until: Option<Nanos>,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: LaneId,
    pub(super) spec: LaneSpec,
    pub(super) phase: Phase,
    pub(super) feed: Feed,
    pub(super) queued_bytes: usize,
    pub(super) high_watermark: i64,
    pub(super) log_start_offset: i64,
    /// What fetched data must carry; `None` while the position is being looked for.
    pub(super) fetch_generation: Option<u32>,
    pub(super) position: Option<i64>,
    pub(super) committable: Option<i64>,
    pub(super) committed: Option<i64>,
    pub(super) leader_epoch: i32,
    pub(super) running: Option<Running>,
    pub(super) queued: bool,
    pub(super) paused_until: Option<Nanos>,
    pub(super) user_paused: bool,
    /// The first unmarked offset of the last failure, and how often it has failed.
    pub(super) failed: Option<(i64, u32)>,
    /// A handler instance exists, so the lane's end is worth a hook.
    touched: bool,
    /// A ghost of the same partition that must come back first.
    pub(super) waits_for: Option<LaneId>,
    /// A seek came while a job was running: its offsets no longer count.
    pub(super) reset_running: bool,
}

/// What the end of a job changes outside the lane.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub(super) released: usize,
    pub(super) corrupt: Option<(u32, i64, RecordError)>,
    pub(super) paused_until: Option<Nanos>,
    /// Rows that come again.
    pub(super) again: usize,
    pub(super) refused: bool,
}

impl Lane {
    pub(super) fn new(id: LaneId, spec: LaneSpec, waits_for: Option<LaneId>) -> Self {
        Self {
            id,
            spec,
            phase: Phase::Active,
            feed: Feed::default(),
            queued_bytes: 0,
            high_watermark: -1,
            log_start_offset: -1,
            fetch_generation: None,
            position: None,
            committable: None,
            committed: None,
            leader_epoch: -1,
            running: None,
            queued: false,
            paused_until: None,
            user_paused: false,
            failed: None,
            touched: false,
            waits_for,
            reset_running: false,
        }
    }

    /// Whether the lane's end still owes its handler a hook.
    pub(super) fn hook_due(&self) -> bool {
        self.touched && self.spec.policy.hooks
    }

    /// Whether its offsets are somebody else's to commit.
    pub(super) fn is_fenced(&self) -> bool {
        self.phase == Phase::Abandoned || matches!(self.phase, Phase::Leaving { lost: true })
    }

    /// What a worker would run now.
    pub(super) fn due(&self, now: Nanos) -> Option<JobKind> {
        if self.running.is_some() {
            return None;
        }
        match self.phase {
            Phase::Leaving { lost } if self.hook_due() => Some(JobKind::Revoked { lost }),
            Phase::Stopping if self.hook_due() => Some(JobKind::Shutdown),
            Phase::Active if !self.feed.is_empty() => {
                let waits =
                    self.user_paused || self.waits_for.is_some() || self.paused_until.is_some_and(|until| until > now);
                (!waits).then_some(JobKind::Consume)
            }
            _ => None,
        }
    }

    pub(super) fn start(&mut self, kind: JobKind, now: Nanos, worker: &str) -> Lease {
        let shared = Arc::new(JobShared::default());
        self.running = Some(Running {
            tp: self.spec.tp.clone(),
            unit: UnitId { lane: self.id, slot: 0 },
            policy: Arc::clone(&self.spec.policy),
            attempt: self.failed.map_or(1, |(_, count)| count + 1),
            kind,
            worker: worker.to_owned(),
            since: now,
            shared: Arc::clone(&shared),
        });
        Lease {
            lane: self.id,
            client: self.spec.client,
            tp: self.spec.tp.clone(),
            slot: 0,
            policy: Arc::clone(&self.spec.policy),
            kind,
            attempt: 1,
            feed: std::mem::take(&mut self.feed),
            shared,
            high_watermark: self.high_watermark,
            release: 0,
            failed: self.failed,
            trouble: None,
        }
    }

    pub(super) fn finish(&mut self, lease: Lease, finished: Finished, now: Nanos, wait: Nanos) -> Ended {
        self.running = None;
        let mut ended = Ended { released: lease.release, ..Ended::default() };
        let state = lease.shared.lock();
        if lease.kind != JobKind::Consume {
            // The hook has run, whatever it came to; there is no instance any more.
            self.touched = false;
            return ended;
        }
        let ran = matches!(finished, Finished::Done | Finished::Failed(_));
        self.touched |= ran;
        let mut feed = lease.feed;
        let reset = std::mem::take(&mut self.reset_running);
        ended.refused = self.phase == Phase::Abandoned || reset;
        // An abandoned lane's offsets belong to whoever owns the partition now; after a seek they belong to the past.
        if self.phase != Phase::Abandoned && !reset {
            match finished {
                Finished::Done => {
                    if let Some(batch) = &state.batch {
                        self.position = Some(batch.next_offset);
                        self.committable = Some(batch.next_offset);
                        self.leader_epoch = batch.leader_epoch;
                    }
                    self.failed = None;
                }
                Finished::Skipped { next_offset } => {
                    self.position = Some(next_offset);
                    self.committable = Some(next_offset);
                }
                Finished::Failed(_) => {
                    if let Some((offset, epoch)) = state.committable() {
                        self.committable = Some(offset);
                        self.leader_epoch = epoch;
                    }
                    if let Some(rest) = state.unmarked() {
                        ended.again = rest.rows.len();
                        let first = rest.offsets().first().copied().unwrap_or(rest.next_offset);
                        let before = self.failed.filter(|(offset, _)| *offset == first).map_or(0, |(_, count)| count);
                        self.failed = Some((first, before + 1));
                        // The rows stay alive, so their bytes stay counted.
                        ended.released = 0;
                        feed.retry(rest, lease.release);
                        // On its way out there is no retry to wait for.
                        if self.phase == Phase::Active {
                            self.paused_until = Some(now + wait);
                            ended.paused_until = self.paused_until;
                        }
                    } else {
                        self.failed = None;
                    }
                }
                Finished::Corrupt { offset, error } => {
                    ended.corrupt = self.fetch_generation.map(|generation| (generation, offset, error));
                }
                Finished::Nothing | Finished::NotDue { .. } => {}
            }
        }
        if let Some(batch) = state.batch.as_ref().filter(|_| ended.released > 0) {
            batch.columns.pin();
        }
        if self.phase == Phase::Active && !reset {
            feed.append(std::mem::take(&mut self.feed));
            self.feed = feed;
        } else {
            ended.released += feed.clear();
        }
        self.queued_bytes = self.queued_bytes.saturating_sub(ended.released);
        ended
    }

    /// The offset to commit, if it has grown since the last time. A job in flight counts with its marks.
    pub(super) fn take_committable(&mut self, all: bool) -> Option<Committable> {
        if self.is_fenced() {
            return None;
        }
        if let Some(running) = self.running.as_ref().filter(|_| !self.reset_running)
            && let Some((offset, epoch)) = running.shared.lock().committable()
        {
            self.committable = Some(offset);
            self.leader_epoch = epoch;
        }
        let offset = self.committable?;
        if !all && self.committed == Some(offset) {
            return None;
        }
        self.committed = Some(offset);
        Some(Committable {
            tp: self.spec.tp.clone(),
            offset,
            leader_epoch: self.leader_epoch,
            assignment_epoch: self.spec.assignment_epoch,
            metadata: String::new(),
        })
    }

    pub(super) fn drained(&mut self, lost: bool) -> Drained {
        let commit = if lost { None } else { self.take_committable(false) };
        Drained { lane: self.id, slot: self.spec.slot, tp: self.spec.tp.clone(), lost, commit }
    }

    pub(super) fn status(&self) -> LaneStatus {
        let state = match self.phase {
            Phase::Active | Phase::Finished => match (&self.running, self.queued) {
                (Some(_), _) => LaneState::Running,
                _ if self.user_paused || self.paused_until.is_some() => LaneState::Paused,
                (None, true) => LaneState::Ready,
                (None, false) => LaneState::Idle,
            },
            _ => LaneState::Leaving,
        };
        LaneStatus {
            lane: self.id,
            tp: self.spec.tp.clone(),
            policy: Arc::clone(&self.spec.policy),
            state,
            position: self.position,
            committable: self.committable,
            log_start_offset: self.log_start_offset,
            high_watermark: self.high_watermark,
            assignment_epoch: self.spec.assignment_epoch,
            queued_bytes: self.queued_bytes,
            running_since: self.running.as_ref().map(|running| running.since),
            stalled: false,
            attempt: self.failed.map_or(1, |(_, count)| count + 1),
            in_flight: 0,
            unmarked: 0,
            paused_until: self.paused_until,
        }
    }
}
