//! Random histories of events, compared with a simple fetcher that reads each log from each start position to its end.

use std::collections::{HashMap, HashSet};

use grete_wire::error_code::ErrorCode as E;
use grete_wire::records::iter_batches;
use proptest::prelude::*;

use super::simulator::{Simulator, tp};
use crate::fetch::{CompletedFetch, FetchAction, FetchConfig, FetchEvent};
use crate::ids::{PartitionHandle, TopicPartition};
use crate::partition::table::FetchState;
use crate::position::PositionEvent;
use crate::time::{MILLI, SECOND};

#[derive(Debug, Clone)]
enum Op {
    Append {
        part: usize,
        span: i32,
        bytes: usize,
    },
    Answer {
        node: i32,
    },
    Disconnect {
        node: i32,
    },
    ThrowSessionsOut {
        node: i32,
    },
    Sessionless {
        node: i32,
        on: bool,
    },
    /// The response is lost and the request times out; the broker has processed the request.
    LoseAnswer {
        node: i32,
    },
    Pause {
        part: usize,
    },
    Resume {
        part: usize,
    },
    Seek {
        part: usize,
        at: u8,
    },
    Remove {
        part: usize,
    },
    Add {
        part: usize,
        at: u8,
    },
    MoveLeader {
        part: usize,
        node: i32,
        hear_of_it: bool,
    },
    Retention {
        part: usize,
        at: u8,
    },
    LoseTopicId {
        topic: usize,
    },
    FindTopicId {
        topic: usize,
    },
    ReleaseSome {
        keep: usize,
    },
    Refetch,
    /// Fetches that are held grow, because they were decompressed.
    Charge {
        bytes: usize,
    },
    /// The leader answers with an error.
    Fail {
        part: usize,
        code: E,
    },
    Heal {
        part: usize,
    },
    /// Leaders name this follower.
    Near {
        node: Option<i32>,
    },
    /// Followers are behind by so many batches.
    Lag {
        part: usize,
        batches: usize,
    },
    /// Followers answer with an error.
    FailFollower {
        part: usize,
        code: E,
    },
    /// The metadata names no leader.
    LoseLeader {
        part: usize,
    },
    Mute {
        node: i32,
    },
    /// The connection is lost, and there is no other.
    LoseNode {
        node: i32,
    },
    /// The connection is back, to a broker of another version.
    FindNode {
        node: i32,
        version: i16,
    },
    Sleep,
}

const TOPICS: [(&str, i32); 2] = [("clicks", 2), ("orders", 3)];
const NODES: i32 = 2;
/// Errors that are retried, with a backoff, and one that moves the position.
const ERRORS: [E; 5] = [
    E::KAFKA_STORAGE_ERROR,
    E::OFFSET_NOT_AVAILABLE,
    E::NOT_LEADER_OR_FOLLOWER,
    E::TOPIC_AUTHORIZATION_FAILED,
    E::OFFSET_OUT_OF_RANGE,
];

fn op() -> impl Strategy<Value = Op> {
    let (part, node) = (0..5_usize, 1..=NODES);
    prop_oneof![
        6 => (part.clone(), 1..5, 0..400_usize).prop_map(|(part, span, bytes)| Op::Append { part, span, bytes }),
        12 => node.clone().prop_map(|node| Op::Answer { node }),
        1 => node.clone().prop_map(|node| Op::Disconnect { node }),
        1 => node.clone().prop_map(|node| Op::ThrowSessionsOut { node }),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, on)| Op::Sessionless { node, on }),
        1 => node.clone().prop_map(|node| Op::LoseAnswer { node }),
        1 => part.clone().prop_map(|part| Op::Pause { part }),
        2 => part.clone().prop_map(|part| Op::Resume { part }),
        1 => (part.clone(), any::<u8>()).prop_map(|(part, at)| Op::Seek { part, at }),
        1 => part.clone().prop_map(|part| Op::Remove { part }),
        2 => (part.clone(), any::<u8>()).prop_map(|(part, at)| Op::Add { part, at }),
        1 => (part.clone(), node.clone(), any::<bool>())
            .prop_map(|(part, node, hear_of_it)| Op::MoveLeader { part, node, hear_of_it }),
        1 => (part.clone(), any::<u8>()).prop_map(|(part, at)| Op::Retention { part, at }),
        1 => (0..2_usize).prop_map(|topic| Op::LoseTopicId { topic }),
        1 => (0..2_usize).prop_map(|topic| Op::FindTopicId { topic }),
        3 => (0..4_usize).prop_map(|keep| Op::ReleaseSome { keep }),
        1 => Just(Op::Refetch),
        2 => (0..900_usize).prop_map(|bytes| Op::Charge { bytes }),
        1 => (part.clone(), prop::sample::select(&ERRORS[..])).prop_map(|(part, code)| Op::Fail { part, code }),
        2 => part.clone().prop_map(|part| Op::Heal { part }),
        2 => prop::option::weighted(0.8, node.clone()).prop_map(|node| Op::Near { node }),
        1 => (part.clone(), 0..3_usize).prop_map(|(part, batches)| Op::Lag { part, batches }),
        1 => (part.clone(), prop::sample::select(&ERRORS[..])).prop_map(|(part, code)| Op::FailFollower { part, code }),
        1 => part.clone().prop_map(|part| Op::LoseLeader { part }),
        1 => node.clone().prop_map(|node| Op::Mute { node }),
        1 => node.clone().prop_map(|node| Op::LoseNode { node }),
        2 => (node.clone(), 11_i16..=17).prop_map(|(node, version)| Op::FindNode { node, version }),
        2 => Just(Op::Sleep),
    ]
}

