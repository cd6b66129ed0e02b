//! Connections come and go: backoff, outages, mutes, and what they mean for the brokers behind them.

use std::sync::Arc;

use super::event::{ClusterAction, ClusterActions, ClusterNotice};
use super::node::is_bootstrap;
use super::refresh::Scope;
use super::{Cluster, Link};
use crate::conn::{CloseReason, ConnAction, Connection};
use crate::ids::{ConnId, NodeId};
use crate::request::{Channel, LooksLike, NotKafka, Owner, Reply};
use crate::time::{MILLI, Nanos};

impl Cluster {
    /// Starts to connect, unless the node is unknown, connected already, or waiting to be tried again.
    pub(super) fn open(
        &mut self,
        now: Nanos,
        id: NodeId,
        channel: Channel,
        out: &mut ClusterActions,
    ) -> Option<ConnId> {
        let node = self.nodes.get_mut(&id)?;
        if node.conn(channel).is_some() || now < node.retry_at {
            return None;
        }
        let name = ConnId(self.next_conn);
        self.next_conn = self.next_conn.wrapping_add(1);
        let timeout = node.setup.next(&mut self.rng);
        let mut conn = Connection::new(Arc::clone(&self.conn_config), now, timeout);
        conn.mute(node.muted_until);
        node.set_conn(channel, Some(name));
        out.push(ClusterAction::Connect { conn: name, address: (Arc::clone(&node.address.host), node.address.port) });
        self.links.insert(name, Link { node: id, channel, conn, ready: false });
        self.dirty = true;
        Some(name)
    }

    /// The broker hangs, or is cut off without a word. A JoinGroup may wait for minutes by right, so its own timeout would
    /// hold the member to a coordinator that is gone; a Fetch has its request timeout, and its partitions move away.
    fn close_silent(&mut self, now: Nanos, id: NodeId, out: &mut ClusterActions) {
        let Some(name) = self.nodes.get(&id).and_then(|node| node.conn(Channel::Join)) else { return };
        if let Some(link) = self.links.get_mut(&name) {
            link.conn.on_closed(now, CloseReason::Silent, &mut self.scratch);
            self.drain(now, name, false, out);
        }
    }

    /// Carries out what a connection wants. `gone`: the driver has closed the socket already.
    pub(super) fn drain(&mut self, now: Nanos, name: ConnId, gone: bool, out: &mut ClusterActions) {
        let Some(link) = self.links.get(&name) else { return };
        let (node, channel) = (link.node, link.channel);
        // Taken out, because a reply or a close can lead to more work on other connections.
        let mut actions = std::mem::take(&mut self.scratch);
        for action in actions.drain(..) {
            match action {
                ConnAction::Write(bytes) => out.push(ClusterAction::Write { conn: name, bytes }),
                ConnAction::Reply(token, result) if token.owner == Owner::Cluster => {
                    self.metadata_answered(now, token.id, node, result, out);
                }
                ConnAction::Reply(token, result) => out.push(ClusterAction::Reply(Reply { token, node, result })),
                ConnAction::Ready => self.became_ready(now, name, node, channel, out),
                ConnAction::Throttled(span) => self.throttled(now, node, span, out),
                ConnAction::Close(reason) => {
                    if !gone {
                        out.push(ClusterAction::Close { conn: name });
                    }
                    self.lost(now, name, reason, out);
                }
            }
        }
        self.scratch = actions;
        self.lower_timer(name);
    }

