//! Several members, one coordinator, a network that delays and loses, a clock that jumps from event to event.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use grete_wire::frame::Frame;
use grete_wire::{ApiKey, ErrorCode};

use super::broker::{Broker, ReplyTo};
use crate::group::{
    Assignor, ClusterView, CommitOffset, GroupAction, GroupConfig, GroupError, GroupEvent, GroupMachine,
};
use crate::ids::TopicPartition;
use crate::request::{Outgoing, Owner, Reply, RequestError, Response, Target, Token};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};

pub struct Topics(pub BTreeMap<String, i32>);

impl ClusterView for Topics {
    fn partition_count(&self, topic: &str) -> Option<i32> {
        Some(self.0.get(topic).copied().unwrap_or(0))
    }
}

/// One partition in an application.
#[derive(Debug, Clone)]
struct Work {
    epoch: u32,
    /// Processed up to here; `None` until the start is known.
    at: Option<i64>,
    committed: i64,
    revoking: Option<u32>,
}

pub struct Client {
    pub machine: GroupMachine,
    work: BTreeMap<TopicPartition, Work>,
    alive: bool,
    pub left: bool,
    asleep_until: Nanos,
    connection: u64,
    in_flight: BTreeMap<u32, (Nanos, Outgoing)>,
    /// Revocations that are acknowledged when their commit is answered, and when the handler lets them.
    revocations: BTreeMap<u32, (Vec<TopicPartition>, Nanos)>,
    commits: u32,
    commit_due: Nanos,
    waiting: BTreeMap<u32, u32>,
    /// `group.instance.id`.
    pub instance: Option<String>,
    /// Another client that runs has, or had, the same one.
    shared: bool,
    /// Out for good: somebody else has the instance id.
    pub fenced: bool,
}

#[derive(Debug)]
enum Event {
    ToBroker { client: usize, connection: u64, node: i32, outgoing: Box<Outgoing> },
    ToClient { to: ReplyTo, body: Vec<u8> },
}