/// Batches delivered from one start position.
#[derive(Debug, Default)]
struct History {
    start: i64,
    next: i64,
    bases: Vec<i64>,
}

struct Model {
    version: i16,
    world: Simulator,
    parts: Vec<TopicPartition>,
    histories: HashMap<(PartitionHandle, u32), History>,
    /// All batches ever written, including those that retention deleted: they may have been delivered before.
    written: HashMap<TopicPartition, Vec<(i64, i64)>>,
    held: Vec<CompletedFetch>,
    assignment: u32,
    refetched: HashSet<(PartitionHandle, i64)>,
}

impl Model {
    fn new(version: i16) -> Self {
        let config = FetchConfig {
            max_bytes: 2000,
            partition_bytes: 600,
            queued_bytes: 6000,
            fatal_retry_backoff_max: Some(SECOND),
            rack: "near".into(),
            ..FetchConfig::default()
        };
        let world = Simulator::new(&TOPICS, NODES, version, config);
        let parts = world.logs.keys().cloned().collect();
        let (histories, written) = (HashMap::new(), HashMap::new());
        Self { version, world, parts, histories, written, held: Vec::new(), assignment: 0, refetched: HashSet::new() }
    }

    /// Returns an offset within the log.
    fn offset(&mut self, part: usize, at: u8) -> i64 {
        let log = &self.world.logs[&self.parts[part]];
        log.start + (log.end() - log.start) * i64::from(at) / 255
    }

    fn begin(&mut self, slot: PartitionHandle) {
        let offset = self.world.partitions.fetch_offset(slot);
        let generation = self.world.partitions.fetch_generation(slot);
        self.histories.insert((slot, generation), History { start: offset, next: offset, bases: Vec::new() });
    }

