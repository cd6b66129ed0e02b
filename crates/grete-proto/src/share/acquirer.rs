//! State machine that acquires records from the leaders, and acknowledges them.

use std::collections::BTreeMap;

use grete_wire::ErrorCode;
use grete_wire::api::ApiKey;

use super::acknowledgement::{AckType, Acknowledgement};
use super::config::ShareConfig;
use super::event::{ShareAction, ShareEvent, ShareLogEvent, ShareStats};
use super::partition::{AckGroup, PartitionKey, SharePartition};
use super::request;
use super::session::{CLOSE_EPOCH, InFlight, RequestKind, ShareSession};
use crate::cluster::view::ClusterView;
use crate::ids::{NodeId, PartitionHandle, TopicPartition};
use crate::partition::table::PartitionTable;
use crate::request::{Channel, NO_NODE, OutboundRequest, Request, RequestOwner, Target, Token};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND, earliest};

/// Most records that a member holds beyond those that it can process at once.
const MAX_RESERVE: usize = 2000;
/// Half of the time whose finished records are held in reserve.
const RESERVE_SPAN: Nanos = 250 * MILLI;
/// Longest time that a record was held that counts for the reserve: handlers that take longer wait for no
/// records, and records in reserve would wait for them.
const QUICK: Nanos = SECOND;
/// Longest wait of a broker for records, while no record is held: the close waits behind it.
pub const IDLE_WAIT: Nanos = SECOND;
/// Longest wait of a broker for records, while the member holds some: acknowledgements wait behind it.
pub const BUSY_WAIT: Nanos = 100 * MILLI;
/// Longest time that a close waits for leaders: a leader that hangs gives the records back when their locks end.
const CLOSE_WAIT: Nanos = 5 * SECOND;
/// Most records in one acknowledgement request.
const MAX_ACKS: usize = 20_000;
/// Interval for requesting a missing connection again, and for looking at a throttled node again.
const RECHECK_INTERVAL: Nanos = SECOND;
/// First version of ShareAcknowledge that renews locks.
const FIRST_WITH_RENEW: i16 = 2;
/// Duration of a lock before a broker has named one: Kafka's default.
const DEFAULT_LOCK: Nanos = 30 * SECOND;

/// State machine that acquires records for one member of a share group.
#[derive(Debug)]
pub struct ShareAcquirer {
    pub(super) config: ShareConfig,
    /// Member id of the last membership: acknowledgements carry it after the group was left, too.
    member_id: String,
    pub(super) rng: Rng,
    pub(super) partitions: BTreeMap<PartitionKey, SharePartition>,
    pub(super) sessions: Vec<ShareSession>,
    /// Assigned partitions whose leader refuses them, with the last error code.
    pub(super) refused: BTreeMap<PartitionKey, ErrorCode>,
    pub(super) stats: ShareStats,
    /// Duration of a lock, as the brokers say.
    pub(super) lock: Nanos,
    /// Set within a step; emitted once, at the end of the step.
    pub(super) needs_metadata: bool,
    /// Number of held records.
    pub(super) held: usize,
    delayed: usize,
    finished: FinishedRecords,
    next_token: u32,
    /// An assigned partition has no leader, as far as is known: time from which new metadata may be requested.
    pub(super) leaderless: Option<Nanos>,
    /// Acknowledgements of some partition were not delivered, or have no leader.
    pub(super) undelivered: bool,
    /// Metadata version and layout of the partitions that `sync` has seen.
    pub(super) seen: Option<(u64, u64)>,
    pub(super) wake: Option<Nanos>,
    awaits: bool,
    quiesced: bool,
    closing: bool,
    /// Time at which the close waits for no leader any more; `None`: no close was asked for.
    close_by: Option<Nanos>,
    closed: bool,
}

/// Number of records that were finished lately, and quickly.
#[derive(Debug, Default)]
struct FinishedRecords {
    since: Nanos,
    current: usize,
    before: usize,
}

