//! Requests of admin clients.

use grete_wire::ApiKey;
use grete_wire::messages::*;

use super::{Dice, s};
use crate::message::{Ask, ask};
use crate::side::{Side, UNKNOWN_ID};

const CONFIGS: &[(&str, &str)] = &[
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "burn"),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.type", "CreateTime"),
    ("message.timestamp.type", "Never"),
    ("max.message.bytes", "300"),
    ("max.message.bytes", "-5"),
    ("max.message.bytes", "many"),
    ("retention.ms", "86400000"),
    ("retention.ms", "-1"),
    ("retention.ms", "-2"),
    ("retention.bytes", "1000000"),
    ("segment.bytes", "1048576"),
    ("segment.bytes", "1"),
    ("segment.ms", "0"),
    ("compression.type", "producer"),
    ("compression.type", "brotli"),
    ("min.insync.replicas", "1"),
    ("min.insync.replicas", "0"),
    ("delete.retention.ms", "1000"),
    ("min.cleanable.dirty.ratio", "0.1"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("unclean.leader.election.enable", "true"),
    ("unclean.leader.election.enable", "perhaps"),
    ("message.timestamp.after.max.ms", "3600000"),
    ("file.delete.delay.ms", "1000"),
    ("flush.messages", "7"),
    ("preallocate", "TRUE"),
    ("no.such.config", "1"),
    ("retention.ms", ""),
    ("retention.ms", " 86400000 "),
    ("leader.replication.throttled.replicas", "*"),
    ("min.compaction.lag.ms", "10"),
    ("max.compaction.lag.ms", "1"),
    ("index.interval.bytes", "4096"),
    ("segment.index.bytes", "4096"),
    ("segment.jitter.ms", "0"),
    ("flush.ms", "1000"),
];

/// Creates the topics of a run: one plain, one with a config.
pub fn first_topics(dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let topic = |index: usize, num_partitions, configs| CreatableTopic {
        name: s(format!("{}t{index}", side.run)),
        num_partitions,
        replication_factor: 1,
        configs,
        ..CreatableTopic::default()
    };
    let (name, value) = dice.pick(&[
        ("cleanup.policy", "compact"),
        ("message.timestamp.type", "LogAppendTime"),
        ("max.message.bytes", "300"),
        ("retention.ms", "86400000"),
    ]);
    let config = CreatableTopicConfig { name: s(name), value: Some(s(value)) };
    let topics = vec![topic(0, 3, Vec::new()), topic(1, 1, vec![config])];
    ask(7, &CreateTopicsRequest { topics, timeout_ms: 10_000, validate_only: false })
}

/// Asks for the topics of a run.
pub fn metadata_of(side: &Side) -> Ask {
    let topic = |name| MetadataRequestTopic { topic_id: 0, name: Some(s(name)) };
    let topics = Some(side.topic_names().map(topic).collect());
    let request = MetadataRequest { topics, allow_auto_topic_creation: false, ..MetadataRequest::default() };
    ask(12, &request).expect("encodes")
}

/// Asks for the configs of the topics of a run.
pub fn describe_configs(side: &Side) -> Ask {
    let resource =
        |name| DescribeConfigsResource { resource_type: 2, resource_name: s(name), configuration_keys: None };
    let request =
        DescribeConfigsRequest { resources: side.topic_names().map(resource).collect(), ..Default::default() };
    ask(4, &request).expect("encodes")
}

