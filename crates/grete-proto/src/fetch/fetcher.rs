//! Planning of Fetch requests: one in flight per node, within a fetch session and the memory budget.

use std::collections::{BTreeMap, BTreeSet};

use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode;

use crate::cluster::view::ClusterView;
use crate::ids::{NodeId, PartitionHandle};
use crate::partition::error::{Corruption, PartitionError, RecoveryPolicy};
use crate::partition::log_event::FetchLogEvent;
use crate::partition::table::{FetchState, PartitionTable};
use crate::request::{Channel, NO_NODE, OutboundRequest, Request, RequestOwner, Target, Token};
use crate::rng::Rng;
use crate::time::{Nanos, SECOND, earliest};

use super::config::FetchConfig;
use super::event::{FetchAction, FetchEvent, RawFetchStats};
use super::partition::{PartitionFetchState, SessionPlace};
use super::plan::{is_needed, plan_session};
use super::request;
use super::session::{FetchSession, ReadReplicas, SessionPartition};

/// First Fetch version that identifies topics by id (KIP-516).
const FIRST_WITH_IDS: i16 = 13;
/// Interval for checking a throttled node again, in case no event reports the end of throttling.
const THROTTLED_RECHECK_INTERVAL: Nanos = SECOND;
/// Interval for requesting a missing connection again.
const CONNECT_RETRY_INTERVAL: Nanos = SECOND;

/// State machine that fetches every partition in [`FetchState::Fetching`].
#[derive(Debug)]
pub struct Fetcher {
    pub(super) config: FetchConfig,
    pub(super) rng: Rng,
    pub(super) partition_states: Vec<PartitionFetchState>,
    pub(super) sessions: Vec<FetchSession>,
    /// Partitions that have failed since they were last found healthy.
    pub(super) failing: BTreeSet<PartitionHandle>,
    pub(super) replicas: ReadReplicas,
    /// Log events of this step, emitted at its end.
    pub(super) notices: Vec<FetchLogEvent>,
    pub(super) stats: RawFetchStats,
    /// Set within a step; emitted once, at the end of the step.
    pub(super) needs_metadata: bool,
    next_token: u32,
    layout: Option<u64>,
    wake: Option<Nanos>,
    awaited_bytes: Option<usize>,
    closed: bool,
    spare: Vec<Vec<u8>>,
}

impl Fetcher {
    /// Creates a fetcher without sessions.
    pub fn new(config: FetchConfig, rng: Rng) -> Self {
        Self {
            config,
            rng,
            partition_states: Vec::new(),
            sessions: Vec::new(),
            failing: BTreeSet::new(),
            replicas: ReadReplicas::default(),
            notices: Vec::new(),
            stats: RawFetchStats::default(),
            needs_metadata: false,
            next_token: 0,
            layout: None,
            wake: None,
            awaited_bytes: None,
            closed: false,
            spare: Vec::new(),
        }
    }

    /// Returns the time at which the next `Tick` is due; `None`: no timer.
    pub fn deadline(&self) -> Option<Nanos> {
        self.wake
    }

    /// Returns how many bytes must be released until a partition or node that waits only for
    /// [`FetchEvent::Released`] goes on: these releases must be delivered at once. `None`: nothing waits.
    #[must_use]
    pub fn awaited_bytes(&self) -> Option<usize> {
        self.awaited_bytes
    }

    /// Returns the counters since the start.
    pub fn stats(&self) -> RawFetchStats {
        self.stats
    }

    /// Takes back the buffer of a written request, for reuse.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < 16 {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Returns whether the user has paused the partition.
    pub fn is_paused(&self, slot: PartitionHandle) -> bool {
        self.partition_states.get(slot.index()).is_some_and(|lane| lane.paused)
    }

