//! Metadata is asked for and taken in.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker};

use super::Cluster;
use super::event::{ClusterAction, ClusterActions, ClusterNotice, MetadataError, RebootstrapCause};
use super::node::{Address, is_bootstrap};
use super::refresh::Scope;
use crate::ids::NodeId;
use crate::request::{Channel, Outgoing, Owner, Request, RequestError, Response, Target, Token};
use crate::time::Nanos;

impl Cluster {
    pub(super) fn ask(&mut self, now: Nanos, node: NodeId, scope: Scope, out: &mut ClusterActions) {
        let topics: Vec<Arc<str>> = match scope {
            Scope::NewTopics => self.metadata.unknown().cloned().collect(),
            _ => self.metadata.interest().to_vec(),
        };
        let named =
            |name: &Arc<str>| MetadataRequestTopic { name: Some(name.to_string().into()), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(topics.iter().map(named).collect()), // an empty list: brokers only; null would be all topics
            allow_auto_topic_creation: self.config.allow_auto_create_topics,
            ..Default::default()
        };
        let token = Token { owner: Owner::Cluster, id: self.refresh.asked() };
        let timeout = self.config.request_timeout;
        let request = Request::Metadata(request);
        let outgoing = Outgoing { target: Target::Node(node), channel: Channel::Control, request, token, timeout };
        self.send(now, outgoing, out);
    }

    pub(super) fn metadata_answered(
        &mut self,
        now: Nanos,
        id: u32,
        node: NodeId,
        result: Result<Response, RequestError>,
        out: &mut ClusterActions,
    ) {
        if !self.refresh.awaits(id) {
            return;
        }
        self.dirty = true;
        let taken = result.map_err(MetadataError::Request).and_then(|response| {
            let answer = response.decode(MetadataResponse::decode).map_err(RequestError::Protocol)?;
            match ErrorCode(answer.error_code) {
                ErrorCode::NONE if answer.brokers.is_empty() => Err(MetadataError::NoBrokers),
                ErrorCode::NONE => {
                    self.take_in(now, &answer, out);
                    Ok(())
                }
                error => Err(MetadataError::Code(error)),
            }
        });
        if let Err(error) = taken {
            self.refresh.failed(now, &mut self.rng);
            let asked = error == MetadataError::Code(ErrorCode::REBOOTSTRAP_REQUIRED);
            out.push(ClusterAction::Notify(ClusterNotice::MetadataFailed { node, error }));
            if asked {
                self.rebootstrap(now, RebootstrapCause::Asked, out);
            }
        }
    }

    fn take_in(&mut self, now: Nanos, answer: &MetadataResponse<'_>, out: &mut ClusterActions) {
        let mut changed = self.take_in_brokers(&answer.brokers, out);
        self.controller = Some(answer.controller_id).filter(|&id| !is_bootstrap(id));
        let mut notices = Vec::new();
        for topic in &answer.topics {
            changed |= self.metadata.apply(topic, &mut notices);
        }
        out.extend(notices.into_iter().map(ClusterAction::Notify));
        self.rebootstrapping = false;
        self.adopt_bootstrap(out);
        let incomplete = self.metadata.is_incomplete();
        self.refresh.succeeded(now, changed && !incomplete, incomplete, &mut self.rng);
        if changed {
            self.metadata.changed();
            out.push(ClusterAction::MetadataChanged);
        }
        out.push(ClusterAction::MetadataRefreshed);
    }

    fn take_in_brokers(&mut self, brokers: &[MetadataResponseBroker<'_>], out: &mut ClusterActions) -> bool {
        let mut changed = false;
        let mut named: Vec<NodeId> = Vec::with_capacity(brokers.len());
        for broker in brokers.iter().filter(|broker| !is_bootstrap(broker.node_id)) {
            if let Some(address) = Address::from_wire(&broker.host, broker.port) {
                changed |= self.list_node(broker.node_id, address);
                if let Some(node) = self.nodes.get_mut(&broker.node_id)
                    && node.rack.as_deref() != broker.rack.as_deref()
                {
                    node.rack = broker.rack.as_deref().map(Arc::from);
                }
                named.push(broker.node_id);
            }
        }
        named.sort_unstable();
        let gone: Vec<NodeId> = self.node_ids().filter(|id| named.binary_search(id).is_err()).collect();
        for id in gone {
            if let Some(node) = self.nodes.get_mut(&id) {
                node.listed = false;
            }
            self.forget_if_unlisted(id, out);
            changed = true;
        }
        changed
    }

    /// A bootstrap address that a broker advertises as its own is that broker: its connection need not be made twice.
    fn adopt_bootstrap(&mut self, out: &mut ClusterActions) {
        let channel = Channel::Control;
        let mut adopted = Vec::new();
        for (&bootstrap, from) in self.nodes.range(..0) {
            let Some(conn) = from.conn(channel) else { continue };
            let fits = |node: &super::Node| node.listed && node.address == from.address && node.conn(channel).is_none();
            let mut brokers = self.nodes.range(0..).filter(|(_, node)| fits(node)).map(|(&id, _)| id);
            // Two brokers behind one address: a load balancer, and no telling whose connection it is.
            if let (Some(broker), None) = (brokers.next(), brokers.next()) {
                adopted.push((bootstrap, broker, conn));
            }
        }
        for (bootstrap, broker, conn) in adopted {
            let Some(link) = self.links.get_mut(&conn).filter(|link| link.conn.is_ready()) else { continue };
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

    /// Lets the next metadata come from the bootstrap addresses: the brokers that are known lead nowhere.
    pub(super) fn rebootstrap(&mut self, now: Nanos, cause: RebootstrapCause, out: &mut ClusterActions) {
        out.push(ClusterAction::Notify(ClusterNotice::Rebootstrap { cause }));
        self.rebootstrapping = true;
        for (_, node) in self.nodes.range_mut(..0) {
            node.backoff.reset(); // all get a chance again, each not before its `retry_at`
        }
        // Connected anew, so that names are resolved anew.
        self.close_bootstrap(now, out);
    }

    pub(super) fn rebootstrap_deadline(&self) -> Option<Nanos> {
        let missed = self.refresh.missed_since().filter(|_| self.refresh.ever())?;
        Some(missed.saturating_add(self.config.rebootstrap_trigger))
    }
}
