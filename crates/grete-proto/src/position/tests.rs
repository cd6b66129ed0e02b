use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode as E;
use grete_wire::frame::Frame;
use grete_wire::messages::list_offsets::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use grete_wire::messages::offset_for_leader_epoch::{EpochEndOffset, OffsetForLeaderTopicResult};
use grete_wire::messages::{
    ListOffsetsRequest, ListOffsetsResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};

use super::*;
use crate::ids::{NodeId, PartitionHandle, TopicPartition};
use crate::partition::error::PartitionError;
use crate::partition::log_event::FetchLogEvent;
use crate::partition::table::{FetchState, PartitionTable};
use crate::request::{OutboundRequest, Reply, Request, RequestError, Response, Target};
use crate::rng::Rng;
use crate::test_util::FakeClusterView;
use crate::time::{MILLI, Nanos, SECOND};

struct Harness {
    now: Nanos,
    view: FakeClusterView,
    partitions: PartitionTable,
    resolver: OffsetResolver,
    sent: Vec<OutboundRequest>,
    actions: Vec<PositionAction>,
}

fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

impl Harness {
    /// Creates partitions of "orders"; node `n % 2 + 1` leads partition `n` under epoch 5.
    fn new(reset: ResetPolicy, count: i32) -> (Self, Vec<PartitionHandle>) {
        let config = PositionConfig { reset, ..PositionConfig::default() };
        let mut bench = Self {
            now: SECOND,
            view: FakeClusterView::new(),
            partitions: PartitionTable::new(),
            resolver: OffsetResolver::new(config, Rng::new(3)),
            sent: Vec::new(),
            actions: Vec::new(),
        };
        let slots = (0..count)
            .map(|partition| {
                bench.view.set_leader(&tp(partition), Some((partition % 2 + 1, 5)));
                bench.partitions.add(tp(partition), 1)
            })
            .collect();
        (bench, slots)
    }

    fn step(&mut self, event: PositionEvent) {
        let mut out = Vec::new();
        self.resolver.step(self.now, event, &self.view, &mut self.partitions, &mut out);
        for action in out {
            match action {
                PositionAction::Send(outgoing) => self.sent.push(outgoing),
                other => self.actions.push(other),
            }
        }
    }

    fn start(&mut self, slot: PartitionHandle, at: StartPosition, leader_epoch: i32) {
        self.step(PositionEvent::Start { slot, at, leader_epoch });
    }

    fn take(&mut self) -> OutboundRequest {
        assert_eq!(self.sent.len(), 1, "one request: {:?}", self.sent);
        self.sent.remove(0)
    }

    fn reply(&mut self, outgoing: &OutboundRequest, api: ApiKey, encode: impl FnOnce(&mut Vec<u8>)) {
        let Target::Node(node) = outgoing.target else { panic!("to the leader") };
        let mut frame = Vec::new();
        encode(&mut frame);
        let response = Response { api, version: *api.ours().end(), frame: Frame::from(frame), body: 0 };
        self.step(PositionEvent::Reply(Reply { token: outgoing.token, node, result: Ok(response) }));
    }

    fn lose(&mut self, outgoing: &OutboundRequest) {
        let result = Err(RequestError::Disconnected);
        self.step(PositionEvent::Reply(Reply { token: outgoing.token, node: 1, result }));
    }

    /// Answers ListOffsets for some partitions: number, error, offset, epoch.
    fn offsets(&mut self, outgoing: &OutboundRequest, answers: &[(i32, E, i64, i32)]) {
        let partitions = answers
            .iter()
            .map(|(partition, code, offset, epoch)| ListOffsetsPartitionResponse {
                partition_index: *partition,
                error_code: code.0,
                offset: *offset,
                leader_epoch: *epoch,
                ..Default::default()
            })
            .collect();
        let topics = vec![ListOffsetsTopicResponse { name: "orders".into(), partitions }];
        let response = ListOffsetsResponse { topics, ..Default::default() };
        self.reply(outgoing, ApiKey::ListOffsets, |out| {
            response.encode(*ApiKey::ListOffsets.ours().end(), out).unwrap();
        });
    }

