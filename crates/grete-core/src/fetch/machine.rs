//! Plans Fetch requests: one in flight per node, over a session, within the memory budget.

use grete_wire::api_key::ApiKey;

use crate::fetch_notice::FetchNotice;
use crate::ids::{NodeId, Slot};
use crate::partitions::{Partitions, SlotState};
use crate::request::{Channel, NO_NODE, Outgoing, Owner, Request, Target, Token};
use crate::rng::Rng;
use crate::slot_error::{Corruption, SlotError};
use crate::time::{Nanos, SECOND, earlier};
use crate::view::ClusterView;

use super::config::FetchConfig;
use super::encode;
use super::event::{FetchAction, FetchEvent, RawFetchStats};
use super::lane::Lane;
use super::session::{Entry, Fields, Session};

/// First version that names topics by id.
const FIRST_WITH_IDS: i16 = 13;
/// First version that checks the epoch of the last fetched record (KIP-595).
const FIRST_WITH_DIVERGENCE: i16 = 12;
/// How soon a muted node is looked at again, should nobody tell that it hears again.
const MUTED_LOOK: Nanos = SECOND;
/// How soon a connection that never came is asked for again.
const ASK_AGAIN: Nanos = SECOND;

/// Fetches every slot that is in [`SlotState::Fetching`].
#[derive(Debug)]
pub struct FetchMachine {
    pub(super) config: FetchConfig,
    pub(super) rng: Rng,
    pub(super) lanes: Vec<Lane>,
    pub(super) sessions: Vec<Session>,
    pub(super) stats: RawFetchStats,
    /// Set within a step, told once at its end.
    pub(super) stale_metadata: bool,
    next_token: u32,
    layout: Option<u64>,
    wake: Option<Nanos>,
    starving: bool,
    closed: bool,
    spare: Vec<Vec<u8>>,
}

impl FetchMachine {
    /// A machine without sessions.
    #[must_use]
    pub fn new(config: FetchConfig, rng: Rng) -> Self {
        Self {
            config,
            rng,
            lanes: Vec::new(),
            sessions: Vec::new(),
            stats: RawFetchStats::default(),
            stale_metadata: false,
            next_token: 0,
            layout: None,
            wake: None,
            starving: false,
            closed: false,
            spare: Vec::new(),
        }
    }

