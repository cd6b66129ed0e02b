//! Requests of clients with and without ACLs, through the cluster's core.

use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::*;

use super::harness::{Fixture, batch, fetch_request, only_partition, produce_request};
use crate::acl::{Acl, AclChange, AclConfig, Operation, PatternType, Permission, ResourceType};
use crate::cluster::Event;
use crate::ids::ConnId;

const TOPIC_FAILED: i16 = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
const GROUP_FAILED: i16 = ErrorCode::GROUP_AUTHORIZATION_FAILED.0;
const CLUSTER_FAILED: i16 = ErrorCode::CLUSTER_AUTHORIZATION_FAILED.0;

fn fixture() -> Fixture {
    let acls = AclConfig { super_users: ["User:admin".to_owned()].into(), ..AclConfig::default() };
    Fixture::with(|config| config.acls = Some(acls), 1)
}

fn connect(fixture: &mut Fixture, user: &str) -> ConnId {
    let conn = fixture.connect(1);
    fixture.step(Event::Identified { conn, principal: format!("User:{user}").into() });
    conn
}

fn acl(resource_type: ResourceType, name: &str, operation: Operation) -> Acl {
    let (principal, host): (Arc<str>, Arc<str>) = ("User:alice".into(), "*".into());
    let (pattern, permission) = (PatternType::Literal, Permission::Allow);
    Acl { resource_type, name: name.into(), pattern, principal, host, operation, permission }
}

fn grant(fixture: &mut Fixture, resource_type: ResourceType, name: &str, operation: Operation) {
    fixture.cluster.change_acls(AclChange::Created(acl(resource_type, name, operation)));
}

/// Creates the topics `orders` and `secrets` with a record each, and connects alice.
fn prepared() -> (Fixture, ConnId, ConnId) {
    let mut fixture = fixture();
    let admin = connect(&mut fixture, "admin");
    for topic in ["orders", "secrets"] {
        assert_eq!(fixture.create_topic(admin, topic, 1), 0);
        assert_eq!(fixture.produce(admin, topic, 0, &["a"]).0, 0);
    }
    let alice = connect(&mut fixture, "alice");
    (fixture, admin, alice)
}

fn fetched(fixture: &mut Fixture, conn: ConnId, topic: &str) -> (i16, usize) {
    fixture.call(conn, 12, &fetch_request(topic, 0, 0, 0), |response| only_partition(&response))
}

fn topics(fixture: &mut Fixture, conn: ConnId, names: Option<&[&str]>) -> Vec<(String, i16)> {
    let name = |name: &&str| MetadataRequestTopic { name: Some((*name).to_owned().into()), topic_id: 0 };
    let topics = names.map(|names| names.iter().map(name).collect());
    let request = MetadataRequest { topics, allow_auto_topic_creation: true, ..MetadataRequest::default() };
    fixture.call(conn, 12, &request, |response| {
        let topics = response.topics.into_iter();
        topics.map(|topic| (topic.name.unwrap_or_default().into_owned(), topic.error_code)).collect()
    })
}

#[test]
fn records_need_read_and_write() {
    let (mut fixture, _, alice) = prepared();
    assert_eq!(fixture.produce(alice, "orders", 0, &["b"]), (TOPIC_FAILED, -1));
    assert_eq!(fetched(&mut fixture, alice, "orders"), (TOPIC_FAILED, 0));
    // A topic that does not exist looks the same.
    assert_eq!(fetched(&mut fixture, alice, "missing"), (TOPIC_FAILED, 0));
    grant(&mut fixture, ResourceType::Topic, "orders", Operation::Write);
    assert_eq!(fixture.produce(alice, "orders", 0, &["b"]), (0, 1));
    assert_eq!(fetched(&mut fixture, alice, "orders").0, TOPIC_FAILED);
    grant(&mut fixture, ResourceType::Topic, "orders", Operation::Read);
    assert_eq!(fetched(&mut fixture, alice, "orders").0, 0);
    assert_eq!(fetched(&mut fixture, alice, "secrets").0, TOPIC_FAILED);
}

#[test]
fn one_request_gets_what_is_allowed_and_refusals_for_the_rest() {
    let (mut fixture, _, alice) = prepared();
    grant(&mut fixture, ResourceType::Topic, "orders", Operation::Write);
    let records = batch(&["c"]);
    let mut request = produce_request("secrets", 0, &records);
    request.topic_data.extend(produce_request("orders", 0, &records).topic_data);
    let mut codes = fixture.call(alice, 9, &request, |response| {
        let topics = response.responses.into_iter();
        topics.map(|topic| (topic.name.into_owned(), topic.partition_responses[0].error_code)).collect::<Vec<_>>()
    });
    codes.sort();
    assert_eq!(codes, [("orders".to_owned(), 0), ("secrets".to_owned(), TOPIC_FAILED)]);
    assert_eq!(fixture.cluster.offsets("secrets").unwrap(), [(0, 1)]);
}