/// Builds a request. `None`: not an API of this file.
pub fn build(api: ApiKey, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let version = dice.version(api)?;
    match api {
        ApiKey::ApiVersions => api_versions(version, dice),
        ApiKey::Metadata => metadata(version, dice, side),
        ApiKey::DescribeCluster => {
            let request = DescribeClusterRequest {
                include_cluster_authorized_operations: dice.chance(30),
                endpoint_type: if version == 0 { 1 } else { dice.pick(&[1, 1, 1, 2, 9]) },
                include_fenced_brokers: version >= 2 && dice.chance(30),
            };
            ask(version, &request)
        }
        ApiKey::FindCoordinator => find_coordinator(version, dice, side),
        ApiKey::CreateTopics => create_topics(version, dice, side),
        ApiKey::DeleteTopics => delete_topics(version, dice, side),
        ApiKey::CreatePartitions => create_partitions(version, dice, side),
        ApiKey::DeleteRecords => delete_records(version, dice, side),
        ApiKey::DescribeConfigs => describe(version, dice, side),
        ApiKey::AlterConfigs => {
            let key = |x: &AlterConfigsRequestAlterConfigsResource<'_>| x.resource_name.to_string();
            let resources = dice.each(2, key, |dice| {
                let (resource_type, resource_name) = resource(dice, side);
                AlterConfigsRequestAlterConfigsResource {
                    resource_type,
                    resource_name,
                    configs: dice.each(
                        2,
                        |x: &AlterConfigsRequestAlterableConfig<'_>| x.name.to_string(),
                        |dice| {
                            let (name, value) = dice.pick(CONFIGS);
                            AlterConfigsRequestAlterableConfig { name: s(name), value: config_value(dice, value) }
                        },
                    ),
                }
            });
            ask(version, &AlterConfigsRequest { resources, validate_only: dice.chance(20) })
        }
        ApiKey::IncrementalAlterConfigs => {
            let key = |x: &IncrementalAlterConfigsRequestAlterConfigsResource<'_>| x.resource_name.to_string();
            let resources = dice.each(2, key, |dice| {
                let (resource_type, resource_name) = resource(dice, side);
                IncrementalAlterConfigsRequestAlterConfigsResource {
                    resource_type,
                    resource_name,
                    configs: dice.each(
                        2,
                        |x: &IncrementalAlterConfigsRequestAlterableConfig<'_>| x.name.to_string(),
                        |dice| {
                            let (name, value) = dice.pick(CONFIGS);
                            IncrementalAlterConfigsRequestAlterableConfig {
                                name: s(name),
                                config_operation: dice.pick(&[0, 0, 0, 0, 1, 1, 2, 3]),
                                value: config_value(dice, value),
                            }
                        },
                    ),
                }
            });
            ask(version, &IncrementalAlterConfigsRequest { resources, validate_only: dice.chance(20) })
        }
        ApiKey::DescribeTopicPartitions => {
            let mut names = dice.distinct(3, |dice| dice.topic(side));
            // Kafka refuses the whole request with an unknown error because of an empty name.
            names.retain(|name| !name.is_empty());
            if names.is_empty() {
                // It would ask for all topics, also those of other runs, which would fill the limit.
                return None;
            }
            let topic = |name| DescribeTopicPartitionsRequestTopicRequest { name: s(name) };
            let topics = names.into_iter().map(topic).collect();
            let cursor = dice.chance(30).then(|| DescribeTopicPartitionsRequestCursor {
                topic_name: s(dice.topic(side)),
                partition_index: dice.pick(&[0, 1, 2, 5, -1]),
            });
            let response_partition_limit = dice.pick(&[2000, 2000, 1, 2, 3, 0, -1]);
            ask(version, &DescribeTopicPartitionsRequest { topics, response_partition_limit, cursor })
        }
        ApiKey::DescribeLogDirs => {
            let topics = dice.each(
                2,
                |x: &DescribableLogDirTopic<'_>| x.topic.to_string(),
                |dice| DescribableLogDirTopic {
                    topic: s(dice.topic(side)),
                    partitions: dice.distinct(3, Dice::partition),
                },
            );
            ask(version, &DescribeLogDirsRequest { topics: Some(topics) })
        }
        ApiKey::DescribeProducers => {
            let topics = dice.each(
                2,
                |x: &DescribeProducersRequestTopicRequest<'_>| x.name.to_string(),
                |dice| DescribeProducersRequestTopicRequest {
                    name: s(dice.topic(side)),
                    partition_indexes: dice.distinct(3, Dice::partition),
                },
            );
            ask(version, &DescribeProducersRequest { topics })
        }
        _ => None,
    }
}

fn api_versions(version: i16, dice: &mut Dice<'_>) -> Option<Ask> {
    let hostile = dice.chance(20);
    let name = if version >= 3 { dice.pick(&["differ", "", "bad name!", "-x"]) } else { "" };
    let request = ApiVersionsRequest {
        client_software_name: s(name),
        client_software_version: s(if version >= 3 { "1.0" } else { "" }),
    };
    let mut ask = ask(version, &request)?;
    if hostile {
        ask.version = 99;
    }
    Some(ask)
}

fn metadata(version: i16, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let topic = |dice: &mut Dice<'_>| {
        let name = dice.topic(side);
        if version >= 10 && dice.chance(40) {
            let topic_id = if dice.chance(10) { UNKNOWN_ID } else { side.topic_id(&name) };
            // Versions 10 and 11 have ids and refuse them.
            let name = (version < 12).then(|| s(""));
            return MetadataRequestTopic { topic_id, name };
        }
        MetadataRequestTopic { topic_id: 0, name: Some(s(name)) }
    };
    let topics = if version > 0 && dice.chance(15) { None } else { Some(dice.distinct(3, topic)) };
    let request = MetadataRequest {
        topics,
        allow_auto_topic_creation: version < 4 || dice.chance(50),
        include_cluster_authorized_operations: (8..=10).contains(&version) && dice.chance(30),
        include_topic_authorized_operations: version >= 8 && dice.chance(30),
    };
    ask(version, &request)
}

fn find_coordinator(version: i16, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let key = |dice: &mut Dice<'_>| if dice.chance(50) { dice.group(side).1 } else { dice.transactional(side).1 };
    let key_type = if version == 0 { 0 } else { dice.pick(&[0, 0, 1, 1, 5]) };
    let mut request = FindCoordinatorRequest { key_type, ..Default::default() };
    if version >= 4 {
        request.coordinator_keys = dice.distinct(3, |dice| s(key(dice)));
    } else {
        request.key = s(key(dice));
    }
    ask(version, &request)
}

