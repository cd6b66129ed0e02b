//! Random events in every state, and random responses to every request: no panic, no idle spinning, and exactly one
//! result per commit.

use std::collections::BTreeMap;

use grete_wire::frame::Frame;
use grete_wire::{ApiKey, ErrorCode};
use proptest::prelude::*;

use super::consumer_protocol::{TOPIC, consumer};
use super::coordinator::{ReplyTo, failure};
use super::harness::*;
use super::simulator::commit;
use crate::group::config::GroupProtocol;
use crate::group::{Assignor, GroupAction, GroupConfig, GroupEvent};
use crate::request::{RequestError, Response};
use crate::time::{MILLI, SECOND};

#[derive(Debug, Clone)]
enum Move {
    Start(bool),
    Wait(u64),
    Deadline,
    /// One of the open requests fails, or gets an error, garbage, or a valid response.
    Fail(usize, bool),
    Refuse(usize, i16),
    Garbage(usize, Vec<u8>),
    Please(usize, Vec<i32>),
    Ack(u32),
    Commit(Vec<(i32, u32)>, bool),
    Metadata(i32),
    Leave(u64),
}

fn moves() -> impl Strategy<Value = Move> {
    let which = 0..4_usize;
    prop_oneof![
        1 => any::<bool>().prop_map(Move::Start),
        3 => (1..20_000_u64).prop_map(Move::Wait),
        4 => Just(Move::Deadline),
        2 => (which.clone(), any::<bool>()).prop_map(|(i, b)| Move::Fail(i, b)),
        3 => (which.clone(), prop_oneof![0..130_i16, 14..28_i16]).prop_map(|(i, c)| Move::Refuse(i, c)),
        1 => (which.clone(), proptest::collection::vec(any::<u8>(), 0..40)).prop_map(|(i, b)| Move::Garbage(i, b)),
        12 => (which, proptest::collection::vec(0..4_i32, 0..4)).prop_map(|(i, p)| Move::Please(i, p)),
        3 => (0..12_u32).prop_map(Move::Ack),
        4 => (proptest::collection::vec((0..4_i32, 0..12_u32), 0..3), any::<bool>()).prop_map(|(o, b)| Move::Commit(o, b)),
        1 => (0..6_i32).prop_map(Move::Metadata),
        1 => (0..20_u64).prop_map(Move::Leave),
    ]
}

fn answer_request(rig: &mut Harness, outgoing: &crate::request::OutboundRequest, partitions: &[i32]) {
    match outgoing.request.api() {
        ApiKey::FindCoordinator => {
            rig.sent.insert(0, outgoing.clone());
            rig.locate(NODE);
        }
        ApiKey::JoinGroup => rig.answer_join(outgoing, Assignor::CooperativeSticky),
        ApiKey::SyncGroup => rig.assign(outgoing, partitions),
        ApiKey::ConsumerGroupHeartbeat => {
            let epoch = i32::try_from(partitions.len()).unwrap_or(0) + rig.group.generation().max(1);
            rig.answer_beat(outgoing, epoch, (partitions.len() != 1).then_some(&[(TOPIC, partitions)]));
        }
        ApiKey::OffsetFetch => {
            rig.sent.insert(0, outgoing.clone());
            rig.load(&[(1, 5)]);
        }
        ApiKey::OffsetCommit => {
            let (_, offsets) = committed(outgoing);
            let codes: Vec<_> = offsets.iter().map(|(p, _)| (*p, ErrorCode::NONE)).collect();
            rig.answer_commit(outgoing, &codes);
        }
        _ => rig.refuse(outgoing, ErrorCode::NONE),
    }
}

