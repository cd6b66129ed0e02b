//! Types of the operations' arguments and results.

use std::fmt;
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use crate::ids::{NodeId, TopicPartition};

/// ACL, with the numbers of the wire (KIP-11, KIP-290).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclBinding {
    /// Type of the resources: 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user.
    pub resource_type: i8,
    /// Name of a resource, or beginning of names.
    pub name: String,
    /// Meaning of the name: 3 literal, 4 prefixed.
    pub pattern: i8,
    /// Principal, such as `User:alice`.
    pub principal: String,
    /// Address of the client; `*`: every address.
    pub host: String,
    /// Operation, by its number.
    pub operation: i8,
    /// 2: the operation is denied; 3: it is allowed.
    pub permission: i8,
}

impl fmt::Display for AclBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.resource_type {
            2 => "topic",
            3 => "group",
            4 => "cluster",
            5 => "transactional id",
            6 => "delegation token",
            7 => "user",
            _ => "resource",
        };
        write!(f, "ACL of {} on {kind} {}", self.principal, self.name)
    }
}

/// Filter of ACLs. In its numbers 1 stands for every value, and 2 as a pattern type for the patterns that cover `name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclFilter {
    /// Type of the resources.
    pub resource_type: i8,
    /// Name; `None`: every name.
    pub name: Option<String>,
    /// Pattern type.
    pub pattern: i8,
    /// Principal; `None`: every principal.
    pub principal: Option<String>,
    /// Host; `None`: every host.
    pub host: Option<String>,
    /// Operation.
    pub operation: i8,
    /// Permission.
    pub permission: i8,
}

/// A broker of the cluster, as reported by another broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerDescription {
    /// Broker id.
    pub id: NodeId,
    /// Advertised host.
    pub host: String,
    /// Advertised port.
    pub port: i32,
    /// `broker.rack`; `None`: not set.
    pub rack: Option<String>,
}

/// The cluster, as reported by one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Cluster id.
    pub id: String,
    /// Broker that accepts requests for the controller; a KRaft broker reports any broker, because all forward such
    /// requests.
    pub controller: Option<NodeId>,
    /// Brokers that are up, sorted by id.
    pub brokers: Vec<BrokerDescription>,
}

/// A partition, as reported by one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionDescription {
    /// Partition number.
    pub id: i32,
    /// Leader; `None`: none.
    pub leader: Option<NodeId>,
    /// Leader epoch; -1: unknown.
    pub leader_epoch: i32,
    /// Brokers with a replica.
    pub replicas: Vec<NodeId>,
    /// Brokers with an in-sync replica.
    pub isr: Vec<NodeId>,
}

/// A topic, as reported by one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDescription {
    /// Topic name.
    pub name: String,
    /// Topic id; 0: the brokers do not support topic ids.
    pub id: u128,
    /// Whether the topic is internal to Kafka.
    pub internal: bool,
    /// Partitions, sorted by number.
    pub partitions: Vec<PartitionDescription>,
    /// Operations that the client may do, each a bit at its number; negative: the broker has not said.
    pub operations: i32,
}

/// Expected state of a topic at each broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedTopicState {
    /// The topic has at least this number of partitions, each with a leader.
    Partitions(usize),
    /// The topic does not exist.
    Gone,
}

/// A topic to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Topic name.
    pub name: Arc<str>,
    /// Number of partitions; -1: the broker's `num.partitions`.
    pub partitions: i32,
    /// Replicas per partition; -1: the broker's `default.replication.factor`.
    pub replication_factor: i16,
    /// Explicit brokers of each partition; if not empty, both numbers must be -1.
    pub assignment: Vec<Vec<NodeId>>,
    /// Topic settings: name and value.
    pub config: Vec<(String, String)>,
}

/// Owner of settings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ConfigResource {
    /// Settings of a topic.
    Topic(Arc<str>),
    /// Settings of a broker; that broker serves the request.
    Broker(NodeId),
    /// Dynamic defaults of all brokers.
    AllBrokers,
    /// Settings of a group: of the consumer protocol or a share group (KIP-848, KIP-932).
    Group(Arc<str>),
}

