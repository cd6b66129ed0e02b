//! Routing of requests to brokers, and the attempts to connect.

use super::broker_state::{BrokerState, is_bootstrap};
use super::event::{ClusterAction, ClusterActions, ClusterLogEvent, RebootstrapCause};
use super::metadata_refresh::MetadataScope;
use super::{Cluster, WaitingRequest};
use crate::connection::Connection;
use crate::ids::NodeId;
use crate::request::{AddressFault, Channel, NO_NODE, OutboundRequest, Reply, RequestError, Target, Token};
use crate::time::{Nanos, SECOND};

/// Time after which the next address is tried in parallel to one that has not responded. A host that drops packets must
/// not delay the start by its whole setup timeout.
const CONNECT_STAGGER: Nanos = SECOND;

impl Cluster {
    pub(super) fn send(&mut self, now: Nanos, outgoing: OutboundRequest, out: &mut ClusterActions) {
        match outgoing.target {
            Target::Node(node) => self.send_to(now, node, outgoing.channel, outgoing, out),
            // Requests to any broker use the control channel, which every candidate has.
            Target::Any | Target::Controller => match self.select_broker(now, outgoing.target) {
                Some(node) => self.send_to(now, node, Channel::Control, outgoing, out),
                None => {
                    let deadline = now.saturating_add(outgoing.timeout);
                    self.waiting.push_back(WaitingRequest { outgoing, deadline });
                    self.dirty = true;
                }
            },
        }
    }

    fn send_to(
        &mut self,
        now: Nanos,
        id: NodeId,
        channel: Channel,
        outgoing: OutboundRequest,
        out: &mut ClusterActions,
    ) {
        let Some(node) = self.nodes.get(&id) else {
            // The caller knows a broker that the metadata lacks: one of the two is stale.
            self.refresh.request_refresh(now, MetadataScope::All);
            self.dirty = true;
            return reply_with_error(outgoing.token, id, RequestError::NoConnection, out);
        };
        let Some(name) = node.conn(channel).or_else(|| self.open(now, id, channel, out)) else {
            return reply_with_error(outgoing.token, id, RequestError::NoConnection, out);
        };
        let Some(link) = self.connections.get_mut(&name) else { return };
        link.conn.send(now, outgoing.request, outgoing.token, outgoing.timeout, &mut self.scratch);
        self.process_conn_actions(now, name, false, out);
    }

    pub(super) fn ensure_connected(&mut self, now: Nanos, id: NodeId, channel: Channel, out: &mut ClusterActions) {
        let Some(node) = self.nodes.get_mut(&id) else {
            self.refresh.request_refresh(now, MetadataScope::All); // new metadata may contain the node
            self.dirty = true;
            return;
        };
        if node.conn(channel).is_none() {
            node.set_needed(channel, true);
            self.dirty = true;
            self.open(now, id, channel, out);
        }
    }

    /// Selects a broker. The controller is selected even if it must be connected first; other brokers only if they are
    /// ready.
    fn select_broker(&mut self, now: Nanos, target: Target) -> Option<NodeId> {
        let controller = if target == Target::Controller { self.controller() } else { None };
        controller.or_else(|| self.least_loaded(now, false))
    }

