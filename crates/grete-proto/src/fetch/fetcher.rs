//! Planning of Fetch requests: one in flight per node, within a fetch session and the memory budget.

use grete_wire::api::ApiKey;

use crate::cluster::view::ClusterView;
use crate::ids::{NodeId, PartitionHandle};
use crate::partition::error::{Corruption, PartitionError, RecoveryPolicy};
use crate::partition::log_event::FetchLogEvent;
use crate::partition::table::{FetchState, PartitionTable};
use crate::position::PositionEvent;
use crate::request::{Channel, NO_NODE, OutboundRequest, Request, RequestOwner, Target, Token};
use crate::rng::Rng;
use crate::time::{Nanos, SECOND, earliest};

use super::config::FetchConfig;
use super::event::{FetchAction, FetchEvent, RawFetchStats};
use super::partition::PartitionFetchState;
use super::request;
use super::session::{FetchSession, PartitionParams, SessionPartition};

/// First Fetch version that identifies topics by id (KIP-516).
const FIRST_WITH_IDS: i16 = 13;
/// First Fetch version that checks the epoch of the last fetched record (KIP-595).
const FIRST_WITH_DIVERGENCE: i16 = 12;
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
    pub(super) stats: RawFetchStats,
    /// Set within a step; emitted once, at the end of the step.
    pub(super) needs_metadata: bool,
    next_token: u32,
    layout: Option<u64>,
    wake: Option<Nanos>,
    starving: bool,
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
            stats: RawFetchStats::default(),
            needs_metadata: false,
            next_token: 0,
            layout: None,
            wake: None,
            starving: false,
            closed: false,
            spare: Vec::new(),
        }
    }

    /// Returns the time at which the next `Tick` is due; `None`: no timer.
    pub fn deadline(&self) -> Option<Nanos> {
        self.wake
    }

    /// Returns whether a partition or node waits only for a [`FetchEvent::Released`]. A release must then be delivered
    /// at once.
    #[must_use]
    pub fn awaits_memory(&self) -> bool {
        self.starving
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
            FetchEvent::NodeLost(node) => self.on_node_lost(now, node),
            FetchEvent::Released { slot, bytes } => {
                partitions.release(slot, bytes);
                if partitions.queued_bytes(slot) == 0 && self.partition_state(slot).verifying_refetch {
                    self.partition_state(slot).record_recovery();
                    out.push(FetchAction::Recovered { slot });
                }
            }
            FetchEvent::Charged { slot, bytes } => partitions.charge(slot, bytes),
            FetchEvent::Pause(slot) => self.partition_state(slot).paused = true,
            FetchEvent::Resume(slot) => self.partition_state(slot).paused = false,
            FetchEvent::Refetch { slot, fetch_generation, offset } => {
                self.on_refetch(now, slot, (offset, fetch_generation), partitions, out);
            }
            FetchEvent::PartitionsRemoved(slots) => {
                partitions.remove_all(&slots);
                for slot in slots {
                    *self.partition_state(slot) = PartitionFetchState::default();
                }
            }
            FetchEvent::Close => self.close(out),
        }
        self.plan(now, view, partitions, out);
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

    fn session(&mut self, node: NodeId) -> Option<&mut FetchSession> {
        self.sessions.iter_mut().find(|session| session.node == node)
    }

    /// Copies leaders and topic ids from the metadata, and assigns partitions to sessions.
    fn refresh(&mut self, view: &impl ClusterView, partitions: &mut PartitionTable, out: &mut Vec<FetchAction>) {
        partitions.refresh(view);
        for slot in partitions.take_recreated() {
            out.push(FetchAction::Failed { slot, error: PartitionError::TopicRecreated { tp: partitions.name(slot) } });
        }
        if self.layout == Some(partitions.layout()) {
            return;
        }
        self.layout = Some(partitions.layout());
        for &slot in partitions.live() {
            self.partition_state(slot);
            let node = partitions.leader(slot);
            if node != NO_NODE && self.session(node).is_none() {
                self.sessions.push(FetchSession::new(node, &self.config));
            }
        }
        for session in &mut self.sessions {
            session.sync(partitions);
        }
    }

    fn on_node_lost(&mut self, now: Nanos, node: NodeId) {
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
        let again = self.partition_state(slot).refetched_batch == Some((offset, fetch_generation));
        let error = PartitionError::Corrupt { tp: partitions.name(slot), offset, cause: Corruption::Content };
        if again && self.config.fatal_retry_backoff_max.is_none() {
            self.fail(now, slot, error, partitions, out);
            return;
        }
        partitions.move_to(slot, offset, -1);
        let lane = self.partition_state(slot);
        lane.refetched_batch = Some((offset, partitions.fetch_generation(slot)));
        lane.draining = false;
        lane.verifying_refetch = false;
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
                let leader = (partitions.leader(slot), partitions.leader_epoch(slot));
                self.partition_state(slot);
                let Self { partition_states: lanes, config, rng, .. } = self;
                if let Some(lane) = lanes.get_mut(slot.index()) {
                    lane.record_fatal_error(now, leader, longest, config, rng);
                }
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
        self.wake = None;
        // Nothing is sent while the memory budget is exceeded; a release plans again.
        self.starving = !self.closed && partitions.queued_total() >= self.config.queued_bytes;
        if self.closed || self.starving {
            return;
        }
        for at in 0..self.sessions.len() {
            let Self {
                sessions, partition_states: lanes, config, spare, needs_metadata: stale_metadata, starving, ..
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
                if !needed(session, lanes, partitions) {
                    // A partition that is over its limit or draining needs the connection once its bytes are released.
                    let held =
                        |entry: &SessionPartition| entry.is_led_by_node && partitions.queued_bytes(entry.slot) > 0;
                    *starving |= session.entries.iter().any(held);
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
            let by_id = version >= FIRST_WITH_IDS;
            let wants = plan_session(now, session, lanes, config, version, partitions, out);
            self.wake = earliest(self.wake, wants.waits_until);
            *starving |= wants.starving;
            let by_id = by_id && wants.all_ids;
            if !session.prepare(by_id) {
                continue;
            }
            if view.is_muted(session.node, now) {
                self.wake = earliest(self.wake, Some(now.saturating_add(THROTTLED_RECHECK_INTERVAL)));
                continue;
            }
            let version = if by_id { version } else { version.min(FIRST_WITH_IDS - 1) };
            let mut body = spare.pop().unwrap_or_default();
            if request::encode_fetch(session, version, config, &mut body).is_err() {
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
            session.on_request_sent(token, |slot| partitions.fetch_generation(slot));
            out.push(FetchAction::Send(outgoing(session.node, version, body, token, config.request_timeout)));
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

/// Returns whether any partition is, or will soon be, fetched from this node.
fn needed(session: &FetchSession, lanes: &[PartitionFetchState], partitions: &PartitionTable) -> bool {
    session.entries.iter().any(|entry| {
        entry.is_led_by_node
            && matches!(partitions.state(entry.slot), FetchState::Resolving | FetchState::Fetching)
            && lanes.get(entry.slot.index()).is_some_and(|lane| !lane.paused)
    })
}

/// Result of planning a session.
struct SessionPlan {
    /// Earliest time at which a backoff ends.
    waits_until: Option<Nanos>,
    /// Whether a partition waits for its bytes to be released.
    starving: bool,
    /// Whether every topic to fetch has an id.
    all_ids: bool,
}

/// Decides for each entry whether to fetch it now, and from which offset.
fn plan_session(
    now: Nanos,
    session: &mut FetchSession,
    lanes: &mut [PartitionFetchState],
    config: &FetchConfig,
    version: i16,
    partitions: &mut PartitionTable,
    out: &mut Vec<FetchAction>,
) -> SessionPlan {
    let mut wants = SessionPlan { waits_until: None, starving: false, all_ids: true };
    let slot_limit = config.partition_queue_limit();
    for entry in &mut session.entries {
        entry.next_params = None;
        let slot = entry.slot;
        let Some(lane) = lanes.get_mut(slot.index()).filter(|_| entry.is_led_by_node) else { continue };
        let queued = partitions.queued_bytes(slot);
        lane.update_queue_limit(queued, slot_limit);
        lane.draining &= queued > 0;
        if partitions.state(slot) != FetchState::Fetching || lane.paused {
            continue;
        }
        if lane.over_queue_limit || lane.draining {
            wants.starving = true;
            continue;
        }
        let leader_epoch = partitions.leader_epoch(slot);
        if let Some(until) = lane.backoff_until(now, (partitions.leader(slot), leader_epoch)) {
            wants.waits_until = earliest(wants.waits_until, Some(until));
            continue;
        }
        let last_fetched_epoch = partitions.last_fetched_epoch(slot);
        let older = last_fetched_epoch >= 0 && last_fetched_epoch < leader_epoch;
        if version < FIRST_WITH_DIVERGENCE && older && lane.validated != leader_epoch {
            // A truncation must not overtake queued data: see `on_position_invalid`.
            if queued == 0 {
                lane.validated = leader_epoch;
                partitions.set_state(slot, FetchState::Resolving);
                out.push(FetchAction::Position(PositionEvent::Validate { slot }));
            }
            wants.starving |= queued > 0;
            continue;
        }
        wants.all_ids &= entry.topic_id != 0;
        entry.next_params = Some(PartitionParams {
            current_leader_epoch: leader_epoch,
            fetch_offset: partitions.fetch_offset(slot),
            last_fetched_epoch: if version < FIRST_WITH_DIVERGENCE { -1 } else { last_fetched_epoch },
            max_bytes: lane.partition_bytes(config),
        });
    }
    wants
}