    fn epoch_end(&mut self, outgoing: &OutboundRequest, code: E, leader_epoch: i32, end_offset: i64) {
        let partitions = vec![EpochEndOffset { error_code: code.0, partition: 0, leader_epoch, end_offset }];
        let topics = vec![OffsetForLeaderTopicResult { topic: "orders".into(), partitions }];
        let response = OffsetForLeaderEpochResponse { topics, ..Default::default() };
        self.reply(outgoing, ApiKey::OffsetForLeaderEpoch, |out| {
            response.encode(*ApiKey::OffsetForLeaderEpoch.ours().end(), out).unwrap();
        });
    }

    fn sleep(&mut self) {
        self.now = self.resolver.deadline().expect("something is due");
        self.step(PositionEvent::Tick);
    }

    /// Returns the offset and epoch from which the partition may be fetched; `None`: not fetchable.
    fn ready(&self, slot: PartitionHandle) -> Option<(i64, i32)> {
        (self.partitions.state(slot) == FetchState::Fetching)
            .then(|| (self.partitions.fetch_offset(slot), self.partitions.last_fetched_epoch(slot)))
    }

    fn log_events(&self) -> Vec<&FetchLogEvent> {
        let notices = self.actions.iter().filter_map(|action| match action {
            PositionAction::LogEvent(notice) => Some(notice),
            _ => None,
        });
        notices.collect()
    }

    fn error(&self) -> PartitionError {
        let error = |action: &PositionAction| match action {
            PositionAction::Failed { error, .. } => Some(error.clone()),
            _ => None,
        };
        self.actions.iter().find_map(error).expect("a slot has failed")
    }
}

fn list(outgoing: &OutboundRequest) -> &ListOffsetsRequest<'static> {
    let Request::ListOffsets(request) = &outgoing.request else { panic!("not ListOffsets: {outgoing:?}") };
    request
}

/// Returns the partition and timestamp of each query.
fn queried_timestamps(outgoing: &OutboundRequest) -> Vec<(i32, i64)> {
    list(outgoing).topics.iter().flat_map(|t| t.partitions.iter().map(|p| (p.partition_index, p.timestamp))).collect()
}

fn epochs(outgoing: &OutboundRequest) -> &OffsetForLeaderEpochRequest<'static> {
    let Request::OffsetForLeaderEpoch(request) = &outgoing.request else { panic!("{outgoing:?}") };
    request
}

#[test]
fn p10_each_leader_is_asked_once_for_all_its_partitions_as_a_consumer() {
    let (mut bench, slots) = Harness::new(ResetPolicy::Earliest, 4);
    let starts = [StartPosition::Earliest, StartPosition::Latest, StartPosition::Timestamp(1234), StartPosition::Reset];
    bench.step(PositionEvent::StartMany(slots.iter().zip(starts).map(|(slot, at)| (*slot, at, -1)).collect()));
    assert_eq!(bench.sent.len(), 2);
    let (first, second) = (bench.sent[0].clone(), bench.sent[1].clone());
    assert_eq!((first.target, queried_timestamps(&first)), (Target::Node(1), vec![(0, -2), (2, 1234)]));
    assert_eq!((second.target, queried_timestamps(&second)), (Target::Node(2), vec![(1, -1), (3, -2)]));
    assert_eq!((list(&first).replica_id, list(&first).isolation_level), (-1, 0));
    assert_eq!(list(&first).topics[0].partitions[0].current_leader_epoch, 5);
    bench.offsets(&first, &[(0, E::NONE, 7, 2), (2, E::NONE, 40, 4)]);
    bench.offsets(&second, &[(1, E::NONE, 99, 5), (3, E::NONE, 0, -1)]);
    let ready: Vec<_> = slots.iter().map(|slot| bench.ready(*slot)).collect();
    assert_eq!(ready, [Some((7, 2)), Some((99, 5)), Some((40, 4)), Some((0, -1))]);
    assert_eq!((bench.resolver.pending_lookups(), bench.resolver.deadline()), (0, None));
}

