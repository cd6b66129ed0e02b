//! Simulator of several members, one coordinator, a network that delays and loses messages, and a clock that jumps from
//! event to event.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use grete_wire::frame::Frame;
use grete_wire::{ApiKey, ErrorCode};

use super::coordinator::{Coordinator, ReplyTo};
use crate::group::assignor::racks::Racks;
use crate::group::{
    Assignor, CommitOffset, ConsumerGroup, GroupAction, GroupConfig, GroupError, GroupEvent, TopicMetadataView,
};
use crate::ids::TopicPartition;
use crate::request::{OutboundRequest, Reply, RequestError, RequestOwner, Response, Target, Token};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};

pub struct Topics(pub BTreeMap<String, i32>);

impl TopicMetadataView for Topics {
    fn partition_count(&self, topic: &str) -> Option<i32> {
        Some(self.0.get(topic).copied().unwrap_or(0))
    }

    fn replica_racks(&self, _topic: &str) -> Vec<Racks> {
        Vec::new()
    }

    fn topic_id(&self, _topic: &str) -> Option<u128> {
        None
    }

    fn topic_name(&self, _id: u128) -> Option<Arc<str>> {
        None
    }

    fn group_version(&self) -> Option<i16> {
        None
    }

    fn is_concealed(&self, _topic: &str) -> bool {
        false
    }
}

/// Application state of one partition.
#[derive(Debug, Clone)]
struct Work {
    epoch: u32,
    /// Next offset to process; `None` until the start is known.
    at: Option<i64>,
    committed: i64,
    revoking: Option<u32>,
}

pub struct Client {
    pub group: ConsumerGroup,
    work: BTreeMap<TopicPartition, Work>,
    alive: bool,
    pub left: bool,
    asleep_until: Nanos,
    connection: u64,
    in_flight: BTreeMap<u32, (Nanos, OutboundRequest)>,
    /// Revocations that are acknowledged when their commit is answered and the handler has returned.
    revocations: BTreeMap<u32, (Vec<TopicPartition>, Nanos)>,
    commits: u32,
    commit_due: Nanos,
    waiting: BTreeMap<u32, u32>,
    /// `group.instance.id`.
    pub instance: Option<String>,
    /// Whether another running client has, or had, the same instance id.
    shared: bool,
    /// Whether another client has taken the instance id for good.
    pub fenced: bool,
}

#[derive(Debug)]
enum Event {
    ToBroker { client: usize, connection: u64, node: i32, outgoing: Box<OutboundRequest> },
    ToClient { to: ReplyTo, body: Vec<u8> },
}

pub struct Simulator {
    pub seed: u64,
    pub now: Nanos,
    pub rng: Rng,
    pub broker: Coordinator,
    pub clients: Vec<Client>,
    pub topics: Topics,
    queue: BinaryHeap<Reverse<(Nanos, u64)>>,
    events: BTreeMap<u64, Event>,
    sequence: u64,
    pub faults: bool,
    /// Whether the group has moved to another coordinator.
    was_loaded: bool,
    /// Processes that start again, and when.
    restarts: Vec<(Nanos, usize)>,
    /// Offsets processed by any client.
    processed: BTreeMap<TopicPartition, BTreeSet<i64>>,
    pub commits_seen: u64,
    acks: Vec<(usize, u32)>,
    /// Whether GRETE_SEED is set: print all events.
    pub trace: bool,
}