    /// Processes one event and appends the resulting actions.
    pub fn step(
        &mut self,
        now: Nanos,
        event: FetchEvent,
        view: &impl ClusterView,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        self.refresh(view, partitions, out);
        match event {
            FetchEvent::Tick | FetchEvent::Plan => {}
            FetchEvent::Reply(reply) => self.on_reply(now, reply, partitions, out),
            FetchEvent::NodeReady(node) => {
                if let Some(session) = self.session(node) {
                    session.connect_retry_at = 0;
                }
            }
            FetchEvent::NodeLost(node) => self.on_node_lost(now, node, partitions),
            FetchEvent::Released(released) => {
                released.into_iter().for_each(|(slot, bytes)| self.on_released(slot, bytes, partitions, out));
            }
            FetchEvent::Charged { slot, bytes } => {
                partitions.charge(slot, bytes);
                if partitions.queued_bytes(slot) > self.config.partition_queue_limit() {
                    partitions.touch(slot);
                }
            }
            FetchEvent::Pause(slot) => self.set_paused(slot, true, partitions),
            FetchEvent::Resume(slot) => self.set_paused(slot, false, partitions),
            FetchEvent::Refetch { slot, fetch_generation, offset } => {
                self.on_refetch(now, slot, (offset, fetch_generation), partitions, out);
            }
            FetchEvent::PartitionsRemoved(slots) => {
                partitions.remove_all(&slots);
                for slot in slots {
                    self.forget_read_replica(slot);
                    *self.partition_state(slot) = PartitionFetchState::default();
                }
            }
            FetchEvent::Close => self.close(out),
        }
        self.update_read_replicas(now, view, partitions, out);
        self.plan(now, view, partitions, out);
        self.wake = earliest(self.wake, self.next_late_replica(now));
        out.extend(self.notices.drain(..).map(FetchAction::LogEvent));
        if std::mem::take(&mut self.needs_metadata) {
            out.push(FetchAction::RefreshMetadata);
        }
    }

    pub(super) fn partition_state(&mut self, slot: PartitionHandle) -> &mut PartitionFetchState {
        let index = slot.index();
        if index >= self.partition_states.len() {
            self.partition_states.resize_with(index + 1, PartitionFetchState::default);
        }
        // `resize_with` above created the entry.
        #[allow(clippy::indexing_slicing)]
        &mut self.partition_states[index]
    }

    fn on_released(
        &mut self,
        slot: PartitionHandle,
        bytes: usize,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        partitions.release(slot, bytes);
        let lane = self.partition_state(slot);
        let awaiting_in = lane.awaits_release.then_some(lane.place.session);
        if partitions.queued_bytes(slot) == 0 && lane.failure().verifying_refetch {
            lane.record_recovery();
            out.push(FetchAction::Recovered { slot });
        }
        if let Some(session) = awaiting_in {
            partitions.touch(slot);
            if let Some(session) = self.sessions.get_mut(session as usize) {
                session.on_awaited_release();
            }
        }
    }

    fn set_paused(&mut self, slot: PartitionHandle, paused: bool, partitions: &mut PartitionTable) {
        self.partition_state(slot).paused = paused;
        partitions.touch(slot);
    }

    fn session(&mut self, node: NodeId) -> Option<&mut FetchSession> {
        self.sessions.iter_mut().find(|session| session.node == node)
    }

    /// Copies leaders and topic ids from the metadata, and assigns partitions to the sessions of their sources.
    fn refresh(&mut self, view: &impl ClusterView, partitions: &mut PartitionTable, out: &mut Vec<FetchAction>) {
        partitions.refresh(view);
        for slot in partitions.take_recreated() {
            out.push(FetchAction::Failed { slot, error: PartitionError::TopicRecreated { tp: partitions.name(slot) } });
        }
        if self.layout == Some(partitions.layout()) {
            return;
        }
        self.layout = Some(partitions.layout());
        let mut sources: BTreeMap<NodeId, Vec<PartitionHandle>> = BTreeMap::new();
        for &slot in partitions.live() {
            self.partition_state(slot).place = SessionPlace::NONE;
            let node = partitions.source(slot);
            if node != NO_NODE {
                sources.entry(node).or_default().push(slot);
            }
        }
        for node in sources.keys() {
            if self.session(*node).is_none() {
                self.sessions.push(FetchSession::new(*node, &self.config));
            }
        }
        for at in 0..self.sessions.len() {
            if let Some(session) = self.sessions.get_mut(at) {
                session.sync(sources.get(&session.node).map_or(&[], Vec::as_slice), partitions);
            }
            self.index_session(at);
        }
    }

