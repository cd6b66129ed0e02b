//! Sends metadata requests and applies the responses.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker};

use super::Cluster;
use super::broker_state::{Address, is_bootstrap};
use super::event::{ClusterAction, ClusterActions, ClusterLogEvent, MetadataError, RebootstrapCause};
use super::metadata_refresh::MetadataScope;
use crate::ids::NodeId;
use crate::request::{Channel, OutboundRequest, Request, RequestError, RequestOwner, Response, Target, Token};
use crate::time::Nanos;

impl Cluster {
    pub(super) fn send_metadata_request(
        &mut self,
        now: Nanos,
        node: NodeId,
        scope: MetadataScope,
        out: &mut ClusterActions,
    ) {
        let topics: Vec<Arc<str>> = match scope {
            MetadataScope::NewTopics => self.metadata.unknown_topics().cloned().collect(),
            _ => self.metadata.tracked_topics().to_vec(),
        };
        let named =
            |name: &Arc<str>| MetadataRequestTopic { name: Some(name.to_string().into()), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(topics.iter().map(named).collect()), // an empty list: brokers only; null would be all topics
            allow_auto_topic_creation: self.config.allow_auto_create_topics,
            ..Default::default()
        };
        let token = Token { owner: RequestOwner::Cluster, id: self.refresh.on_request_sent(node) };
        let timeout = self.config.request_timeout;
        let request = Request::Metadata(request);
        let outgoing =
            OutboundRequest { target: Target::Node(node), channel: Channel::Control, request, token, timeout };
        self.send(now, outgoing, out);
    }

    pub(super) fn on_metadata_response(
        &mut self,
        now: Nanos,
        id: u32,
        node: NodeId,
        result: Result<Response, RequestError>,
        out: &mut ClusterActions,
    ) {
        if !self.refresh.is_in_flight(id) {
            return;
        }
        self.dirty = true;
        let taken = result.map_err(MetadataError::Request).and_then(|response| {
            let answer = response.decode(MetadataResponse::decode).map_err(RequestError::Protocol)?;
            match ErrorCode(answer.error_code) {
                ErrorCode::NONE if answer.brokers.is_empty() => Err(MetadataError::NoBrokers),
                ErrorCode::NONE => {
                    self.apply_metadata(now, &answer, out);
                    Ok(())
                }
                error => Err(MetadataError::Code(error)),
            }
        });
        if let Err(error) = taken {
            self.refresh.on_failure(now, &mut self.rng);
            let asked = error == MetadataError::Code(ErrorCode::REBOOTSTRAP_REQUIRED);
            out.push(ClusterAction::LogEvent(ClusterLogEvent::MetadataFailed { node, error }));
            if asked {
                self.rebootstrap(now, RebootstrapCause::BrokerRequested, out);
            }
        }
    }

    fn apply_metadata(&mut self, now: Nanos, answer: &MetadataResponse<'_>, out: &mut ClusterActions) {
        let mut changed = self.apply_brokers(&answer.brokers, out);
        self.controller = Some(answer.controller_id).filter(|&id| !is_bootstrap(id));
        let mut notices = Vec::new();
        for topic in &answer.topics {
            changed |= self.metadata.apply(now, topic, &mut notices);
        }
        self.prune_racks();
        out.extend(notices.into_iter().map(ClusterAction::LogEvent));
        self.rebootstrapping = false;
        self.adopt_bootstrap(out);
        let incomplete = self.metadata.is_incomplete();
        self.refresh.on_success(now, changed && !incomplete, incomplete, &mut self.rng);
        if changed {
            self.metadata.bump_version();
            out.push(ClusterAction::MetadataChanged);
        }
        out.push(ClusterAction::MetadataRefreshed);
    }

