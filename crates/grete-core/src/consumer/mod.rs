//! A whole consumer without I/O: cluster, positions, fetching and membership, stepped as one.
//!
//! Not obvious:
//! - What one machine asks for may give another something to do at once, so actions go through one queue until nothing is
//!   left, and only then fetching is planned: a Fetch that left with the first of many new partitions would hold up the
//!   others for `fetch.max.wait.ms`.
//! - A slot is never used twice. What is late for an old one finds nobody.

mod assignment;
mod commits;
mod config;
mod event;
mod group_view;
mod missing;
mod questions;
mod revocation;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

pub use config::ConsumerCoreConfig;
pub use event::{ConsumerAction, ConsumerEvent, ConsumerFatal, ConsumerNotice, ConsumerReply, Standing, Start};

use crate::admin::OperationsEvent;
use crate::cluster::{Cluster, ClusterAction, ClusterEvent, ClusterNotice};
use crate::dispatch::OffsetMap;
use crate::fetch::{FetchAction, FetchEvent, FetchMachine};
use crate::group::{GroupAction, GroupEvent, GroupMachine, GroupStats};
use crate::ids::Slot;
use crate::partitions::{Partitions, SlotState};
use crate::position::{PositionAction, PositionEvent, PositionMachine, StartAt};
use crate::request::{Channel, Owner, Reply};
use crate::rng::Rng;
use crate::time::{Nanos, earlier};
use commits::Commits;
use missing::Missing;
use questions::Questions;
use revocation::Revocations;

/// What waits to be carried out inside.
#[derive(Debug)]
enum Todo {
    Cluster(ClusterAction),
    Fetch(FetchAction),
    Position(PositionAction),
    Group(GroupAction),
}

/// See the module.
#[derive(Debug)]
pub struct ConsumerCore {
    cluster: Cluster,
    partitions: Partitions,
    fetch: FetchMachine,
    positions: PositionMachine,
    group: Option<GroupMachine>,
    config: ConsumerCoreConfig,
    topics: assignment::Topics,
    /// Slots whose position came from the group's commits, and the metadata of those.
    from_commit: HashMap<Slot, (i64, String)>,
    revocations: Revocations,
    commits: Commits,
    questions: Questions,
    missing: Missing,
    manual_epoch: u32,
    todo: VecDeque<Todo>,
    /// Positions that the group gave, to be looked up together.
    starts: Vec<(Slot, StartAt, i32)>,
    plan: bool,
    starved: bool,
    look: Option<Nanos>,
    session: Option<Nanos>,
    closing: Option<Nanos>,
    finished: bool,
    cluster_actions: Vec<ClusterAction>,
    fetch_actions: Vec<FetchAction>,
    position_actions: Vec<PositionAction>,
    group_actions: Vec<GroupAction>,
}

impl ConsumerCore {
    /// Whether it was closed: partitions are then given up because the process ends, and late jobs are its business.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Connects to nothing until there is something to read.
    #[must_use]
    pub fn new(config: ConsumerCoreConfig, mut rng: Rng) -> Self {
        let mut fork = || Rng::new(rng.next_u64());
        Self {
            cluster: Cluster::new(config.cluster.clone(), fork()),
            partitions: Partitions::new(),
            fetch: FetchMachine::new(config.fetch.clone(), fork()),
            positions: PositionMachine::new(config.position.clone(), fork()),
            group: config.group.clone().map(|group| GroupMachine::new(group, fork())),
            questions: Questions::new(&config, fork()),
            commits: Commits::new(config.auto_commit),
            config,
            topics: assignment::Topics::default(),
            from_commit: HashMap::new(),
            revocations: Revocations::default(),
            missing: Missing::default(),
            manual_epoch: 0,
            todo: VecDeque::new(),
            starts: Vec::new(),
            plan: false,
            starved: false,
            look: None,
            session: None,
            closing: None,
            finished: false,
            cluster_actions: Vec::new(),
            fetch_actions: Vec::new(),
            position_actions: Vec::new(),
            group_actions: Vec::new(),
        }
    }