impl FinishedRecords {
    fn turn(&mut self, now: Nanos) {
        let spans = now.saturating_sub(self.since) / RESERVE_SPAN;
        if spans > 0 {
            self.before = if spans == 1 { self.current } else { 0 };
            (self.current, self.since) = (0, now);
        }
    }

    fn add(&mut self, now: Nanos, records: usize) {
        self.turn(now);
        self.current += records;
    }

    fn recent(&mut self, now: Nanos) -> usize {
        self.turn(now);
        self.current + self.before
    }
}

impl ShareAcquirer {
    /// Creates an acquirer without sessions.
    pub fn new(config: ShareConfig, rng: Rng) -> Self {
        Self {
            config,
            member_id: String::new(),
            rng,
            partitions: BTreeMap::new(),
            sessions: Vec::new(),
            refused: BTreeMap::new(),
            stats: ShareStats::default(),
            lock: DEFAULT_LOCK,
            needs_metadata: false,
            held: 0,
            delayed: 0,
            finished: FinishedRecords::default(),
            next_token: 0,
            leaderless: None,
            undelivered: false,
            seen: None,
            wake: None,
            awaits: false,
            quiesced: false,
            closing: false,
            close_by: None,
            closed: false,
        }
    }

    /// Returns the time at which the next `Tick` is due; `None`: no timer.
    pub fn deadline(&self) -> Option<Nanos> {
        self.wake
    }

