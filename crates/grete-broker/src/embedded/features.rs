//! Table of Kafka's APIs, and whether the brokers implement them.

use std::ops::RangeInclusive;

use grete_wire::ApiKey;

use crate::cluster::{BrokerAddress, Cluster, ClusterConfig, Release};

/// APIs of Kafka's clients for which Grete has no messages.
const WITHOUT_MESSAGES: &[&str] = &[
    "AddRaftVoter",
    "AllocateProducerIds",
    "AlterClientQuotas",
    "AlterConfigs",
    "AlterPartitionReassignments",
    "AlterReplicaLogDirs",
    "AlterUserScramCredentials",
    "CreateDelegationToken",
    "DescribeClientQuotas",
    "DescribeDelegationToken",
    "DescribeLogDirs",
    "DescribeProducers",
    "DescribeQuorum",
    "DescribeTopicPartitions",
    "DescribeTransactions",
    "DescribeUserScramCredentials",
    "ElectLeaders",
    "ExpireDelegationToken",
    "GetTelemetrySubscriptions",
    "ListConfigResources",
    "ListPartitionReassignments",
    "ListTransactions",
    "PushTelemetry",
    "RemoveRaftVoter",
    "RenewDelegationToken",
    "StreamsGroupDescribe",
    "StreamsGroupHeartbeat",
    "UnregisterBroker",
    "UpdateFeatures",
];

/// API and its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Kafka's name of the API.
    pub api: &'static str,
    /// Versions that the brokers answer; `None`: not implemented.
    pub versions: Option<RangeInclusive<i16>>,
}

/// Returns all APIs of clients by name, as a release answers them.
#[must_use]
pub fn features(release: Release) -> Vec<Feature> {
    let broker = BrokerAddress { id: 1, host: "localhost".into(), port: 0, rack: None };
    let cluster = Cluster::new(ClusterConfig { release, ..ClusterConfig::new(vec![broker]) });
    let feature = |&api: &ApiKey| Feature { api: api.name(), versions: cluster.offered_versions(api) };
    let mut features: Vec<Feature> = ApiKey::ALL.iter().map(feature).collect();
    for &api in WITHOUT_MESSAGES {
        if !features.iter().any(|feature| feature.api == api) {
            features.push(Feature { api, versions: None });
        }
    }
    features.sort_by_key(|feature| feature.api);
    features
}