    /// Returns the ready broker with the fewest requests. Muted brokers, brokers that have failed since their last
    /// response (the other connections of a broker that hangs are ready for a while), and bootstrap addresses are used
    /// only if no other is ready.
    pub(super) fn least_loaded(&mut self, now: Nanos, bootstrap_only: bool) -> Option<NodeId> {
        let mut best = None;
        for (&id, node) in &self.nodes {
            let usable = is_bootstrap(id) || (node.listed && !bootstrap_only);
            let conn = usable.then(|| self.ready_conn(id, Channel::Control)).flatten();
            let Some(load) = conn.map(Connection::load) else { continue };
            let is_failing = node.backoff.failures() > 0;
            let rank = (now < node.muted_until, is_failing, is_bootstrap(id), load, self.rng.next_u64());
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, id));
            }
        }
        best.map(|(_, id)| id)
    }

    /// Performs requested work that has become possible: metadata requests and connects.
    pub(super) fn advance(&mut self, now: Nanos, out: &mut ClusterActions) {
        self.refresh.tick(now);
        if self.rebootstrap_deadline().is_some_and(|deadline| now >= deadline) {
            self.refresh.restart_wait(now);
            self.rebootstrap(now, RebootstrapCause::NoMetadata, out);
        }
        if !self.waiting.is_empty() && self.least_loaded(now, false).is_some() {
            for WaitingRequest { outgoing, deadline } in std::mem::take(&mut self.waiting) {
                self.send(now, OutboundRequest { timeout: deadline.saturating_sub(now), ..outgoing }, out);
            }
        }
        if let Some(scope) = self.refresh.due_scope(now)
            && let Some(node) = self.least_loaded(now, self.bootstrap_only())
        {
            self.send_metadata_request(now, node, scope, out);
        }
        if self.needs_any_broker(now) && !self.connect_any_broker(now, out) {
            let error = {
                let login = || self.login_failure.clone().map(AddressFault::Login);
                let fault = self.fatal.clone().or_else(login);
                fault.map_or(RequestError::NoConnection, RequestError::Unusable)
            };
            for waiting in std::mem::take(&mut self.waiting) {
                reply_with_error(waiting.outgoing.token, NO_NODE, error.clone(), out);
            }
        }
        let needed: Vec<(NodeId, Channel)> = (self.nodes.iter())
            .filter(|(_, node)| now >= node.retry_at)
            .flat_map(|(&id, node)| Channel::ALL.into_iter().filter(|&c| node.is_needed(c)).map(move |c| (id, c)))
            .collect();
        for (id, channel) in needed {
            self.open(now, id, channel, out);
            if let Some(node) = self.nodes.get_mut(&id) {
                node.set_needed(channel, false); // one attempt per `NeedNode`; `NodeReady` or `NodeLost` follows
            }
        }
    }

    /// Returns whether a request waits for any broker while none is ready.
    fn needs_any_broker(&self, now: Nanos) -> bool {
        !self.waiting.is_empty() || self.refresh.due_scope(now).is_some()
    }

    /// Connects to a further broker if an attempt is due. Returns whether any attempt is in progress.
    fn connect_any_broker(&mut self, now: Nanos, out: &mut ClusterActions) -> bool {
        let under_way = self.is_attempting();
        if under_way && now < self.last_attempt.saturating_add(CONNECT_STAGGER) {
            return true;
        }
        let Some(id) = self.next_candidate(now) else { return under_way };
        if is_bootstrap(id) && !self.fell_back && !self.rebootstrapping && self.node_ids().next().is_some() {
            self.fell_back = true;
            let cause = RebootstrapCause::NoBrokerReachable;
            out.push(ClusterAction::LogEvent(ClusterLogEvent::Rebootstrap { cause }));
        }
        self.last_attempt = now;
        self.open(now, id, Channel::Control, out).is_some() || under_way
    }

    /// Returns whether a control connection is being set up.
    fn is_attempting(&self) -> bool {
        self.connections.values().any(|link| link.channel == Channel::Control && !link.conn.is_ready())
    }

    /// Returns the next address to try. Addresses without failures come first; brokers in random order, bootstrap
    /// addresses in their shuffled order.
    fn next_candidate(&mut self, now: Nanos) -> Option<NodeId> {
        let mut best = None;
        let rule = self.connect_candidates();
        for (&id, node) in &self.nodes {
            if !rule.allows(id, node) || now < node.retry_at {
                continue;
            }
            let tie = if is_bootstrap(id) { u64::from(id.unsigned_abs()) } else { self.rng.next_u64() };
            let rank = (node.backoff.failures(), is_bootstrap(id), tie);
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, id));
            }
        }
        best.map(|(_, id)| id)
    }

    fn connect_candidates(&self) -> ConnectCandidates {
        let healthy = self.nodes.range(0..).any(|(_, node)| node.listed && node.backoff.failures() == 0);
        let bootstrap_only = self.bootstrap_only();
        ConnectCandidates { brokers: !bootstrap_only, bootstrap: bootstrap_only || !healthy }
    }

    /// Returns whether only bootstrap addresses are allowed: during a rebootstrap, until every address of the list has
    /// failed.
    fn bootstrap_only(&self) -> bool {
        self.rebootstrapping && self.nodes.range(..0).any(|(_, node)| node.backoff.failures() == 0)
    }

    /// Returns the time to try the next address, while a request waits for any broker.
    pub(super) fn attempt_deadline(&self, now: Nanos) -> Option<Nanos> {
        if !self.needs_any_broker(now) {
            return None;
        }
        let floor = if self.is_attempting() { self.last_attempt.saturating_add(CONNECT_STAGGER) } else { 0 };
        let rule = self.connect_candidates();
        let admitted = self.nodes.iter().filter(|(id, node)| rule.allows(**id, node));
        admitted.map(|(_, node)| node.retry_at.max(floor)).min()
    }

    pub(super) fn expire_waiting(&mut self, now: Nanos, out: &mut ClusterActions) {
        self.waiting.retain(|waiting| {
            let late = now >= waiting.deadline;
            if late {
                reply_with_error(waiting.outgoing.token, NO_NODE, RequestError::TimedOut, out);
            }
            !late
        });
    }
}

/// Addresses allowed for requests to any broker.
struct ConnectCandidates {
    brokers: bool,
    bootstrap: bool,
}

impl ConnectCandidates {
    fn allows(&self, id: NodeId, node: &BrokerState) -> bool {
        let kind = if is_bootstrap(id) { self.bootstrap } else { self.brokers && node.listed };
        kind && node.conn(Channel::Control).is_none()
    }
}

fn reply_with_error(token: Token, node: NodeId, error: RequestError, out: &mut ClusterActions) {
    out.push(ClusterAction::Reply(Reply { token, node, result: Err(error) }));
}
