use std::sync::Arc;

use grete_wire::messages::create_topics::CreatableTopicResult;
use grete_wire::messages::describe_configs::{DescribeConfigsResourceResult, DescribeConfigsResult};
use grete_wire::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeletableTopicResult, DeleteTopicsResponse, DescribeConfigsRequest,
    DescribeConfigsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use grete_wire::{ApiKey, ErrorCode, Reader};

use super::super::*;
use super::Harness;
use super::harness::refused;
use crate::connection::CloseReason;
use crate::time::{MILLI, SECOND};

fn new_topic(name: &str) -> NewTopic {
    let name = Arc::from(name);
    NewTopic { name, partitions: 3, replication_factor: -1, assignment: Vec::new(), config: Vec::new() }
}

fn create(names: &[&str]) -> Operation {
    Operation::CreateTopics { topics: names.iter().map(|name| new_topic(name)).collect(), validate_only: false }
}

fn created(results: &[(&str, ErrorCode)]) -> CreateTopicsResponse<'static> {
    let result = |&(name, code): &(&str, ErrorCode)| CreatableTopicResult {
        name: name.to_owned().into(),
        error_code: code.0,
        ..Default::default()
    };
    CreateTopicsResponse { topics: results.iter().map(result).collect(), ..Default::default() }
}

fn controlled_by(node: i32) -> Harness {
    let mut rig = Harness::new(&[0, 1, 2], &[]);
    set_controller(&mut rig, node);
    rig
}

fn set_controller(rig: &mut Harness, node: i32) {
    rig.fake.controller = node;
    rig.fake.event(ClusterEvent::RefreshMetadata);
    rig.advance(2 * SECOND);
}

fn reply_created(rig: &mut Harness, results: &[(&str, ErrorCode)]) -> i32 {
    let (node, asked) = rig.next_request(ApiKey::CreateTopics);
    let body = created(results);
    rig.reply(&asked, |version, out| body.encode(version, out));
    node
}

#[test]
fn topics_are_created_at_the_controller_and_each_has_its_own_result() {
    let mut rig = controlled_by(2);
    let id = rig.submit(create(&["a", "b", "c"]));
    let (node, asked) = rig.next_request(ApiKey::CreateTopics);
    assert_eq!(node, 2);
    let question = CreateTopicsRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
    assert_eq!(question.topics.iter().map(|topic| &*topic.name).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!((question.topics[0].num_partitions, question.topics[0].replication_factor), (3, -1));
    // Results in another order, one with an error message of the broker.
    let mut body = created(&[("c", ErrorCode::NONE), ("b", ErrorCode::INVALID_CONFIG), ("a", ErrorCode::NONE)]);
    body.topics[1].error_message = Some("Unknown topic config name: colour".into());
    rig.reply(&asked, |version, out| body.encode(version, out));
    let message = Some("Unknown topic config name: colour".to_owned());
    let wrong = Err(AdminError::Refused { code: ErrorCode::INVALID_CONFIG, message });
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![Ok(()), wrong, Ok(())]));
}

#[test]
fn a_controller_that_has_moved_is_looked_for_again() {
    let mut rig = controlled_by(0);
    let id = rig.submit(create(&["a"]));
    rig.fake.controller = 1;
    assert_eq!(reply_created(&mut rig, &[("a", ErrorCode::NOT_CONTROLLER)]), 0);
    assert!(!rig.has_request(ApiKey::CreateTopics), "not without a pause");
    rig.advance(2 * SECOND);
    assert_eq!(reply_created(&mut rig, &[("a", ErrorCode::NONE)]), 1);
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![Ok(())]));
}

#[test]
fn only_what_may_pass_is_asked_again() {
    let mut rig = controlled_by(0);
    let id = rig.submit(create(&["a", "b"]));
    reply_created(&mut rig, &[("a", ErrorCode::TOPIC_ALREADY_EXISTS), ("b", ErrorCode::THROTTLING_QUOTA_EXCEEDED)]);
    rig.advance(SECOND);
    let (_, asked) = rig.next_request(ApiKey::CreateTopics);
    let question = CreateTopicsRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
    assert_eq!(question.topics.iter().map(|topic| &*topic.name).collect::<Vec<_>>(), ["b"]);
    let body = created(&[("b", ErrorCode::NONE)]);
    rig.reply(&asked, |version, out| body.encode(version, out));
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![refused(ErrorCode::TOPIC_ALREADY_EXISTS), Ok(())]));
}

