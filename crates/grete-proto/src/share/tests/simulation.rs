//! The acquirer against leaders that keep locks and sessions, lose requests and connections, and move partitions.
//!
//! What must hold: no record is handed out while this process still has it; whatever a leader has accepted was accepted
//! by a handler; after the close every record is either accepted or free for other members.

use std::collections::{BTreeMap, BTreeSet};

use grete_wire::ErrorCode;

use super::leader::{Answer, Harness, LOCK_MS, Sent, handed_out};
use crate::request::RequestError;
use crate::rng::Rng;
use crate::share::{AckType, ShareEvent};
use crate::test_util::for_each_seed;
use crate::time::{MILLI, Nanos};

const RECORDS: i64 = 60;
const PARTITIONS: usize = 3;

/// Record at its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    Available { deliveries: i16 },
    Acquired { until: Nanos, deliveries: i16 },
    Done,
}

/// Leaders of all partitions.
struct Leaders {
    records: Vec<Vec<Record>>,
    /// Epoch that each node expects, and the partitions of the session; `None`: no session.
    sessions: BTreeMap<i32, Option<(i32, BTreeSet<usize>)>>,
    accepted: Vec<BTreeSet<i64>>,
}

impl Leaders {
    fn new() -> Self {
        Self {
            records: vec![vec![Record::Available { deliveries: 0 }; RECORDS as usize]; PARTITIONS],
            sessions: BTreeMap::new(),
            accepted: vec![BTreeSet::new(); PARTITIONS],
        }
    }

    fn expire(&mut self, now: Nanos) {
        for record in self.records.iter_mut().flatten() {
            if let Record::Acquired { until, deliveries } = *record
                && until <= now
            {
                *record = Record::Available { deliveries };
            }
        }
    }

    fn end_session(&mut self, node: i32) {
        self.sessions.insert(node, None);
        for partition in (0..PARTITIONS).filter(|partition| node_of(*partition) == node) {
            for record in &mut self.records[partition] {
                if let Record::Acquired { deliveries, .. } = *record {
                    *record = Record::Available { deliveries };
                }
            }
        }
    }

    /// Executes a request. Returns an error code, and the answers.
    fn execute(&mut self, now: Nanos, request: &Sent) -> (ErrorCode, Vec<Answer>) {
        self.expire(now);
        let (node, epoch) = (request.node(), request.epoch());
        let expected = self.sessions.get(&node).cloned().flatten().map(|(expected, _)| expected);
        match (epoch, expected) {
            (0, _) => {
                self.end_session(node);
                self.sessions.insert(node, Some((1, BTreeSet::new())));
            }
            (_, None) => return (ErrorCode::SHARE_SESSION_NOT_FOUND, Vec::new()),
            (-1, Some(_)) => {}
            (given, Some(expected)) if given == expected => {
                if let Some(Some((epoch, _))) = self.sessions.get_mut(&node) {
                    *epoch = expected + 1;
                }
            }
            _ => return (ErrorCode::INVALID_SHARE_SESSION_EPOCH, Vec::new()),
        }
        let mut answers: BTreeMap<i32, Answer> = BTreeMap::new();
        for partition in (0..PARTITIONS).filter(|partition| node_of(*partition) == node) {
            let index = partition as i32;
            let acks: Vec<_> = request.acks().into_iter().filter(|(at, ..)| *at == index).collect();
            let answer = answers.entry(index).or_insert(Answer { partition: index, ..Answer::default() });
            let offsets =
                || acks.iter().flat_map(|(_, first, last, kind)| (*first..=*last).map(|offset| (offset, *kind)));
            let is_held = |offset: i64| matches!(self.records[partition][offset as usize], Record::Acquired { .. });
            if !offsets().all(|(offset, _)| is_held(offset)) {
                answer.ack_error = ErrorCode::INVALID_RECORD_STATE.0;
                continue;
            }
            for (offset, kind) in offsets().collect::<Vec<_>>() {
                let record = &mut self.records[partition][offset as usize];
                let Record::Acquired { deliveries, .. } = *record else { unreachable!() };
                *record = match kind {
                    2 => Record::Available { deliveries },
                    4 => Record::Acquired { until: now + LOCK_MS as u64 * MILLI, deliveries },
                    _ => Record::Done,
                };
                if kind == 1 {
                    self.accepted[partition].insert(offset);
                }
            }
        }
        if let Sent::Fetch(_, _, fetch) = request {
            let mut left = fetch.max_records as usize;
            let Some(Some((_, members))) = self.sessions.get_mut(&node) else { unreachable!() };
            let named = fetch.topics.iter().flat_map(|topic| &topic.partitions);
            members.extend(named.map(|partition| partition.partition_index as usize));
            for forgotten in fetch.forgotten_topics_data.iter().flat_map(|topic| &topic.partitions) {
                members.remove(&(*forgotten as usize));
            }
            for partition in members.clone() {
                let answer = answers.get_mut(&(partition as i32)).unwrap();
                for (offset, record) in self.records[partition].iter_mut().enumerate() {
                    if left == 0 {
                        break;
                    }
                    if let Record::Available { deliveries } = *record {
                        let deliveries = deliveries + 1;
                        *record = Record::Acquired { until: now + LOCK_MS as u64 * MILLI, deliveries };
                        answer.acquired.push((offset as i64, offset as i64, deliveries));
                        left -= 1;
                    }
                }
            }
        }
        if epoch == -1 {
            self.end_session(node);
        }
        (ErrorCode::NONE, answers.into_values().collect())
    }
}