    /// One event, and all that follows from it.
    pub fn step(&mut self, now: Nanos, event: ConsumerEvent, out: &mut Vec<ConsumerAction>) {
        if self.finished {
            return;
        }
        match event {
            ConsumerEvent::Tick => self.tick(now, out),
            ConsumerEvent::Connected(conn) => self.cluster(now, ClusterEvent::Connected(conn)),
            ConsumerEvent::Frame(conn, frame) => self.cluster(now, ClusterEvent::Frame(conn, frame)),
            ConsumerEvent::Closed(conn, reason) => self.cluster(now, ClusterEvent::Closed(conn, reason)),
            ConsumerEvent::Subscribe(topics) => self.subscribe(now, topics),
            ConsumerEvent::Assign { partitions, id } => {
                self.assign(now, partitions, out);
                out.push(ConsumerAction::Reply(id, ConsumerReply::Assigned));
            }
            ConsumerEvent::Seek(tp, start) => self.seek(now, &tp, start),
            ConsumerEvent::Pause(tp, paused) => {
                if let Some(slot) = self.partitions.slot(&tp) {
                    self.fetch(now, if paused { FetchEvent::Pause(slot) } else { FetchEvent::Resume(slot) });
                }
            }
            ConsumerEvent::Commit { offsets, id } => self.commit(now, offsets, id, out),
            ConsumerEvent::Committed { tps, id } => self.ask_committed(now, tps, id, out),
            ConsumerEvent::ListOffsets { starts, id } => self.ask_offsets(now, starts, id, out),
            ConsumerEvent::CountPartitions { topic, id } => self.ask_partitions(now, topic, id, out),
            ConsumerEvent::Forget(id) => self.forget(now, id, out),
            ConsumerEvent::Released(slot, bytes) => self.fetch(now, FetchEvent::Released { slot, bytes }),
            ConsumerEvent::Charged(slot, bytes) => self.fetch(now, FetchEvent::Charged { slot, bytes }),
            ConsumerEvent::Corrupt { slot, generation, offset } => {
                self.fetch(now, FetchEvent::Refetch { slot, fetch_generation: generation, offset });
                // A new generation was drawn for what is fetched again; the lane was emptied by whoever found it corrupt.
                // Otherwise the slot has stopped, or was sought meanwhile: its fetch offset lies behind the corrupt batch,
                // and told as a position it would be committed.
                let drawn = self.partitions.fetch_generation(slot);
                if drawn != generation && self.partitions.fetch_offset(slot) == offset && self.is_fetching(slot) {
                    let (generation, already) = (drawn, OffsetMap::default());
                    out.push(ConsumerAction::Position { slot, offset, generation, committed: false, already });
                }
            }
            ConsumerEvent::Drained(slot, offset) => self.drained(now, slot, offset),
            ConsumerEvent::Close { offsets, deadline } => self.close(now, offsets, deadline, out),
        }
        self.settle(now, out);
    }

