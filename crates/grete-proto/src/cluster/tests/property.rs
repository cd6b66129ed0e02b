//! Property test with random events in random order: no panic, one reply per request, no deadline that stays in the
//! past.

use proptest::prelude::*;

use grete_wire::messages::HeartbeatResponse;
use grete_wire::{ErrorCode, Frame, WireError};

use super::super::test_cluster::FakeCluster;
use super::super::*;
use crate::connection::CloseReason;
use crate::request::{Request, RequestOwner, Target, Token};
use crate::time::{MILLI, SECOND};

/// A random event; its numbers select among the objects that exist at that moment.
#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Send { node: i32, channel: usize, timeout_ms: u64 },
    Need { node: i32, channel: usize },
    Connected(usize),
    Refused(usize),
    HangUp(usize, u8),
    Answer(usize),
    WrongAnswer(usize),
    Garbage(usize, Vec<u8>),
    Topics(u8),
    Refresh,
    Leader { partition: i32, node: i32, epoch: i32 },
    Brokers(u8),
    MetadataError(i16),
    Learn(i32),
    StrayConn(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..5_000_u64).prop_map(Step::Pass),
        1 => (0..400_000_u64).prop_map(Step::Pass),
        6 => (-3..5_i32, 0..Channel::COUNT, 0..40_000_u64)
            .prop_map(|(node, channel, timeout_ms)| Step::Send { node, channel, timeout_ms }),
        3 => (-2..5_i32, 0..Channel::COUNT).prop_map(|(node, channel)| Step::Need { node, channel }),
        8 => (0..4_usize).prop_map(Step::Connected),
        1 => (0..4_usize).prop_map(Step::Refused),
        1 => (0..8_usize, 0..6_u8).prop_map(|(conn, reason)| Step::HangUp(conn, reason)),
        14 => (0..4_usize).prop_map(Step::Answer),
        1 => (0..4_usize).prop_map(Step::WrongAnswer),
        1 => (0..8_usize, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(conn, bytes)| Step::Garbage(conn, bytes)),
        1 => (0..8_u8).prop_map(Step::Topics),
        1 => Just(Step::Refresh),
        1 => (-1..4_i32, -1..5_i32, -1..9_i32)
            .prop_map(|(partition, node, epoch)| Step::Leader { partition, node, epoch }),
        1 => (0..16_u8).prop_map(Step::Brokers),
        1 => prop_oneof![3 => Just(0_i16), 1 => Just(-1_i16), 1 => Just(129_i16)].prop_map(Step::MetadataError),
        1 => (-1..6_i32).prop_map(Step::Learn),
        1 => (0..50_u32).prop_map(Step::StrayConn),
    ]
}

fn pick<T: Clone>(from: impl Iterator<Item = T>, index: usize) -> Option<T> {
    let all: Vec<T> = from.collect();
    (!all.is_empty()).then(|| all[index % all.len()].clone())
}