#[test]
fn read_committed_ends_at_the_last_stable_offset() {
    let (mut bench, slots) = Harness::new(ResetPolicy::Latest, 1);
    let config = PositionConfig { reset: ResetPolicy::Latest, read_committed: true, ..PositionConfig::default() };
    bench.resolver = OffsetResolver::new(config, Rng::new(1));
    bench.start(slots[0], StartPosition::Latest, -1);
    assert_eq!(list(&bench.take()).isolation_level, 1);
}

#[test]
fn a_time_beyond_the_end_is_the_end_and_a_time_before_1970_is_no_special_value() {
    let (mut bench, slots) = Harness::new(ResetPolicy::Earliest, 1);
    bench.start(slots[0], StartPosition::Timestamp(-2), -1);
    let outgoing = bench.take();
    assert_eq!(queried_timestamps(&outgoing), [(0, 0)]);
    bench.offsets(&outgoing, &[(0, E::NONE, -1, -1)]);
    let outgoing = bench.take();
    assert_eq!(queried_timestamps(&outgoing), [(0, -1)]);
    bench.offsets(&outgoing, &[(0, E::NONE, 50, 5)]);
    assert_eq!(bench.ready(slots[0]), Some((50, 5)));
}

#[test]
fn an_offset_without_an_epoch_is_taken_at_once() {
    let (mut bench, slots) = Harness::new(ResetPolicy::None, 1);
    bench.start(slots[0], StartPosition::Offset(42), -1);
    assert_eq!(bench.ready(slots[0]), Some((42, -1)));
    bench.start(slots[0], StartPosition::Offset(43), 5);
    assert_eq!(bench.ready(slots[0]), Some((43, 5)), "the leader's epoch is ours");
    assert!(bench.sent.is_empty());
}

#[test]
fn an_offset_of_an_older_epoch_is_compared_with_the_leaders_log() {
    let (mut bench, slots) = Harness::new(ResetPolicy::Earliest, 1);
    bench.start(slots[0], StartPosition::Offset(42), 3);
    assert_eq!(bench.ready(slots[0]), None);
    let outgoing = bench.take();
    let request = epochs(&outgoing);
    let part = &request.topics[0].partitions[0];
    assert_eq!((request.replica_id, part.leader_epoch, part.current_leader_epoch), (-1, 3, 5));
    bench.epoch_end(&outgoing, E::NONE, 3, 42);
    assert_eq!(bench.ready(slots[0]), Some((42, 3)));
    assert!(bench.log_events().is_empty());
}

#[test]
fn a_truncated_log_moves_the_position_or_stops_the_slot() {
    for (policy, expected) in [(ResetPolicy::Latest, Some((30, 2))), (ResetPolicy::None, None)] {
        let (mut bench, slots) = Harness::new(policy, 1);
        bench.start(slots[0], StartPosition::Offset(42), 3);
        let generation = bench.partitions.fetch_generation(slots[0]);
        let outgoing = bench.take();
        bench.epoch_end(&outgoing, E::NONE, 2, 30);
        assert_eq!(bench.ready(slots[0]), expected);
        assert_ne!(bench.partitions.fetch_generation(slots[0]), generation);
        if policy == ResetPolicy::None {
            assert_eq!(bench.error(), PartitionError::LogTruncated { tp: tp(0), position: 42, end_offset: 30 });
        } else {
            assert_eq!(bench.log_events(), [&FetchLogEvent::Truncated { tp: tp(0), from: 42, to: 30 }]);
        }
    }
}