#[test]
fn a_fetch_that_waits_beside_a_refused_topic_waits_and_names_it() {
    let (mut fixture, admin, alice) = prepared();
    grant(&mut fixture, ResourceType::Topic, "orders", Operation::Read);
    let mut request = fetch_request("orders", 0, 1, 5_000);
    request.topics.extend(fetch_request("secrets", 0, 0, 0).topics);
    fixture.send(alice, 12, &request);
    assert!(fixture.received(alice).is_empty(), "the refusal does not end the wait");
    assert_eq!(fixture.produce(admin, "orders", 0, &["b"]).0, 0);
    let frames = fixture.received(alice);
    let codes = super::harness::decode::<FetchRequest<'_>, _>(12, &frames[0], |response| {
        let topics = response.responses.into_iter();
        topics.map(|topic| (topic.topic.into_owned(), topic.partitions[0].error_code)).collect::<Vec<_>>()
    });
    assert_eq!(codes, [("orders".to_owned(), 0), ("secrets".to_owned(), TOPIC_FAILED)]);
}

#[test]
fn metadata_shows_the_topics_that_the_client_may_describe() {
    let (mut fixture, admin, alice) = prepared();
    assert_eq!(topics(&mut fixture, alice, None), []);
    grant(&mut fixture, ResourceType::Topic, "orders", Operation::Read);
    assert_eq!(topics(&mut fixture, alice, None), [("orders".to_owned(), 0)]);
    let named = topics(&mut fixture, alice, Some(&["orders", "secrets", "missing"]));
    let refused = |name: &str| (name.to_owned(), TOPIC_FAILED);
    assert_eq!(named, [("orders".to_owned(), 0), refused("secrets"), refused("missing")]);
    // Who may describe a topic that does not exist may not create the topic.
    grant(&mut fixture, ResourceType::Topic, "new", Operation::Write);
    assert_eq!(topics(&mut fixture, alice, Some(&["new"])), [refused("new")]);
    grant(&mut fixture, ResourceType::Topic, "new", Operation::Create);
    assert_eq!(topics(&mut fixture, alice, Some(&["new"])), [("new".to_owned(), 0)]);
    assert_eq!(topics(&mut fixture, admin, None).len(), 3);
}

#[test]
fn allowed_operations_are_those_of_the_client() {
    let (mut fixture, _, alice) = prepared();
    grant(&mut fixture, ResourceType::Topic, "orders", Operation::Read);
    let request = MetadataRequest {
        topics: None,
        include_topic_authorized_operations: true,
        include_cluster_authorized_operations: true,
        ..MetadataRequest::default()
    };
    let operations = |response: MetadataResponse<'_>| {
        (response.topics[0].topic_authorized_operations, response.cluster_authorized_operations)
    };
    assert_eq!(fixture.call(alice, 10, &request, operations), (1 << 3 | 1 << 8, 0));
    grant(&mut fixture, ResourceType::Cluster, "kafka-cluster", Operation::Alter);
    assert_eq!(fixture.call(alice, 10, &request, operations), (1 << 3 | 1 << 8, 1 << 7 | 1 << 8));
}

#[test]
fn groups_need_read_and_their_topics_too() {
    let (mut fixture, _, alice) = prepared();
    let commit = || {
        let partition = OffsetCommitRequestPartition { committed_offset: 1, ..Default::default() };
        let topic = |name: &'static str| OffsetCommitRequestTopic {
            name: name.into(),
            partitions: vec![partition.clone()],
            ..Default::default()
        };
        OffsetCommitRequest {
            group_id: "billing".into(),
            generation_id_or_member_epoch: -1,
            topics: vec![topic("secrets"), topic("orders")],
            ..Default::default()
        }
    };
    let codes = |response: OffsetCommitResponse<'_>| {
        let mut codes: Vec<_> =
            response.topics.iter().map(|topic| (topic.name.to_string(), topic.partitions[0].error_code)).collect();
        codes.sort();
        codes
    };
    let both = |orders: i16, secrets: i16| [("orders".to_owned(), orders), ("secrets".to_owned(), secrets)];
    assert_eq!(fixture.call(alice, 8, &commit(), codes), both(GROUP_FAILED, GROUP_FAILED));
    grant(&mut fixture, ResourceType::Group, "billing", Operation::Read);
    grant(&mut fixture, ResourceType::Topic, "orders", Operation::Read);
    assert_eq!(fixture.call(alice, 8, &commit(), codes), both(0, TOPIC_FAILED));
    assert_eq!(fixture.cluster.committed("billing").len(), 1);
    let find =
        FindCoordinatorRequest { coordinator_keys: vec!["billing".into(), "other".into()], ..Default::default() };
    let found = fixture.call(alice, 4, &find, |response| {
        response.coordinators.iter().map(|found| (found.key.to_string(), found.error_code)).collect::<Vec<_>>()
    });
    assert_eq!(found, [("billing".to_owned(), 0), ("other".to_owned(), GROUP_FAILED)]);
    let join = JoinGroupRequest { group_id: "other".into(), session_timeout_ms: 10_000, ..Default::default() };
    assert_eq!(fixture.call(alice, 5, &join, |response| response.error_code), GROUP_FAILED);
    let listed = fixture.call(alice, 4, &ListGroupsRequest::default(), |response| response.groups.len());
    assert_eq!(listed, 1);
}