/// The nodes of the harness: even partitions at 1, odd ones at 2.
fn node_of(partition: usize) -> i32 {
    1 + partition as i32 % 2
}

struct World {
    h: Harness,
    leaders: Leaders,
    rng: Rng,
    /// Records whose handlers run, by partition and offset.
    running: BTreeSet<(usize, i64)>,
    finished: BTreeSet<(usize, i64)>,
    /// Whether each partition is paused.
    paused: [bool; PARTITIONS],
    trace: bool,
}

impl World {
    fn pick(&mut self, below: u64) -> u64 {
        self.rng.next_u64() % below
    }

    /// Starts handlers of what was handed out: no record may run already.
    fn start(&mut self) {
        for chunk in std::mem::take(&mut self.h.data) {
            let partition = self.h.slots.iter().position(|slot| *slot == chunk.slot).unwrap();
            for (offset, deliveries) in handed_out(std::slice::from_ref(&chunk)) {
                assert!(self.running.insert((partition, offset)), "{partition}/{offset} is handed out twice at once");
                assert!(deliveries >= 1);
            }
        }
    }

    /// Ends a handler. What the acquirer does not hold any more it ignores.
    fn end_one(&mut self) {
        let Some(&(partition, offset)) =
            self.running.iter().nth(self.rng.next_u64() as usize % self.running.len().max(1))
        else {
            return;
        };
        self.running.remove(&(partition, offset));
        let kind = if self.pick(5) == 0 { AckType::Release } else { AckType::Accept };
        if kind == AckType::Accept {
            self.finished.insert((partition, offset));
        }
        self.h.acknowledge(partition, offset, offset, kind);
    }

    fn pause(&mut self, partition: usize, paused: bool) {
        self.paused[partition] = paused;
        let slot = self.h.slots[partition];
        self.h.step(if paused { ShareEvent::Pause(slot) } else { ShareEvent::Resume(slot) });
    }

    /// Answers the oldest request of a node: executed or lost, and then answered or not.
    fn answer_one(&mut self, faults: bool) {
        if self.h.sent.is_empty() {
            return;
        }
        let at = self.rng.next_u64() as usize % self.h.sent.len();
        let request = self.h.sent.remove(at);
        let fate = if faults { self.pick(12) } else { 2 };
        if self.trace {
            eprintln!("{} {request:?} fate {fate}", self.h.now / MILLI);
        }
        match fate {
            0 => self.h.fail(&request, RequestError::NoConnection),
            1 => {
                self.leaders.execute(self.h.now, &request);
                self.h.fail(&request, RequestError::Disconnected);
            }
            _ => {
                let (code, answers) = self.leaders.execute(self.h.now, &request);
                self.h.answer_with(&request, code, &answers);
            }
        }
    }
}

fn run(seed: u64, trace: bool) {
    let mut rng = Rng::new(seed);
    let concurrency = 1 + (rng.next_u64() % 12) as usize;
    let mut world = World {
        h: Harness::new(PARTITIONS as i32, concurrency),
        leaders: Leaders::new(),
        rng,
        running: BTreeSet::new(),
        finished: BTreeSet::new(),
        paused: [false; PARTITIONS],
        trace,
    };
    world.h.step(ShareEvent::Plan);
    for _ in 0..400 {
        match world.pick(20) {
            0..=7 => world.answer_one(true),
            8..=13 => world.end_one(),
            14 => {
                let partition = world.pick(PARTITIONS as u64) as usize;
                let paused = world.paused[partition];
                world.pause(partition, !paused);
            }
            15..=17 => {
                let ms = [1, 10, 30, 200, 600][world.pick(5) as usize];
                world.h.advance(ms);
            }
            18 => {
                let node = 1 + world.pick(2) as i32;
                world.leaders.end_session(node);
                for request in std::mem::take(&mut world.h.sent) {
                    if request.node() == node {
                        world.h.fail(&request, RequestError::Disconnected);
                    } else {
                        world.h.sent.push(request);
                    }
                }
                world.h.step(ShareEvent::NodeLost(node));
            }
            _ => {
                let records = 1 + world.pick(12) as usize;
                world.h.step(ShareEvent::Concurrency(records));
            }
        }
        world.start();
    }
    (0..PARTITIONS).for_each(|partition| world.pause(partition, false));
    // The faults end: all handlers end, the rest of the records is processed, and the member closes.
    for _ in 0..4000 {
        world.answer_one(false);
        world.start();
        world.end_one();
        world.h.advance(7);
        world.start();
        if world.leaders.records.iter().flatten().all(|record| *record == Record::Done) {
            break;
        }
    }
    let left = world.leaders.records.iter().flatten().filter(|record| **record != Record::Done).count();
    assert_eq!(left, 0, "records are left: {:?}", world.leaders.records);
    for (partition, accepted) in world.leaders.accepted.iter().enumerate() {
        for offset in accepted {
            assert!(world.finished.contains(&(partition, *offset)), "{partition}/{offset} was accepted by no handler");
        }
    }
    world.h.step(ShareEvent::Close);
    for _ in 0..50 {
        world.answer_one(false);
        world.h.advance(50);
    }
    // A session that the leader alone knows of ends with its connection.
    assert!(world.h.closed, "the sessions do not end");
}

#[test]
fn every_record_is_processed_whatever_is_lost() {
    for_each_seed(&[], 300, run);
}
