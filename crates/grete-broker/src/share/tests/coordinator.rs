//! Members, sessions, settings and restarts of share groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::ShareGroupHeartbeatRequest;

use crate::effects::{Change, Effects};
use crate::group::Requester;
use crate::ids::{ConnId, Millis, RequestId, TopicId};
use crate::share::ShareCoordinator;
use crate::share::config::ShareGroupConfig;
use crate::share::partition::SharePartition;
use crate::share::session::{SessionKey, ShareSessions};

const GROUP: &str = "tasks";
const ORDERS: TopicId = 7;

struct Harness {
    coordinator: ShareCoordinator,
    effects: Effects,
    partitions: i32,
}

impl Harness {
    fn new(config: ShareGroupConfig) -> Self {
        Self { coordinator: ShareCoordinator::new(config), effects: Effects::default(), partitions: 2 }
    }

    /// Sends a heartbeat. Returns the member epoch and the assigned partitions; `None`: they are as before.
    fn beat(&mut self, now: Millis, member: &str, epoch: i32) -> Result<(i32, Option<Vec<i32>>), ErrorCode> {
        let request = ShareGroupHeartbeatRequest {
            group_id: GROUP.into(),
            member_id: member.to_owned().into(),
            member_epoch: epoch,
            subscribed_topic_names: (epoch == 0).then(|| vec!["orders".into()]),
            ..ShareGroupHeartbeatRequest::default()
        };
        self.send(now, &request)
    }

    fn send(
        &mut self,
        now: Millis,
        request: &ShareGroupHeartbeatRequest<'_>,
    ) -> Result<(i32, Option<Vec<i32>>), ErrorCode> {
        let requester = Requester { request: RequestId(1), version: 1, client_id: "c", client_host: "h" };
        let count = self.partitions;
        let find_topic = |name: &str| (name == "orders" && count > 0).then_some((ORDERS, count));
        let response = self.coordinator.heartbeat(now, &requester, request, &find_topic, &mut self.effects);
        let response = response.map_err(|refusal| refusal.code)?;
        let assigned = response.assignment.map(|assignment| {
            assignment.topic_partitions.into_iter().flat_map(|topic| topic.partitions).collect::<Vec<_>>()
        });
        Ok((response.member_epoch, assigned))
    }

    fn restored(&self) -> ShareCoordinator {
        let mut restored = ShareCoordinator::new(self.coordinator.config().clone());
        for change in &self.effects.changes {
            let Change::Share(change) = change else { panic!("a change of another kind: {change:?}") };
            restored.restore(change.clone());
        }
        restored
    }
}

#[test]
fn members_share_the_partitions_as_they_come_and_go() {
    let mut harness = Harness::new(ShareGroupConfig::default());
    assert_eq!(harness.beat(0, "a", 0), Ok((1, Some(vec![0, 1]))));
    assert_eq!(harness.beat(0, "a", 1), Ok((1, None)));
    assert_eq!(harness.beat(0, "b", 0), Ok((2, Some(vec![1]))));
    assert_eq!(harness.beat(0, "a", 1), Ok((2, Some(vec![0]))));
    // The response with the new epoch may be lost.
    assert_eq!(harness.beat(0, "a", 1), Ok((2, None)));
    harness.partitions = 3;
    assert_eq!(harness.beat(0, "b", 2), Ok((3, None)));
    assert_eq!(harness.beat(0, "a", 2), Ok((3, Some(vec![0, 2]))));
    assert_eq!(harness.beat(0, "b", -1), Ok((-1, None)));
    assert_eq!(harness.beat(0, "a", 3), Ok((4, Some(vec![0, 1, 2]))));
    assert_eq!(harness.coordinator.group(GROUP).unwrap().state(), "Stable");
    harness.partitions = 0;
    assert_eq!(harness.beat(0, "a", 4), Ok((5, Some(vec![]))), "the topic is gone");
}