    fn slot(&self, part: usize) -> Option<PartitionHandle> {
        self.world.partitions.handle(&self.parts[part])
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Append { part, span, bytes } => {
                let tp = self.parts[part].clone();
                let log = self.world.log(&tp);
                let base = log.end();
                log.append(span, bytes);
                self.written.entry(tp).or_default().push((base, base + i64::from(span)));
            }
            Op::Answer { node } => {
                self.world.answer(node);
            }
            Op::Disconnect { node } => self.world.disconnect(node),
            Op::ThrowSessionsOut { node } => self.world.brokers.get_mut(&node).unwrap().sessions.clear(),
            Op::Sessionless { node, on } => self.world.brokers.get_mut(&node).unwrap().sessionless = on,
            Op::LoseAnswer { node } => self.world.lose_answer(node),
            Op::Pause { part } => {
                if let Some(slot) = self.slot(part) {
                    self.world.step(FetchEvent::Pause(slot));
                }
            }
            Op::Resume { part } => {
                if let Some(slot) = self.slot(part) {
                    self.world.step(FetchEvent::Resume(slot));
                }
            }
            Op::Seek { part, at } => {
                if let Some(slot) = self.slot(part) {
                    let offset = self.offset(part, at);
                    self.world.seek(slot, offset);
                    self.begin(slot);
                    self.world.plan();
                }
            }
            Op::Remove { part } => {
                if let Some(slot) = self.slot(part) {
                    self.world.step(FetchEvent::PartitionsRemoved(vec![slot]));
                }
            }
            Op::Add { part, at } => {
                self.assignment += 1;
                let offset = self.offset(part, at);
                let slot = self.world.partitions.add(self.parts[part].clone(), self.assignment);
                self.world.seek(slot, offset);
                self.begin(slot);
                self.world.plan();
            }
            Op::MoveLeader { part, node, hear_of_it } => {
                let log = self.world.logs.get_mut(&self.parts[part]).unwrap();
                log.leader = node;
                log.epoch += 1;
                if hear_of_it {
                    self.world.sync_view();
                    self.world.plan();
                }
            }
            Op::Retention { part, at } => {
                let offset = self.offset(part, at);
                let log = self.world.logs.get_mut(&self.parts[part]).unwrap();
                if let Some(whole) = log.batches.iter().map(|batch| batch.0).filter(|base| *base <= offset).max() {
                    log.batches.retain(|batch| batch.0 >= whole);
                    log.start = whole;
                }
            }
            Op::LoseTopicId { topic } => {
                // Only a partition whose id was never known is fetched by name: later metadata removes no id.
                self.world.view.set_topic_id(TOPICS[topic].0, 0);
                self.world.plan();
            }
            Op::FindTopicId { topic } => {
                let id = self.world.ids[TOPICS[topic].0];
                self.world.view.set_topic_id(TOPICS[topic].0, id);
                self.world.plan();
            }
            Op::ReleaseSome { keep } => {
                while self.held.len() > keep {
                    let chunk = self.held.remove(0);
                    self.world.release(&chunk);
                }
            }
            Op::Refetch => self.refetch(),
            Op::Charge { bytes } => {
                if let Some(chunk) = self.held.first_mut() {
                    chunk.bytes += bytes;
                    let slot = chunk.slot;
                    self.world.step(FetchEvent::Charged { slot, bytes });
                }
            }
            Op::Fail { part, code } => self.world.log(&self.parts[part].clone()).error = Some(code),
            Op::Heal { part } => {
                let log = self.world.log(&self.parts[part].clone());
                (log.error, log.follower_error, log.lag) = (None, None, 0);
            }
            Op::Near { node } => self.world.near = node,
            Op::Lag { part, batches } => self.world.log(&self.parts[part].clone()).lag = batches,
            Op::FailFollower { part, code } => self.world.log(&self.parts[part].clone()).follower_error = Some(code),
            Op::LoseLeader { part } => {
                self.world.view.set_leader(&self.parts[part], None);
                self.world.plan();
            }
            Op::Mute { node } => self.world.view.mute_until(node, self.world.now + 5 * MILLI),
            Op::LoseNode { node } => {
                self.world.view.set_fetch_version(node, None);
                self.world.disconnect(node);
            }
            Op::FindNode { node, version } => {
                self.world.view.set_fetch_version(node, Some(version));
                self.world.disconnect(node);
            }
            Op::Sleep => self.world.sleep(),
        }
        self.check();
    }

    /// Reports the oldest held fetch as corrupt.
    fn refetch(&mut self) {
        let Some(at) = self.held.iter().position(|chunk| {
            self.world.partitions.is_current(chunk.slot, chunk.assignment_epoch, chunk.fetch_generation)
                && self.world.partitions.state(chunk.slot) == FetchState::Fetching
                && !self.refetched.contains(&(chunk.slot, chunk.fetch_offset))
        }) else {
            return;
        };
        let chunk = self.held.remove(at);
        let (slot, offset) = (chunk.slot, chunk.fetch_offset);
        self.refetched.insert((slot, offset));
        self.world.step(FetchEvent::Refetch { slot, fetch_generation: chunk.fetch_generation, offset });
        self.histories.insert(
            (slot, self.world.partitions.fetch_generation(slot)),
            History { start: offset, next: offset, bases: Vec::new() },
        );
        self.world.release(&chunk);
    }

    /// Checks the fetcher's actions against the model.
    fn check(&mut self) {
        for chunk in std::mem::take(&mut self.world.chunks) {
            let history = self.histories.get_mut(&(chunk.slot, chunk.fetch_generation)).expect("a known history");
            assert_eq!(chunk.fetch_offset, history.next, "a gap or a repeat");
            for item in iter_batches(chunk.frame.get(chunk.range.clone()).unwrap()) {
                let (header, _) = item.unwrap();
                history.bases.push(header.base_offset);
                history.next = header.next_offset();
            }
            assert_eq!(chunk.next_offset, history.next);
            self.held.push(chunk);
        }
        for action in std::mem::take(&mut self.world.actions) {
            match action {
                FetchAction::Position(PositionEvent::OutOfRange { slot }) => {
                    assert_eq!(self.world.partitions.queued_bytes(slot), 0);
                    let tp = self.world.partitions.topic_partition(slot).unwrap().clone();
                    let start = self.world.logs[&tp].start;
                    self.world.seek(slot, start);
                    self.begin(slot);
                    self.world.plan();
                }
                FetchAction::RefreshMetadata => {
                    self.world.sync_view();
                    self.world.plan();
                }
                FetchAction::Position(PositionEvent::Validate { slot }) => {
                    assert_eq!(self.world.partitions.queued_bytes(slot), 0);
                    self.world.partitions.set_state(slot, FetchState::Fetching);
                    self.world.plan();
                }
                FetchAction::LeaderHint { .. }
                | FetchAction::LogEvent(_)
                | FetchAction::NeedNode(_)
                | FetchAction::Failed { .. }
                | FetchAction::Recovered { .. } => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
        self.world.check_sessions();
        let held: usize = self.held.iter().map(|chunk| chunk.bytes).sum();
        assert_eq!(self.world.partitions.queued_total(), held);
        for (key, history) in &self.histories {
            let tp = self.world.partitions.topic_partition(key.0).unwrap();
            let written = self.written.get(tp).map(Vec::as_slice).unwrap_or_default();
            let naive: Vec<i64> = written
                .iter()
                .filter(|batch| batch.1 > history.start && batch.0 < history.next && history.start < history.next)
                .map(|batch| batch.0)
                .collect();
            assert_eq!(history.bases, naive, "{tp} from {}", history.start);
        }
    }

    /// Removes all obstacles: every partition must reach the end of its log.
    fn finish(&mut self) {
        for part in 0..self.parts.len() {
            self.run(&Op::Resume { part });
            self.run(&Op::Heal { part });
        }
        for node in 1..=NODES {
            self.run(&Op::FindNode { node, version: self.version });
        }
        self.world.sync_view();
        self.world.plan();
        for topic in 0..TOPICS.len() {
            self.run(&Op::FindTopicId { topic });
        }
        // After answers that were lost for 30 s each, four hundred rounds were too few.
        for round in 0..4000 {
            let ends = self.world.partitions.live().iter().all(|slot| {
                let tp = self.world.partitions.topic_partition(*slot).unwrap();
                self.world.partitions.fetch_offset(*slot) == self.world.logs[tp].end()
            });
            if ends && round > 10 && self.held.is_empty() {
                break;
            }
            self.run(&Op::ReleaseSome { keep: 0 });
            for node in 1..=NODES {
                self.run(&Op::Answer { node });
            }
            self.run(&Op::Sleep);
        }
        for &slot in self.world.partitions.live() {
            let tp = self.world.partitions.topic_partition(slot).unwrap();
            let end = self.world.logs[tp].end();
            assert_eq!(self.world.partitions.fetch_offset(slot), end, "{tp} is stuck");
        }
        let live = !self.world.partitions.live().is_empty();
        assert_eq!(live, !self.world.pending.is_empty(), "one poll waits");
    }
}

impl Simulator {
    /// Lets the broker process the request, and loses the response.
    fn lose_answer(&mut self, node: i32) {
        let Some(outgoing) = self.take_pending(node) else { return };
        self.serve_in_vain(node, &outgoing);
        self.now += 30_000 * MILLI;
        let result = Err(crate::request::RequestError::TimedOut);
        self.step(FetchEvent::Reply(crate::request::Reply { token: outgoing.token, node, result }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 3000, ..ProptestConfig::default() })]

    #[test]
    fn every_history_is_read_in_order_once_and_both_sides_agree(
        version in 11_i16..=17,
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let mut model = Model::new(version);
        for part in 0..model.parts.len() {
            model.run(&Op::Append { part, span: 3, bytes: 100 });
            model.run(&Op::Add { part, at: 0 });
        }
        for op in &ops {
            model.run(op);
        }
        model.finish();
    }
}

#[test]
fn a_quiet_life_reads_everything() {
    let mut model = Model::new(17);
    assert_eq!(model.parts[0], tp("clicks", 0));
    for round in 0..50 {
        model.run(&Op::Append { part: round % 5, span: 4, bytes: 200 });
        if round % 10 == 0 {
            model.run(&Op::Add { part: round / 10, at: 0 });
        }
    }
    model.finish();
    assert_eq!(model.histories.values().map(|history| history.bases.len()).sum::<usize>(), 50);
}
