//! Membership in the consumer protocol (KIP-848): joining, moving partitions, leaving.

mod errors;
mod holder;
mod predecessor;

use std::borrow::Cow;
use std::collections::BTreeMap;

use grete_wire::messages::*;
use grete_wire::{ApiKey, ErrorCode};

use super::harness::*;
use crate::group::config::GroupProtocol;
use crate::group::{CommitError, GroupAction, GroupConfig, GroupEvent, GroupLogEvent};
use crate::request::{Channel, OutboundRequest, Request, RequestError, Target};
use crate::time::{MILLI, SECOND};

/// Id of the topic `t`.
pub const TOPIC: u128 = 7;
const BEAT: ApiKey = ApiKey::ConsumerGroupHeartbeat;
/// Interval that the coordinator of these tests names.
const INTERVAL_MS: i32 = 5000;

pub fn consumer(config: GroupConfig) -> Harness {
    let protocol = match config.protocol {
        GroupProtocol::Classic => GroupProtocol::Consumer,
        chosen => chosen,
    };
    let mut rig = Harness::with(GroupConfig { protocol, ..config });
    rig.view.1.insert(TOPIC, "t".to_owned());
    rig.view.2 = Some(1);
    rig
}

pub fn static_member() -> Harness {
    consumer(GroupConfig { instance_id: Some("i".into()), ..GroupConfig::new("g") })
}

pub fn beat(outgoing: &OutboundRequest) -> &ConsumerGroupHeartbeatRequest<'static> {
    match &outgoing.request {
        Request::ConsumerGroupHeartbeat(request) => request,
        other => panic!("{other:?}"),
    }
}

/// Returns the owned partitions in a heartbeat, by topic id; `None`: unchanged.
fn owned(outgoing: &OutboundRequest) -> Option<Vec<(u128, Vec<i32>)>> {
    let topics = beat(outgoing).topic_partitions.as_ref()?;
    Some(topics.iter().map(|topic| (topic.topic_id, topic.partitions.clone())).collect())
}

impl Harness {
    /// Answers a heartbeat. `assignment`: `None`: unchanged.
    pub fn answer_beat(&mut self, asked: &OutboundRequest, epoch: i32, assignment: Option<&[(u128, &[i32])]>) {
        let topics = |topics: &[(u128, &[i32])]| {
            let topic = |&(topic_id, partitions): &(u128, &[i32])| ConsumerGroupHeartbeatResponseTopicPartitions {
                topic_id,
                partitions: partitions.to_vec(),
            };
            consumer_group_heartbeat::Assignment { topic_partitions: topics.iter().map(topic).collect() }
        };
        let answer = ConsumerGroupHeartbeatResponse {
            member_id: Some(beat(asked).member_id.clone()),
            member_epoch: epoch,
            heartbeat_interval_ms: INTERVAL_MS,
            assignment: assignment.map(topics),
            ..ConsumerGroupHeartbeatResponse::default()
        };
        self.answer(asked, |version, out| answer.encode(version, out));
    }

    pub fn beat(&mut self) -> OutboundRequest {
        if let Some(beat) = self.try_take(BEAT) {
            return beat;
        }
        self.advance(5 * SECOND);
        self.take(BEAT)
    }

    /// Joins from the start, up to the assignment and its positions.
    pub fn join_consumer(&mut self, partitions: &[i32]) {
        self.start();
        self.locate(NODE);
        let join = self.take(BEAT);
        self.answer_beat(&join, 1, Some(&[(TOPIC, partitions)]));
        self.load(&[]);
        self.actions.clear();
    }
}