fn create_topics(version: i16, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let topics = dice.each(
        2,
        |x: &CreatableTopic<'_>| x.name.to_string(),
        |dice| {
            let mut topic = CreatableTopic {
                name: s(dice.topic(side)),
                num_partitions: dice.pick(&[1, 1, 2, 3, -1, 0, -2]),
                replication_factor: dice.pick(&[1, 1, 1, -1, 0, 2]),
                ..CreatableTopic::default()
            };
            if dice.chance(15) {
                (topic.num_partitions, topic.replication_factor) = dice.pick(&[(-1, -1), (-1, -1), (2, 1), (-1, 1)]);
                topic.assignments = dice.some(3, |dice| CreatableReplicaAssignment {
                    partition_index: dice.pick(&[0, 0, 1, 2, -1]),
                    broker_ids: dice.pick(&[vec![1], vec![1], vec![1], vec![1, 1], vec![7], Vec::new(), vec![1, 2]]),
                });
            }
            if dice.chance(50) {
                topic.configs = dice.each(
                    2,
                    |x: &CreatableTopicConfig<'_>| x.name.to_string(),
                    |dice| {
                        let (name, value) = dice.pick(CONFIGS);
                        CreatableTopicConfig { name: s(name), value: config_value(dice, value) }
                    },
                );
            }
            topic
        },
    );
    let validate_only = dice.chance(15);
    ask(version, &CreateTopicsRequest { topics, timeout_ms: 10_000, validate_only })
}

fn delete_topics(version: i16, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let mut request = DeleteTopicsRequest { timeout_ms: 10_000, ..Default::default() };
    if version < 6 {
        request.topic_names = dice.distinct(2, |dice| s(dice.topic(side)));
        return ask(version, &request);
    }
    let names = dice.distinct(2, |dice| dice.topic(side));
    let state = |name: String| match dice.below(10) {
        0..5 => DeleteTopicState { name: Some(s(name)), topic_id: 0 },
        5..8 => DeleteTopicState { name: None, topic_id: side.topic_id(&name) },
        8 => DeleteTopicState { name: None, topic_id: 0 },
        _ => DeleteTopicState { topic_id: side.topic_id(&name), name: Some(s(name)) },
    };
    request.topics = names.into_iter().map(state).collect();
    ask(version, &request)
}

fn create_partitions(version: i16, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let topics = dice.each(
        2,
        |x: &CreatePartitionsTopic<'_>| x.name.to_string(),
        |dice| CreatePartitionsTopic {
            name: s(dice.topic(side)),
            count: dice.pick(&[2, 3, 4, 5, 0, -1]),
            assignments: if dice.chance(80) {
                None
            } else {
                let ids = dice.some(2, |dice| dice.pick(&[vec![1], vec![1], vec![2], Vec::new(), vec![1, 1]]));
                Some(ids.into_iter().map(|broker_ids| CreatePartitionsAssignment { broker_ids }).collect())
            },
        },
    );
    ask(version, &CreatePartitionsRequest { topics, timeout_ms: 10_000, validate_only: dice.chance(20) })
}

fn delete_records(version: i16, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let topics = dice.each(
        2,
        |x: &DeleteRecordsTopic<'_>| x.name.to_string(),
        |dice| DeleteRecordsTopic {
            name: s(dice.topic(side)),
            partitions: dice.each(
                2,
                |x: &DeleteRecordsPartition| x.partition_index,
                |dice| DeleteRecordsPartition {
                    // Kafka finds the largest timestamp in deleted records, too: those are in other partitions.
                    partition_index: dice.pick(&[1, 1, 2, 99]),
                    offset: dice.pick(&[0, 1, 2, 3, 5, -1, -1, -2, 1000]),
                },
            ),
        },
    );
    ask(version, &DeleteRecordsRequest { topics, timeout_ms: 5000 })
}

fn describe(version: i16, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let resources = dice.each(
        2,
        |x: &DescribeConfigsResource<'_>| x.resource_name.to_string(),
        |dice| {
            let (resource_type, resource_name) =
                if dice.chance(10) { (dice.pick(&[0, 3, 99]), s("x")) } else { (2, s(dice.topic(side))) };
            let configuration_keys = dice.chance(40).then(|| dice.distinct(3, |dice| s(dice.pick(CONFIGS).0)));
            DescribeConfigsResource { resource_type, resource_name, configuration_keys }
        },
    );
    let request = DescribeConfigsRequest {
        resources,
        include_synonyms: dice.chance(50),
        include_documentation: version >= 3 && dice.chance(30),
    };
    ask(version, &request)
}

fn resource(dice: &mut Dice<'_>, side: &Side) -> (i8, std::borrow::Cow<'static, str>) {
    if dice.chance(5) { (dice.pick(&[0, 3, 99]), s("x")) } else { (2, s(dice.topic(side))) }
}

fn config_value(dice: &mut Dice<'_>, value: &str) -> Option<std::borrow::Cow<'static, str>> {
    (!dice.chance(5)).then(|| s(value))
}
