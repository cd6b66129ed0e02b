//! Which broker a request goes to, and when to connect to one.

use super::event::{ClusterAction, ClusterActions, ClusterNotice, RebootstrapCause};
use super::node::{Node, is_bootstrap};
use super::refresh::Scope;
use super::{Cluster, Waiting};
use crate::conn::Connection;
use crate::ids::NodeId;
use crate::request::{Channel, NO_NODE, Outgoing, Reply, RequestError, Target, Token};
use crate::time::{Nanos, SECOND};

/// While one address has not answered for so long, the next is tried beside it: a host that swallows packets must not hold
/// up the start for its whole setup timeout.
const STAGGER: Nanos = SECOND;

impl Cluster {
    pub(super) fn send(&mut self, now: Nanos, outgoing: Outgoing, out: &mut ClusterActions) {
        match outgoing.target {
            Target::Node(node) => self.send_to(now, node, outgoing.channel, outgoing, out),
            // To no broker in particular: always on the control channel, which every chosen broker has.
            Target::Any | Target::Controller => match self.chosen(now, outgoing.target) {
                Some(node) => self.send_to(now, node, Channel::Control, outgoing, out),
                None => {
                    let deadline = now.saturating_add(outgoing.timeout);
                    self.waiting.push_back(Waiting { outgoing, deadline });
                    self.dirty = true;
                }
            },
        }
    }

    fn send_to(&mut self, now: Nanos, id: NodeId, channel: Channel, outgoing: Outgoing, out: &mut ClusterActions) {
        let Some(node) = self.nodes.get(&id) else {
            // The caller knows of a broker that the metadata does not name: one of both is stale.
            self.refresh.want(now, Scope::All);
            self.dirty = true;
            return refuse(outgoing.token, id, RequestError::NoConnection, out);
        };
        let Some(name) = node.conn(channel).or_else(|| self.open(now, id, channel, out)) else {
            return refuse(outgoing.token, id, RequestError::NoConnection, out);
        };
        let Some(link) = self.links.get_mut(&name) else { return };
        link.conn.send(now, outgoing.request, outgoing.token, outgoing.timeout, &mut self.scratch);
        self.drain(now, name, false, out);
    }

    pub(super) fn need(&mut self, now: Nanos, id: NodeId, channel: Channel, out: &mut ClusterActions) {
        let Some(node) = self.nodes.get_mut(&id) else {
            self.refresh.want(now, Scope::All); // the metadata may name it soon
            self.dirty = true;
            return;
        };
        if node.conn(channel).is_none() {
            node.set_needed(channel, true);
            self.dirty = true;
            self.open(now, id, channel, out);
        }
    }

    /// The controller may have to be connected first; of the others only a ready one is chosen.
    fn chosen(&mut self, now: Nanos, target: Target) -> Option<NodeId> {
        let controller = if target == Target::Controller { self.controller() } else { None };
        controller.or_else(|| self.least_loaded(now, false))
    }