    fn apply_brokers(&mut self, brokers: &[MetadataResponseBroker<'_>], out: &mut ClusterActions) -> bool {
        let mut changed = false;
        let mut named: Vec<NodeId> = Vec::with_capacity(brokers.len());
        for broker in brokers.iter().filter(|broker| !is_bootstrap(broker.node_id)) {
            if let Some(address) = Address::from_wire(&broker.host, broker.port) {
                changed |= self.list_node(broker.node_id, address);
                self.set_rack(broker.node_id, broker.rack.as_deref());
                named.push(broker.node_id);
            }
        }
        named.sort_unstable();
        let gone: Vec<NodeId> = self.node_ids().filter(|id| named.binary_search(id).is_err()).collect();
        for id in gone {
            if let Some(node) = self.nodes.get_mut(&id) {
                node.listed = false;
            }
            self.drop_if_unlisted(id, out);
            changed = true;
        }
        changed
    }

    fn set_rack(&mut self, node: NodeId, rack: Option<&str>) {
        match rack.filter(|rack| !rack.is_empty()) {
            Some(rack) if self.racks.get(&node).is_some_and(|known| **known == *rack) => {}
            Some(rack) => {
                self.racks.insert(node, Arc::from(rack));
            }
            None => {
                self.racks.remove(&node);
            }
        }
    }

    /// Removes racks of brokers that the metadata does not contain any more, and that have no replicas.
    fn prune_racks(&mut self) {
        let (nodes, metadata) = (&self.nodes, &self.metadata);
        self.racks.retain(|node, _| nodes.get(node).is_some_and(|node| node.listed) || metadata.has_replica(*node));
    }

    /// Reassigns a bootstrap connection to the broker that advertises the same address, so that the connection is not
    /// opened twice.
    fn adopt_bootstrap(&mut self, out: &mut ClusterActions) {
        let channel = Channel::Control;
        let mut adopted = Vec::new();
        for (&bootstrap, from) in self.nodes.range(..0) {
            let Some(conn) = from.conn(channel) else { continue };
            let fits =
                |node: &super::BrokerState| node.listed && node.address == from.address && node.conn(channel).is_none();
            let mut brokers = self.nodes.range(0..).filter(|(_, node)| fits(node)).map(|(&id, _)| id);
            // Two brokers behind one address are a load balancer: the owner of the connection is unknown.
            if let (Some(broker), None) = (brokers.next(), brokers.next()) {
                adopted.push((bootstrap, broker, conn));
            }
        }
        for (bootstrap, broker, conn) in adopted {
            let Some(link) = self.connections.get_mut(&conn).filter(|link| link.conn.is_ready()) else { continue };
            link.node = broker;
            let muted_until = self.nodes.get_mut(&bootstrap).map_or(0, |node| {
                node.set_conn(channel, None);
                node.backoff.reset();
                std::mem::take(&mut node.muted_until)
            });
            if let Some(node) = self.nodes.get_mut(&broker) {
                node.set_conn(channel, Some(conn));
                node.set_needed(channel, false);
                node.muted_until = node.muted_until.max(muted_until);
            }
            out.push(ClusterAction::NodeReady { node: broker, channel });
        }
    }

    /// Makes the next metadata come from the bootstrap addresses, because the known brokers are of no use.
    pub(super) fn rebootstrap(&mut self, now: Nanos, cause: RebootstrapCause, out: &mut ClusterActions) {
        out.push(ClusterAction::LogEvent(ClusterLogEvent::Rebootstrap { cause }));
        self.rebootstrapping = true;
        for (_, node) in self.nodes.range_mut(..0) {
            node.backoff.reset(); // every address gets another attempt, not before its `retry_at`
        }
        // Closed, so that host names are resolved again.
        self.close_bootstrap(now, out);
    }

    pub(super) fn rebootstrap_deadline(&self) -> Option<Nanos> {
        let missed = self.refresh.failing_since().filter(|_| self.refresh.has_succeeded())?;
        Some(missed.saturating_add(self.config.rebootstrap_trigger))
    }
}