/// The connection breaks after the request was sent: the second attempt finds the topic that the first one created.
#[test]
fn what_an_unanswered_attempt_has_done_is_done() {
    let mut rig = controlled_by(0);
    let id = rig.submit(create(&["a"]));
    let (_, asked) = rig.next_request(ApiKey::CreateTopics);
    rig.fake.hang_up(asked.conn, CloseReason::Eof);
    rig.advance(2 * SECOND);
    reply_created(&mut rig, &[("a", ErrorCode::TOPIC_ALREADY_EXISTS)]);
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![Ok(())]));

    let id = rig.submit(Operation::DeleteTopics { names: vec!["a".into()] });
    for (unanswered, expected) in [(true, Ok(())), (false, refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))] {
        let (_, mut asked) = rig.next_request(ApiKey::DeleteTopics);
        if unanswered {
            rig.fake.hang_up(asked.conn, CloseReason::Eof);
            rig.advance(2 * SECOND);
            asked = rig.next_request(ApiKey::DeleteTopics).1;
        }
        let result = DeletableTopicResult {
            name: Some("a".into()),
            error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
            ..Default::default()
        };
        let body = DeleteTopicsResponse { responses: vec![result], ..Default::default() };
        rig.reply(&asked, |version, out| body.encode(version, out));
        let id = if unanswered { id } else { id + 1 };
        assert_eq!(rig.take_reply(id), AdminReply::Done(vec![expected]));
        rig.submit(Operation::DeleteTopics { names: vec!["a".into()] });
    }
}

#[test]
fn a_request_that_was_never_sent_has_done_nothing() {
    let mut rig = controlled_by(0);
    rig.fake.kill("b0", 9092);
    rig.settle();
    let id = rig.submit(create(&["a"]));
    rig.fake.down.clear();
    rig.advance(3 * SECOND);
    reply_created(&mut rig, &[("a", ErrorCode::TOPIC_ALREADY_EXISTS)]);
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![refused(ErrorCode::TOPIC_ALREADY_EXISTS)]));
}

#[test]
fn the_end_of_the_time_says_what_was_waited_for() {
    let mut rig = controlled_by(0);
    let id = rig.submit_with_timeout(create(&["a", "b"]), 5 * SECOND);
    reply_created(&mut rig, &[("a", ErrorCode::NONE), ("b", ErrorCode::NOT_CONTROLLER)]);
    rig.advance(5 * SECOND - MILLI);
    assert!(rig.has_request(ApiKey::CreateTopics), "asked again, and silent");
    assert!(rig.replies.is_empty());
    rig.advance(MILLI);
    let waited_for = "the controller to answer CreateTopics for topic b".to_owned();
    let last = Some(ErrorCode::NOT_CONTROLLER.to_string());
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![Ok(()), Err(AdminError::TimedOut { waited_for, last })]));
    // A late response is ignored, and the connection stays open: the request's own timeout has not expired.
    reply_created(&mut rig, &[("b", ErrorCode::NONE)]);
    assert!(rig.replies.is_empty());
    assert_eq!(rig.operations.deadline(), None);
}

#[test]
fn a_broker_that_cannot_do_it_is_no_reason_to_wait() {
    let mut rig = Harness::new(&[0], &[]);
    rig.fake.max_versions.insert(ApiKey::DescribeConfigs, 0);
    let conns: Vec<_> = rig.fake.open.keys().copied().collect();
    for conn in conns {
        rig.fake.hang_up(conn, CloseReason::Eof);
    }
    let id = rig.submit(Operation::DescribeConfigs { resources: vec![ConfigResource::Topic("a".into())] });
    rig.advance(3 * SECOND);
    let AdminReply::Configs(results) = rig.take_reply(id) else { panic!("configs") };
    let Err(error @ AdminError::Request(_)) = &results[0] else { panic!("{results:?}") };
    assert!(error.to_string().contains("DescribeConfigs"), "{error}");
}

