//! Creation, change and deletion of topics.

use grete_wire::ErrorCode;
use grete_wire::messages::{
    AlterConfigsRequest, AlterConfigsRequestAlterConfigsResource, AlterConfigsRequestAlterableConfig, CreatableTopic,
    CreatableTopicConfig, CreatePartitionsRequest, CreatePartitionsTopic, CreateTopicsRequest, DeleteRecordsPartition,
    DeleteRecordsRequest, DeleteRecordsTopic, DeleteTopicState, DeleteTopicsRequest, DescribeConfigsRequest,
    DescribeConfigsResource, IncrementalAlterConfigsRequest, IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsRequestAlterableConfig, MetadataRequest, MetadataRequestTopic,
};

use super::harness::Fixture;

fn create(fixture: &mut Fixture, topic: CreatableTopic<'_>) -> (i16, String) {
    let conn = fixture.connect(1);
    let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    fixture.call(conn, 7, &request, |response| {
        let topic = &response.topics[0];
        (topic.error_code, topic.error_message.as_deref().unwrap_or_default().to_owned())
    })
}

fn topic(name: &str) -> CreatableTopic<'_> {
    CreatableTopic { name: name.into(), num_partitions: 1, replication_factor: 1, ..CreatableTopic::default() }
}

#[test]
fn a_topic_that_cannot_be_is_refused_with_the_cause() {
    let mut fixture = Fixture::new(2);
    let setting = |name: &'static str, value: &'static str| {
        vec![CreatableTopicConfig { name: name.into(), value: Some(value.into()) }]
    };
    let refused = [
        (topic("a b"), ErrorCode::INVALID_TOPIC_EXCEPTION, "alphanumerics"),
        (CreatableTopic { num_partitions: 0, ..topic("a") }, ErrorCode::INVALID_PARTITIONS, "1 to"),
        (CreatableTopic { replication_factor: 3, ..topic("a") }, ErrorCode::INVALID_REPLICATION_FACTOR, "2 broker(s)"),
        (CreatableTopic { configs: setting("retention", "1"), ..topic("a") }, ErrorCode::INVALID_CONFIG, "retention"),
        (CreatableTopic { configs: setting("retention.ms", "x"), ..topic("a") }, ErrorCode::INVALID_CONFIG, "integer"),
    ];
    for (topic, code, text) in refused {
        let (error, message) = create(&mut fixture, topic);
        assert!(error == code.0 && message.contains(text), "{error} {message}");
    }
    assert_eq!(create(&mut fixture, topic("a.b")).0, 0);
    assert_eq!(create(&mut fixture, topic("a.b")).0, ErrorCode::TOPIC_ALREADY_EXISTS.0);
    assert_eq!(create(&mut fixture, topic("a_b")).0, ErrorCode::INVALID_TOPIC_EXCEPTION.0);
}

#[test]
fn a_name_that_is_listed_twice_is_refused_and_a_trial_creates_nothing() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    let twice = CreateTopicsRequest { topics: vec![topic("a"), topic("a")], ..CreateTopicsRequest::default() };
    fixture.call(conn, 7, &twice, |response| {
        assert!(response.topics.iter().all(|topic| topic.error_code == ErrorCode::INVALID_REQUEST.0));
    });
    let trial = CreateTopicsRequest { topics: vec![topic("a")], validate_only: true, ..CreateTopicsRequest::default() };
    fixture.call(conn, 7, &trial, |response| assert_eq!(response.topics[0].error_code, 0));
    assert!(fixture.cluster.topics().is_empty() && fixture.changes.is_empty());
}

#[test]
fn metadata_creates_a_topic_only_if_both_sides_want() {
    for (client, broker, code) in [(true, true, 0), (false, true, 3), (true, false, 3)] {
        let mut fixture = Fixture::with(|config| config.auto_create_topics = broker, 1);
        let conn = fixture.connect(1);
        let request = MetadataRequest {
            topics: Some(vec![MetadataRequestTopic { name: Some("new".into()), ..MetadataRequestTopic::default() }]),
            allow_auto_topic_creation: client,
            ..MetadataRequest::default()
        };
        assert_eq!(fixture.call(conn, 12, &request, |response| response.topics[0].error_code), code);
    }
}

#[test]
fn partitions_grow_and_a_new_topic_of_the_same_name_has_another_id() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 2);
    let grow = |count| CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic { name: "orders".into(), count, assignments: None }],
        ..CreatePartitionsRequest::default()
    };
    let code =
        |fixture: &mut Fixture, count| fixture.call(conn, 3, &grow(count), |response| response.results[0].error_code);
    assert_eq!((code(&mut fixture, 2), code(&mut fixture, 1)), (37, 37));
    assert_eq!(code(&mut fixture, 3), 0);
    assert_eq!(fixture.produce(conn, "orders", 2, &["a"]), (0, 0));
    let id = fixture.cluster.topics().get("orders").unwrap().id;
    let delete = DeleteTopicsRequest {
        topics: vec![DeleteTopicState { name: None, topic_id: id }],
        ..DeleteTopicsRequest::default()
    };
    fixture.call(conn, 6, &delete, |response| assert_eq!(response.responses[0].name.as_deref(), Some("orders")));
    fixture.call(conn, 6, &delete, |response| {
        assert_eq!(response.responses[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID.0);
    });
    fixture.create_topic(conn, "orders", 1);
    assert_ne!(fixture.cluster.topics().get("orders").unwrap().id, id);
}