    /// Records the places of the session's entries.
    fn index_session(&mut self, at: usize) {
        let Self { sessions, partition_states: lanes, .. } = self;
        let Some(session) = sessions.get(at) else { return };
        let number = u32::try_from(at).unwrap_or(u32::MAX);
        for (index, entry) in (0..).zip(&session.entries).filter(|(_, entry)| entry.is_here) {
            if let Some(lane) = lanes.get_mut(entry.slot.index()) {
                lane.place = SessionPlace { session: number, entry: index };
            }
        }
    }

    /// Marks the entries of changed partitions, so that the sessions plan them again.
    fn touch_changed(&mut self, partitions: &mut PartitionTable) {
        let Self { sessions, partition_states: lanes, .. } = self;
        partitions.drain_changed(|slot| {
            let place = lanes.get(slot.index()).map_or(SessionPlace::NONE, |lane| lane.place);
            if let Some(session) = sessions.get_mut(place.session as usize) {
                session.touch(place.entry);
            }
        });
    }

    fn on_node_lost(&mut self, now: Nanos, node: NodeId, partitions: &mut PartitionTable) {
        self.leave_replica(now, node, partitions);
        let Self { rng, sessions, needs_metadata: stale_metadata, .. } = self;
        let Some(session) = sessions.iter_mut().find(|session| session.node == node) else { return };
        session.reset();
        session.connect_retry_at = 0;
        // The reply to the Fetch in flight also arrives, as an error; only the first of the two counts as a failure.
        if session.in_flight.take().is_some() {
            session.failing = true;
            session.not_before = now.saturating_add(session.backoff.next_delay(rng));
            *stale_metadata = true;
        }
    }

    /// Handles a batch whose checksum or content a worker found wrong. The same batch twice stops the partition. The
    /// generation drawn for the second fetch distinguishes it from a batch at the same offset in another assignment.
    fn on_refetch(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        (offset, fetch_generation): (i64, u32),
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        if partitions.fetch_generation(slot) != fetch_generation || partitions.state(slot) != FetchState::Fetching {
            return;
        }
        let again = self.partition_state(slot).failure().refetched_batch == Some((offset, fetch_generation));
        self.leave_failed_replica(now, slot, ErrorCode::NONE, partitions, out);
        let error = PartitionError::Corrupt { tp: partitions.name(slot), offset, cause: Corruption::Content };
        if again && self.config.fatal_retry_backoff_max.is_none() {
            self.fail(now, slot, error, partitions, out);
            return;
        }
        partitions.move_to(slot, offset, -1);
        let lane = self.partition_state(slot);
        lane.draining = false;
        let failure = lane.failure_mut();
        failure.refetched_batch = Some((offset, partitions.fetch_generation(slot)));
        failure.verifying_refetch = false;
        if again {
            self.fail(now, slot, error, partitions, out);
            return;
        }
        let notice = FetchLogEvent::CorruptBatch { tp: partitions.name(slot), offset, cause: Corruption::Content };
        out.push(FetchAction::LogEvent(notice));
    }

    /// Stops a partition, or suspends it and continues with the data fetched so far.
    pub(super) fn fail(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        error: PartitionError,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        match self.config.fatal_retry_backoff_max.filter(|_| error.policy() == RecoveryPolicy::Retry) {
            Some(longest) => {
                let source = (partitions.source(slot), partitions.leader_epoch(slot));
                self.partition_state(slot);
                let Self { partition_states: lanes, config, rng, .. } = self;
                if let Some(lane) = lanes.get_mut(slot.index()) {
                    lane.record_fatal_error(now, source, longest, config, rng);
                }
                self.failing.insert(slot);
                partitions.touch(slot);
            }
            None => {
                partitions.set_state(slot, FetchState::Failed);
                partitions.new_generation(slot);
            }
        }
        out.push(FetchAction::Failed { slot, error });
    }

    /// Ends the brokers' sessions, because brokers keep a limited number of them. The responses are ignored.
    fn close(&mut self, out: &mut Vec<FetchAction>) {
        self.closed = true;
        for session in std::mem::take(&mut self.sessions) {
            if session.id == 0 || session.epoch == 0 {
                continue;
            }
            let mut body = self.spare.pop().unwrap_or_default();
            if request::encode_close(&session, &self.config, &mut body).is_ok() {
                let token = self.next_token;
                self.next_token = self.next_token.wrapping_add(1);
                out.push(FetchAction::Send(outgoing(
                    session.node,
                    session.version,
                    body,
                    token,
                    self.config.request_timeout,
                )));
            }
        }
    }