#[test]
fn heartbeats_that_are_not_valid_are_refused() {
    let config = ShareGroupConfig { max_size: 1, ..ShareGroupConfig::default() };
    let mut harness = Harness::new(config);
    assert_eq!(harness.beat(0, "a", 3), Err(ErrorCode::GROUP_ID_NOT_FOUND));
    harness.beat(0, "a", 0).unwrap();
    assert_eq!(harness.beat(0, "b", 0), Err(ErrorCode::GROUP_MAX_SIZE_REACHED));
    assert_eq!(harness.beat(0, "b", 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(harness.beat(0, "b", -1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(harness.beat(0, "a", 9), Err(ErrorCode::FENCED_MEMBER_EPOCH));
    assert_eq!(harness.beat(0, "a", -2), Err(ErrorCode::INVALID_REQUEST));
    assert_eq!(harness.beat(0, "", 0), Err(ErrorCode::INVALID_REQUEST));
    let valid = ShareGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: "a".into(),
        subscribed_topic_names: Some(vec!["orders".into()]),
        ..ShareGroupHeartbeatRequest::default()
    };
    for wrong in [
        ShareGroupHeartbeatRequest { group_id: "".into(), ..valid.clone() },
        ShareGroupHeartbeatRequest { rack_id: Some("".into()), ..valid.clone() },
        ShareGroupHeartbeatRequest { subscribed_topic_names: None, ..valid.clone() },
        ShareGroupHeartbeatRequest { subscribed_topic_names: Some(Vec::new()), ..valid.clone() },
    ] {
        assert_eq!(harness.send(0, &wrong), Err(ErrorCode::INVALID_REQUEST), "{wrong:?}");
    }
    assert_eq!(harness.send(0, &valid), Ok((1, Some(vec![0, 1]))), "a member may join again");
}

#[test]
fn a_silent_member_is_removed_at_the_end_of_its_session() {
    let mut harness = Harness::new(ShareGroupConfig::default());
    harness.beat(0, "a", 0).unwrap();
    harness.beat(1_000, "b", 0).unwrap();
    assert_eq!(harness.coordinator.deadline(), Some(45_000));
    harness.coordinator.tick(45_000, &mut harness.effects);
    assert_eq!(harness.coordinator.deadline(), Some(46_000));
    assert_eq!(harness.beat(45_000, "b", 2), Ok((3, Some(vec![0, 1]))));
    assert!(harness.coordinator.expire_member(GROUP, "b", &mut harness.effects));
    assert!(!harness.coordinator.expire_member(GROUP, "b", &mut harness.effects));
    assert_eq!((harness.coordinator.deadline(), harness.coordinator.group(GROUP).unwrap().state()), (None, "Empty"));
    assert_eq!(harness.coordinator.delete_group(GROUP, &mut harness.effects), Ok(()));
    assert_eq!(harness.coordinator.delete_group(GROUP, &mut harness.effects), Err(ErrorCode::GROUP_ID_NOT_FOUND));
}

#[test]
fn a_restart_keeps_members_settings_and_records() {
    let mut harness = Harness::new(ShareGroupConfig::default());
    harness.beat(0, "a", 0).unwrap();
    let overrides: BTreeMap<String, String> = [("share.delivery.count.limit".to_owned(), "7".to_owned())].into();
    harness.coordinator.configure(GROUP, overrides, &mut harness.effects);
    let key = (Arc::from(GROUP), ORDERS, 0);
    harness.coordinator.begin_partition(&key, &mut harness.effects, || SharePartition::new(5, 1));
    harness
        .coordinator
        .begin_partition(&(Arc::from("other"), ORDERS, 0), &mut harness.effects, || SharePartition::new(9, 1));
    harness.coordinator.forget_offsets("other", ORDERS, &mut harness.effects);
    let mut restored = harness.restored();
    assert_eq!(restored.snapshot(), harness.coordinator.snapshot());
    assert_eq!(restored.settings(GROUP).delivery_count_limit, 7);
    assert_eq!(restored.partition(GROUP, ORDERS, 0).map(SharePartition::start), Some(5));
    assert_eq!(restored.deadline(), Some(Millis::MIN));
    restored.tick(100, &mut harness.effects);
    assert_eq!(restored.deadline(), Some(45_100));
    harness.coordinator.forget_topic(ORDERS, &mut harness.effects);
    assert_eq!(harness.restored().partition(GROUP, ORDERS, 0), None);
}

#[test]
fn sessions_have_epochs_and_a_limit() {
    let mut sessions = ShareSessions::default();
    let key = |member: &str| SessionKey { broker: 1, group: GROUP.into(), member: member.into() };
    let (a, b) = (key("a"), key("b"));
    assert_eq!(sessions.advance(&a, 1), Err(ErrorCode::SHARE_SESSION_NOT_FOUND));
    assert_eq!(sessions.begin(a.clone(), ConnId(1), vec![(ORDERS, 0), (ORDERS, 1)], 1), Ok(false));
    assert_eq!(sessions.begin(b, ConnId(2), Vec::new(), 1), Err(ErrorCode::SHARE_SESSION_LIMIT_REACHED));
    assert_eq!(sessions.begin(a.clone(), ConnId(1), vec![(ORDERS, 0), (ORDERS, 1)], 1), Ok(true));
    assert!(sessions.is_current(&a, 0));
    assert_eq!(sessions.advance(&a, 2), Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH));
    assert_eq!(sessions.advance(&a, 1), Ok(()));
    assert!(!sessions.is_current(&a, 0) && sessions.is_current(&a, 1));
    assert_eq!(sessions.rotate(&a), [(ORDERS, 0), (ORDERS, 1)]);
    sessions.change(&a, vec![(ORDERS, 2), (ORDERS, 1)], &[(ORDERS, 0)]);
    assert_eq!(sessions.rotate(&a), [(ORDERS, 1), (ORDERS, 2)]);
    assert_eq!(sessions.disconnect(ConnId(2)), []);
    assert_eq!(sessions.disconnect(ConnId(1)), std::slice::from_ref(&a));
    assert!(!sessions.contains(&a) && !sessions.end(&a));
}