pub struct World {
    pub seed: u64,
    pub now: Nanos,
    pub rng: Rng,
    pub broker: Broker,
    pub clients: Vec<Client>,
    pub topics: Topics,
    queue: BinaryHeap<Reverse<(Nanos, u64)>>,
    events: BTreeMap<u64, Event>,
    sequence: u64,
    pub faults: bool,
    /// Every offset below is processed, by whomever.
    processed: BTreeMap<TopicPartition, BTreeSet<i64>>,
    pub commits_seen: u64,
    acks: Vec<(usize, u32)>,
    /// GRETE_SEED given: tell what happens.
    pub trace: bool,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let topics = ["a", "b"].map(|topic| (topic.to_owned(), 1 + rng.below(6) as i32));
        Self {
            seed,
            now: SECOND,
            rng,
            broker: Broker::new(1),
            clients: Vec::new(),
            topics: Topics(topics.into()),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            faults: true,
            processed: BTreeMap::new(),
            commits_seen: 0,
            acks: Vec::new(),
            trace: false,
        }
    }

    pub fn add(&mut self, assignors: Vec<Assignor>) -> usize {
        self.add_as(assignors, None)
    }

    /// A static member; those that run under the same id are in each other's way.
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
            machine: GroupMachine::new(config, rng),
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
        self.step(client, GroupEvent::Start { topics });
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
        self.clients[client].machine.step(self.now, event, &self.topics, &mut actions);
        if was_tick {
            let deadline = self.clients[client].machine.deadline();
            assert!(
                deadline.is_none_or(|d| d > self.now),
                "seed {}: a tick at {} did nothing: {:?}",
                self.seed,
                self.now,
                self.clients[client].machine
            );
        }
        for action in actions {
            self.act(client, action);
        }
        // As in the driver: what the application answers comes after all actions of a step.
        for (client, epoch) in std::mem::take(&mut self.acks) {
            if let Some((tps, _)) = self.clients[client].revocations.remove(&epoch) {
                for tp in tps {
                    self.clients[client].work.remove(&tp).expect("revoked, and not lost since");
                }
            }
            self.step(client, GroupEvent::RevokeAcked { epoch });
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
                // What has not been committed starts at 0 here; so that a lost commit would show as a step back.
                work.at = Some(start.unwrap_or(0));
                work.committed = start.unwrap_or(0);
            }
            GroupAction::Revoke { tps, epoch, .. } => {
                for tp in &tps {
                    let work = self.clients[client].work.get_mut(tp).expect("only what is owned is revoked");
                    assert_eq!(work.revoking, None, "seed {}: {tp} is revoked twice", self.seed);
                    work.revoking = Some(epoch);
                }
                // Some handlers take long, some longer than they may.
                let longest = if self.faults && self.rng.below(10) == 0 { 40_000 } else { 200 };
                let done_at = now + self.rng.below(longest) * MILLI;
                self.clients[client].revocations.insert(epoch, (tps, done_at));
            }
            GroupAction::RevokeExpired { tps, epoch } => {
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
            GroupAction::Fatal(error) => panic!("seed {}: {error}", self.seed),
            GroupAction::LearnNode { .. } | GroupAction::WatchTopics { .. } | GroupAction::Notice(_) => {}
        }
    }

    /// All connections of a client are cut.
    pub fn cut(&mut self, client: usize) {
        self.clients[client].connection += 1;
        let lost = std::mem::take(&mut self.clients[client].in_flight);
        for (id, (_, outgoing)) in lost {
            self.reply(client, id, &outgoing, Err(RequestError::Disconnected));
        }
    }

    fn reply(&mut self, client: usize, id: u32, outgoing: &Outgoing, result: Result<Response, RequestError>) {
        let node = match outgoing.target {
            Target::Any | Target::Controller => 0,
            Target::Node(node) => node,
        };
        let token = Token { owner: Owner::Group, id };
        self.step(client, GroupEvent::Reply(Reply { token, node, result }));
    }

    pub fn kill(&mut self, client: usize) {
        self.clients[client].alive = false;
        self.clients[client].connection += 1;
        self.clients[client].work.clear();
    }

    /// The process dies and another one starts under the same instance id.
    pub fn restart(&mut self, client: usize, assignors: Vec<Assignor>) -> usize {
        let instance = self.clients[client].instance.clone();
        self.kill(client);
        self.add_as(assignors, instance.as_deref())
    }

    /// What a client owns, for people: "a 0, b 1".
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
                if let Some(deadline) = self.clients[c].machine.deadline() {
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
                self.happen(event);
                self.deliver_answers();
                self.assert_exclusive();
            }
            for c in self.alive() {
                self.run_client(c);
                self.assert_exclusive();
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ToBroker { client, connection, node, outgoing } => {
                if self.clients[client].connection != connection {
                    return;
                }
                let api = outgoing.request.api();
                let versions = api.ours();
                let is_static = self.clients.iter().any(|client| client.instance.is_some());
                // The one that we speak and that does not know static members.
                let without = is_static && api == ApiKey::OffsetCommit;
                let first = versions.start() + i16::from(without);
                let spread = u64::from((versions.end() - first).unsigned_abs()) + 1;
                // Which versions a broker has depends on its age; here each seed is an age.
                let version = versions.end() - (self.seed % spread) as i16;
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
        if self.clients[c].machine.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.step(c, GroupEvent::Tick);
        }
        self.process(c);
    }

    /// The application: one record of each partition now and then, commits in the background and at revocation.
    fn process(&mut self, c: usize) {
        let session = self.clients[c].machine.config().session_timeout;
        // As the dispatcher does: no work when the session may be over.
        if self.clients[c].machine.last_heartbeat_ack() + session < self.now {
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

    /// No partition has two owners among those whom the coordinator counts in. (One that it has put out may not know yet:
    /// its commits are refused.)
    fn assert_exclusive(&self) {
        let mut owners: BTreeMap<&TopicPartition, usize> = BTreeMap::new();
        for &c in &self.alive() {
            let client = &self.clients[c];
            let expired = client.machine.last_heartbeat_ack() + client.machine.config().session_timeout < self.now;
            if !self.broker.counts_in(client.machine.member_id()) || expired {
                continue;
            }
            for tp in client.work.keys() {
                if let Some(other) = owners.insert(tp, c) {
                    let generations = [c, other].map(|c| self.clients[c].machine.generation());
                    panic!("seed {}: {tp} is owned by {other} and {c}, generations {generations:?}", self.seed);
                }
            }
        }
    }

    /// What was committed was processed; every record below it, by somebody.
    pub fn assert_nothing_skipped(&self) {
        for (tp, &offset) in &self.broker.offsets {
            let processed = &self.processed[tp];
            for at in 0..offset {
                assert!(processed.contains(&at), "seed {}: {tp} {at} was committed and never processed", self.seed);
            }
        }
    }

    /// Every partition is owned once, and everybody agrees on the generation.
    pub fn assert_settled(&self) {
        let mut owned = BTreeSet::new();
        for &c in &self.alive() {
            let machine = &self.clients[c].machine;
            assert_eq!(machine.state_name(), "stable", "seed {}: client {c}", self.seed);
            assert_eq!(machine.generation(), self.broker.generation, "seed {}: client {c}", self.seed);
            for (tp, work) in &self.clients[c].work {
                assert!(owned.insert(tp.clone()));
                assert!(work.at.is_some(), "seed {}: {tp} has no position", self.seed);
            }
            let told: Vec<_> = machine.assignment().map(|(tp, epoch)| (tp.clone(), epoch)).collect();
            let known: Vec<_> = self.clients[c].work.iter().map(|(tp, work)| (tp.clone(), work.epoch)).collect();
            assert_eq!(told, known, "seed {}", self.seed);
        }
        let all = self.topics.0.iter().flat_map(|(topic, &n)| (0..n).map(|p| TopicPartition::new(topic.as_str(), p)));
        assert_eq!(owned, all.collect(), "seed {}: not everything is owned", self.seed);
    }

    pub fn fail_over(&mut self, code: ErrorCode) {
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
    CommitOffset { tp: tp.clone(), offset, leader_epoch: -1, metadata: String::new(), epoch }
}