#[test]
fn an_idempotent_producer_needs_write_on_any_topic() {
    let (mut fixture, _, alice) = prepared();
    let request =
        InitProducerIdRequest { transactional_id: None, producer_id: -1, producer_epoch: -1, ..Default::default() };
    let code = |response: InitProducerIdResponse| response.error_code;
    assert_eq!(fixture.call(alice, 4, &request, code), CLUSTER_FAILED);
    grant(&mut fixture, ResourceType::Topic, "orders", Operation::Write);
    assert_eq!(fixture.call(alice, 4, &request, code), 0);
    let transactional =
        InitProducerIdRequest { transactional_id: Some("t".into()), transaction_timeout_ms: 1000, ..request };
    let failed = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED.0;
    assert_eq!(fixture.call(alice, 4, &transactional, code), failed);
    grant(&mut fixture, ResourceType::TransactionalId, "t", Operation::Write);
    assert_eq!(fixture.call(alice, 4, &transactional, code), 0);
}

fn filter_of_all() -> DeleteAclsFilter<'static> {
    DeleteAclsFilter {
        resource_type_filter: 1,
        resource_name_filter: None,
        pattern_type_filter: 1,
        principal_filter: None,
        host_filter: None,
        operation: 1,
        permission_type: 1,
    }
}

#[test]
fn numbers_that_acls_cannot_have_are_treated_as_kafka_does() {
    let (mut fixture, admin, _) = prepared();
    let token = AclCreation {
        resource_type: 6,
        resource_name: "x".into(),
        principal: "User:alice".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
        ..AclCreation::default()
    };
    let codes =
        |response: CreateAclsResponse<'_>| response.results.iter().map(|result| result.error_code).collect::<Vec<_>>();
    let unknown = AclCreation { operation: 77, ..token.clone() };
    let request = CreateAclsRequest { creations: vec![token.clone(), unknown] };
    assert_eq!(fixture.call(admin, 3, &request, codes), [0, ErrorCode::INVALID_REQUEST.0]);
    let any = AclCreation { operation: 1, ..token.clone() };
    let request =
        CreateAclsRequest { creations: vec![any, AclCreation { resource_name: "y".into(), ..token.clone() }] };
    assert_eq!(fixture.call(admin, 3, &request, codes), [ErrorCode::UNKNOWN_SERVER_ERROR.0; 2]);
    let zero = AclCreation { operation: 0, ..token };
    fixture.send(admin, 3, &CreateAclsRequest { creations: vec![zero] });
    assert!(fixture.is_closed(admin));
}