#[test]
fn p11_undefined_and_lower_epochs_are_no_loss_and_no_loop() {
    let (mut bench, slots) = Harness::new(ResetPolicy::None, 1);
    bench.start(slots[0], StartPosition::Offset(42), 3);
    let outgoing = bench.take();
    bench.epoch_end(&outgoing, E::NONE, -1, -1);
    assert_eq!(bench.ready(slots[0]), Some((42, -1)));
    bench.partitions.set_last_fetched_epoch(slots[0], 4);
    for (epoch, expected) in [(3, 3), (1, 1), (1, 1), (2, -1)] {
        bench.partitions.set_state(slots[0], FetchState::Resolving);
        bench.step(PositionEvent::Diverged { slot: slots[0], epoch, end_offset: 100 });
        assert_eq!(bench.ready(slots[0]), Some((42, expected)));
    }
    // A leader whose epoch rises with every response causes no endless loop either.
    let (mut bench, slots) = Harness::new(ResetPolicy::None, 1);
    bench.start(slots[0], StartPosition::Offset(42), 3);
    let start = bench.now;
    for epoch in 6..46 {
        let outgoing = bench.take();
        bench.epoch_end(&outgoing, E::FENCED_LEADER_EPOCH, -1, -1);
        bench.view.set_leader(&tp(0), Some((epoch % 2 + 1, epoch)));
        bench.step(PositionEvent::MetadataChanged);
        if bench.sent.is_empty() {
            bench.sleep();
        }
    }
    assert!(bench.now - start > 10 * SECOND);
}

#[test]
fn p12_a_search_does_not_die_with_its_leader() {
    let (mut bench, slots) = Harness::new(ResetPolicy::Earliest, 1);
    bench.start(slots[0], StartPosition::Earliest, -1);
    let old = bench.take();
    bench.view.set_leader(&tp(0), Some((2, 6)));
    bench.step(PositionEvent::MetadataChanged);
    let new = bench.take();
    assert_eq!(new.target, Target::Node(2));
    // The old leader responds after all, with outdated data.
    bench.offsets(&old, &[(0, E::NONE, 1000, 5)]);
    assert_eq!(bench.ready(slots[0]), None);
    bench.lose(&new);
    assert!(bench.sent.is_empty() && matches!(bench.actions.last(), Some(PositionAction::RefreshMetadata)));
    bench.sleep();
    let again = bench.take();
    bench.offsets(&again, &[(0, E::NONE, 3, 6)]);
    assert_eq!(bench.ready(slots[0]), Some((3, 6)));
}

#[test]
fn p13_a_deleted_topic_delays_no_other_and_is_named() {
    let (mut bench, slots) = Harness::new(ResetPolicy::Earliest, 3);
    bench.view.set_leader(&tp(0), None);
    bench.step(PositionEvent::StartMany(slots.iter().map(|slot| (*slot, StartPosition::Earliest, -1)).collect()));
    for outgoing in std::mem::take(&mut bench.sent) {
        let answers: Vec<_> = queried_timestamps(&outgoing).iter().map(|(p, _)| (*p, E::NONE, 5, 5)).collect();
        bench.offsets(&outgoing, &answers);
    }
    assert_eq!((bench.ready(slots[0]), bench.ready(slots[1])), (None, Some((5, 5))));
    let start = bench.now;
    while bench.log_events().is_empty() {
        bench.sleep();
    }
    assert!(bench.now - start >= 10 * SECOND);
    assert!(bench.actions.len() < 30, "it waits with backoff");
    assert!(matches!(bench.log_events()[0], FetchLogEvent::Waiting { code: E::LEADER_NOT_AVAILABLE, .. }));
    bench.view.set_leader(&tp(0), Some((1, 0)));
    bench.sleep();
    let outgoing = bench.take();
    bench.offsets(&outgoing, &[(0, E::NONE, 0, 0)]);
    assert_eq!(bench.ready(slots[0]), Some((0, 0)));
}