    /// The ready broker with the least to do; muted ones and bootstrap addresses only if there is no other.
    pub(super) fn least_loaded(&mut self, now: Nanos, bootstrap_only: bool) -> Option<NodeId> {
        let mut best = None;
        for (&id, node) in &self.nodes {
            let usable = is_bootstrap(id) || (node.listed && !bootstrap_only);
            let conn = usable.then(|| self.ready_conn(id, Channel::Control)).flatten();
            let Some(load) = conn.map(Connection::load) else { continue };
            let rank = (now < node.muted_until, is_bootstrap(id), load, self.rng.next_u64());
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, id));
            }
        }
        best.map(|(_, id)| id)
    }

    /// Does what is wanted and has become possible: metadata requests, connects.
    pub(super) fn drive(&mut self, now: Nanos, out: &mut ClusterActions) {
        self.refresh.tick(now);
        if self.rebootstrap_deadline().is_some_and(|deadline| now >= deadline) {
            self.refresh.restart_wait(now);
            self.rebootstrap(now, RebootstrapCause::NoMetadata, out);
        }
        if !self.waiting.is_empty() && self.least_loaded(now, false).is_some() {
            for Waiting { outgoing, deadline } in std::mem::take(&mut self.waiting) {
                self.send(now, Outgoing { timeout: deadline.saturating_sub(now), ..outgoing }, out);
            }
        }
        if let Some(scope) = self.refresh.due(now)
            && let Some(node) = self.least_loaded(now, self.bootstrap_only())
        {
            self.ask(now, node, scope, out);
        }
        if self.wants_any(now) && !self.attempt_any(now, out) {
            let error = self.fatal.clone().map_or(RequestError::NoConnection, RequestError::NotKafka);
            for waiting in std::mem::take(&mut self.waiting) {
                refuse(waiting.outgoing.token, NO_NODE, error.clone(), out);
            }
        }
        let needed: Vec<(NodeId, Channel)> = (self.nodes.iter())
            .filter(|(_, node)| now >= node.retry_at)
            .flat_map(|(&id, node)| Channel::ALL.into_iter().filter(|&c| node.is_needed(c)).map(move |c| (id, c)))
            .collect();
        for (id, channel) in needed {
            self.open(now, id, channel, out);
            if let Some(node) = self.nodes.get_mut(&id) {
                node.set_needed(channel, false); // one attempt per `NeedNode`; `lost` or `became_ready` tells how it went
            }
        }
    }

    /// Something waits for any broker, and none is ready.
    fn wants_any(&self, now: Nanos) -> bool {
        !self.waiting.is_empty() || self.refresh.due(now).is_some()
    }

    /// Connects to one more broker if it is time to; whether any attempt is under way.
    fn attempt_any(&mut self, now: Nanos, out: &mut ClusterActions) -> bool {
        let under_way = self.is_attempting();
        if under_way && now < self.last_attempt.saturating_add(STAGGER) {
            return true;
        }
        let Some(id) = self.candidate(now) else { return under_way };
        if is_bootstrap(id) && !self.fell_back && !self.rebootstrapping && self.node_ids().next().is_some() {
            self.fell_back = true;
            let cause = RebootstrapCause::NoBrokerReachable;
            out.push(ClusterAction::Notify(ClusterNotice::Rebootstrap { cause }));
        }
        self.last_attempt = now;
        self.open(now, id, Channel::Control, out).is_some() || under_way
    }

    /// Whether a connection that could serve any request is being set up.
    fn is_attempting(&self) -> bool {
        self.links.values().any(|link| link.channel == Channel::Control && !link.conn.is_ready())
    }

    /// The address to try next: never-failed ones first; brokers in random order, bootstrap addresses in their shuffled order.
    fn candidate(&mut self, now: Nanos) -> Option<NodeId> {
        let mut best = None;
        let rule = self.candidate_rule();
        for (&id, node) in &self.nodes {
            if !rule.admits(id, node) || now < node.retry_at {
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

    fn candidate_rule(&self) -> CandidateRule {
        let healthy = self.nodes.range(0..).any(|(_, node)| node.listed && node.backoff.failures() == 0);
        let bootstrap_only = self.bootstrap_only();
        CandidateRule { brokers: !bootstrap_only, bootstrap: bootstrap_only || !healthy }
    }

    /// While bootstrapping again, as long as an address of the list has not failed: then named brokers may do, too.
    fn bootstrap_only(&self) -> bool {
        self.rebootstrapping && self.nodes.range(..0).any(|(_, node)| node.backoff.failures() == 0)
    }

    /// When to try the next address, while some request waits for any broker.
    pub(super) fn attempt_deadline(&self, now: Nanos) -> Option<Nanos> {
        if !self.wants_any(now) {
            return None;
        }
        let floor = if self.is_attempting() { self.last_attempt.saturating_add(STAGGER) } else { 0 };
        let rule = self.candidate_rule();
        let admitted = self.nodes.iter().filter(|(id, node)| rule.admits(**id, node));
        admitted.map(|(_, node)| node.retry_at.max(floor)).min()
    }

    pub(super) fn expire_waiting(&mut self, now: Nanos, out: &mut ClusterActions) {
        self.waiting.retain(|waiting| {
            let late = now >= waiting.deadline;
            if late {
                refuse(waiting.outgoing.token, NO_NODE, RequestError::TimedOut, out);
            }
            !late
        });
    }
}

/// Which addresses may be tried for requests to any broker.
struct CandidateRule {
    brokers: bool,
    bootstrap: bool,
}

impl CandidateRule {
    fn admits(&self, id: NodeId, node: &Node) -> bool {
        let kind = if is_bootstrap(id) { self.bootstrap } else { self.brokers && node.listed };
        kind && node.conn(Channel::Control).is_none()
    }
}

fn refuse(token: Token, node: NodeId, error: RequestError, out: &mut ClusterActions) {
    out.push(ClusterAction::Reply(Reply { token, node, result: Err(error) }));
}