#[test]
fn acls_are_created_listed_and_deleted() {
    let (mut fixture, admin, alice) = prepared();
    let creation = AclCreation {
        resource_type: 2,
        resource_name: "orders".into(),
        principal: "User:alice".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
        ..AclCreation::default()
    };
    let wrong = AclCreation { resource_type: 4, ..creation.clone() };
    let unnamed = AclCreation { resource_name: "".into(), ..creation.clone() };
    let nobody = AclCreation { principal: "alice".into(), ..creation.clone() };
    let request = CreateAclsRequest { creations: vec![creation.clone(), wrong, unnamed, nobody, creation] };
    let codes =
        |response: CreateAclsResponse<'_>| response.results.iter().map(|result| result.error_code).collect::<Vec<_>>();
    const INVALID: i16 = ErrorCode::INVALID_REQUEST.0;
    assert_eq!(fixture.call(alice, 3, &request, codes), [CLUSTER_FAILED; 5]);
    assert_eq!(fixture.call(admin, 3, &request, codes), [0, INVALID, INVALID, INVALID, 0]);
    assert_eq!(fetched(&mut fixture, alice, "orders").0, 0);
    let filter = DescribeAclsRequest {
        resource_type_filter: 1,
        resource_name_filter: None,
        pattern_type_filter: 1,
        principal_filter: None,
        host_filter: None,
        operation: 1,
        permission_type: 1,
    };
    let listed = |response: DescribeAclsResponse<'_>| {
        (response.error_code, response.resources.iter().map(|resource| resource.acls.len()).sum::<usize>())
    };
    assert_eq!(fixture.call(admin, 3, &filter, listed), (0, 1));
    assert_eq!(fixture.call(alice, 3, &filter, listed), (CLUSTER_FAILED, 0));
    let odd = DescribeAclsRequest { operation: 77, ..filter.clone() };
    assert_eq!(fixture.call(admin, 3, &odd, listed), (0, 0), "Kafka finds nothing, and refuses nothing");
    let changes: Vec<_> = fixture.changes.clone();
    let request = DeleteAclsRequest { filters: vec![filter_of_all(), filter_of_all()] };
    let found = fixture.call(admin, 3, &request, |response| {
        response.filter_results.iter().map(|result| result.matching_acls.len()).collect::<Vec<_>>()
    });
    assert_eq!(found, [1, 1], "each filter says what it found");
    assert_eq!(fetched(&mut fixture, alice, "orders").0, TOPIC_FAILED);
    let odd = DeleteAclsFilter { operation: 77, ..filter_of_all() };
    let request = DeleteAclsRequest { filters: vec![odd, filter_of_all()] };
    let codes = fixture.call(admin, 3, &request, |response| {
        response.filter_results.iter().map(|result| result.error_code).collect::<Vec<_>>()
    });
    assert_eq!(codes, [INVALID, 0], "the other filters take effect");
    // The stored changes give the same ACLs after a restart.
    let mut restored = self::fixture();
    changes.iter().for_each(|change| restored.cluster.restore(change));
    let alice = connect(&mut restored, "alice");
    assert_eq!(fetched(&mut restored, alice, "orders").0, 0);
    fixture.changes.iter().skip(changes.len()).for_each(|change| restored.cluster.restore(change));
    assert_eq!(restored.cluster.snapshot(), fixture.cluster.snapshot());
    assert_eq!(fetched(&mut restored, alice, "orders").0, TOPIC_FAILED);
}

#[test]
fn brokers_without_an_authorizer_say_so() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    let request =
        DescribeAclsRequest { resource_type_filter: 1, operation: 1, permission_type: 1, ..Default::default() };
    let (code, message) = fixture.call(conn, 3, &request, |response| {
        (response.error_code, response.error_message.unwrap_or_default().into_owned())
    });
    assert_eq!((code, message.as_str()), (ErrorCode::SECURITY_DISABLED.0, "No Authorizer is configured."));
}

#[test]
fn members_of_the_consumer_protocol_need_the_group_and_all_topics() {
    let (mut fixture, admin, alice) = prepared();
    let beat = |fixture: &mut Fixture, conn, topics: &[&'static str]| {
        let request = ConsumerGroupHeartbeatRequest {
            group_id: "billing".into(),
            member_id: "a".into(),
            rebalance_timeout_ms: 1000,
            subscribed_topic_names: Some(topics.iter().copied().map(Into::into).collect()),
            topic_partitions: Some(Vec::new()),
            ..ConsumerGroupHeartbeatRequest::default()
        };
        fixture.call(conn, 1, &request, |response| response.error_code)
    };
    let describe = |fixture: &mut Fixture, conn| {
        let group_ids = vec!["billing".into()];
        let request = ConsumerGroupDescribeRequest { group_ids, include_authorized_operations: true };
        fixture.call(conn, 1, &request, |response| {
            let group = &response.groups[0];
            (group.error_code, group.members.len(), group.authorized_operations)
        })
    };
    assert_eq!(beat(&mut fixture, alice, &["orders"]), GROUP_FAILED);
    assert_eq!(describe(&mut fixture, alice), (GROUP_FAILED, 0, i32::MIN));
    grant(&mut fixture, ResourceType::Group, "billing", Operation::Read);
    assert_eq!(beat(&mut fixture, alice, &["orders"]), TOPIC_FAILED);
    grant(&mut fixture, ResourceType::Topic, "orders", Operation::Read);
    assert_eq!(beat(&mut fixture, alice, &["orders", "secrets"]), TOPIC_FAILED);
    assert_eq!(beat(&mut fixture, alice, &["orders"]), 0);
    // READ implies DESCRIBE.
    assert_eq!(describe(&mut fixture, alice), (0, 1, 1 << 3 | 1 << 8));
    assert_eq!(beat(&mut fixture, admin, &["orders", "secrets"]), 0);
    assert_eq!(describe(&mut fixture, alice), (TOPIC_FAILED, 0, i32::MIN));
    assert_eq!(describe(&mut fixture, admin).1, 1);
}
