//! State of lanes from which their waits are found: progress since the last check, and facts.

use std::collections::{BTreeMap, HashSet};

use super::LaneWait;
use super::facts::{JobFacts, LaneFacts};
use crate::dispatch::ids::LaneId;
use crate::dispatch::job::{InFlightJob, JobKind};
use crate::dispatch::lane::{Lane, Phase};
use crate::dispatch::offsets::tracker::PendingKind;
use crate::dispatch::queue::ready_queue::QueueEntry;
use crate::dispatch::{Dispatch, Mode};
use crate::ids::PartitionHandle;
use crate::partition::fetch_wait::FetchWait;
use crate::time::Nanos;

/// Lanes of a client that do not move.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct LaneWatch {
    pub(in crate::dispatch) unmoved: BTreeMap<LaneId, UnmovedLane>,
    /// Partitions for which something keeps data from coming, ordered.
    pub(in crate::dispatch) fetch_waits: Vec<(PartitionHandle, FetchWait)>,
}

/// Lane with records that wait.
#[derive(Debug)]
pub(in crate::dispatch) struct UnmovedLane {
    pub(in crate::dispatch) progress: LaneProgress,
    /// Time of the first check that found this progress.
    pub(in crate::dispatch) since: Nanos,
    /// The lane was reported.
    pub(in crate::dispatch) is_reported: bool,
    /// The lane was reported with a wait that the program asked for: time of the last check that found such a wait.
    pub(in crate::dispatch) intended_at: Option<Nanos>,
}

/// Numbers of which one changes whenever a lane moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) struct LaneProgress {
    position: Option<i64>,
    committable: Option<i64>,
    marked: u64,
}

impl LaneWatch {
    /// Returns why no data of the partition comes; `None`: nothing is in its way.
    pub(in crate::dispatch) fn fetch_wait(&self, handle: PartitionHandle) -> Option<FetchWait> {
        let at = self.fetch_waits.binary_search_by_key(&handle, |(other, _)| *other).ok()?;
        self.fetch_waits.get(at).map(|(_, wait)| *wait)
    }

    /// Returns since when the lane has not moved, and whether that was reported; `None`: it moves, or no record waits.
    pub(in crate::dispatch) fn unmoved(&self, lane: LaneId) -> Option<(Nanos, bool)> {
        self.unmoved.get(&lane).map(|unmoved| (unmoved.since, unmoved.is_reported))
    }
}

impl Dispatch {
    /// Returns what each of these lanes waits for; `None`: nothing. `jobs`: jobs of each lane.
    pub(in crate::dispatch) fn lane_waits(&self, lanes: &[&Lane], jobs: &[JobFacts]) -> Vec<Option<LaneWait>> {
        let limited = |entries: &mut dyn Iterator<Item = &QueueEntry>| -> HashSet<LaneId> {
            entries.map(|entry| entry.lane).collect()
        };
        let routes = || self.routes.values();
        let by_rate = limited(&mut routes().flat_map(|route| route.rate_limited.iter().map(|(_, entry)| entry)));
        let by_jobs = limited(&mut routes().flat_map(|route| route.jobs.held()));
        let by_session = limited(
            &mut self.clients.iter().flat_map(|client| client.waiting_for_session.iter().map(|(_, entry)| entry)),
        );
        let reason = |(lane, jobs): (&&Lane, &JobFacts)| {
            let watch = self.clients.get(lane.spec.client.0 as usize).map(|client| &client.watch);
            let facts = LaneFacts {
                jobs: *jobs,
                quiet: self.mode != Mode::Running,
                session_over: by_session.contains(&lane.id),
                rate_limited: by_rate.contains(&lane.id),
                job_limited: by_jobs.contains(&lane.id),
                fetch: watch.and_then(|watch| watch.fetch_wait(lane.spec.handle)),
                ..lane.facts(self.now)
            };
            facts.reason()
        };
        lanes.iter().zip(jobs).map(reason).collect()
    }
}

impl JobFacts {
    /// Adds a job in flight of the lane.
    pub(in crate::dispatch) fn add(&mut self, job: &InFlightJob) {
        match job.handled_at {
            _ if job.kind == JobKind::Decode => {}
            Some(_) => {
                let records = job.shared.pending_outputs();
                self.undelivered = Some(self.undelivered.unwrap_or(0).saturating_add(records));
            }
            None if !job.started => self.awaits_loop = true,
            None => {
                let run = (job.since, job.attempt);
                self.running = Some(self.running.map_or(run, |oldest| oldest.min(run)));
            }
        }
    }
}

impl Lane {
    /// Returns numbers of which one changes whenever the lane moves.
    pub(in crate::dispatch) fn progress(&self) -> LaneProgress {
        let tracker = self.offsets.tracker();
        let committable = tracker.with(|tracker| tracker.committable().map(|(offset, _)| offset)).ok().flatten();
        LaneProgress { position: self.offsets.position(), committable, marked: tracker.marked_records() }
    }

    /// Returns the number of records of the log that are not processed, those of open transactions included; `None`:
    /// unknown.
    pub(in crate::dispatch) fn backlog(&self) -> Option<u64> {
        if let Some(acquired) = self.acquired_records() {
            return Some(acquired); // what else is due only the leader knows
        }
        let (unmarked, reach) = self
            .offsets
            .tracker()
            .with(|tracker| (tracker.pending_records(PendingKind::Unmarked), tracker.handed_out_end()))
            .ok()?;
        let end = Some(self.fetch.high_watermark()).filter(|end| *end >= 0)?;
        Some(u64::try_from(end - reach?).unwrap_or(0) + unmarked as u64)
    }

    /// Returns the facts that the lane knows by itself.
    fn facts(&self, now: Nanos) -> LaneFacts {
        let (mut retry, mut halted, mut has_rows) = (None, false, self.rows.has_unkeyed());
        for unit in self.rows.units() {
            halted |= unit.is_halted();
            has_rows |= unit.has_rows();
            let next = unit.retry_at().map(|at| (at, unit.attempt(), unit.first_offset()));
            retry = [retry, next].into_iter().flatten().min();
        }
        let unmarked = self.offsets.tracker().with(|tracker| {
            let count = tracker.pending_records(PendingKind::Unmarked);
            tracker.first_open().filter(|_| count > 0).map(|first| (count, first))
        });
        let is_paused = self.schedule.is_paused();
        LaneFacts {
            is_polled: !self.spec.policy.hooks,
            leaving: !matches!(self.phase, Phase::Active | Phase::Finished),
            has_predecessor: self.schedule.has_predecessor(),
            has_records: has_rows || !self.fetch.is_empty(),
            paused: is_paused.then(|| self.schedule.paused_until()),
            retry: retry.map(|(at, attempt, offset)| (attempt, offset, at)),
            halted,
            blocking_unmarked: self.blocking_unmarked(),
            awaits_history: self.fetch.is_awaiting_history(),
            delay: self.fetch.not_before().filter(|_| !self.fetch.is_empty()),
            ripe_at: self.fetch.next_due_at(now, &self.spec.policy),
            failure: self.failure.as_ref().map(|failure| failure.reason),
            has_position: self.offsets.position().is_some(),
            unmarked: unmarked.ok().flatten(),
            backlog: self.backlog(),
            ..LaneFacts::default()
        }
    }
}