#[test]
fn one_request_joins_and_the_next_ones_carry_what_changed() {
    let mut rig = consumer(GroupConfig { remote_assignor: Some("range".into()), ..GroupConfig::new("g") });
    rig.start();
    rig.locate(NODE);
    let join = rig.take(BEAT);
    assert_eq!((join.target, join.channel), (Target::Node(NODE), Channel::Control));
    let request = beat(&join).clone();
    assert_eq!((request.member_epoch, request.rebalance_timeout_ms), (0, 300_000));
    assert_eq!(request.subscribed_topic_names, Some(vec![Cow::Borrowed("t")]));
    assert_eq!((request.server_assignor.as_deref(), request.instance_id), (Some("range"), None));
    assert_eq!(owned(&join), Some(vec![]));
    // KIP-1082: the client made the id.
    assert_eq!((request.member_id.len(), request.member_id.matches('-').count()), (36, 4));
    assert_eq!((rig.group.generation(), rig.group.is_ready()), (-1, false));
    rig.answer_beat(&join, 3, Some(&[(TOPIC, &[0, 2])]));
    assert_eq!((rig.group.state_name(), rig.group.generation(), rig.group.is_ready()), ("stable", 3, true));
    assert_eq!(rig.log_texts(), ["assign 0 2"]);
    let fetch = rig.take(ApiKey::OffsetFetch);
    let Request::OffsetFetch(fetched) = &fetch.request else { unreachable!() };
    assert_eq!(
        (fetched.groups[0].member_epoch, fetched.groups[0].member_id.clone()),
        (3, Some(request.member_id.clone()))
    );

    // Changes come in groups: the first heartbeats are close together.
    rig.advance(100 * MILLI);
    let second = rig.take(BEAT);
    assert_eq!((beat(&second).member_epoch, beat(&second).rebalance_timeout_ms), (3, -1));
    assert_eq!(beat(&second).subscribed_topic_names, None);
    assert_eq!(owned(&second), Some(vec![(TOPIC, vec![0, 2])]));
    rig.answer_beat(&second, 3, None);
    for pause in [200, 400, 800, 1600, 3200, 5000, 5000] {
        rig.advance(pause * MILLI - 1);
        rig.sends_no(BEAT);
        rig.advance(1);
        let next = rig.take(BEAT);
        assert_eq!(owned(&next), None);
        rig.answer_beat(&next, 3, None);
    }
    assert!(rig.log_texts().is_empty());
    assert_eq!(rig.group.stats().rebalances, 1);
}

/// P17: what is given up is reported at once, not with the next heartbeat.
#[test]
fn p17_a_revocation_is_reported_when_it_ends_and_not_before() {
    let mut rig = consumer(GroupConfig::new("g"));
    rig.join_consumer(&[0, 1, 2]);
    rig.advance(100 * MILLI);
    let sent_at = rig.now;
    let next = rig.take(BEAT);
    rig.advance(2 * SECOND);
    rig.answer_beat(&next, 1, Some(&[(TOPIC, &[0, 1])]));
    // The coordinator counts from its answer, which it gave after the request.
    let (_, deadline) = rig.revocation();
    assert_eq!(deadline, (sent_at + 300 * SECOND).min(rig.now + 297 * SECOND));
    assert_eq!((rig.group.state_name(), rig.group.is_ready()), ("revoking", false));
    // Heartbeats go on, with the partition.
    let next = rig.beat();
    assert_eq!(owned(&next), None);
    rig.ack();
    rig.sends_no(BEAT);
    rig.answer_beat(&next, 1, None);
    let report = rig.take(BEAT);
    assert_eq!(owned(&report), Some(vec![(TOPIC, vec![0, 1])]));
    rig.answer_beat(&report, 2, None);
    assert_eq!((rig.group.state_name(), rig.group.generation()), ("stable", 2));
    // Without a request in flight, the report goes out with the acknowledgement.
    let next = rig.beat();
    rig.answer_beat(&next, 2, Some(&[(TOPIC, &[1])]));
    rig.actions.retain(|action| matches!(action, GroupAction::Revoke { tps, .. } if tps == &[tp(0)]));
    rig.sends_no(BEAT);
    rig.ack();
    assert_eq!(owned(&rig.take(BEAT)), Some(vec![(TOPIC, vec![1])]));
}