#[test]
fn p14_no_error_and_no_silence_is_taken_for_an_offset() {
    let (mut bench, slots) = Harness::new(ResetPolicy::Latest, 1);
    bench.start(slots[0], StartPosition::Reset, -1);
    for code in [E::NOT_LEADER_OR_FOLLOWER, E::OFFSET_NOT_AVAILABLE, E::UNKNOWN_SERVER_ERROR, E(12345)] {
        let outgoing = bench.take();
        bench.offsets(&outgoing, &[(0, code, 0, -1)]);
        assert_eq!(bench.ready(slots[0]), None, "{code:?}");
        assert!(bench.resolver.deadline().unwrap() >= bench.now + 80 * MILLI);
        bench.sleep();
    }
    let outgoing = bench.take();
    bench.offsets(&outgoing, &[(17, E::NONE, 5, 5)]);
    bench.sleep();
    let outgoing = bench.take();
    bench.offsets(&outgoing, &[(0, E::NONE, -1, -1)]);
    bench.sleep();
    let outgoing = bench.take();
    bench.reply(&outgoing, ApiKey::ListOffsets, |out| out.extend_from_slice(&[0xff; 7]));
    assert_eq!(bench.ready(slots[0]), None);
    bench.sleep();
    let outgoing = bench.take();
    bench.offsets(&outgoing, &[(0, E::NONE, 8, 5)]);
    assert_eq!(bench.ready(slots[0]), Some((8, 5)));
}

#[test]
fn errors_that_no_retry_cures_stop_the_slot() {
    for (code, expected) in [
        (E::TOPIC_AUTHORIZATION_FAILED, PartitionError::NotAuthorized { tp: tp(0) }),
        (
            E::UNSUPPORTED_FOR_MESSAGE_FORMAT,
            PartitionError::Refused { tp: tp(0), code: E::UNSUPPORTED_FOR_MESSAGE_FORMAT },
        ),
    ] {
        let (mut bench, slots) = Harness::new(ResetPolicy::Earliest, 1);
        bench.start(slots[0], StartPosition::Timestamp(5), -1);
        let outgoing = bench.take();
        bench.offsets(&outgoing, &[(0, code, -1, -1)]);
        assert_eq!(bench.error(), expected);
        assert_eq!(bench.partitions.state(slots[0]), FetchState::Failed);
        // A seek restarts the partition.
        bench.start(slots[0], StartPosition::Offset(1), -1);
        assert_eq!(bench.ready(slots[0]), Some((1, -1)));
    }
}

#[test]
fn without_a_commit_and_without_a_policy_the_slot_stops() {
    let (mut bench, slots) = Harness::new(ResetPolicy::None, 1);
    bench.start(slots[0], StartPosition::Reset, -1);
    assert_eq!(bench.error(), PartitionError::NoOffset { tp: tp(0) });
}

/// A partition that fetched at `offset` and got OFFSET_OUT_OF_RANGE; the leader reports a log from 10 to 20.
fn out_of_range(policy: ResetPolicy, read_committed: bool, offset: i64) -> (Harness, PartitionHandle) {
    let (mut bench, slots) = Harness::new(policy, 1);
    let config = PositionConfig { reset: policy, read_committed, ..PositionConfig::default() };
    bench.resolver = OffsetResolver::new(config, Rng::new(1));
    bench.start(slots[0], StartPosition::Offset(offset), 5);
    bench.partitions.set_state(slots[0], FetchState::Resolving);
    bench.step(PositionEvent::OutOfRange { slot: slots[0] });
    let outgoing = bench.take();
    assert_eq!(queried_timestamps(&outgoing), [(0, -2)]);
    bench.offsets(&outgoing, &[(0, E::NONE, 10, 1)]);
    let outgoing = bench.take();
    assert_eq!((queried_timestamps(&outgoing), list(&outgoing).isolation_level), (vec![(0, -1)], 0));
    bench.offsets(&outgoing, &[(0, E::NONE, 20, 5)]);
    (bench, slots[0])
}