#[test]
fn records_are_deleted_unless_a_topic_is_compacted_only() {
    for (policy, code) in [
        ("delete", ErrorCode::NONE),
        ("compact,delete", ErrorCode::NONE),
        ("", ErrorCode::NONE),
        ("compact", ErrorCode::POLICY_VIOLATION),
    ] {
        let mut fixture = Fixture::new(1);
        let configs = vec![CreatableTopicConfig { name: "cleanup.policy".into(), value: Some(policy.into()) }];
        assert_eq!(create(&mut fixture, CreatableTopic { configs, ..topic("orders") }).0, 0, "{policy:?}");
        let partition = DeleteRecordsPartition { partition_index: 0, offset: 0 };
        let topic = DeleteRecordsTopic { name: "orders".into(), partitions: vec![partition] };
        let request = DeleteRecordsRequest { topics: vec![topic], ..DeleteRecordsRequest::default() };
        let conn = fixture.connect(1);
        let deleted = fixture.call(conn, 2, &request, |response| response.topics[0].partitions[0].error_code);
        assert_eq!(deleted, code.0, "{policy:?}");
    }
}

#[test]
fn a_topic_that_is_listed_twice_for_deletion_is_refused_once() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    for name in ["a", "b", "c"] {
        fixture.create_topic(conn, name, 1);
    }
    let id = |fixture: &Fixture, name: &str| fixture.cluster.topics().get(name).unwrap().id;
    let by_id = |topic_id| DeleteTopicState { name: None, topic_id };
    let by_name = |name: &'static str| DeleteTopicState { name: Some(name.into()), topic_id: 0 };
    let mut delete = |topics: Vec<DeleteTopicState<'static>>| {
        let request = DeleteTopicsRequest { topics, ..DeleteTopicsRequest::default() };
        fixture.call(conn, 6, &request, |response| {
            let codes =
                response.responses.iter().map(|topic| (topic.name.as_deref().map(str::to_owned), topic.error_code));
            codes.collect::<Vec<_>>()
        })
    };
    let invalid = ErrorCode::INVALID_REQUEST.0;
    let named = |name: &str, code| (Some(name.to_owned()), code);
    assert_eq!(delete(vec![by_id(57_005), by_id(57_005)]), [(None, invalid)]);
    assert_eq!(delete(vec![by_name("a"), by_name("b"), by_name("a")]), [named("a", invalid), named("b", 0)]);
    let (a, c) = (id(&fixture, "a"), id(&fixture, "c"));
    let mut delete = |topics: Vec<DeleteTopicState<'static>>| {
        let request = DeleteTopicsRequest { topics, ..DeleteTopicsRequest::default() };
        fixture.call(conn, 6, &request, |response| {
            response.responses.iter().map(|topic| (topic.topic_id, topic.error_code)).collect::<Vec<_>>()
        })
    };
    assert_eq!(delete(vec![by_name("a"), by_id(c), by_id(a)]), [(a, invalid), (c, 0)]);
    assert!(fixture.cluster.topics().get("a").is_some() && fixture.cluster.topics().get("c").is_none());
}

#[test]
fn lags_of_compaction_that_exclude_each_other_are_refused_before_the_topic_is_looked_up() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 1);
    let lags = [("max.compaction.lag.ms", "1"), ("min.compaction.lag.ms", "10")];
    let configs = lags.map(|(name, value)| CreatableTopicConfig { name: name.into(), value: Some(value.into()) });
    let created = create(&mut fixture, CreatableTopic { configs: configs.to_vec(), ..topic("new") });
    assert_eq!(created.0, ErrorCode::INVALID_CONFIG.0);
    for name in ["orders", "missing"] {
        let configs = lags
            .map(|(name, value)| AlterConfigsRequestAlterableConfig { name: name.into(), value: Some(value.into()) });
        let resource = AlterConfigsRequestAlterConfigsResource {
            resource_type: 2,
            resource_name: name.into(),
            configs: configs.to_vec(),
        };
        let request = AlterConfigsRequest { resources: vec![resource], validate_only: false };
        let replaced = fixture.call(conn, 2, &request, |response| response.responses[0].error_code);
        let configs = lags.map(|(name, value)| IncrementalAlterConfigsRequestAlterableConfig {
            name: name.into(),
            config_operation: 0,
            value: Some(value.into()),
        });
        let resource = IncrementalAlterConfigsRequestAlterConfigsResource {
            resource_type: 2,
            resource_name: name.into(),
            configs: configs.to_vec(),
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
        let altered = fixture.call(conn, 1, &request, |response| response.responses[0].error_code);
        assert_eq!((replaced, altered), (ErrorCode::INVALID_CONFIG.0, ErrorCode::INVALID_CONFIG.0), "{name}");
    }
}

#[test]
fn values_are_answered_as_given_by_a_creation_and_as_read_by_a_description() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    let given = [("preallocate", "TRUE", "true"), ("retention.ms", " 86400000 ", "86400000")];
    let configs = given.map(|(name, value, _)| CreatableTopicConfig { name: name.into(), value: Some(value.into()) });
    let topic = CreatableTopic { configs: configs.to_vec(), ..topic("orders") };
    let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    fixture.call(conn, 7, &request, |response| {
        let configs = response.topics[0].configs.as_ref().unwrap();
        for (name, value, _) in given {
            let config = configs.iter().find(|config| config.name == name).unwrap();
            assert_eq!(config.value.as_deref(), Some(value));
        }
    });
    let resource =
        DescribeConfigsResource { resource_type: 2, resource_name: "orders".into(), configuration_keys: None };
    let request = DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        ..DescribeConfigsRequest::default()
    };
    fixture.call(conn, 4, &request, |response| {
        for (name, _, value) in given {
            let config = response.results[0].configs.iter().find(|config| config.name == name).unwrap();
            let synonym = config.synonyms.first().map(|synonym| (&*synonym.name, synonym.value.as_deref()));
            assert_eq!((config.value.as_deref(), synonym), (Some(value), Some((name, Some(value)))));
        }
    });
}
