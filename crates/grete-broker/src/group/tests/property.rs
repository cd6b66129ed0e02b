//! Random members, from seeds: they join, sync, send heartbeats, leave, die and commit, and the coordinator restarts.
//!
//! `GRETE_SEEDS=n` runs `n` seeds.

use std::collections::{BTreeMap, BTreeSet};

use grete_wire::ErrorCode;

use super::{GroupConfig, GroupCoordinator, Harness, Join, REBALANCE_MS, subscription};
use crate::ids::{Millis, RequestId};

const SEEDS: u64 = 200;
const STEPS: usize = 300;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// Client as it sees itself.
#[derive(Default)]
struct Client {
    instance: Option<String>,
    version: i16,
    id: String,
    generation: i32,
    /// Members to assign. `Some`: the client leads.
    members: Option<Vec<String>>,
}

/// Request that is not answered yet.
struct Open {
    client: usize,
    since: Millis,
    /// Generation of SyncGroup. `None`: JoinGroup.
    sync: Option<i32>,
}

/// Offset as it must be.
#[derive(Default)]
struct Offsets {
    committed: Option<(u64, i64)>,
    pending: BTreeMap<i64, (u64, i64)>,
    position: u64,
}

struct Simulation {
    h: Harness,
    random: Random,
    config: GroupConfig,
    clients: Vec<Client>,
    open: BTreeMap<RequestId, Open>,
    /// Client of each member id.
    owners: BTreeMap<String, usize>,
    /// Number of restarts, after each of which generations may repeat.
    epoch: usize,
    generation: i32,
    /// Clients that lead each generation.
    leaders: BTreeMap<(usize, i32), BTreeSet<usize>>,
    offsets: Offsets,
    /// Successful SyncGroup requests.
    assigned: usize,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let delay = random.pick(&[0, 0, 3_000]);
        let max_size = random.pick(&[100, 100, 4]);
        let config = GroupConfig { initial_rebalance_delay_ms: delay, max_size, ..GroupConfig::default() };
        let clients = (0..2 + random.below(5)).map(|index| Client {
            instance: (random.below(2) == 0).then(|| format!("instance{index}")),
            version: random.pick(&[9, 9, 8, 5]),
            ..Client::default()
        });
        let clients = clients.collect();
        Self {
            h: Harness::with(config.clone()),
            random,
            config,
            clients,
            open: BTreeMap::new(),
            owners: BTreeMap::new(),
            epoch: 0,
            generation: 0,
            leaders: BTreeMap::new(),
            offsets: Offsets::default(),
            assigned: 0,
        }
    }

    fn step(&mut self) {
        let client = self.random.below(self.clients.len());
        match self.random.below(100) {
            0..30 => self.join(client),
            30..50 => self.sync(client),
            50..62 => self.heartbeat(client),
            62..65 => self.leave(client),
            65..72 => self.commit(client),
            72..78 => self.transaction(),
            78..80 => self.forget(client),
            80 => {
                self.h.coordinator.force_rebalance(self.h.now, super::GROUP, &mut self.h.effects);
            }
            81 => {
                let id = self.clients[client].id.clone();
                self.h.coordinator.expire_member(self.h.now, super::GROUP, &id, &mut self.h.effects);
            }
            82 => {
                self.epoch += 1;
                self.generation = 0;
                self.h.coordinator.fail_over(self.h.now, |_| true, &mut self.h.effects);
            }
            83 => self.restart(),
            _ => {
                let ms = self.random.pick(&[0, 1, 500, 500, 2_000, 9_000, 25_000]);
                self.pass(ms);
            }
        }
        self.h.tick();
        self.check();
    }

    /// Lets time pass in small steps, such that responses are checked soon after they came.
    fn pass(&mut self, ms: Millis) {
        let end = self.h.now + ms;
        while self.h.now < end {
            self.h.pass((end - self.h.now).min(500));
            self.check();
        }
    }

    fn is_busy(&self, client: usize) -> bool {
        self.open.values().any(|open| open.client == client)
    }

    fn join(&mut self, client: usize) {
        // A client that lost its connection asks again, but rarely.
        if self.is_busy(client) && self.random.below(8) > 0 {
            return;
        }
        let topic = self.random.pick(&["orders", "orders", "orders", "payments"]);
        let (range, sticky) = (("range", subscription(topic)), ("sticky", subscription(topic)));
        let protocols = match self.random.below(8) {
            0 => vec![sticky, range],
            1 => vec![range, sticky],
            _ => vec![range],
        };
        let Client { instance, version, id, .. } = &self.clients[client];
        let (instance, version, id) = (instance.clone(), *version, id.clone());
        let instance_id = instance.as_deref();
        let join = Join { version, member_id: &id, instance_id, protocols, ..Join::default() };
        let request = self.h.send_join(&join);
        self.open.insert(request, Open { client, since: self.h.now, sync: None });
        self.clients[client].members = None;
    }

    fn sync(&mut self, client: usize) {
        let Client { id, generation, members, .. } = &self.clients[client];
        let (id, generation) = (id.clone(), *generation);
        if id.is_empty() || (self.is_busy(client) && self.random.below(8) > 0) {
            return;
        }
        let assignments: Vec<(String, Vec<u8>)> = members
            .iter()
            .flatten()
            .map(|member| (member.clone(), assignment(generation, self.owners[member])))
            .collect();
        let assignments: Vec<_> = assignments.iter().map(|(id, bytes)| (id.as_str(), bytes.as_slice())).collect();
        let request = self.h.send_sync(&id, generation, &assignments);
        self.open.insert(request, Open { client, since: self.h.now, sync: Some(generation) });
    }

    fn heartbeat(&mut self, client: usize) {
        let Client { instance, id, generation, .. } = &self.clients[client];
        let (instance, id, generation) = (instance.clone(), id.clone(), *generation);
        let code = self.h.heartbeat_as(&id, instance.as_deref(), generation);
        self.on_error(client, code);
    }

    fn leave(&mut self, client: usize) {
        let id = std::mem::take(&mut self.clients[client].id);
        if !id.is_empty() {
            self.h.leave(&id);
        }
    }

    /// Restarts a client: it forgets its member id. Dynamic members stay behind as ghosts.
    fn forget(&mut self, client: usize) {
        let Client { id, members, .. } = &mut self.clients[client];
        id.clear();
        *members = None;
    }

    fn commit(&mut self, client: usize) {
        let Client { id, generation, .. } = &self.clients[client];
        let (id, generation) = if self.random.below(5) == 0 { (String::new(), -1) } else { (id.clone(), *generation) };
        let value = (self.random.next() % 1_000) as i64;
        if let Ok(codes) = self.h.commit(&id, generation, value) {
            assert_eq!(codes, [ErrorCode::NONE]);
            self.offsets.position += 1;
            self.offsets.committed = Some((self.offsets.position, value));
        }
    }

    fn transaction(&mut self) {
        let producer_id = self.random.pick(&[1, 2]);
        if self.random.below(2) == 0 {
            let value = (self.random.next() % 1_000) as i64;
            self.h.txn_commit(producer_id, value).expect("a producer claims no membership");
            self.offsets.position += 1;
            self.offsets.pending.insert(producer_id, (self.offsets.position, value));
            return;
        }
        let commit = self.random.below(2) == 0;
        self.h.coordinator.complete_transaction(producer_id, commit, &[], &mut self.h.effects);
        let ended = self.offsets.pending.remove(&producer_id).filter(|_| commit);
        self.offsets.committed = self.offsets.committed.max(ended);
    }

    /// Replaces the coordinator by one that has loaded the changes. Connections are lost.
    fn restart(&mut self) {
        self.h.collect();
        self.h.coordinator = self.restored();
        self.open.clear();
        self.epoch += 1;
        self.generation = 0;
    }

    fn restored(&mut self) -> GroupCoordinator {
        let mut coordinator = GroupCoordinator::new(self.config.clone(), self.random.next());
        for change in self.h.changes.clone() {
            coordinator.restore(change);
        }
        coordinator
    }

    fn on_error(&mut self, client: usize, code: ErrorCode) {
        if [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::FENCED_INSTANCE_ID].contains(&code) {
            self.clients[client].id.clear();
        }
    }

    /// Reads the responses that have come, and checks the invariants.
    fn check(&mut self) {
        self.h.collect();
        let answered: Vec<_> = self.open.keys().copied().filter(|request| self.h.is_answered(*request)).collect();
        // The ids first: the leader's response may name members whose responses come with it.
        for request in &answered {
            let Open { client, sync, .. } = self.open[request];
            if sync.is_none() {
                let id = self.h.joined(*request).unwrap().member_id.to_string();
                self.owners.insert(id, client);
            }
        }
        for request in answered {
            let open = self.open.remove(&request).unwrap();
            match open.sync {
                None => self.on_joined(request, open.client),
                Some(generation) => self.on_synced(request, open.client, generation),
            }
        }
        for (request, open) in &self.open {
            let waited = self.h.now - open.since;
            assert!(waited <= Millis::from(REBALANCE_MS), "{request:?} of {} waits for {waited} ms", open.client);
        }
        let expected = self.offsets.committed.map(|(_, value)| value);
        assert_eq!(self.h.committed(), expected);
    }

    fn on_joined(&mut self, request: RequestId, client: usize) {
        let response = self.h.joined(request).unwrap().clone();
        let code = ErrorCode(response.error_code);
        if code == ErrorCode::MEMBER_ID_REQUIRED {
            self.clients[client].id = response.member_id.to_string();
        }
        self.on_error(client, code);
        if code != ErrorCode::NONE {
            return;
        }
        assert!(response.generation_id >= self.generation, "the generation grows");
        self.generation = response.generation_id;
        let leads = response.leader == response.member_id;
        assert!(leads || response.members.is_empty(), "only the leader gets the members");
        if leads && !response.skip_assignment {
            let leaders = self.leaders.entry((self.epoch, response.generation_id)).or_default();
            leaders.insert(client);
            assert_eq!(leaders.len(), 1, "generation {} has one leader", response.generation_id);
            let names = response.members.iter().filter(|member| member.member_id == response.member_id);
            assert_eq!(names.count(), 1, "the leader is a member");
        }
        let members = response.members.iter().map(|member| member.member_id.to_string());
        let state = &mut self.clients[client];
        state.members = (leads && !response.skip_assignment).then(|| members.collect());
        state.id = response.member_id.to_string();
        state.generation = response.generation_id;
    }

    fn on_synced(&mut self, request: RequestId, client: usize, generation: i32) {
        let (code, bytes) = self.h.synced(request).unwrap();
        self.on_error(client, code);
        if code == ErrorCode::NONE {
            assert_eq!(bytes, assignment(generation, client), "each member gets its own assignment");
            self.assigned += 1;
        }
    }

    /// Lets all clients rest. Then each request is answered, each timer runs down, and the group is empty.
    fn finish(&mut self) {
        self.pass(400_000);
        assert!(self.open.is_empty());
        assert!(["Empty", "Dead"].contains(&self.h.state().as_str()), "{}", self.h.state());
        let snapshot = self.h.coordinator.snapshot();
        let restored = self.restored();
        assert_eq!(restored.snapshot(), snapshot);
        let mut again = GroupCoordinator::new(GroupConfig::default(), 0);
        for change in snapshot.clone() {
            again.restore(change);
        }
        assert_eq!(again.snapshot(), snapshot);
    }
}

fn assignment(generation: i32, client: usize) -> Vec<u8> {
    format!("client {client} in generation {generation}").into_bytes()
}

#[test]
fn random_members_keep_the_invariants() {
    let seeds = std::env::var("GRETE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let mut assigned = 0;
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed);
            for _ in 0..STEPS {
                simulation.step();
            }
            simulation.finish();
            simulation.assigned
        });
        match run {
            Ok(count) => assigned += count,
            Err(cause) => {
                eprintln!("seed {seed} failed");
                std::panic::resume_unwind(cause);
            }
        }
    }
    assert!(assigned as u64 > seeds, "the members got assignments: {assigned}");
}