    /// Returns whether every acknowledgement was answered.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.partitions.values().all(SharePartition::is_settled)
    }

    /// Returns the counters since the start.
    pub fn stats(&self) -> ShareStats {
        ShareStats { held: self.held as u64, ..self.stats }
    }

    /// Processes one event and appends the resulting actions. `member_id`: id in the group; empty: not a member yet.
    pub fn step(
        &mut self,
        now: Nanos,
        event: ShareEvent,
        member_id: &str,
        view: &impl ClusterView,
        table: &mut PartitionTable,
        out: &mut Vec<ShareAction>,
    ) {
        if self.closed {
            return;
        }
        self.sync(view, table);
        if !member_id.is_empty() && member_id != self.member_id {
            member_id.clone_into(&mut self.member_id);
        }
        match event {
            ShareEvent::Tick | ShareEvent::Plan => {}
            ShareEvent::Reply(reply) => self.on_reply(now, &reply, table, out),
            ShareEvent::NodeReady(node) => {
                if let Some(session) = self.session(node) {
                    session.connect_retry_at = 0;
                }
            }
            ShareEvent::NodeLost(node) => self.on_node_lost(now, node),
            ShareEvent::Acknowledge(all) => {
                for (slot, acks) in all {
                    self.acknowledge(now, key_of(slot, table), &acks, out);
                }
            }
            ShareEvent::Released(released) => {
                released.into_iter().for_each(|(slot, bytes)| table.release(slot, bytes));
            }
            ShareEvent::Charged { slot, bytes } => table.charge(slot, bytes),
            ShareEvent::Concurrency(records) => self.config.concurrency = records,
            ShareEvent::Delayed(records) => self.delayed = records,
            ShareEvent::Pause(slot) => self.set_paused(slot, true, table),
            ShareEvent::Resume(slot) => self.set_paused(slot, false, table),
            ShareEvent::PartitionsRemoved(slots) => {
                table.remove_all(&slots);
                for partition in self.partitions.values_mut() {
                    partition.slot.take_if(|slot| slots.contains(slot));
                }
                self.seen = None;
            }
            ShareEvent::Quiesce => self.quiesced = true,
            ShareEvent::Close => {
                (self.quiesced, self.closing) = (true, true);
                self.close_by.get_or_insert(now.saturating_add(CLOSE_WAIT));
            }
        }
        self.sync(view, table);
        self.plan(now, member_id, view, table, out);
        if std::mem::take(&mut self.needs_metadata) {
            out.push(ShareAction::RefreshMetadata);
        }
    }

    fn session(&mut self, node: NodeId) -> Option<&mut ShareSession> {
        self.sessions.iter_mut().find(|session| session.node == node)
    }

    fn set_paused(&mut self, slot: PartitionHandle, paused: bool, table: &PartitionTable) {
        if let Some(partition) = self.partitions.get_mut(&key_of(slot, table)) {
            partition.paused = paused;
        }
    }

    /// Copies leaders and topic ids from the metadata, and assigns partitions to sessions.
    fn sync(&mut self, view: &impl ClusterView, table: &mut PartitionTable) {
        table.refresh(view);
        table.take_recreated(); // the coordinator assigns by topic id: the old topic is revoked
        let seen = (view.metadata_version(), table.layout());
        if self.seen == Some(seen) {
            return;
        }
        self.seen = Some(seen);
        let mut leaderless = false;
        for &slot in table.live() {
            let key = key_of(slot, table);
            leaderless |= key.0 == 0 || table.leader(slot) == NO_NODE;
            if key.0 != 0 {
                let new = || SharePartition::new(table.name(slot), &self.config);
                self.partitions.entry(key).or_insert_with(new).slot = Some(slot);
            }
        }
        self.leaderless = if leaderless { Some(self.leaderless.unwrap_or(0)) } else { None };
        self.partitions.retain(|_, partition| !partition.is_over());
        let partitions = &self.partitions;
        self.refused.retain(|key, _| partitions.get(key).is_some_and(|partition| partition.slot.is_some()));
        for session in &mut self.sessions {
            session.led.clear();
        }
        for (key, partition) in &mut self.partitions {
            let leader = match view.topic_id(&partition.tp.topic) {
                Some(id) if id == key.0 => view.leader(&partition.tp),
                Some(_) => None,
                // The metadata no longer has a topic that is not subscribed: the last leader gets what is left.
                None => Some((partition.node, partition.leader_epoch)),
            };
            (partition.node, partition.leader_epoch) = leader.unwrap_or((NO_NODE, -1));
            if partition.node == NO_NODE {
                self.undelivered = true;
                continue;
            }
            let at = self.sessions.iter().position(|session| session.node == partition.node);
            let at = at.unwrap_or_else(|| {
                self.sessions.push(ShareSession::new(partition.node, &self.config));
                self.sessions.len() - 1
            });
            if let Some(session) = self.sessions.get_mut(at) {
                session.led.insert(*key);
            }
        }
    }

    /// Queues acknowledgements of records that are held.
    fn acknowledge(&mut self, now: Nanos, key: PartitionKey, acks: &[Acknowledgement], out: &mut Vec<ShareAction>) {
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        let mut late: Option<(usize, i64)> = None;
        for ack in acks {
            let (mut finished, mut quick) = (0, 0);
            for offset in ack.offsets() {
                let Some(removed) = partition.held.remove(offset, now) else { continue };
                if removed.is_late && ack.kind != AckType::Release {
                    late = Some(late.map_or((1, offset), |(records, first)| (records + 1, first.min(offset))));
                }
                finished += 1;
                quick += usize::from(now.saturating_sub(removed.since) <= QUICK);
                if removed.is_locked {
                    partition.acknowledge(Acknowledgement::one(offset, ack.kind));
                }
            }
            self.held = self.held.saturating_sub(finished);
            let count = finished as u64;
            match ack.kind {
                AckType::Accept => {
                    self.finished.add(now, quick);
                    self.stats.accepted += count;
                }
                AckType::Release => self.stats.released += count,
                AckType::Reject => self.stats.rejected += count,
                AckType::Gap | AckType::Renew => {}
            }
        }
        out.extend(late.map(|late| locks_expired(&partition.tp, late)));
    }

    fn on_node_lost(&mut self, now: Nanos, node: NodeId) {
        let Self { rng, sessions, needs_metadata, .. } = self;
        let Some(session) = sessions.iter_mut().find(|session| session.node == node) else { return };
        session.connect_retry_at = 0;
        // The session ends with its connection. The reply to the request in flight comes as an error.
        session.reset();
        if session.in_flight.is_some() {
            session.not_before = now.saturating_add(session.backoff.next_delay(rng));
            *needs_metadata = true;
        }
    }

    /// Returns how many more records may be acquired.
    fn room(&mut self, now: Nanos, table: &PartitionTable) -> usize {
        if self.quiesced || self.config.concurrency == 0 || table.queued_total() >= self.config.queued_bytes {
            return 0;
        }
        let reserve = self.finished.recent(now).min(MAX_RESERVE);
        (self.config.concurrency + reserve + self.delayed).saturating_sub(self.held)
    }

    fn plan(
        &mut self,
        now: Nanos,
        member_id: &str,
        view: &impl ClusterView,
        table: &PartitionTable,
        out: &mut Vec<ShareAction>,
    ) {
        self.wake = self.close_by;
        // The coordinator may assign a partition before the metadata has it.
        if let Some(at) = &mut self.leaderless {
            if *at <= now {
                *at = now.saturating_add(RECHECK_INTERVAL);
                self.needs_metadata = true;
            }
            self.wake = earliest(self.wake, Some(*at));
        }
        if self.undelivered {
            self.drop_undeliverable(now, view, out);
        }
        let mut awaits = false;
        let room = if member_id.is_empty() { 0 } else { self.room(now, table) };
        let wanted = |session: &ShareSession, partitions: &BTreeMap<PartitionKey, SharePartition>| {
            session.led.iter().any(|key| partitions.get(key).is_some_and(|partition| partition.is_wanted(now)))
        };
        let fetching = self.sessions.iter().filter(|session| session.in_flight.is_none());
        let idle = fetching.filter(|session| wanted(session, &self.partitions)).count();
        let share = room.div_ceil(idle.max(1));
        for at in 0..self.sessions.len() {
            self.plan_session(now, at, share, view, table, out);
            awaits |= self.sessions.get(at).is_some_and(|session| session.in_flight.is_none());
        }
        if awaits != self.awaits {
            self.awaits = awaits;
            out.push(ShareAction::AwaitsAcknowledgements(awaits));
        }
        let is_late = self.close_by.is_some_and(|at| at <= now);
        if self.closing && (is_late || self.sessions.iter().all(|session| session.closed)) {
            self.closed = true;
            self.wake = None;
            out.push(ShareAction::Closed);
        }
    }

    /// `room`: number of records that may be acquired from the node; 0: none, or this client is no member.
    fn plan_session(
        &mut self,
        now: Nanos,
        at: usize,
        room: usize,
        view: &impl ClusterView,
        table: &PartitionTable,
        out: &mut Vec<ShareAction>,
    ) {
        let closing = self.closing;
        let Some(session) = self.sessions.get_mut(at) else { return };
        if session.closed || session.in_flight.is_some() {
            return;
        }
        if session.epoch == 0 && closing {
            // Nothing can be acknowledged without a session, and opening one would acquire records.
            session.closed = true;
            return;
        }
        if now < session.not_before {
            self.wake = earliest(self.wake, Some(session.not_before));
            return;
        }
        let (mut has_acks, mut of_others, mut is_wanted, mut retry_at, mut renew_at) =
            (false, false, false, None, None);
        for key in &session.led {
            let Some(partition) = self.partitions.get_mut(key) else { continue };
            let is_due = closing || partition.not_before <= now;
            has_acks |= partition.has_acks() && is_due;
            of_others |= partition.has_acks() && is_due && !partition.is_wanted(now);
            is_wanted |= partition.is_wanted(now);
            retry_at = earliest(retry_at, Some(partition.not_before).filter(|at| *at > now));
            renew_at = earliest(renew_at, partition.held.next_renewal(now));
        }
        self.wake = earliest(self.wake, retry_at);
        if session.epoch == 0 && has_acks && !is_wanted {
            // No request will open a session again, and the locks have ended with the last one.
            return self.drop_acks(at, out);
        }
        let renews = session.epoch > 0 && self.renewal_is_due(now, at, renew_at, view, out);
        let can_fetch = is_wanted && room > 0 && !closing;
        let has_session = self.sessions.get(at).is_some_and(|session| session.epoch > 0);
        // A ShareFetch with an acknowledgement takes the partition into the session, and acquires records of it.
        if has_session && (renews || closing || (has_acks && (of_others || !can_fetch))) {
            if self.is_connected(now, at, ApiKey::ShareAcknowledge, view, out) {
                self.send_acknowledge(now, at, renews, out);
            }
        } else if can_fetch && self.is_connected(now, at, ApiKey::ShareFetch, view, out) {
            self.send_fetch(now, at, room, table, out);
        }
    }

    /// Returns whether locks must be renewed now. If not, sets the timer. `renew_at`: time of the first renewal.
    fn renewal_is_due(
        &mut self,
        now: Nanos,
        at: usize,
        renew_at: Option<Nanos>,
        view: &impl ClusterView,
        out: &mut Vec<ShareAction>,
    ) -> bool {
        let (Some(session), Some(due_at)) = (self.sessions.get_mut(at), renew_at) else { return false };
        let version = view.api_version(session.node, Channel::Fetch, ApiKey::ShareAcknowledge);
        let can_renew = version.is_none_or(|version| version >= FIRST_WITH_RENEW);
        if due_at > now {
            self.wake = earliest(self.wake, Some(due_at));
            return false;
        }
        if !can_renew && !std::mem::replace(&mut session.warned, true) {
            let node = session.node;
            out.push(ShareAction::LogEvent(ShareLogEvent::NoRenewal { node, lock: self.lock }));
        }
        can_renew
    }

    /// Returns whether a request can be sent to the node. If not, asks for the connection.
    fn is_connected(
        &mut self,
        now: Nanos,
        at: usize,
        api: ApiKey,
        view: &impl ClusterView,
        out: &mut Vec<ShareAction>,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(at) else { return false };
        if view.api_version(session.node, Channel::Fetch, api).is_some() {
            // A fetch quota must cost no lock.
            if !view.is_muted(session.node, now) || api == ApiKey::ShareAcknowledge {
                return true;
            }
            self.wake = earliest(self.wake, Some(now.saturating_add(RECHECK_INTERVAL)));
            return false;
        }
        if now >= session.connect_retry_at {
            self.needs_metadata |= session.connect_retry_at > 0;
            session.connect_retry_at = now.saturating_add(RECHECK_INTERVAL);
            out.push(ShareAction::NeedNode(session.node));
        }
        self.wake = earliest(self.wake, Some(session.connect_retry_at));
        false
    }

    /// Takes the acknowledgements of the session's partitions that go with the next request.
    fn take_acks(&mut self, now: Nanos, at: usize) -> Vec<(PartitionKey, AckGroup)> {
        let closing = self.closing;
        let Some(session) = self.sessions.get(at) else { return Vec::new() };
        let (mut acks, mut records) = (Vec::new(), 0);
        for key in &session.led {
            let Some(partition) = self.partitions.get_mut(key).filter(|_| records < MAX_ACKS) else { continue };
            if partition.not_before > now && !closing {
                continue;
            }
            if let Some(group) = partition.take_acks() {
                records += group.records();
                acks.push((*key, group));
            }
        }
        acks
    }

    fn send_fetch(&mut self, now: Nanos, at: usize, room: usize, table: &PartitionTable, out: &mut Vec<ShareAction>) {
        // A session cannot begin with acknowledgements.
        let opens = self.sessions.get(at).is_some_and(|session| session.epoch == 0);
        let acks = if opens { Vec::new() } else { self.take_acks(now, at) };
        let left = self.config.queued_bytes.saturating_sub(table.queued_total());
        let Some(session) = self.sessions.get_mut(at) else { return };
        let partitions = &self.partitions;
        let is_wanted = |key: &&PartitionKey| partitions.get(*key).is_some_and(|partition| partition.is_wanted(now));
        let added: Vec<PartitionKey> =
            session.led.iter().filter(is_wanted).filter(|key| !session.known.contains(*key)).copied().collect();
        let is_gone = |key: &&PartitionKey| !(session.led.contains(*key) && is_wanted(key));
        let forgotten: Vec<PartitionKey> = session.known.iter().filter(is_gone).copied().collect();
        session.known.extend(&added);
        session.known.retain(|key| !forgotten.contains(key));
        let max_wait = self.config.max_wait.min(if self.held > 0 { BUSY_WAIT } else { IDLE_WAIT });
        let fields = request::FetchFields {
            member_id: &self.member_id,
            epoch: session.next_epoch(),
            max_wait,
            max_records: room,
            max_bytes: left,
            added: &added,
            forgotten: &forgotten,
            acks: &acks,
        };
        let request = request::fetch(&self.config, &fields);
        let token = self.next_token;
        self.next_token = token.wrapping_add(1);
        session.in_flight =
            Some(InFlight { token, since: now, kind: RequestKind::Fetch, session: session.number, acks });
        self.stats.fetches += 1;
        let timeout = self.config.request_timeout.saturating_add(self.config.max_wait);
        out.push(ShareAction::Send(outgoing(session.node, request, token, timeout)));
    }

    fn send_acknowledge(&mut self, now: Nanos, at: usize, renews: bool, out: &mut Vec<ShareAction>) {
        let closes = self.closing;
        let mut acks = self.take_acks(now, at);
        let Some(session) = self.sessions.get_mut(at) else { return };
        if renews && !closes {
            for key in &session.led {
                // The locks of a partition with acknowledgements wait for the next request: these may be refused.
                let has_acks = acks.iter().any(|(acked, _)| acked == key);
                let Some(partition) = self.partitions.get_mut(key).filter(|_| !has_acks) else { continue };
                let renewals = partition.held.renew(now, self.lock);
                out.extend(renewals.late.map(|late| locks_expired(&partition.tp, late)));
                if !renewals.acks.is_empty() {
                    partition.on_sent();
                    acks.push((*key, AckGroup { acks: renewals.acks, uncertain: false }));
                }
            }
        }
        if acks.is_empty() && !closes {
            return;
        }
        let (kind, epoch) = match closes {
            true => (RequestKind::Close, CLOSE_EPOCH),
            false => (RequestKind::Acknowledge, session.next_epoch()),
        };
        let request = request::acknowledge(&self.config, &self.member_id, epoch, &acks);
        let token = self.next_token;
        self.next_token = token.wrapping_add(1);
        session.in_flight = Some(InFlight { token, since: now, kind, session: session.number, acks });
        self.stats.acknowledges += 1;
        out.push(ShareAction::Send(outgoing(session.node, request, token, self.config.request_timeout)));
    }
}

/// Returns the key of a partition, assigned or not. The topic id is 0 while the metadata has none.
pub(super) fn key_of(slot: PartitionHandle, table: &PartitionTable) -> PartitionKey {
    (table.topic_id(slot), table.topic_partition(slot).map_or(-1, |tp| tp.partition))
}

/// `late`: number and first offset of the records.
fn locks_expired(tp: &TopicPartition, (records, first): (usize, i64)) -> ShareAction {
    ShareAction::LogEvent(ShareLogEvent::LocksExpired { tp: tp.clone(), records, first })
}

fn outgoing(node: NodeId, request: Request, token: u32, timeout: Nanos) -> OutboundRequest {
    let token = Token { owner: RequestOwner::Share, id: token };
    OutboundRequest { target: Target::Node(node), channel: Channel::Fetch, request, token, timeout }
}