    /// When the next `Tick` is due, if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        self.wake
    }

    /// Whether a slot or a node waits for nothing but a [`FetchEvent::Released`]: then a release must not be left lying.
    #[must_use]
    pub fn waits_for_release(&self) -> bool {
        self.starving
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> RawFetchStats {
        self.stats
    }

    /// Takes the buffer of a request that was written, to be used for another.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < 16 {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Whether the user has paused the slot.
    #[must_use]
    pub fn is_paused(&self, slot: Slot) -> bool {
        self.lanes.get(slot.index()).is_some_and(|lane| lane.paused)
    }

    /// Takes one event, appends what has to be done.
    pub fn step(
        &mut self,
        now: Nanos,
        event: FetchEvent,
        view: &impl ClusterView,
        partitions: &mut Partitions,
        out: &mut Vec<FetchAction>,
    ) {
        self.refresh(view, partitions, out);
        match event {
            FetchEvent::Tick | FetchEvent::Plan => {}
            FetchEvent::Reply(reply) => self.on_reply(now, reply, partitions, out),
            FetchEvent::NodeReady(node) => {
                if let Some(session) = self.session(node) {
                    session.asked_until = 0;
                }
            }
            FetchEvent::NodeLost(node) => self.on_node_lost(now, node),
            FetchEvent::Released { slot, bytes } => partitions.release(slot, bytes),
            FetchEvent::Charged { slot, bytes } => partitions.charge(slot, bytes),
            FetchEvent::Pause(slot) => self.lane(slot).paused = true,
            FetchEvent::Resume(slot) => self.lane(slot).paused = false,
            FetchEvent::Refetch { slot, fetch_generation, offset } => {
                self.on_refetch(slot, fetch_generation, offset, partitions, out);
            }
            FetchEvent::SlotRemoved(slot) => {
                partitions.remove(slot);
                *self.lane(slot) = Lane::default();
            }
            FetchEvent::Close => self.close(out),
        }
        self.plan(now, view, partitions, out);
        if std::mem::take(&mut self.stale_metadata) {
            out.push(FetchAction::RefreshMetadata);
        }
    }

    pub(super) fn lane(&mut self, slot: Slot) -> &mut Lane {
        let index = slot.index();
        if index >= self.lanes.len() {
            self.lanes.resize_with(index + 1, Lane::default);
        }
        // The line above made it.
        #[allow(clippy::indexing_slicing)]
        &mut self.lanes[index]
    }

    fn session(&mut self, node: NodeId) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.node == node)
    }

    /// Takes over what the metadata says, and which node leads which slot.
    fn refresh(&mut self, view: &impl ClusterView, partitions: &mut Partitions, out: &mut Vec<FetchAction>) {
        partitions.refresh(view);
        for slot in partitions.take_recreated() {
            out.push(FetchAction::Failed { slot, error: SlotError::TopicRecreated { tp: partitions.name(slot) } });
        }
        if self.layout == Some(partitions.layout()) {
            return;
        }
        self.layout = Some(partitions.layout());
        for &slot in partitions.live() {
            self.lane(slot);
            let node = partitions.leader(slot);
            if node != NO_NODE && self.session(node).is_none() {
                self.sessions.push(Session::new(node, &self.config));
            }
        }
        for session in &mut self.sessions {
            session.sync(partitions);
        }
    }

    fn on_node_lost(&mut self, now: Nanos, node: NodeId) {
        let Self { rng, sessions, stale_metadata, .. } = self;
        let Some(session) = sessions.iter_mut().find(|session| session.node == node) else { return };
        session.reset();
        session.asked_until = 0;
        // The reply to the Fetch in flight comes, too, as an error: whichever is first counts as the failure.
        if session.in_flight.take().is_some() {
            session.not_before = now.saturating_add(session.backoff.next(rng));
            *stale_metadata = true;
        }
    }

    /// A worker found a batch whose checksum or content is wrong. The same batch twice stops the slot: the generation
    /// drawn for the second try tells it from a batch at the same offset in another life of the slot.
    fn on_refetch(
        &mut self,
        slot: Slot,
        fetch_generation: u32,
        offset: i64,
        partitions: &mut Partitions,
        out: &mut Vec<FetchAction>,
    ) {
        if partitions.fetch_generation(slot) != fetch_generation || partitions.state(slot) != SlotState::Fetching {
            return;
        }
        let again = self.lane(slot).refetched == Some((offset, fetch_generation));
        if again {
            let error = SlotError::Corrupt { tp: partitions.name(slot), offset, cause: Corruption::Content };
            fail(slot, error, partitions, out);
            return;
        }
        partitions.move_to(slot, offset, -1);
        let lane = self.lane(slot);
        lane.refetched = Some((offset, partitions.fetch_generation(slot)));
        lane.draining = false;
        let notice = FetchNotice::CorruptBatch { tp: partitions.name(slot), offset, cause: Corruption::Content };
        out.push(FetchAction::Notice(notice));
    }

    /// Tells brokers that their sessions are over; they keep only so many. Nobody waits for the answers.
    fn close(&mut self, out: &mut Vec<FetchAction>) {
        self.closed = true;
        for session in std::mem::take(&mut self.sessions) {
            if session.id == 0 || session.epoch == 0 {
                continue;
            }
            let mut body = self.spare.pop().unwrap_or_default();
            if encode::close(&session, &self.config, &mut body).is_ok() {
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

    fn plan(&mut self, now: Nanos, view: &impl ClusterView, partitions: &mut Partitions, out: &mut Vec<FetchAction>) {
        // A step may have moved slots (a hint, a failure): look again before planning.
        self.refresh(view, partitions, out);
        self.wake = None;
        // Over the budget nothing is sent; what is released plans again.
        self.starving = !self.closed && partitions.queued_total() >= self.config.queued_bytes;
        if self.closed || self.starving {
            return;
        }
        for at in 0..self.sessions.len() {
            let Self { sessions, lanes, config, spare, stale_metadata, starving, .. } = self;
            let Some(session) = sessions.get_mut(at) else { continue };
            if session.in_flight.is_some() || session.is_idle() {
                continue;
            }
            if now < session.not_before {
                self.wake = earlier(self.wake, Some(session.not_before));
                continue;
            }
            let Some(version) = view.api_version(session.node, Channel::Fetch, ApiKey::Fetch) else {
                if !needed(session, lanes, partitions) {
                    // What is parked or drains will need it once it has been emptied.
                    let held = |entry: &Entry| entry.member && partitions.queued_bytes(entry.slot) > 0;
                    *starving |= session.entries.iter().any(held);
                    continue;
                }
                if now >= session.asked_until {
                    // Nobody answered the last time: perhaps the node is gone for good, and the partitions have moved.
                    *stale_metadata |= session.asked_until > 0;
                    session.asked_until = now.saturating_add(ASK_AGAIN);
                    out.push(FetchAction::NeedNode(session.node));
                }
                self.wake = earlier(self.wake, Some(session.asked_until));
                continue;
            };
            let by_id = version >= FIRST_WITH_IDS;
            let wants = want(now, session, lanes, config, version, partitions, out);
            self.wake = earlier(self.wake, wants.waits_until);
            *starving |= wants.starving;
            let by_id = by_id && wants.all_ids;
            if !session.prepare(by_id) {
                continue;
            }
            if view.is_muted(session.node, now) {
                self.wake = earlier(self.wake, Some(now.saturating_add(MUTED_LOOK)));
                continue;
            }
            let version = if by_id { version } else { version.min(FIRST_WITH_IDS - 1) };
            let mut body = spare.pop().unwrap_or_default();
            if encode::fetch(session, version, config, &mut body).is_err() {
                // Only a topic name beyond the protocol's limits gets here, and no broker has one.
                session.not_before = now.saturating_add(config.retry_backoff_max);
                self.wake = earlier(self.wake, Some(session.not_before));
                continue;
            }
            let token = self.next_token;
            self.next_token = self.next_token.wrapping_add(1);
            self.stats.fetches += 1;
            self.stats.full_fetches += u64::from(session.epoch == 0);
            session.version = version;
            session.sent(token, |slot| partitions.fetch_generation(slot));
            out.push(FetchAction::Send(outgoing(session.node, version, body, token, config.request_timeout)));
        }
    }
}

/// Stops a slot.
pub(super) fn fail(slot: Slot, error: SlotError, partitions: &mut Partitions, out: &mut Vec<FetchAction>) {
    partitions.set_state(slot, SlotState::Failed);
    partitions.new_generation(slot);
    out.push(FetchAction::Failed { slot, error });
}

fn outgoing(node: NodeId, version: i16, body: Vec<u8>, token: u32, timeout: Nanos) -> Outgoing {
    Outgoing {
        target: Target::Node(node),
        channel: Channel::Fetch,
        request: Request::Raw { api: ApiKey::Fetch, version, body },
        token: Token { owner: Owner::Fetch, id: token },
        timeout,
    }
}

/// Whether any slot is, or will soon be, fetched from this node.
fn needed(session: &Session, lanes: &[Lane], partitions: &Partitions) -> bool {
    session.entries.iter().any(|entry| {
        entry.member
            && matches!(partitions.state(entry.slot), SlotState::Resolving | SlotState::Fetching)
            && lanes.get(entry.slot.index()).is_some_and(|lane| !lane.paused)
    })
}

/// What the entries of a session want.
struct Wants {
    /// When the first of those that wait is due.
    waits_until: Option<Nanos>,
    /// Some wait for their bytes to be released.
    starving: bool,
    /// Every wanted topic has an id.
    all_ids: bool,
}

/// Decides for each entry whether it is fetched now, and from where.
fn want(
    now: Nanos,
    session: &mut Session,
    lanes: &mut [Lane],
    config: &FetchConfig,
    version: i16,
    partitions: &mut Partitions,
    out: &mut Vec<FetchAction>,
) -> Wants {
    let mut wants = Wants { waits_until: None, starving: false, all_ids: true };
    let slot_limit = config.slot_limit();
    for entry in &mut session.entries {
        entry.wanted = None;
        let slot = entry.slot;
        let Some(lane) = lanes.get_mut(slot.index()).filter(|_| entry.member) else { continue };
        let queued = partitions.queued_bytes(slot);
        lane.park(queued, slot_limit);
        lane.draining &= queued > 0;
        if partitions.state(slot) != SlotState::Fetching || lane.paused {
            continue;
        }
        if lane.parked || lane.draining {
            wants.starving = true;
            continue;
        }
        let leader_epoch = partitions.leader_epoch(slot);
        if let Some(until) = lane.waits_until(now, (partitions.leader(slot), leader_epoch)) {
            wants.waits_until = earlier(wants.waits_until, Some(until));
            continue;
        }
        let last_fetched_epoch = partitions.last_fetched_epoch(slot);
        let older = last_fetched_epoch >= 0 && last_fetched_epoch < leader_epoch;
        if version < FIRST_WITH_DIVERGENCE && older && lane.validated != leader_epoch {
            // A truncation must not overtake what is queued: see `on_position_doubt`.
            if queued == 0 {
                lane.validated = leader_epoch;
                partitions.set_state(slot, SlotState::Resolving);
                out.push(FetchAction::Validate { slot });
            }
            wants.starving |= queued > 0;
            continue;
        }
        wants.all_ids &= entry.topic_id != 0;
        entry.wanted = Some(Fields {
            current_leader_epoch: leader_epoch,
            fetch_offset: partitions.fetch_offset(slot),
            last_fetched_epoch: if version < FIRST_WITH_DIVERGENCE { -1 } else { last_fetched_epoch },
            max_bytes: lane.partition_bytes(config),
        });
    }
    wants
}