fn act(fake: &mut FakeCluster, step: Step, sent: &mut u32) {
    match step {
        Step::Pass(ms) => {
            let end = fake.now + ms * MILLI;
            while let Some(deadline) = fake.cluster.deadline().filter(|&deadline| deadline <= end) {
                fake.now = fake.now.max(deadline);
                fake.event(ClusterEvent::Tick);
                let next = fake.cluster.deadline();
                assert!(next.is_none_or(|next| next > fake.now), "{next:?} is not after {}", fake.now);
            }
            fake.now = end;
        }
        Step::Send { node, channel, timeout_ms } => {
            *sent += 1;
            let target = if node < -1 { Target::Any } else { Target::Node(node) };
            let request = Request::Heartbeat(Default::default());
            let token = Token { owner: RequestOwner::Client, id: *sent };
            let (channel, timeout) = (Channel::ALL[channel], timeout_ms * MILLI);
            fake.event(ClusterEvent::Send(OutboundRequest { target, channel, request, token, timeout }));
        }
        Step::Need { node, channel } => fake.event(ClusterEvent::NeedNode(node, Channel::ALL[channel])),
        Step::Connected(index) => {
            if let Some((conn, address)) = pick(fake.connects.clone().into_iter(), index) {
                fake.connects.retain(|connect| connect.0 != conn);
                fake.connect(conn, address);
            }
        }
        Step::Refused(index) => {
            if let Some((conn, _)) = pick(fake.connects.clone().into_iter(), index) {
                fake.connects.retain(|connect| connect.0 != conn);
                fake.event(ClusterEvent::Closed(conn, CloseReason::Connect("refused".into())));
            }
        }
        Step::HangUp(index, reason) => {
            if let Some(conn) = pick(fake.open.clone().into_keys(), index) {
                let reason = match reason {
                    0 => CloseReason::Io("reset".into()),
                    1 => CloseReason::Wire(WireError::LooksLikeHttp),
                    2 => CloseReason::Wire(WireError::LooksLikeTls),
                    3 => CloseReason::Wire(WireError::BadVarint),
                    _ => CloseReason::Eof,
                };
                fake.hang_up(conn, reason);
            }
        }
        Step::Answer(index) => {
            if let Some(asked) = pick(fake.requests.clone().into_iter(), index) {
                fake.requests.retain(|other| *other != asked);
                if matches!(asked.api, ApiKey::ApiVersions | ApiKey::Metadata | ApiKey::SaslHandshake) {
                    fake.auto_respond(&asked);
                } else {
                    let throttle_time_ms = asked.correlation % 3 * 700;
                    let body = HeartbeatResponse { throttle_time_ms, ..Default::default() };
                    fake.respond(&asked, |version, out| body.encode(version, out));
                }
            }
        }
        Step::WrongAnswer(index) => {
            if let Some(mut asked) = pick(fake.requests.clone().into_iter(), index) {
                asked.correlation += 1;
                fake.respond(&asked, |_, out| {
                    out.extend([0; 30]);
                    Ok(())
                });
            }
        }
        Step::Garbage(index, bytes) => {
            if let Some(conn) = pick(fake.open.clone().into_keys(), index) {
                fake.event(ClusterEvent::Frame(conn, Frame::from(bytes)));
            }
        }
        Step::Topics(set) => {
            let names = ["orders", "clicks", "missing"];
            let chosen = names.iter().enumerate().filter(|(bit, _)| set & (1 << bit) != 0);
            fake.event(ClusterEvent::SetTopics(chosen.map(|(_, &name)| name.into()).collect()));
        }
        Step::Refresh => fake.event(ClusterEvent::RefreshMetadata),
        Step::Leader { partition, node, epoch } => {
            if partition >= 0 {
                let topic = fake.topics.get_mut("orders").unwrap();
                let place = usize::try_from(partition).unwrap() % topic.partitions.len();
                topic.partitions[place] = (node, epoch, ErrorCode::NONE);
            }
            fake.cluster.update_leader(&TopicPartition::new("orders", partition), node, epoch);
        }
        Step::Brokers(set) => {
            let all = (0..4_i32).filter(|bit| set & (1 << bit) != 0);
            fake.brokers = all.map(|id| (id, (format!("b{id}"), 9092))).collect();
        }
        Step::MetadataError(error) => fake.metadata_error = ErrorCode(error),
        Step::Learn(node) => {
            fake.cluster.learn_node(node, "learnt", 9092);
        }
        Step::StrayConn(conn)
            if conn < fake.cluster.next_conn && !fake.cluster.connections.contains_key(&ConnId(conn)) =>
        {
            fake.event(ClusterEvent::Closed(ConnId(conn), CloseReason::Eof));
            fake.event(ClusterEvent::Connected(ConnId(conn)));
            fake.event(ClusterEvent::Frame(ConnId(conn), Frame::from(vec![0; 8])));
        }
        Step::StrayConn(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_events_never_panic_and_every_request_has_one_reply(
        steps in prop::collection::vec(step(), 1..150),
        seed in any::<u64>(),
    ) {
        let config = ClusterConfig {
            bootstrap: vec![("boot".into(), 9092), ("b0".into(), 9092)],
            max_in_flight: 3,
            ..Default::default()
        };
        let mut fake = FakeCluster::with_config(config, seed);
        fake.answers_probes = true;
        fake.brokers = (0..3).map(|id| (id, (format!("b{id}"), 9092))).collect();
        fake.set_topic("orders", 7, &[(0, 3), (1, 4), (2, 0)]);
        fake.set_topic("clicks", 9, &[(1, 0)]);
        let mut sent = 0;
        for step in steps {
            act(&mut fake, step, &mut sent);
            // At most one connection for each channel of each node, and no others.
            let known: usize = fake.cluster.nodes.values().map(|node| node.conns.iter().flatten().count()).sum();
            prop_assert_eq!(known, fake.cluster.connections.len());
            prop_assert_eq!(known, fake.open.len() + fake.connects.len());
        }
        // No broker responds any more: timeouts alone produce the missing replies.
        act(&mut fake, Step::Pass(60_000), &mut sent);
        let mut replied: Vec<u32> = fake.replies.iter().map(|reply| reply.token.id).collect();
        replied.sort_unstable();
        prop_assert_eq!(replied, (1..=sent).collect::<Vec<_>>());
        // When the brokers work again, the cluster recovers.
        fake.brokers = (0..3).map(|id| (id, (format!("b{id}"), 9092))).collect();
        fake.metadata_error = ErrorCode::NONE;
        fake.set_topic("orders", 7, &[(0, 30), (1, 40), (2, 50)]);
        fake.event(ClusterEvent::SetTopics(vec!["orders".into()]));
        fake.event(ClusterEvent::RefreshMetadata);
        fake.advance(200 * SECOND);
        prop_assert_eq!(fake.cluster.leader(&TopicPartition::new("orders", 2)), Some((2, 50)));
    }
}