#[test]
fn out_of_range_asks_the_leader_and_then_obeys_the_policy() {
    for (policy, to) in [(ResetPolicy::Earliest, 10), (ResetPolicy::Latest, 20)] {
        for from in [3, 25] {
            let (bench, slot) = out_of_range(policy, false, from);
            assert_eq!(bench.ready(slot), Some((to, -1)));
            let notice = FetchLogEvent::OffsetReset { tp: tp(0), from, to, log_start: 10, log_end: 20 };
            assert_eq!(bench.log_events(), [&notice]);
        }
    }
    let (bench, _) = out_of_range(ResetPolicy::None, false, 3);
    let error = PartitionError::OffsetOutOfRange { tp: tp(0), offset: 3, log_start: 10, log_end: 20 };
    assert_eq!(bench.error(), error);
    assert!(error.to_string().contains("orders[0] has no offset 3: its log reaches from 10 to 20; seek"), "{error}");
}

#[test]
fn a_reset_to_the_end_with_read_committed_is_the_last_stable_offset() {
    let (mut bench, slot) = out_of_range(ResetPolicy::Latest, true, 25);
    assert_eq!(bench.ready(slot), None);
    let outgoing = bench.take();
    assert_eq!(list(&outgoing).isolation_level, 1);
    bench.offsets(&outgoing, &[(0, E::NONE, 17, 5)]);
    assert_eq!(bench.ready(slot), Some((17, -1)));
}

#[test]
fn an_offset_that_is_in_range_after_all_is_kept_and_tried_again_later() {
    for offset in [10, 15, 20] {
        let (mut bench, slot) = out_of_range(ResetPolicy::Earliest, false, offset);
        assert_eq!(bench.ready(slot), None);
        assert!(bench.resolver.deadline().unwrap() >= bench.now + SECOND / 2);
        bench.sleep();
        assert_eq!(bench.ready(slot), Some((offset, -1)), "without the epoch that the leader does not know");
        assert!(bench.log_events().is_empty());
    }
}

#[test]
fn late_answers_change_nothing() {
    let (mut bench, slots) = Harness::new(ResetPolicy::Earliest, 1);
    bench.start(slots[0], StartPosition::Earliest, -1);
    let first = bench.take();
    bench.start(slots[0], StartPosition::Offset(77), -1);
    bench.offsets(&first, &[(0, E::NONE, 0, 0)]);
    assert_eq!(bench.ready(slots[0]), Some((77, -1)));
    bench.start(slots[0], StartPosition::Latest, -1);
    let second = bench.take();
    bench.partitions.remove(slots[0]);
    bench.offsets(&second, &[(0, E::NONE, 0, 0)]);
    assert_eq!(bench.partitions.state(slots[0]), FetchState::Removed);
    bench.start(slots[0], StartPosition::Latest, -1);
    assert!(bench.sent.is_empty());
    assert_eq!(bench.resolver.pending_lookups(), 0);
    bench.step(PositionEvent::OutOfRange { slot: slots[0] });
    bench.step(PositionEvent::Diverged { slot: slots[0], epoch: 1, end_offset: 1 });
    assert!(bench.sent.is_empty() && bench.resolver.deadline().is_none());
}

#[test]
fn a_broker_that_cannot_compare_epochs_does_not_stop_anything() {
    let (mut bench, slots) = Harness::new(ResetPolicy::None, 1);
    bench.start(slots[0], StartPosition::Offset(42), 3);
    let outgoing = bench.take();
    let result = Err(RequestError::Unsupported { api: ApiKey::OffsetForLeaderEpoch, broker: None, ours: (3, 4) });
    bench.step(PositionEvent::Reply(Reply { token: outgoing.token, node: 1 as NodeId, result }));
    assert_eq!(bench.ready(slots[0]), Some((42, 3)));
}