#[test]
fn a_commit_in_flight_is_part_of_a_revocation() {
    let mut rig = consumer(GroupConfig::new("g"));
    rig.join_consumer(&[0, 1]);
    rig.commit(1, &[(1, 10)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    assert_eq!(committed(&commit), (1, vec![(1, 10)]));
    let next = rig.beat();
    rig.answer_beat(&next, 1, Some(&[(TOPIC, &[0])]));
    rig.ack();
    rig.sends_no(BEAT);
    rig.answer_commit(&commit, &[(1, ErrorCode::NONE)]);
    assert_eq!(rig.result(1), [(1, 10, Ok(()))]);
    assert_eq!(owned(&rig.take(BEAT)), Some(vec![(TOPIC, vec![0])]));
}

/// P14, P15: an old epoch is no missing commit, and costs a wait.
#[test]
fn p14_an_old_epoch_in_offset_fetch_is_no_missing_commit() {
    let mut rig = consumer(GroupConfig::new("g"));
    rig.start();
    rig.locate(NODE);
    let join = rig.take(BEAT);
    rig.answer_beat(&join, 1, Some(&[(TOPIC, &[0])]));
    let fetch = rig.take(ApiKey::OffsetFetch);
    rig.answer_offsets(&fetch, ErrorCode::STALE_MEMBER_EPOCH, &[]);
    assert!(!rig.actions.iter().any(|action| matches!(action, GroupAction::Position { .. })));
    rig.sends_no(ApiKey::OffsetFetch);
    let next = rig.take(BEAT);
    rig.answer_beat(&next, 2, None);
    rig.advance(SECOND);
    let fetch = rig.take(ApiKey::OffsetFetch);
    let Request::OffsetFetch(again) = &fetch.request else { unreachable!() };
    assert_eq!(again.groups[0].member_epoch, 2);
}

/// P21: a commit that meets the next epoch is repeated with it.
#[test]
fn p21_a_commit_with_an_old_epoch_is_repeated_with_the_new_one() {
    for code in [ErrorCode::STALE_MEMBER_EPOCH, ErrorCode::ILLEGAL_GENERATION] {
        let mut rig = consumer(GroupConfig::new("g"));
        rig.join_consumer(&[0]);
        rig.commit(1, &[(0, 10)]);
        let commit = rig.take(ApiKey::OffsetCommit);
        rig.answer_commit(&commit, &[(0, code)]);
        assert!(!rig.is_done(1));
        // The heartbeat goes out at once.
        let next = rig.take(BEAT);
        rig.answer_beat(&next, 2, None);
        rig.advance(SECOND);
        let commit = rig.take(ApiKey::OffsetCommit);
        assert_eq!(committed(&commit), (2, vec![(0, 10)]));
        rig.answer_commit(&commit, &[(0, ErrorCode::NONE)]);
        assert_eq!(rig.result(1), [(0, 10, Ok(()))]);
        assert!(rig.log_texts().is_empty());
    }
}

#[test]
fn a_commit_of_a_removed_member_loses_everything() {
    let mut rig = consumer(GroupConfig::new("g"));
    rig.join_consumer(&[0]);
    rig.commit(1, &[(0, 10)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&commit, &[(0, ErrorCode::UNKNOWN_MEMBER_ID)]);
    assert_eq!(rig.result(1), [(0, 10, Err(CommitError::Fenced(ErrorCode::UNKNOWN_MEMBER_ID)))]);
    assert_eq!(rig.log_texts(), ["lost 0"]);
    assert_eq!(beat(&rig.take(BEAT)).member_epoch, 0);
}

/// P18: the coordinator may assign a topic that the metadata does not have yet.
#[test]
fn p18_a_topic_that_metadata_lacks_is_assigned_when_metadata_has_it() {
    let mut rig = consumer(GroupConfig::new("g"));
    rig.view.1.clear();
    rig.start();
    rig.locate(NODE);
    let join = rig.take(BEAT);
    rig.answer_beat(&join, 1, Some(&[(TOPIC, &[0, 1])]));
    assert!(rig.actions.iter().any(|action| matches!(action, GroupAction::RefreshMetadata)));
    assert_eq!((rig.group.state_name(), rig.group.is_ready()), ("assigning", false));
    rig.actions.clear();
    rig.step(GroupEvent::Tick);
    assert!(rig.actions.is_empty(), "metadata is requested once for each answer");
    let next = rig.beat();
    rig.answer_beat(&next, 1, None);
    assert!(rig.actions.iter().any(|action| matches!(action, GroupAction::RefreshMetadata)));
    rig.view.1.insert(TOPIC, "t".to_owned());
    rig.step(GroupEvent::MetadataChanged);
    assert_eq!(rig.log_texts(), ["assign 0 1"]);
    assert!(rig.group.is_ready());
}

/// P13: a topic that is deleted and created again has another id.
#[test]
fn p13_a_topic_that_was_made_again_is_revoked_and_assigned_anew() {
    let mut rig = consumer(GroupConfig::new("g"));
    rig.join_consumer(&[0, 1]);
    let before = rig.epoch(0);
    rig.view.1 = BTreeMap::from([(8, "t".to_owned())]);
    rig.step(GroupEvent::MetadataChanged);
    assert!(rig.log_texts().is_empty(), "the coordinator decides");
    let next = rig.beat();
    rig.answer_beat(&next, 2, Some(&[(8, &[0, 1])]));
    let (epoch, _) = rig.revocation();
    assert_eq!(rig.log_texts(), ["revoke 0 1"]);
    rig.step(GroupEvent::RevocationAcked { epoch });
    assert_eq!(rig.log_texts(), ["assign 0 1"]);
    assert_ne!(rig.epoch(0), before);
    assert_eq!(owned(&rig.take(BEAT)), Some(vec![(8, vec![0, 1])]));
    rig.take(ApiKey::OffsetFetch);
}

#[test]
fn a_request_after_a_lost_answer_has_all_fields() {
    for error in [RequestError::Disconnected, RequestError::TimedOut] {
        let mut rig = consumer(GroupConfig::new("g"));
        rig.join_consumer(&[0]);
        let next = rig.beat();
        rig.answer_beat(&next, 1, None);
        let lost = rig.beat();
        assert_eq!(owned(&lost), None);
        rig.fail(&lost, error);
        rig.advance(SECOND);
        rig.locate(NODE);
        let again = rig.beat();
        assert_eq!((beat(&again).member_epoch, beat(&again).rebalance_timeout_ms), (1, 300_000));
        assert_eq!(owned(&again), Some(vec![(TOPIC, vec![0])]));
        assert!(beat(&again).subscribed_topic_names.is_some());
        // P19: the late answer changes nothing.
        rig.answer_beat(&lost, 9, Some(&[(TOPIC, &[3])]));
        assert_eq!(rig.group.generation(), 1);
        rig.answer_beat(&again, 2, Some(&[(TOPIC, &[0])]));
        assert_eq!(rig.group.generation(), 2);
        assert!(rig.log_texts().is_empty());
    }
}

/// P16: no heartbeat of the old epoch while fenced.
#[test]
fn p16_a_fenced_member_loses_everything_and_joins_under_its_id() {
    for code in [ErrorCode::FENCED_MEMBER_EPOCH, ErrorCode::UNKNOWN_MEMBER_ID] {
        let mut rig = consumer(GroupConfig::new("g"));
        rig.join_consumer(&[0, 1]);
        let next = rig.beat();
        rig.refuse(&next, code);
        assert_eq!(rig.log_texts(), ["lost 0 1"]);
        assert_eq!((rig.group.generation(), rig.group.stats().lost_partitions), (-1, 2));
        let join = rig.take(BEAT);
        assert_eq!((beat(&join).member_epoch, &beat(&join).member_id), (0, &beat(&next).member_id));
        assert_eq!(owned(&join), Some(vec![]));
        rig.answer_beat(&join, 5, Some(&[(TOPIC, &[1])]));
        assert_eq!(rig.log_texts(), ["assign 1"]);
    }
}

#[test]
fn a_session_that_ends_on_this_side_alone_continues_under_its_epoch() {
    let mut rig = static_member();
    rig.join_consumer(&[0, 1]);
    rig.advance(200 * MILLI);
    let lost = rig.take(BEAT);
    rig.advance(45 * SECOND);
    assert_eq!(rig.log_texts(), ["lost 0 1"]);
    assert_eq!(rig.group.generation(), -1);
    rig.commit(1, &[(0, 10)]);
    rig.sends_no(ApiKey::OffsetCommit);
    let again = rig.take(BEAT);
    assert_ne!(again.token, lost.token);
    assert_eq!((beat(&again).member_epoch, owned(&again)), (1, Some(vec![])));
    rig.answer_beat(&again, 1, Some(&[(TOPIC, &[0, 1])]));
    assert_eq!(rig.log_texts(), ["assign 0 1"]);
    // The coordinator, too, has ended the session: a new join at once, and nothing more is lost.
    let mut rig = static_member();
    rig.join_consumer(&[0, 1]);
    rig.advance(50 * SECOND);
    rig.actions.clear();
    rig.try_take(BEAT);
    let again = rig.take(BEAT);
    rig.refuse(&again, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(beat(&rig.take(BEAT)).member_epoch, 0);
    assert!(rig.log_texts().is_empty());
}

/// P16: the leave waits for the revocation. P29: -2 keeps the place of a static member.
#[test]
fn p29_a_member_leaves_when_everything_is_given_up() {
    for (mut rig, remain_in_group, expected) in
        [(consumer(GroupConfig::new("g")), true, -1), (static_member(), true, -2), (static_member(), false, -1)]
    {
        rig.join_consumer(&[0]);
        rig.try_take(BEAT);
        rig.step(GroupEvent::Leave { deadline: rig.now + 10 * SECOND, remain_in_group });
        rig.sends_no(BEAT);
        rig.ack();
        let leave = rig.take(BEAT);
        assert_eq!((beat(&leave).member_epoch, owned(&leave)), (expected, None));
        let kept =
            |action: &GroupAction| matches!(action, GroupAction::LogEvent(GroupLogEvent::RemainedInGroup { .. }));
        assert_eq!(rig.actions.iter().any(kept), expected == -2);
        rig.answer_beat(&leave, expected, None);
        assert_eq!((rig.group.state_name(), rig.group.deadline()), ("left", None));
        assert_eq!(rig.log_texts().last().map(String::as_str), Some("left"));
    }
}

#[test]
fn a_member_that_was_never_heard_of_leaves_without_a_request() {
    let mut rig = consumer(GroupConfig::new("g"));
    rig.start();
    rig.step(GroupEvent::Leave { deadline: rig.now + 10 * SECOND, remain_in_group: true });
    assert_eq!(rig.group.state_name(), "left");
    rig.sends_no(BEAT);
    // One whose join may have arrived says that it leaves.
    let mut rig = consumer(GroupConfig::new("g"));
    rig.start();
    rig.locate(NODE);
    rig.take(BEAT);
    rig.step(GroupEvent::Leave { deadline: rig.now + 10 * SECOND, remain_in_group: true });
    let leave = rig.take(BEAT);
    assert_eq!(beat(&leave).member_epoch, -1);
    rig.refuse(&leave, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(rig.group.state_name(), "left");
}

#[test]
fn a_new_subscription_goes_out_at_once() {
    let mut rig = consumer(GroupConfig::new("g"));
    rig.join_consumer(&[0]);
    let next = rig.beat();
    rig.answer_beat(&next, 1, None);
    rig.step(GroupEvent::Subscribe { topics: vec!["t".into(), "u".into()] });
    let changed = rig.take(BEAT);
    assert_eq!(beat(&changed).subscribed_topic_names.as_ref().map(Vec::len), Some(2));
    assert_eq!(beat(&changed).rebalance_timeout_ms, -1);
}

/// The coordinator takes back what it has assigned, and waits until the member says that it does not own it.
#[test]
fn each_new_target_is_acknowledged_although_what_is_owned_is_the_same() {
    const OTHER: u128 = TOPIC + 1; // no name is known for it yet
    let mut rig = consumer(GroupConfig::new("g"));
    rig.join_consumer(&[]);
    let next = rig.beat();
    rig.answer_beat(&next, 2, Some(&[(OTHER, &[0])]));
    rig.step(GroupEvent::Subscribe { topics: vec!["u".into()] });
    let changed = rig.take(BEAT);
    assert_eq!((beat(&changed).member_epoch, owned(&changed)), (2, Some(vec![])));
    rig.answer_beat(&changed, 2, Some(&[]));
    let next = rig.beat();
    assert_eq!(owned(&next), Some(vec![]));
    rig.answer_beat(&next, 3, None);
    assert_eq!(owned(&rig.beat()), None, "once");
}

/// P29: the member's own join, executed and not answered, does not stand in its way.
#[test]
fn p29_a_join_of_our_own_without_an_answer_is_released() {
    let mut rig = static_member();
    rig.start();
    rig.locate(NODE);
    let join = rig.take(BEAT);
    rig.fail(&join, RequestError::Disconnected);
    rig.advance(SECOND);
    rig.locate(NODE);
    let again = rig.beat();
    assert_eq!(beat(&again).member_epoch, 0);
    rig.refuse(&again, ErrorCode::UNRELEASED_INSTANCE_ID);
    let release = rig.take(BEAT);
    assert_eq!((beat(&release).member_epoch, &beat(&release).member_id), (-2, &beat(&join).member_id));
    rig.answer_beat(&release, -2, None);
    let last = rig.take(BEAT);
    assert_eq!(beat(&last).member_epoch, 0);
    rig.answer_beat(&last, 2, Some(&[(TOPIC, &[0])]));
    assert_eq!(rig.log_texts(), ["assign 0"]);
}

#[test]
fn auto_uses_what_the_cluster_has_finalized() {
    let auto = || consumer(GroupConfig { protocol: GroupProtocol::Auto, ..GroupConfig::new("g") });
    let mut rig = auto();
    rig.start();
    rig.locate(NODE);
    rig.take(BEAT);
    rig.sends_no(ApiKey::JoinGroup);
    // A setting of the classic protocol selects it, and so does a cluster without the other one, which is named first.
    for (version, reason) in [(Some(1), "session.timeout.ms is set"), (Some(0), "group.version")] {
        let config = GroupConfig {
            protocol: GroupProtocol::Auto,
            classic_setting: Some("session.timeout.ms"),
            ..GroupConfig::new("g")
        };
        let mut rig = consumer(config);
        rig.view.2 = version;
        rig.start();
        rig.locate(NODE);
        rig.advance(1);
        rig.take(ApiKey::JoinGroup);
        rig.sends_no(BEAT);
        let said = rig.actions.iter().filter_map(|action| match action {
            GroupAction::LogEvent(GroupLogEvent::ClassicProtocol { reason }) => Some(reason.as_str()),
            _ => None,
        });
        assert!(said.collect::<String>().contains(reason));
    }
    // The API versions of brokers say nothing: only the finalized feature counts.
    for version in [Some(0), None] {
        let mut rig = auto();
        rig.view.2 = version;
        rig.start();
        rig.locate(NODE);
        rig.advance(1);
        rig.take(ApiKey::JoinGroup);
        rig.sends_no(BEAT);
    }
    for code in [ErrorCode::UNSUPPORTED_VERSION, ErrorCode::GROUP_ID_NOT_FOUND] {
        let mut rig = auto();
        rig.start();
        rig.locate(NODE);
        let join = rig.take(BEAT);
        rig.refuse(&join, code);
        rig.advance(1);
        rig.take(ApiKey::JoinGroup);
        let said =
            |action: &GroupAction| matches!(action, GroupAction::LogEvent(GroupLogEvent::ClassicProtocol { .. }));
        assert!(rig.actions.iter().any(said));
    }
}

#[test]
fn hostile_answers_do_no_harm() {
    for (epoch, interval) in [(0, 1), (-7, 1), (i32::MIN, i32::MIN)] {
        let mut rig = consumer(GroupConfig::new("g"));
        rig.start();
        rig.locate(NODE);
        let join = rig.take(BEAT);
        let answer = ConsumerGroupHeartbeatResponse {
            member_epoch: epoch,
            heartbeat_interval_ms: interval,
            ..ConsumerGroupHeartbeatResponse::default()
        };
        rig.answer(&join, |version, out| answer.encode(version, out));
        assert_eq!((rig.group.state_name(), rig.group.generation()), ("joining", -1));
        rig.sends_no(BEAT);
    }
    // An interval beyond the session still leaves room for three heartbeats.
    let mut rig = consumer(GroupConfig::new("g"));
    rig.start();
    rig.locate(NODE);
    let join = rig.take(BEAT);
    let answer = ConsumerGroupHeartbeatResponse {
        member_epoch: 1,
        heartbeat_interval_ms: i32::MAX,
        ..ConsumerGroupHeartbeatResponse::default()
    };
    rig.answer(&join, |version, out| answer.encode(version, out));
    for _ in 0..12 {
        rig.advance(15 * SECOND);
        let next = rig.take(BEAT);
        rig.answer(&next, |version, out| answer.encode(version, out));
    }
    assert_eq!(rig.group.state_name(), "stable");
}