    fn plan(
        &mut self,
        now: Nanos,
        view: &impl ClusterView,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        // The event may have moved partitions (leader hint, failure), so refresh before planning.
        self.refresh(view, partitions, out);
        self.touch_changed(partitions);
        self.wake = self.replicas.next_end;
        // Nothing is sent while the memory budget is exceeded; a release plans again.
        self.awaited_bytes = None;
        if self.closed {
            return;
        }
        if let Some(beyond) = partitions.queued_total().checked_sub(self.config.queued_bytes) {
            self.awaited_bytes = Some(beyond + 1);
            return;
        }
        for at in 0..self.sessions.len() {
            let Self {
                sessions,
                partition_states: lanes,
                config,
                spare,
                needs_metadata: stale_metadata,
                awaited_bytes,
                ..
            } = self;
            let Some(session) = sessions.get_mut(at) else { continue };
            if session.in_flight.is_some() || session.is_idle() {
                continue;
            }
            if now < session.not_before {
                self.wake = earliest(self.wake, Some(session.not_before));
                continue;
            }
            let Some(version) = view.api_version(session.node, Channel::Fetch, ApiKey::Fetch) else {
                if !is_needed(session, lanes, partitions) {
                    // A partition that is over its limit or draining needs the connection once its bytes are released.
                    let held = |entry: &SessionPartition| entry.is_here && partitions.queued_bytes(entry.slot) > 0;
                    if session.entries.iter().any(held) {
                        *awaited_bytes = Some(1);
                    }
                    continue;
                }
                if now >= session.connect_retry_at {
                    // The last request for a connection failed: the node may be gone for good, and its partitions
                    // moved.
                    *stale_metadata |= session.connect_retry_at > 0;
                    session.failing |= session.connect_retry_at > 0;
                    session.connect_retry_at = now.saturating_add(CONNECT_RETRY_INTERVAL);
                    out.push(FetchAction::NeedNode(session.node));
                }
                self.wake = earliest(self.wake, Some(session.connect_retry_at));
                continue;
            };
            session.reset_for_new_handles();
            let (mut waits_until, planned) = plan_session(now, session, lanes, config, version, partitions, out);
            self.stats.planned += planned as u64;
            let by_id = version >= FIRST_WITH_IDS && session.has_all_ids();
            if session.has_wanted() && by_id != session.by_id {
                session.reset();
                session.by_id = by_id;
                (waits_until, _) = plan_session(now, session, lanes, config, version, partitions, out);
            }
            #[cfg(any(test, debug_assertions))]
            super::full_walk::check(now, at, session, lanes, config, version, partitions);
            self.wake = earliest(self.wake, waits_until);
            if session.awaits_release() {
                *awaited_bytes = Some(1);
            }
            if !session.has_wanted() {
                continue;
            }
            session.prepare();
            if view.is_muted(session.node, now) {
                self.wake = earliest(self.wake, Some(now.saturating_add(THROTTLED_RECHECK_INTERVAL)));
                continue;
            }
            let version = if by_id { version } else { version.min(FIRST_WITH_IDS - 1) };
            let mut body = spare.pop().unwrap_or_default();
            if request::encode_fetch(now, session, version, config, &mut body).is_err() {
                // Only a topic name beyond the protocol's limits gets here, and no broker has such a topic.
                session.not_before = now.saturating_add(config.retry_backoff_max);
                self.wake = earliest(self.wake, Some(session.not_before));
                continue;
            }
            let token = self.next_token;
            self.next_token = self.next_token.wrapping_add(1);
            self.stats.fetches += 1;
            self.stats.full_fetches += u64::from(session.epoch == 0);
            session.version = version;
            let moved = session.on_request_sent(now, token, |slot| partitions.fetch_generation(slot));
            out.push(FetchAction::Send(outgoing(session.node, version, body, token, config.request_timeout)));
            if moved {
                self.index_session(at);
            }
        }
    }
}

fn outgoing(node: NodeId, version: i16, body: Vec<u8>, token: u32, timeout: Nanos) -> OutboundRequest {
    OutboundRequest {
        target: Target::Node(node),
        channel: Channel::Fetch,
        request: Request::Raw { api: ApiKey::Fetch, version, body },
        token: Token { owner: RequestOwner::Fetch, id: token },
        timeout,
    }
}