impl Simulator {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let topics = ["a", "b"].map(|topic| (topic.to_owned(), 1 + rng.below(6) as i32));
        Self {
            seed,
            now: SECOND,
            rng,
            broker: Coordinator::new(1, "g"),
            clients: Vec::new(),
            topics: Topics(topics.into()),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            faults: true,
            was_loaded: false,
            restarts: Vec::new(),
            processed: BTreeMap::new(),
            commits_seen: 0,
            acks: Vec::new(),
            trace: false,
        }
    }

    pub fn add(&mut self, assignors: Vec<Assignor>) -> usize {
        self.add_as(assignors, None)
    }

    /// Adds a static member; members with the same id fence each other.
    pub fn add_as(&mut self, assignors: Vec<Assignor>, instance: Option<&str>) -> usize {
        let mut shared = false;
        for c in self.alive().into_iter().filter(|_| instance.is_some()) {
            let client = &mut self.clients[c];
            if client.instance.as_deref() == instance {
                (client.shared, shared) = (true, true);
            }
        }
        let config = GroupConfig {
            instance_id: instance.map(Into::into),
            assignors,
            session_timeout: 10 * SECOND,
            max_poll_interval: 30 * SECOND,
            ..GroupConfig::new("g")
        };
        config.check().unwrap();
        let rng = Rng::new(self.rng.next_u64());
        self.clients.push(Client {
            group: ConsumerGroup::new(config, rng),
            work: BTreeMap::new(),
            alive: true,
            left: false,
            asleep_until: 0,
            connection: 0,
            in_flight: BTreeMap::new(),
            revocations: BTreeMap::new(),
            commits: 0,
            commit_due: 0,
            waiting: BTreeMap::new(),
            instance: instance.map(str::to_owned),
            shared,
            fenced: false,
        });
        let client = self.clients.len() - 1;
        let topics = self.topics.0.keys().map(|topic| topic.as_str().into()).collect();
        self.step(client, GroupEvent::Subscribe { topics });
        client
    }

    pub fn alive(&self) -> Vec<usize> {
        let runs = |client: &Client| client.alive && !client.left && !client.fenced;
        (0..self.clients.len()).filter(|&c| runs(&self.clients[c])).collect()
    }

    fn post(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((at, self.sequence)));
        self.events.insert(self.sequence, event);
    }

    fn delay(&mut self) -> Nanos {
        let slow = if self.faults && self.rng.below(20) == 0 { 3000 } else { 20 };
        (1 + self.rng.below(slow)) * MILLI
    }

    pub fn step(&mut self, client: usize, event: GroupEvent) {
        let mut actions = Vec::new();
        let was_tick = matches!(event, GroupEvent::Tick);
        self.clients[client].group.step(self.now, event, &self.topics, &mut actions);
        if was_tick {
            let deadline = self.clients[client].group.deadline();
            assert!(
                deadline.is_none_or(|d| d > self.now),
                "seed {}: a tick at {} did nothing: {:?}",
                self.seed,
                self.now,
                self.clients[client].group
            );
        }
        for action in actions {
            self.act(client, action);
        }
        // As in the driver, the application's acknowledgements follow all actions of a step.
        for (client, epoch) in std::mem::take(&mut self.acks) {
            if let Some((tps, _)) = self.clients[client].revocations.remove(&epoch) {
                for tp in tps {
                    self.clients[client].work.remove(&tp).expect("revoked, and not lost since");
                }
            }
            self.step(client, GroupEvent::RevocationAcked { epoch });
        }
    }

    fn act(&mut self, client: usize, action: GroupAction) {
        let now = self.now;
        if self.trace {
            match &action {
                GroupAction::Send(o) => {
                    eprintln!("{:>9.3} {client} send {:?} #{}", now as f64 / 1e9, o.request.api(), o.token.id)
                }
                GroupAction::CommitResult { .. } | GroupAction::Position { .. } => {}
                other => eprintln!("{:>9.3} {client} {other:?}", now as f64 / 1e9),
            }
        }
        match action {
            GroupAction::Send(outgoing) => {
                let node = match outgoing.target {
                    Target::Any | Target::Controller => 0,
                    Target::Node(node) => node,
                };
                let connection = self.clients[client].connection;
                let due = now + outgoing.timeout;
                self.clients[client].in_flight.insert(outgoing.token.id, (due, outgoing.clone()));
                let at = now + self.delay();
                self.post(at, Event::ToBroker { client, connection, node, outgoing: Box::new(outgoing) });
            }
            GroupAction::CommitTransaction { .. } => panic!("offsets are committed without transactions"),
            GroupAction::Assign { tps, epoch } => {
                for tp in tps {
                    let work = Work { epoch, at: None, committed: -1, revoking: None };
                    let old = self.clients[client].work.insert(tp.clone(), work);
                    assert!(old.is_none(), "seed {}: {tp} was assigned while it was owned", self.seed);
                }
            }
            GroupAction::Position { tp, epoch, start, .. } => {
                let work = self.clients[client].work.get_mut(&tp).expect("only what is owned has a position");
                assert_eq!(work.epoch, epoch, "seed {}: a position of another assignment", self.seed);
                assert_eq!(work.at, None, "seed {}: two positions", self.seed);
                // A partition without a commit starts at 0 here, so that a lost commit would show as a step back.
                work.at = Some(start.unwrap_or(0));
                work.committed = start.unwrap_or(0);
            }
            GroupAction::Revoke { tps, epoch, .. } => {
                for tp in &tps {
                    let work = self.clients[client].work.get_mut(tp).expect("only what is owned is revoked");
                    assert_eq!(work.revoking, None, "seed {}: {tp} is revoked twice", self.seed);
                    work.revoking = Some(epoch);
                }
                // Some handlers are slow, some exceed their deadline.
                let longest = if self.faults && self.rng.below(10) == 0 { 40_000 } else { 200 };
                let done_at = now + self.rng.below(longest) * MILLI;
                self.clients[client].revocations.insert(epoch, (tps, done_at));
            }
            GroupAction::RevocationExpired { tps, epoch } => {
                let client = &mut self.clients[client];
                client.revocations.remove(&epoch).expect("only an open revocation expires");
                for tp in tps {
                    client.work.remove(&tp).expect("was ours");
                }
            }
            GroupAction::Lost { tps } => {
                let client = &mut self.clients[client];
                for tp in tps {
                    client.work.remove(&tp).expect("only what is owned is lost");
                }
                assert!(client.work.is_empty());
                client.revocations.clear();
            }
            GroupAction::RefreshMetadata => {}
            GroupAction::NotAuthorized { tp } => panic!("{tp} is allowed"),
            GroupAction::CommitResult { id, results } => {
                for outcome in &results {
                    if outcome.result.is_ok() {
                        self.commits_seen += 1;
                    }
                }
                if let Some(epoch) = self.clients[client].waiting.remove(&id) {
                    self.acks.push((client, epoch));
                }
            }
            GroupAction::Left => {
                assert!(self.clients[client].work.is_empty(), "seed {}: left while it owned something", self.seed);
                self.clients[client].left = true;
            }
            GroupAction::Fatal(GroupError::InstanceFenced { .. }) if self.clients[client].shared => {
                let client = &mut self.clients[client];
                assert!(client.work.is_empty(), "seed {}: fenced while it owned something", self.seed);
                (client.fenced, client.connection) = (true, client.connection + 1);
            }
            // A coordinator that has loaded a group knows only the protocol of its generation, until the members join
            // again. The process of a member without that protocol ends, and starts again later.
            GroupAction::Fatal(GroupError::InconsistentProtocol { .. }) if self.was_loaded => {
                self.restarts.push((self.now + 5 * SECOND, client));
                self.kill(client);
            }
            GroupAction::Fatal(error) => panic!("seed {}: {error}", self.seed),
            GroupAction::LearnNode { .. } | GroupAction::WatchTopics { .. } | GroupAction::LogEvent(_) => {}
        }
    }

    /// Cuts all connections of a client.
    pub fn disconnect(&mut self, client: usize) {
        self.clients[client].connection += 1;
        let lost = std::mem::take(&mut self.clients[client].in_flight);
        for (id, (_, outgoing)) in lost {
            self.reply(client, id, &outgoing, Err(RequestError::Disconnected));
        }
    }

    fn reply(&mut self, client: usize, id: u32, outgoing: &OutboundRequest, result: Result<Response, RequestError>) {
        let node = match outgoing.target {
            Target::Any | Target::Controller => 0,
            Target::Node(node) => node,
        };
        let token = Token { owner: RequestOwner::Group, id };
        self.step(client, GroupEvent::Reply(Reply { token, node, result }));
    }

    pub fn kill(&mut self, client: usize) {
        self.clients[client].alive = false;
        self.clients[client].connection += 1;
        self.clients[client].work.clear();
    }

    /// Kills the process and starts another one under the same instance id.
    pub fn restart(&mut self, client: usize, assignors: Vec<Assignor>) -> usize {
        let instance = self.clients[client].instance.clone();
        self.kill(client);
        self.add_as(assignors, instance.as_deref())
    }

    /// Returns the partitions of a client as text: "a 0, b 1".
    pub fn owned(&self, client: usize) -> String {
        let names: Vec<_> =
            self.clients[client].work.keys().map(|tp| format!("{} {}", tp.topic, tp.partition)).collect();
        names.join(", ")
    }

    pub fn sleep(&mut self, client: usize, time: Nanos) {
        self.clients[client].asleep_until = self.now + time;
    }

    /// Runs until `end`, event by event.
    pub fn run_until(&mut self, end: Nanos) {
        while self.now < end {
            let mut next = end.min(self.now + 100 * MILLI);
            if let Some(Reverse((at, _))) = self.queue.peek() {
                next = next.min(*at);
            }
            for &c in &self.alive() {
                if let Some(deadline) = self.clients[c].group.deadline() {
                    next = next.min(deadline.max(self.clients[c].asleep_until));
                }
            }
            if let Some(deadline) = self.broker.deadline() {
                next = next.min(deadline);
            }
            self.now = next.max(self.now);
            self.broker.tick(self.now);
            self.deliver_answers();
            while let Some(Reverse((at, sequence))) = self.queue.peek().copied()
                && at <= self.now
            {
                self.queue.pop();
                let event = self.events.remove(&sequence).unwrap();
                self.handle_event(event);
                self.deliver_answers();
                self.assert_exclusive();
            }
            let now = self.now;
            for (_, client) in self.restarts.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
                // The others keep their protocol until one of them joins again.
                if !self.alive().is_empty() {
                    continue;
                }
                let assignors = self.clients[client].group.config().assignors.clone();
                self.restart(client, assignors);
            }
            for c in self.alive() {
                self.run_client(c);
                self.assert_exclusive();
            }
        }
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::ToBroker { client, connection, node, outgoing } => {
                if self.clients[client].connection != connection {
                    return;
                }
                let api = outgoing.request.api();
                let versions = api.ours();
                let is_static = self.clients.iter().any(|client| client.instance.is_some());
                // The only version in use without support for static members.
                let without = is_static && api == ApiKey::OffsetCommit;
                let first = versions.start() + i16::from(without);
                let spread = u64::from((versions.end() - first).unsigned_abs()) + 1;
                // A broker's versions depend on its age; here each seed is an age.
                let version = versions.end() - (self.seed % spread) as i16;
                let version = version.min(outgoing.request.max_version());
                let to = ReplyTo { client, connection, token: outgoing.token.id, api, version };
                let node = if api == ApiKey::FindCoordinator { self.broker.node } else { node };
                self.broker.handle(self.now, node, to, &outgoing.request);
            }
            Event::ToClient { to, body } => {
                let asleep_until = self.clients[to.client].asleep_until;
                if asleep_until > self.now {
                    return self.post(asleep_until, Event::ToClient { to, body });
                }
                if self.clients[to.client].connection != to.connection || !self.clients[to.client].alive {
                    return;
                }
                let Some((_, outgoing)) = self.clients[to.client].in_flight.remove(&to.token) else { return };
                let result = if body.is_empty() {
                    Err(RequestError::Disconnected)
                } else {
                    Ok(Response { api: to.api, version: to.version, frame: Frame::from(body), body: 0 })
                };
                self.reply(to.client, to.token, &outgoing, result);
            }
        }
    }

    fn deliver_answers(&mut self) {
        for (to, body) in std::mem::take(&mut self.broker.out) {
            let at = self.now + self.delay();
            self.post(at, Event::ToClient { to, body });
        }
    }

    fn run_client(&mut self, c: usize) {
        if self.clients[c].asleep_until > self.now {
            return;
        }
        let late: Vec<u32> =
            self.clients[c].in_flight.iter().filter(|(_, (due, _))| *due <= self.now).map(|(id, _)| *id).collect();
        for id in late {
            if let Some((_, outgoing)) = self.clients[c].in_flight.remove(&id) {
                self.reply(c, id, &outgoing, Err(RequestError::TimedOut));
            }
        }
        if self.clients[c].group.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.step(c, GroupEvent::Tick);
        }
        self.process(c);
    }

    /// Simulates the application: processes one record per partition at random times, commits in the background and at
    /// revocation.
    fn process(&mut self, c: usize) {
        let session = self.clients[c].group.config().session_timeout;
        // As in the dispatcher: no work when the session may have expired.
        if self.clients[c].group.last_heartbeat_ack() + session < self.now {
            return;
        }
        if self.clients[c].commit_due <= self.now {
            self.clients[c].commit_due = self.now + 700 * MILLI;
            let mut offsets = Vec::new();
            for (tp, work) in &mut self.clients[c].work {
                if let (Some(at), None) = (work.at, work.revoking) {
                    self.processed.entry(tp.clone()).or_default().insert(at);
                    work.at = Some(at + 1);
                    offsets.push(commit(tp, at + 1, work.epoch));
                }
            }
            if !offsets.is_empty() {
                self.step(c, GroupEvent::Commit { offsets, id: 0 });
            }
        }
        let due: Vec<u32> = self.clients[c]
            .revocations
            .iter()
            .filter(|(epoch, (_, done_at))| {
                *done_at <= self.now && !self.clients[c].waiting.values().any(|waiting| waiting == *epoch)
            })
            .map(|(epoch, _)| *epoch)
            .collect();
        for epoch in due {
            let client = &mut self.clients[c];
            let (tps, _) = &client.revocations[&epoch];
            let offsets: Vec<_> = tps
                .iter()
                .filter_map(|tp| {
                    let work = client.work.get(tp)?;
                    work.at.map(|at| commit(tp, at, work.epoch))
                })
                .collect();
            client.commits += 1;
            let id = client.commits;
            client.waiting.insert(id, epoch);
            self.step(c, GroupEvent::Commit { offsets, id });
        }
    }

    /// Asserts that no partition has two owners among the members that the coordinator counts in. (A removed member may
    /// not know yet: its commits are refused.)
    fn assert_exclusive(&self) {
        let mut owners: BTreeMap<&TopicPartition, usize> = BTreeMap::new();
        for &c in &self.alive() {
            let client = &self.clients[c];
            let expired = client.group.last_heartbeat_ack() + client.group.config().session_timeout < self.now;
            if !self.broker.counts_in(client.group.member_id()) || expired {
                continue;
            }
            for tp in client.work.keys() {
                if let Some(other) = owners.insert(tp, c) {
                    let generations = [c, other].map(|c| self.clients[c].group.generation());
                    panic!("seed {}: {tp} is owned by {other} and {c}, generations {generations:?}", self.seed);
                }
            }
        }
    }

    /// Asserts that every record below a committed offset was processed.
    pub fn assert_nothing_skipped(&self) {
        for (tp, &offset) in self.broker.offsets() {
            let processed = &self.processed[tp];
            for at in 0..offset {
                assert!(processed.contains(&at), "seed {}: {tp} {at} was committed and never processed", self.seed);
            }
        }
    }

    /// Asserts that every partition has one owner, and all members are in the same generation.
    pub fn assert_settled(&self) {
        let mut owned = BTreeSet::new();
        for &c in &self.alive() {
            let machine = &self.clients[c].group;
            assert_eq!(machine.state_name(), "stable", "seed {}: client {c}", self.seed);
            assert_eq!(machine.generation(), self.broker.generation(), "seed {}: client {c}", self.seed);
            for (tp, work) in &self.clients[c].work {
                assert!(owned.insert(tp.clone()));
                assert!(work.at.is_some(), "seed {}: {tp} has no position", self.seed);
            }
            let expected: Vec<_> = machine.assignment().map(|(tp, epoch)| (tp.clone(), epoch)).collect();
            let known: Vec<_> = self.clients[c].work.iter().map(|(tp, work)| (tp.clone(), work.epoch)).collect();
            assert_eq!(expected, known, "seed {}", self.seed);
        }
        let all = self.topics.0.iter().flat_map(|(topic, &n)| (0..n).map(|p| TopicPartition::new(topic.as_str(), p)));
        assert_eq!(owned, all.collect(), "seed {}: not everything is owned", self.seed);
    }

    pub fn fail_over(&mut self, code: ErrorCode) {
        self.was_loaded = true;
        let node = 3 - self.broker.node;
        if self.trace {
            eprintln!("{:>9.3} coordinator moves to {node}", self.now as f64 / 1e9);
        }
        self.broker.fail_over(self.now, node, code);
        self.deliver_answers();
    }

    pub fn metadata_changed(&mut self) {
        for c in self.alive() {
            if self.clients[c].asleep_until <= self.now {
                self.step(c, GroupEvent::MetadataChanged);
            }
        }
    }
}

pub fn commit(tp: &TopicPartition, offset: i64, epoch: u32) -> CommitOffset {
    CommitOffset { tp: tp.clone(), offset, leader_epoch: -1, metadata: String::new(), epoch, topic_id: 0 }
}
