//! Watch over the lanes of a client: since when each lane with records that wait has not moved.
//!
//! A lane moves when records are handed out, marked or committed. The network thread looks at all lanes about once a
//! second, and remembers only those with records that wait.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::LaneWait;
use super::facts::{JobFacts, LaneFacts};
use crate::dispatch::ids::{ClientId, LaneId};
use crate::dispatch::job::{InFlightJob, JobKind};
use crate::dispatch::lane::{Lane, Phase};
use crate::dispatch::offsets::tracker::PendingKind;
use crate::dispatch::queue::ready_queue::QueueEntry;
use crate::dispatch::route_config::RouteConfig;
use crate::dispatch::status::LaneStatus;
use crate::dispatch::{Dispatch, Mode};
use crate::ids::{PartitionHandle, TopicPartition};
use crate::partition::fetch_wait::FetchWait;
use crate::time::{MILLI, Nanos, SECOND};

/// Longest and shortest time between two looks at the lanes.
const INTERVAL_MAX: Nanos = SECOND;
const INTERVAL_MIN: Nanos = 10 * MILLI;

/// Lanes of a client that do not move.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct LaneWatch {
    unmoved: BTreeMap<LaneId, UnmovedLane>,
    /// Partitions for which something keeps data from coming, ordered.
    fetch_waits: Vec<(PartitionHandle, FetchWait)>,
}

/// Lane with records that wait.
#[derive(Debug)]
struct UnmovedLane {
    progress: LaneProgress,
    /// Time of the first look that found this progress.
    since: Nanos,
    /// The lane was reported.
    is_reported: bool,
}

/// Numbers of which one changes whenever a lane moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LaneProgress {
    position: Option<i64>,
    committable: Option<i64>,
    marked: u64,
}

/// Lane that has not moved for `stall_after`, or that moves again.
#[derive(Debug, Clone)]
pub struct StallReport {
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Settings of the route.
    pub policy: Arc<RouteConfig>,
    /// Time for which the lane has not moved, or had not, in nanoseconds.
    pub unmoved_for: Nanos,
    /// Records that are not processed; `None`: unknown.
    pub lag: Option<u64>,
    /// Reason why the lane does not move; `None`: it moves again.
    pub wait: Option<LaneWait>,
    /// Partition that holds most of the memory, with its bytes, where the lane waits for memory.
    pub holder: Option<(TopicPartition, usize)>,
    /// Another report names the reason: a job that runs for too long, records that are not marked, or a partition that
    /// cannot be read.
    pub is_reported_elsewhere: bool,
}

/// Result of a look at the lanes.
#[derive(Debug, Clone, Default)]
pub struct WatchResult {
    /// Lanes that have not moved for `stall_after`, and those that move again.
    pub reports: Vec<StallReport>,
    /// Whether to look again after [`Dispatch::watch_interval`], although nothing else happens.
    pub again: bool,
}

impl LaneWatch {
    fn fetch_wait(&self, handle: PartitionHandle) -> Option<FetchWait> {
        let at = self.fetch_waits.binary_search_by_key(&handle, |(other, _)| *other).ok()?;
        self.fetch_waits.get(at).map(|(_, wait)| *wait)
    }

    /// Returns since when the lane has not moved, and whether that was reported; `None`: it moves, or no record waits.
    pub(in crate::dispatch) fn unmoved(&self, lane: LaneId) -> Option<(Nanos, bool)> {
        self.unmoved.get(&lane).map(|unmoved| (unmoved.since, unmoved.is_reported))
    }
}

impl Dispatch {
    /// Returns the time between two looks at the lanes: a quarter of the shortest `stall_after`, at most a second.
    #[must_use]
    pub fn watch_interval(stall_after: Option<Nanos>) -> Nanos {
        stall_after.map_or(INTERVAL_MAX, |limit| (limit / 4).clamp(INTERVAL_MIN, INTERVAL_MAX))
    }

    /// Looks at all lanes of a client. `fetch_waits`: partitions for which something keeps data from coming, ordered.
    pub fn watch_lanes(
        &mut self,
        now: Nanos,
        client: ClientId,
        fetch_waits: Vec<(PartitionHandle, FetchWait)>,
    ) -> WatchResult {
        self.now = self.now.max(now);
        let stopping = self.mode == Mode::Stopping;
        let Some(entry) = self.clients.get_mut(client.0 as usize) else { return WatchResult::default() };
        let mut before = std::mem::take(&mut entry.watch.unmoved);
        let (mut after, mut result, mut late) = (BTreeMap::new(), WatchResult::default(), Vec::new());
        for lane in self.lanes.iter().flatten().filter(|lane| lane.spec.client == client && !stopping) {
            let known = before.remove(&lane.id);
            let (progress, has_backlog) = (lane.progress(), lane.backlog() != Some(0));
            let moved = known.as_ref().is_none_or(|known| known.progress != progress);
            if let Some(known) = known.as_ref().filter(|known| known.is_reported && (moved || !has_backlog)) {
                result.reports.push(StallReport {
                    tp: lane.spec.tp.clone(),
                    policy: Arc::clone(&lane.spec.policy),
                    unmoved_for: now.saturating_sub(known.since),
                    lag: lane.backlog(),
                    wait: None,
                    holder: None,
                    is_reported_elsewhere: false,
                });
            }
            if !has_backlog {
                continue;
            }
            let mut unmoved =
                known.filter(|_| !moved).unwrap_or(UnmovedLane { progress, since: now, is_reported: false });
            let limit = lane.spec.policy.stall_after.filter(|_| !unmoved.is_reported);
            if limit.is_some_and(|limit| now.saturating_sub(unmoved.since) >= limit) {
                unmoved.is_reported = true;
                late.push(lane.id);
            }
            after.insert(lane.id, unmoved);
        }
        result.again = !after.is_empty() || fetch_waits.iter().any(|(_, wait)| wait.explains_silence());
        (entry.watch.unmoved, entry.watch.fetch_waits) = (after, fetch_waits);
        if !late.is_empty() {
            let statuses = self.lane_statuses(Some(client));
            let found = statuses.into_iter().filter(|status| late.binary_search(&status.lane).is_ok());
            result.reports.extend(found.filter_map(|status| stall_report(now, status)));
        }
        result
    }

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

fn stall_report(now: Nanos, status: LaneStatus) -> Option<StallReport> {
    let wait = status.wait?;
    let is_reported_elsewhere = match wait {
        LaneWait::Handler { .. } | LaneWait::Delivery { .. } => status.stalled,
        LaneWait::Unmarked { .. } | LaneWait::Failed { .. } => true,
        LaneWait::Fetch(_) => status.failure.is_some(),
        _ => false,
    };
    Some(StallReport {
        tp: status.tp,
        policy: status.policy,
        unmoved_for: now.saturating_sub(status.unmoved_since.unwrap_or(now)),
        lag: status.backlog,
        wait: Some(wait),
        holder: status.memory_holder,
        is_reported_elsewhere,
    })
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
    fn progress(&self) -> LaneProgress {
        let tracker = self.offsets.tracker();
        let committable = tracker.with(|tracker| tracker.committable().map(|(offset, _)| offset)).ok().flatten();
        LaneProgress { position: self.offsets.position(), committable, marked: tracker.marked_records() }
    }

    /// Returns the number of records of the log that are not processed, those of open transactions included; `None`:
    /// unknown.
    pub(in crate::dispatch) fn backlog(&self) -> Option<u64> {
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
