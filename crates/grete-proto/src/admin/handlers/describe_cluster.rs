//! DescribeCluster: the cluster's id, controller and brokers.

use grete_wire::messages::{DescribeClusterRequest, DescribeClusterResponse};

use super::super::handler::{ApiHandler, ItemResult, ItemResults};
use super::super::reply::{AdminReply, PerItem};
use super::super::types::{BrokerDescription, ClusterDescription};
use super::items::OnlyItem;
use crate::cluster::Cluster;
use crate::request::Request;

/// Endpoint type of DescribeCluster: brokers, not controllers.
const BROKERS: i8 = 1;

#[derive(Debug)]
pub(crate) struct DescribeCluster;

impl ApiHandler for DescribeCluster {
    type Api = DescribeClusterRequest;
    type Item = OnlyItem;
    type Value = ClusterDescription;

    const REPLY: fn(PerItem<ClusterDescription>) -> AdminReply = AdminReply::Cluster;

    fn build_request(&self, _items: &[&OnlyItem], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        Request::from_message(DescribeClusterRequest { endpoint_type: BROKERS, ..Default::default() })
    }

    fn parse_response(&self, response: &DescribeClusterResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let brokers = response.brokers.iter().map(|broker| BrokerDescription {
            id: broker.broker_id,
            host: broker.host.to_string(),
            port: broker.port,
            rack: broker.rack.as_deref().map(str::to_owned),
        });
        let mut brokers: Vec<BrokerDescription> = brokers.collect();
        brokers.sort_unstable_by_key(|broker| broker.id);
        let description = ClusterDescription {
            id: response.cluster_id.to_string(),
            controller: (response.controller_id >= 0).then_some(response.controller_id),
            brokers,
        };
        results.set_only(ItemResult::new(response.error_code, response.error_message.as_deref(), || description));
    }
}