    /// An answer is proof that the broker is well.
    pub(super) fn after_frame(&mut self, now: Nanos, name: ConnId, out: &mut ClusterActions) {
        let Some(link) = self.links.get(&name).filter(|link| link.conn.has_answered()) else { return };
        let id = link.node;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.backoff.reset();
        }
        if is_bootstrap(id) {
            self.retire_bootstrap(now, out);
        }
    }

    fn became_ready(&mut self, now: Nanos, name: ConnId, id: NodeId, channel: Channel, out: &mut ClusterActions) {
        if let Some(link) = self.links.get_mut(&name) {
            self.connections += usize::from(!std::mem::replace(&mut link.ready, true));
        }
        if let Some(versions) = self.links.get(&name).and_then(|link| link.conn.versions()) {
            let newer = self.features.as_ref().is_none_or(|f| versions.features_epoch() >= f.features_epoch());
            if newer {
                self.features = Some(Arc::clone(versions));
            }
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.setup.reset();
        node.set_needed(channel, false);
        node.looks_like = None;
        self.outage = false;
        let address = node.address.to_string();
        out.push(ClusterAction::Notify(ClusterNotice::Connected { node: id, channel, address }));
        if !is_bootstrap(id) {
            self.fell_back = false;
            out.push(ClusterAction::NodeReady { node: id, channel });
        }
        self.retire_bootstrap(now, out);
        self.dirty = true;
    }

    /// The connection is gone; its requests have had their replies.
    fn lost(&mut self, now: Nanos, name: ConnId, reason: CloseReason, out: &mut ClusterActions) {
        let Some(link) = self.links.remove(&name) else { return };
        self.connections -= usize::from(link.ready);
        let (id, channel) = (link.node, link.channel);
        let negotiated = link.conn.versions().is_some();
        let silent = channel == Channel::Control && matches!(reason, CloseReason::RequestTimeout { .. });
        self.dirty = true;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.set_conn(channel, None);
        node.set_needed(channel, false);
        if !reason.is_peaceful() {
            // When a broker dies all its connections end at once; that is one failure, not three.
            if now >= node.retry_at {
                node.retry_at = now.saturating_add(node.backoff.next(&mut self.rng));
            }
            let (address, failures) = (node.address.to_string(), node.backoff.failures());
            let looks_like = reason.looks_like(negotiated);
            node.looks_like = looks_like;
            out.push(ClusterAction::Notify(if negotiated {
                ClusterNotice::Disconnected { node: id, channel, address: address.clone(), reason }
            } else {
                ClusterNotice::ConnectFailed { node: id, channel, address: address.clone(), reason, failures }
            }));
            if let Some(looks_like) = looks_like {
                self.not_kafka(NotKafka { address, looks_like }, out);
            }
            // Leaders move away from a broker that is gone.
            self.refresh.want(now, Scope::All);
        }
        if !is_bootstrap(id) {
            out.push(ClusterAction::NodeLost { node: id, channel });
        }
        if silent {
            self.close_silent(now, id, out);
        }
        self.forget_if_unlisted(id, out);
        self.check_outage(out);
    }

    /// A broker that metadata no longer names stays while it has connections.
    pub(super) fn forget_if_unlisted(&mut self, id: NodeId, out: &mut ClusterActions) {
        let Some(node) = self.nodes.get(&id) else { return };
        if node.listed || is_bootstrap(id) || node.has_conns() {
            return;
        }
        for channel in Channel::ALL.into_iter().filter(|&channel| node.is_needed(channel)) {
            out.push(ClusterAction::NodeLost { node: id, channel });
        }
        self.nodes.remove(&id);
    }

    fn not_kafka(&mut self, error: NotKafka, out: &mut ClusterActions) {
        out.push(ClusterAction::Notify(ClusterNotice::NotKafka(error.clone())));
        let surely = |looks_like| matches!(looks_like, Some(LooksLike::Http | LooksLike::Tls));
        let mut bootstrap = self.nodes.range(..0).map(|(_, node)| node);
        // Garbage can be a passing fault; HTTP and TLS are a wrong port, and waiting does not cure that.
        if !self.refresh.ever() && self.fatal.is_none() && bootstrap.all(|node| surely(node.looks_like)) {
            out.push(ClusterAction::Notify(ClusterNotice::Fatal(error.clone())));
            self.fatal = Some(error);
        }
    }

    /// Said once when nothing is connected or connecting and no address is left that has not failed.
    fn check_outage(&mut self, out: &mut ClusterActions) {
        if self.outage {
            return;
        }
        let mut addresses = self.nodes.iter().filter(|(id, node)| node.listed || is_bootstrap(**id));
        if addresses.clone().all(|(_, node)| !node.has_conns() && node.backoff.failures() > 0) {
            self.outage = true;
            let addresses = addresses.by_ref().count();
            out.push(ClusterAction::Notify(ClusterNotice::AllBrokersDown { addresses }));
        }
    }

    /// Bootstrap connections go once a named broker is ready and they have nothing left to do.
    fn retire_bootstrap(&mut self, now: Nanos, out: &mut ClusterActions) {
        // The same brokers that `least_loaded` takes: else it would be opened again at once, for ever.
        let named = self.nodes.range(0..).any(|(&id, node)| node.listed && self.is_ready(id, Channel::Control));
        if named && !self.rebootstrapping {
            self.close_bootstrap(now, out);
        }
    }

    pub(super) fn close_bootstrap(&mut self, now: Nanos, out: &mut ClusterActions) {
        let spare = |link: &Link| is_bootstrap(link.node) && link.conn.is_idle();
        let spare: Vec<ConnId> = self.links.iter().filter(|(_, link)| spare(link)).map(|(&name, _)| name).collect();
        for name in spare {
            if let Some(link) = self.links.get_mut(&name) {
                link.conn.on_closed(now, CloseReason::Retired, &mut self.scratch);
                self.drain(now, name, false, out);
            }
        }
    }

    pub(super) fn throttled(&mut self, now: Nanos, id: NodeId, span: Nanos, out: &mut ClusterActions) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.muted_until = node.muted_until.max(now.saturating_add(span));
        for name in node.conns.into_iter().flatten() {
            if let Some(link) = self.links.get_mut(&name) {
                link.conn.mute(node.muted_until);
            }
        }
        out.push(ClusterAction::Notify(ClusterNotice::Throttled { node: id, ms: span / MILLI }));
        self.dirty = true;
    }

    pub(super) fn unmute(&mut self, now: Nanos, out: &mut ClusterActions) {
        for (&id, node) in &mut self.nodes {
            if node.muted_until > 0 && now >= node.muted_until {
                node.muted_until = 0;
                out.push(ClusterAction::Unmuted { node: id });
            }
        }
    }
}
