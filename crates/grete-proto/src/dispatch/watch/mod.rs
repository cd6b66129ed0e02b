//! Watch over the lanes of a client: reports lanes that have not moved for `stall_after`, and those that move again.
//!
//! A lane moves when records are handed out, marked or committed. The network thread checks all lanes about once a
//! second, and remembers only those with records that wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ids::ClientId;
use super::route_config::RouteConfig;
use super::status::LaneStatus;
use super::waits::LaneWait;
use super::waits::unmoved::UnmovedLane;
use super::{Dispatch, Mode};
use crate::ids::{PartitionHandle, TopicPartition};
use crate::partition::fetch_wait::FetchWait;
use crate::time::{MILLI, Nanos, SECOND};

/// Longest and shortest time between two checks of the lanes.
const INTERVAL_MAX: Nanos = SECOND;
const INTERVAL_MIN: Nanos = 10 * MILLI;

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
    /// Another report names the reason: a job that runs for too long, records without marks that pause the lane, a blocked
    /// event loop, or a partition that cannot be read.
    pub is_reported_elsewhere: bool,
}

/// Result of a check of the lanes.
#[derive(Debug, Clone, Default)]
pub struct WatchResult {
    /// Lanes that have not moved for `stall_after`, and those that move again.
    pub reports: Vec<StallReport>,
    /// Whether to check again after [`Dispatch::watch_interval`], although nothing else happens.
    pub again: bool,
}

impl Dispatch {
    /// Returns the time between two checks of the lanes: a quarter of the shortest `stall_after`, at most a second.
    #[must_use]
    pub fn watch_interval(stall_after: Option<Nanos>) -> Nanos {
        stall_after.map_or(INTERVAL_MAX, |limit| (limit / 4).clamp(INTERVAL_MIN, INTERVAL_MAX))
    }

    /// Checks all lanes of a client. `fetch_waits`: partitions for which something keeps data from coming, ordered.
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
        entry.watch.fetch_waits = fetch_waits;
        let (mut after, mut result, mut late) = (BTreeMap::new(), WatchResult::default(), Vec::new());
        let mut waits_as_intended = false;
        for lane in self.lanes.iter().flatten().filter(|lane| lane.spec.client == client && !stopping) {
            let known = before.remove(&lane.id);
            // How many records are left only the leaders know: while they are silent, there may be any. No answer has
            // the number of a share group.
            let is_silent = entry
                .watch
                .fetch_wait(lane.spec.handle)
                .is_some_and(|wait| wait.hides_lag() || lane.spec.policy.queue && wait.explains_silence());
            let (progress, has_backlog) = (lane.progress(), is_silent || lane.backlog() != Some(0));
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
            let mut unmoved = known.filter(|_| !moved).unwrap_or(UnmovedLane {
                progress,
                since: now,
                is_reported: false,
                intended_at: None,
            });
            let limit = lane.spec.policy.stall_after.filter(|_| !unmoved.is_reported);
            if limit.is_some_and(|limit| now.saturating_sub(unmoved.since) >= limit) {
                unmoved.is_reported = true;
                late.push(lane.id);
            }
            waits_as_intended |= unmoved.intended_at.is_some();
            after.insert(lane.id, unmoved);
        }
        let is_any_silent = entry.watch.fetch_waits.iter().any(|(_, wait)| wait.explains_silence());
        result.again = !after.is_empty() || is_any_silent;
        entry.watch.unmoved = after;
        if !late.is_empty() || waits_as_intended {
            let mut statuses = self.lane_statuses(Some(client));
            statuses.retain(|status| self.is_report_due(now, client, status, late.binary_search(&status.lane).is_ok()));
            result.reports.extend(statuses.into_iter().filter_map(|status| stall_report(now, status)));
        }
        result
    }

    /// Returns whether a report of a lane is due: because it is late, or because it has waited for another `stall_after`
    /// for something that the program has not asked for, after a report of what the program had asked for.
    fn is_report_due(&mut self, now: Nanos, client: ClientId, status: &LaneStatus, is_late: bool) -> bool {
        let watch = self.clients.get_mut(client.0 as usize).map(|entry| &mut entry.watch);
        let Some(unmoved) = watch.and_then(|watch| watch.unmoved.get_mut(&status.lane)) else { return false };
        let limit = status.policy.stall_after.unwrap_or(Nanos::MAX);
        let is_due = is_late || unmoved.intended_at.is_some_and(|at| now.saturating_sub(at) >= limit);
        if !status.wait.is_some_and(LaneWait::is_intended) {
            unmoved.intended_at = unmoved.intended_at.filter(|_| !is_due);
            return is_due;
        }
        if is_late || unmoved.intended_at.is_some() {
            unmoved.intended_at = Some(now);
        }
        is_late
    }
}

fn stall_report(now: Nanos, status: LaneStatus) -> Option<StallReport> {
    let wait = status.wait?;
    let is_reported_elsewhere = match wait {
        LaneWait::Handler { .. } | LaneWait::Delivery { .. } => status.stalled,
        LaneWait::Unmarked { blocks, .. } => blocks,
        LaneWait::Failed { .. } | LaneWait::EventLoop => true,
        LaneWait::Fetch(_) => status.failure.is_some(),
        _ => false,
    };
    Some(StallReport {
        tp: status.tp,
        policy: status.policy,
        unmoved_for: now.saturating_sub(status.unmoved_since.unwrap_or(now)),
        lag: status.backlog.filter(|records| *records > 0),
        wait: Some(wait),
        holder: status.memory_holder,
        is_reported_elsewhere,
    })
}