    /// When to step with `Tick` at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        let machines = earlier(self.cluster.deadline(), earlier(self.fetch.deadline(), self.positions.deadline()));
        let group = self.group.as_ref().and_then(GroupMachine::deadline);
        let questions = self.questions.deadline();
        let own = earlier(self.look, earlier(self.commits.deadline(), self.closing));
        earlier(earlier(machines, group), earlier(questions, own))
    }

    /// How this consumer stands to its partitions.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let partitions = self.partitions.live().len();
        // Partitions by hand need no group, and a group that is only committed to knows nothing of most of them.
        let by_hand = self.manual_epoch > 0;
        match &self.group {
            Some(group) if !by_hand => Standing {
                state: group.state_name(),
                steady: group.is_steady(),
                generation: group.generation(),
                partitions,
            },
            _ if self.closing.is_some() => Standing { state: "left", steady: false, generation: -1, partitions },
            _ if by_hand => Standing { state: "assigned", steady: true, generation: -1, partitions },
            _ => Standing { state: "unjoined", steady: false, generation: -1, partitions },
        }
    }

    /// Counts of the fetcher.
    #[must_use]
    pub fn fetch_stats(&self) -> crate::fetch::RawFetchStats {
        self.fetch.stats()
    }

    /// Counts of the group, if there is one.
    #[must_use]
    pub fn group_stats(&self) -> Option<GroupStats> {
        self.group.as_ref().map(GroupMachine::stats)
    }

    /// How many connections are ready.
    #[must_use]
    pub fn connections(&self) -> usize {
        if self.finished { 0 } else { self.cluster.connections() }
    }

    fn is_fetching(&self, slot: Slot) -> bool {
        self.partitions.state(slot) == SlotState::Fetching
    }

    // ---- stepping the machines

    fn cluster(&mut self, now: Nanos, event: ClusterEvent) {
        self.cluster.step(now, event, &mut self.cluster_actions);
        self.todo.extend(self.cluster_actions.drain(..).map(Todo::Cluster));
    }

    fn fetch(&mut self, now: Nanos, event: FetchEvent) {
        self.fetch.step(now, event, &self.cluster, &mut self.partitions, &mut self.fetch_actions);
        self.todo.extend(self.fetch_actions.drain(..).map(Todo::Fetch));
    }

    fn positions(&mut self, now: Nanos, event: PositionEvent) {
        self.positions.step(now, event, &self.cluster, &mut self.partitions, &mut self.position_actions);
        self.todo.extend(self.position_actions.drain(..).map(Todo::Position));
    }

    fn group(&mut self, now: Nanos, event: GroupEvent) {
        if let Some(group) = &mut self.group {
            group.step(now, event, &self.cluster, &mut self.group_actions);
            self.todo.extend(self.group_actions.drain(..).map(Todo::Group));
        }
    }

    fn tick(&mut self, now: Nanos, out: &mut Vec<ConsumerAction>) {
        self.look = None;
        self.cluster(now, ClusterEvent::Tick);
        self.group(now, GroupEvent::Tick);
        self.positions(now, PositionEvent::Tick);
        self.fetch(now, FetchEvent::Tick);
        self.step_questions(now, OperationsEvent::Tick, out);
        if self.commits.is_due(now) {
            out.push(ConsumerAction::CollectOffsets);
        }
        if self.closing.is_some_and(|deadline| deadline <= now) {
            self.finish(out);
        }
    }

    /// Carries out what the machines ask of each other until nothing is left.
    fn settle(&mut self, now: Nanos, out: &mut Vec<ConsumerAction>) {
        loop {
            match self.todo.pop_front() {
                Some(Todo::Cluster(action)) => self.on_cluster(now, action, out),
                Some(Todo::Fetch(action)) => self.on_fetch(now, action, out),
                Some(Todo::Position(action)) => self.on_position(now, action, out),
                Some(Todo::Group(action)) => self.on_group(now, action, out),
                None if !self.starts.is_empty() => {
                    let starts = std::mem::take(&mut self.starts);
                    self.positions(now, PositionEvent::Starts(starts));
                }
                None if self.plan => {
                    self.plan = false;
                    self.fetch(now, FetchEvent::Plan);
                }
                None => break,
            }
        }
        if !self.topics.asked.is_empty() {
            self.forget_topics();
        }
        // While a slot waits for its bytes to be released, or much is queued, a release has to wake us.
        let much = self.partitions.queued_total() > self.config.fetch.slot_limit() / 2;
        let starved = much || self.fetch.waits_for_release();
        if starved != self.starved {
            self.starved = starved;
            out.push(ConsumerAction::Starved(starved));
            // A release that came just before this was heard woke nobody: look once more.
            self.look = starved.then_some(now);
        }
        let session = self.session_deadline();
        if session != self.session {
            self.session = session;
            out.push(ConsumerAction::Session(session));
        }
    }

    fn on_cluster(&mut self, now: Nanos, action: ClusterAction, out: &mut Vec<ConsumerAction>) {
        match action {
            ClusterAction::Connect { conn, address: (host, port) } => {
                out.push(ConsumerAction::Connect { conn, host, port });
            }
            ClusterAction::Write { conn, bytes } => out.push(ConsumerAction::Write { conn, bytes }),
            ClusterAction::Close { conn } => out.push(ConsumerAction::CloseConn(conn)),
            ClusterAction::Reply(reply) => self.on_reply(now, reply, out),
            ClusterAction::MetadataChanged => {
                self.group(now, GroupEvent::MetadataChanged);
                self.positions(now, PositionEvent::LeaderChanged);
                self.plan = true;
            }
            ClusterAction::MetadataRefreshed => {
                self.answer_partitions(out);
                self.look_for_missing(now, out);
                self.step_questions(now, OperationsEvent::MetadataRefreshed, out);
            }
            ClusterAction::NodeReady { node, channel: Channel::Fetch } => self.fetch(now, FetchEvent::NodeReady(node)),
            ClusterAction::NodeLost { node, channel: Channel::Fetch } => self.fetch(now, FetchEvent::NodeLost(node)),
            ClusterAction::NodeReady { .. } | ClusterAction::NodeLost { .. } => {}
            ClusterAction::Unmuted { .. } => self.plan = true,
            ClusterAction::Notify(ClusterNotice::Fatal(not_kafka)) => {
                out.push(ConsumerAction::Fatal(ConsumerFatal::NotKafka(not_kafka)));
            }
            ClusterAction::Notify(notice) => out.push(ConsumerAction::Notice(ConsumerNotice::Cluster(notice))),
        }
    }

    fn on_reply(&mut self, now: Nanos, reply: Reply, out: &mut Vec<ConsumerAction>) {
        match reply.token.owner {
            Owner::Fetch => self.fetch(now, FetchEvent::Reply(reply)),
            Owner::Position => self.positions(now, PositionEvent::Reply(reply)),
            Owner::Group => self.group(now, GroupEvent::Reply(reply)),
            Owner::Client => self.step_questions(now, OperationsEvent::Reply(reply), out),
            // A consumer has no such machines.
            Owner::Cluster | Owner::Produce | Owner::Admin => {}
        }
    }

    fn on_fetch(&mut self, now: Nanos, action: FetchAction, out: &mut Vec<ConsumerAction>) {
        match action {
            FetchAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
            FetchAction::NeedNode(node) => self.cluster(now, ClusterEvent::NeedNode(node, Channel::Fetch)),
            FetchAction::Data(chunk) => out.push(ConsumerAction::Push(chunk)),
            FetchAction::Nothing { slot, high_watermark, readable_end } => {
                out.push(ConsumerAction::HighWatermark { slot, high_watermark, readable_end });
            }
            FetchAction::OutOfRange { slot, .. } => self.positions(now, PositionEvent::OutOfRange { slot }),
            FetchAction::Diverged { slot, epoch, end_offset } => {
                self.positions(now, PositionEvent::Diverged { slot, epoch, end_offset });
            }
            FetchAction::Validate { slot } => self.positions(now, PositionEvent::Validate { slot }),
            FetchAction::RefreshMetadata => self.cluster(now, ClusterEvent::RefreshMetadata),
            FetchAction::LeaderHint { tp, leader, epoch, endpoint } => {
                if let Some((host, port)) = endpoint {
                    self.cluster.learn_node(leader, &host, i32::from(port));
                }
                self.cluster.update_leader(&tp, leader, epoch);
                self.plan = true;
            }
            FetchAction::Failed { error, .. } => out.push(ConsumerAction::SlotFailed(error)),
            FetchAction::Notice(notice) => out.push(ConsumerAction::Notice(ConsumerNotice::Fetch(notice))),
        }
    }

    fn on_position(&mut self, now: Nanos, action: PositionAction, out: &mut Vec<ConsumerAction>) {
        match action {
            PositionAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
            PositionAction::Ready { slot, offset } => {
                // A position that was not to be had (truncated, out of range) makes the commit's metadata the past, too.
                let commit = self.from_commit.remove(&slot).filter(|(start, _)| *start == offset);
                let already = commit.as_ref().map(|(_, metadata)| OffsetMap::decode(offset, metadata));
                let (committed, already) = (commit.is_some(), already.unwrap_or_default());
                let generation = self.partitions.fetch_generation(slot);
                out.push(ConsumerAction::Position { slot, offset, generation, committed, already });
                self.plan = true;
            }
            PositionAction::RefreshMetadata => self.cluster(now, ClusterEvent::RefreshMetadata),
            PositionAction::Failed { error, .. } => out.push(ConsumerAction::SlotFailed(error)),
            PositionAction::Notice(notice) => out.push(ConsumerAction::Notice(ConsumerNotice::Fetch(notice))),
        }
    }

    fn on_group(&mut self, now: Nanos, action: GroupAction, out: &mut Vec<ConsumerAction>) {
        match action {
            GroupAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
            GroupAction::LearnNode { node, host, port } => {
                self.cluster.learn_node(node, &host, i32::from(port));
            }
            GroupAction::WatchTopics { topics } => {
                self.topics.watched = topics;
                self.want_topics(now);
            }
            GroupAction::Assign { tps, epoch } => self.assigned(now, tps, epoch, out),
            GroupAction::Position { tp, epoch, start, leader_epoch, metadata } => {
                if let Some(slot) = self.partitions.slot(&tp)
                    && self.partitions.assignment_epoch(slot) == epoch
                {
                    let at = start.map_or(StartAt::Reset, StartAt::Offset);
                    if let Some(offset) = start {
                        self.from_commit.insert(slot, (offset, metadata));
                    }
                    self.starts.push((slot, at, leader_epoch));
                }
            }
            GroupAction::Revoke { tps, epoch, .. } => self.revoke(now, tps, epoch, out),
            GroupAction::RevokeExpired { tps, epoch } => self.revocation_expired(&tps, epoch, out),
            GroupAction::Lost { tps } => self.lost(now, &tps, out),
            GroupAction::CommitResult { id, results } => self.commit_result(now, id, results, out),
            GroupAction::Left => self.left(now, out),
            GroupAction::Notice(notice) => out.push(ConsumerAction::Notice(ConsumerNotice::Group(notice))),
            GroupAction::Fatal(error) => out.push(ConsumerAction::Fatal(ConsumerFatal::Group(error))),
        }
    }

    /// Until when the coordinator counts us in, as far as we know: it puts out who is not heard of for a session, and who
    /// does not join in a rebalance in time.
    fn session_deadline(&self) -> Option<Nanos> {
        let group = self.group.as_ref().filter(|group| group.generation() >= 0)?;
        let session = group.last_heartbeat_ack() + group.config().session_timeout;
        earlier(Some(session), group.revocation_deadline())
    }

    fn finish(&mut self, out: &mut Vec<ConsumerAction>) {
        if !self.finished {
            self.finished = true;
            out.push(ConsumerAction::Finished);
        }
    }
}