fn play(rig: &mut Harness, moves: Vec<Move>) -> Result<(), TestCaseError> {
    let mut ids = 0;
    let mut answers: BTreeMap<u32, usize> = BTreeMap::new();
    let close = [Move::Leave(1), Move::Wait(1000), Move::Deadline, Move::Wait(500), Move::Deadline];
    for step in moves.into_iter().chain(close) {
        let open = |rig: &mut Harness, i: usize| (!rig.sent.is_empty()).then(|| rig.sent.remove(i % rig.sent.len()));
        match step {
            Move::Start(more) => {
                let topics = if more { vec!["t".into(), "u".into()] } else { vec!["t".into()] };
                rig.step(GroupEvent::Subscribe { topics });
            }
            Move::Wait(millis) => rig.advance(millis * MILLI),
            Move::Deadline => {
                if let Some(deadline) = rig.group.deadline() {
                    rig.advance(deadline.saturating_sub(rig.now));
                }
            }
            Move::Fail(i, sent) => {
                if let Some(outgoing) = open(rig, i) {
                    rig.fail(&outgoing, if sent { RequestError::Disconnected } else { RequestError::NoConnection });
                }
            }
            Move::Refuse(i, code) => {
                if let Some(outgoing) = open(rig, i) {
                    match outgoing.request.api() {
                        ApiKey::OffsetCommit => {
                            let (_, offsets) = committed(&outgoing);
                            let codes: Vec<_> = offsets.iter().map(|(p, _)| (*p, ErrorCode(code))).collect();
                            rig.answer_commit(&outgoing, &codes);
                        }
                        ApiKey::OffsetFetch => rig.answer_offsets(&outgoing, ErrorCode(code), &[]),
                        ApiKey::FindCoordinator => rig.fail(&outgoing, RequestError::TimedOut),
                        _ => rig.refuse(&outgoing, ErrorCode(code)),
                    }
                }
            }
            Move::Garbage(i, body) => {
                if let Some(outgoing) = open(rig, i) {
                    let api = outgoing.request.api();
                    let version = *api.ours().start();
                    rig.reply(&outgoing, Ok(Response { api, version, frame: Frame::from(body), body: 0 }));
                }
            }
            Move::Please(i, partitions) => {
                if let Some(outgoing) = open(rig, i) {
                    answer_request(rig, &outgoing, &partitions);
                }
            }
            Move::Ack(epoch) => rig.step(GroupEvent::RevocationAcked { epoch }),
            Move::Commit(offsets, background) => {
                let id = if background { 0 } else { ids + 1 };
                ids += u32::from(!background);
                let offsets = offsets
                    .iter()
                    .map(|(p, epoch)| commit(&tp(*p), i64::from(*epoch), rig.epoch(*p).unwrap_or(*epoch)));
                let offsets = offsets.collect();
                rig.step(GroupEvent::Commit { offsets, id });
            }
            Move::Metadata(count) => {
                rig.view.0.insert("t".to_owned(), count);
                rig.step(GroupEvent::MetadataChanged);
            }
            Move::Leave(seconds) => {
                rig.step(GroupEvent::Leave { deadline: rig.now + seconds * SECOND, remain_in_group: seconds % 2 == 0 });
            }
        }
        for action in &rig.actions {
            if let GroupAction::CommitResult { id, .. } = action {
                *answers.entry(*id).or_default() += 1;
            }
        }
        rig.actions.clear();
    }
    prop_assert!(matches!(rig.group.state_name(), "left" | "unjoined" | "failed"), "{}", rig.group.state_name());
    prop_assert_eq!((rig.group.assignment().count(), rig.group.deadline()), (0, None));
    answers.remove(&0);
    prop_assert_eq!(answers, (1..=ids).map(|id| (id, 1)).collect::<BTreeMap<_, _>>());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn anything_goes_and_every_commit_is_answered_once(moves in proptest::collection::vec(moves(), 0..120), kind in 0..6) {
        let mut rig = match kind {
            0 => Harness::eager(),
            1 => Harness::with(GroupConfig { instance_id: Some("i".into()), ..GroupConfig::new("g") }),
            2 => consumer(GroupConfig::new("g")),
            3 => consumer(GroupConfig { instance_id: Some("i".into()), ..GroupConfig::new("g") }),
            4 => consumer(GroupConfig { protocol: GroupProtocol::Auto, ..GroupConfig::new("g") }),
            _ => Harness::with(GroupConfig::new("g")),
        };
        // `Harness::advance` asserts that no deadline passes without effect.
        play(&mut rig, moves)?;
    }
}

/// Checks that a response without a request is ignored.
#[test]
fn an_answer_to_no_question_is_ignored() {
    let mut rig = Harness::new();
    rig.join(&[0]);
    let heartbeat = rig.next_heartbeat();
    for id in 0..200 {
        let mut stray = heartbeat.clone();
        stray.token.id = id;
        if id == heartbeat.token.id {
            continue;
        }
        let to = ReplyTo { client: 0, connection: 0, token: id, api: ApiKey::Heartbeat, version: 4 };
        let body = failure(to, ErrorCode::UNKNOWN_MEMBER_ID);
        rig.reply(&stray, Ok(Response { api: ApiKey::Heartbeat, version: 4, frame: Frame::from(body), body: 0 }));
    }
    assert!(rig.log_texts().is_empty());
}