/// Source of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// Dynamic topic setting.
    Topic,
    /// Dynamic setting of one broker.
    DynamicBroker,
    /// Dynamic default of all brokers.
    DynamicDefault,
    /// Configuration file of the broker.
    StaticBroker,
    /// Kafka's default.
    Default,
    /// Dynamic setting of a group.
    Group,
    /// Any other source.
    Other,
}

impl ConfigSource {
    /// Returns a description for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::DynamicBroker => "dynamic-broker",
            Self::DynamicDefault => "dynamic-default",
            Self::StaticBroker => "static-broker",
            Self::Default => "default",
            Self::Group => "group",
            Self::Other => "other",
        }
    }
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Name of the setting.
    pub name: String,
    /// Value; `None`: sensitive.
    pub value: Option<String>,
    /// Source of the value.
    pub source: ConfigSource,
    /// Whether the setting cannot be changed.
    pub read_only: bool,
    /// Whether brokers hide the value.
    pub sensitive: bool,
}

/// Changes of some settings of one resource; other settings are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigAlteration {
    /// Topic or broker to change.
    pub resource: ConfigResource,
    /// Names and new values.
    pub set: Vec<(String, String)>,
    /// Names of settings to reset to their default.
    pub delete: Vec<String>,
}

/// Offset of a share group in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareOffset {
    /// First offset that is not done; `None`: the group has not read the partition.
    pub start: Option<i64>,
    /// Number of records from `start` on that are not done; `None`: unknown to the broker.
    pub lag: Option<i64>,
}

/// Rebalance protocol of a group. Each protocol has its own describe API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupProtocol {
    /// JoinGroup and SyncGroup: a member assigns the partitions.
    Classic,
    /// KIP-848: the coordinator assigns the partitions.
    Consumer,
    /// Share group (KIP-932): members share the records of partitions.
    Share,
}

impl GroupProtocol {
    /// Returns Kafka's name of the protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Share => "share",
        }
    }
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDescription {
    /// Member id, assigned by the coordinator.
    pub id: String,
    /// `group.instance.id`; `None`: not a static member.
    pub instance: Option<String>,
    /// `client.id`.
    pub client: String,
    /// Address that the member connects from.
    pub host: String,
    /// Assigned partitions.
    pub partitions: Vec<TopicPartition>,
}

/// A group, as reported by its coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// Group id.
    pub group: String,
    /// "Stable", "Empty"...
    pub state: String,
    /// Rebalance protocol.
    pub protocol: GroupProtocol,
    /// Protocol type: "consumer", "connect"...; empty for a group that has only offsets.
    pub protocol_type: String,
    /// Assignor name; empty if no partition is assigned.
    pub assignor: String,
    /// Coordinator of the group.
    pub coordinator: NodeId,
    /// Members of the group.
    pub members: Vec<MemberDescription>,
}

/// A group, as listed by its coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListing {
    /// Group id.
    pub group: String,
    /// Protocol type: "consumer", "connect"...; empty for a group that has only offsets.
    pub protocol_type: String,
    /// "Stable", "Empty"...
    pub state: String,
    /// "classic", "consumer" (KIP-848), "share"...; empty: the broker supports only classic groups.
    pub kind: String,
}

/// Result of one partition.
pub type PartitionResult<T> = (TopicPartition, Result<T, ErrorCode>);

/// Committed offset of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedOffset {
    /// Next offset to read.
    pub offset: i64,
    /// Leader epoch of the record before that offset; -1: unknown.
    pub leader_epoch: i32,
}

/// Position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetSpec {
    /// First offset of the log.
    Earliest,
    /// End of the log.
    Latest,
    /// First record with this timestamp (milliseconds since 1970) or a later one; the end of the log if there is none.
    Timestamp(i64),
}

/// Offset of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset.
    pub offset: i64,
    /// Leader epoch of the offset; -1: unknown.
    pub leader_epoch: i32,
}
