//! What the cluster consists of: brokers, topics, partitions, and whether all brokers know of a change.

use std::sync::Arc;

use grete_wire::WireError;
use grete_wire::api_key::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{
    DescribeClusterRequest, DescribeClusterResponse, MetadataRequest, MetadataRequestTopic, MetadataResponse,
    MetadataResponsePartition, MetadataResponseTopic,
};

use super::super::errand::{Errand, Outcome, Outcomes, Place, outcome};
use super::super::error::AdminError;
use super::super::operation::AdminReply;
use super::owned;
use crate::cluster::Cluster;
use crate::ids::NodeId;
use crate::request::{Request, Response};

/// DescribeCluster: ask for brokers, not for controllers.
const BROKERS: i8 = 1;

/// A broker as the others have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerDescription {
    /// Its id.
    pub id: NodeId,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: i32,
    /// Where it stands, if it says so.
    pub rack: Option<String>,
}

/// The cluster as one broker has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Its id.
    pub id: String,
    /// Who takes the controller's requests; a KRaft broker names any broker, since all pass them on.
    pub controller: Option<NodeId>,
    /// Who is up.
    pub brokers: Vec<BrokerDescription>,
}

#[derive(Debug)]
pub(crate) struct DescribeCluster;

impl Errand for DescribeCluster {
    type Value = ClusterDescription;

    fn api(&self) -> ApiKey {
        ApiKey::DescribeCluster
    }

    fn len(&self) -> usize {
        1
    }

    fn place(&self, _item: usize) -> Place<'_> {
        Place::Any
    }

    fn subject(&self, _item: usize) -> String {
        "the cluster".to_owned()
    }

    fn request(&self, _items: &mut Vec<usize>, _cluster: &Cluster, _timeout_ms: i32) -> Request {
        Request::any(DescribeClusterRequest { endpoint_type: BROKERS, ..Default::default() })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<ClusterDescription>,
    ) -> Result<(), WireError> {
        let answer = response.decode(DescribeClusterResponse::decode)?;
        let brokers = answer.brokers.iter().map(|broker| BrokerDescription {
            id: broker.broker_id,
            host: broker.host.to_string(),
            port: broker.port,
            rack: broker.rack.as_deref().map(str::to_owned),
        });
        let mut brokers: Vec<BrokerDescription> = brokers.collect();
        brokers.sort_unstable_by_key(|broker| broker.id);
        let description = ClusterDescription {
            id: answer.cluster_id.to_string(),
            controller: (answer.controller_id >= 0).then_some(answer.controller_id),
            brokers,
        };
        let found = outcome(answer.error_code, answer.error_message.as_deref(), || description);
        out.extend(items.first().map(|&item| (item, found)));
        Ok(())
    }

    fn reply(&self, results: Vec<Result<ClusterDescription, AdminError>>) -> AdminReply {
        AdminReply::Cluster(results)
    }
}

/// A partition as one broker has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionDescription {
    /// Its number.
    pub id: i32,
    /// Who leads it, if anybody does.
    pub leader: Option<NodeId>,
    /// Under which epoch; -1 if unknown.
    pub leader_epoch: i32,
    /// Who keeps it.
    pub replicas: Vec<NodeId>,
    /// Whose copy is complete.
    pub isr: Vec<NodeId>,
}

/// A topic as one broker has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDescription {
    /// Its name.
    pub name: String,
    /// Its id; 0 where brokers have none.
    pub id: u128,
    /// Whether Kafka keeps it for itself.
    pub internal: bool,
    /// By number.
    pub partitions: Vec<PartitionDescription>,
}

/// Metadata of the named topics, or of all.
#[derive(Debug)]
pub(crate) struct DescribeTopics {
    pub names: Option<Vec<Arc<str>>>,
}

impl Errand for DescribeTopics {
    type Value = Vec<(String, Result<TopicDescription, AdminError>)>;

    fn api(&self) -> ApiKey {
        ApiKey::Metadata
    }

    fn len(&self) -> usize {
        1
    }