#[test]
fn each_broker_is_asked_for_its_own_settings() {
    let mut rig = Harness::new(&[0, 1, 2], &[]);
    let resources = vec![
        ConfigResource::Broker(1),
        ConfigResource::Topic("a".into()),
        ConfigResource::Broker(2),
        ConfigResource::Broker(9),
    ];
    let id = rig.submit(Operation::DescribeConfigs { resources });
    for _ in 0..3 {
        let (node, asked) = rig.next_request(ApiKey::DescribeConfigs);
        let question = DescribeConfigsRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
        assert_eq!(question.resources.len(), 1);
        let resource = &question.resources[0];
        assert!(resource.resource_type == 2 || *resource.resource_name == node.to_string());
        let entry = DescribeConfigsResourceResult {
            name: "retention.ms".into(),
            value: Some(node.to_string().into()),
            config_source: 5,
            ..Default::default()
        };
        let result = DescribeConfigsResult {
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.to_string().into(),
            configs: vec![entry],
            ..Default::default()
        };
        let body = DescribeConfigsResponse { results: vec![result], ..Default::default() };
        rig.reply(&asked, |version, out| body.encode(version, out));
    }
    rig.advance(SECOND); // the metadata is requested once more because of broker 9
    let AdminReply::Configs(results) = rig.take_reply(id) else { panic!("configs") };
    let value = |index: usize| results[index].as_ref().unwrap()[0].value.clone().unwrap();
    assert_eq!((value(0), value(2)), ("1".to_owned(), "2".to_owned()));
    assert_eq!(results[0].as_ref().unwrap()[0].source, ConfigSource::Default);
    assert_eq!(results[3], Err(AdminError::NoBroker(9)));
}

#[test]
fn settings_are_changed_one_by_one() {
    let mut rig = Harness::new(&[0], &[]);
    let alteration = ConfigAlteration {
        resource: ConfigResource::Topic("a".into()),
        set: vec![("retention.ms".into(), "1000".into())],
        delete: vec!["cleanup.policy".into()],
    };
    let id = rig.submit(Operation::AlterConfigs { alterations: vec![alteration], validate_only: true });
    let (_, asked) = rig.next_request(ApiKey::IncrementalAlterConfigs);
    let question = IncrementalAlterConfigsRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
    assert!(question.validate_only);
    let configs = &question.resources[0].configs;
    let flat: Vec<_> = configs.iter().map(|c| (&*c.name, c.config_operation, c.value.as_deref())).collect();
    assert_eq!(flat, [("retention.ms", 0, Some("1000")), ("cleanup.policy", 1, None)]);
    // A response that omits the topic proves nothing.
    let empty = IncrementalAlterConfigsResponse::default();
    rig.reply(&asked, |version, out| empty.encode(version, out));
    assert!(rig.replies.is_empty());
    rig.advance(SECOND);
    assert!(rig.has_request(ApiKey::IncrementalAlterConfigs));
    rig.step(OperationsEvent::Cancel(id));
    assert_eq!(rig.operations.deadline(), None);
}

#[test]
fn a_new_topic_is_waited_for_at_every_broker() {
    let mut rig = Harness::new(&[0, 1], &[]);
    let expected = vec![(Arc::from("a"), ExpectedTopicState::Partitions(2))];
    let id = rig.submit(Operation::AwaitPropagation { nodes: vec![0, 1], expected });
    rig.fake.set_topic("a", 1, &[(0, 0), (-1, 0)]);
    rig.advance(2 * SECOND);
    assert!(rig.replies.is_empty(), "one partition has no leader");
    rig.fake.set_topic("a", 1, &[(0, 0), (1, 0)]);
    rig.advance(2 * SECOND);
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![Ok(()), Ok(())]));

    let expected = vec![(Arc::from("a"), ExpectedTopicState::Gone)];
    let id = rig.submit_with_timeout(Operation::AwaitPropagation { nodes: vec![0, 1], expected }, 5 * SECOND);
    rig.advance(5 * SECOND);
    let AdminReply::Done(results) = rig.take_reply(id) else { panic!("done") };
    let said = results[0].as_ref().unwrap_err().to_string();
    assert!(said.ends_with("last error: topic a still exists"), "{said}");
}