    fn place(&self, _item: usize) -> Place<'_> {
        Place::Any
    }

    fn subject(&self, _item: usize) -> String {
        match self.names.as_deref() {
            Some([name]) => format!("topic {name}"),
            Some(names) => format!("{} topics", names.len()),
            None => "all topics".to_owned(),
        }
    }

    fn request(&self, _items: &mut Vec<usize>, _cluster: &Cluster, _timeout_ms: i32) -> Request {
        metadata(self.names.as_deref())
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<Self::Value>,
    ) -> Result<(), WireError> {
        let answer = response.decode(MetadataResponse::decode)?;
        let topic = |topic: &MetadataResponseTopic<'_>| {
            let name = topic.name.as_deref()?.to_owned();
            let description = match ErrorCode(topic.error_code) {
                // Some partition has no leader: told with the partition.
                ErrorCode::NONE | ErrorCode::LEADER_NOT_AVAILABLE => Ok(describe(&name, topic)),
                code => Err(AdminError::Refused { code, message: None }),
            };
            Some((name, description))
        };
        let found = outcome(answer.error_code, None, || answer.topics.iter().filter_map(topic).collect());
        out.extend(items.first().map(|&item| (item, found)));
        Ok(())
    }

    fn reply(&self, results: Vec<Result<Self::Value, AdminError>>) -> AdminReply {
        AdminReply::Topics(results)
    }
}

fn metadata(names: Option<&[Arc<str>]>) -> Request {
    let topic = |name: &Arc<str>| MetadataRequestTopic { name: Some(owned(name)), ..Default::default() };
    Request::Metadata(MetadataRequest {
        topics: names.map(|names| names.iter().map(topic).collect()),
        allow_auto_topic_creation: false,
        ..Default::default()
    })
}

fn describe(name: &str, topic: &MetadataResponseTopic<'_>) -> TopicDescription {
    let partition = |partition: &MetadataResponsePartition| PartitionDescription {
        id: partition.partition_index,
        leader: (partition.leader_id >= 0).then_some(partition.leader_id),
        leader_epoch: partition.leader_epoch,
        replicas: partition.replica_nodes.clone(),
        isr: partition.isr_nodes.clone(),
    };
    let mut partitions: Vec<PartitionDescription> = topic.partitions.iter().map(partition).collect();
    partitions.sort_unstable_by_key(|partition| partition.id);
    TopicDescription { name: name.to_owned(), id: topic.topic_id, internal: topic.is_internal, partitions }
}

/// What every broker shall know of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// That it has at least so many partitions, each with a leader.
    Partitions(usize),
    /// That it is gone.
    Gone,
}

/// Waits until each of these brokers knows of a change: Kafka's controller answers before they do.
#[derive(Debug)]
pub(crate) struct Spread {
    nodes: Vec<NodeId>,
    names: Vec<Arc<str>>,
    wishes: Vec<Wish>,
}

impl Spread {
    pub fn new(nodes: Vec<NodeId>, wishes: Vec<(Arc<str>, Wish)>) -> Self {
        let (names, wishes) = wishes.into_iter().unzip();
        Self { nodes, names, wishes }
    }

    /// What is still missing in that answer.
    fn missing(&self, answer: &MetadataResponse<'_>) -> Option<String> {
        let lacks = |(name, wish): (&Arc<str>, &Wish)| {
            let topic = answer.topics.iter().find(|topic| topic.name.as_deref() == Some(&**name));
            let topic = topic.filter(|topic| topic.error_code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0);
            let led = |topic: &MetadataResponseTopic<'_>| topic.partitions.iter().filter(|p| p.leader_id >= 0).count();
            match (*wish, topic) {
                (Wish::Gone, None) => None,
                (Wish::Gone, Some(_)) => Some(format!("topic {name} is still there")),
                (Wish::Partitions(_), None) => Some(format!("topic {name} is not there yet")),
                (Wish::Partitions(count), Some(topic)) if led(topic) >= count => None,
                (Wish::Partitions(_), Some(_)) => Some(format!("topic {name} has partitions without a leader")),
            }
        };
        self.names.iter().zip(&self.wishes).find_map(lacks)
    }
}

impl Errand for Spread {
    type Value = ();

    fn api(&self) -> ApiKey {
        ApiKey::Metadata
    }

    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn place(&self, item: usize) -> Place<'_> {
        self.nodes.get(item).map_or(Place::Any, |&node| Place::Node(node))
    }

    fn subject(&self, item: usize) -> String {
        format!("broker {}", self.nodes.get(item).copied().unwrap_or(-1))
    }

    fn request(&self, _items: &mut Vec<usize>, _cluster: &Cluster, _timeout_ms: i32) -> Request {
        metadata(Some(&self.names))
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<()>,
    ) -> Result<(), WireError> {
        let answer = response.decode(MetadataResponse::decode)?;
        let missing = self.missing(&answer);
        let seen = |_: &usize| missing.clone().map_or(Outcome::Done(()), Outcome::NotYet);
        out.extend(items.iter().map(|item| (*item, seen(item))));
        Ok(())
    }

    fn reply(&self, results: Vec<Result<(), AdminError>>) -> AdminReply {
        AdminReply::Done(results)
    }
}
