//! Member of a classic group, and the generator of member ids.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use grete_wire::messages::JoinGroupRequestProtocol;

use crate::effects::group::MemberMetadata;
use crate::ids::{Millis, RequestId};

/// Request that waits for the other members, with its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parked {
    pub(super) request: RequestId,
    pub(super) version: i16,
}

/// Member of a group.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) id: Arc<str>,
    /// `group.instance.id` of a static member (KIP-345).
    pub(super) instance_id: Option<Arc<str>>,
    pub(super) client_id: Arc<str>,
    pub(super) client_host: Arc<str>,
    pub(super) rebalance_timeout_ms: i64,
    pub(super) session_timeout_ms: i64,
    /// Protocols with their metadata, the preferred one first.
    pub(super) protocols: Vec<(Arc<str>, Arc<[u8]>)>,
    pub(super) assignment: Arc<[u8]>,
    /// JoinGroup that is not answered yet.
    pub(super) join: Option<Parked>,
    /// SyncGroup that is not answered yet.
    pub(super) sync: Option<Parked>,
    /// Whether the member waits for the response to its first JoinGroup.
    pub(super) is_new: bool,
    /// End of the session. `None`: the session ended while the member waited for the others. The next response starts
    /// a new session.
    pub(super) expires: Option<Millis>,
}

impl Member {
    /// Returns whether the member needs no heartbeat now: a request of the member waits for the other members. A new
    /// member is not excused, because a client may have given up on its JoinGroup.
    pub(super) fn has_satisfied_heartbeat(&self) -> bool {
        !self.is_new && (self.join.is_some() || self.sync.is_some())
    }

    /// Returns whether the member supports a protocol.
    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| &**name == protocol)
    }

    /// Returns the member's metadata for a protocol. Empty: the member does not support the protocol.
    pub(super) fn subscription(&self, protocol: Option<&str>) -> Arc<[u8]> {
        let found = self.protocols.iter().find(|(name, _)| protocol == Some(&**name));
        found.map_or_else(Arc::default, |(_, metadata)| Arc::clone(metadata))
    }

    /// Returns whether a JoinGroup has the member's own protocols, in the same order with the same metadata.
    pub(super) fn matches(&self, protocols: &[JoinGroupRequestProtocol<'_>]) -> bool {
        let own = self.protocols.iter().map(|(name, metadata)| (&**name, &**metadata));
        own.eq(protocols.iter().map(|protocol| (protocol.name.as_ref(), protocol.metadata.as_ref())))
    }

    /// Begins a session of the usual length.
    pub(super) fn begin_session(&mut self, now: Millis) {
        self.expires = Some(now + self.session_timeout_ms);
    }

    /// Returns the durable state of the member.
    pub(super) fn to_metadata(&self, protocol: Option<&str>) -> MemberMetadata {
        MemberMetadata {
            member_id: Arc::clone(&self.id),
            instance_id: self.instance_id.clone(),
            client_id: Arc::clone(&self.client_id),
            client_host: Arc::clone(&self.client_host),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            session_timeout_ms: self.session_timeout_ms,
            subscription: self.subscription(protocol),
            assignment: Arc::clone(&self.assignment),
        }
    }

    /// Creates the member from its durable state. The session begins when the coordinator has loaded all groups.
    pub(super) fn from_metadata(metadata: &MemberMetadata, protocol: Option<&Arc<str>>) -> Self {
        Self {
            id: Arc::clone(&metadata.member_id),
            instance_id: metadata.instance_id.clone(),
            client_id: Arc::clone(&metadata.client_id),
            client_host: Arc::clone(&metadata.client_host),
            rebalance_timeout_ms: metadata.rebalance_timeout_ms,
            session_timeout_ms: metadata.session_timeout_ms,
            protocols: protocol
                .map(|name| (Arc::clone(name), Arc::clone(&metadata.subscription)))
                .into_iter()
                .collect(),
            assignment: Arc::clone(&metadata.assignment),
            join: None,
            sync: None,
            is_new: false,
            expires: None,
        }
    }
}

/// Copies the protocols of a JoinGroup.
pub(super) fn own_protocols(protocols: &[JoinGroupRequestProtocol<'_>]) -> Vec<(Arc<str>, Arc<[u8]>)> {
    protocols
        .iter()
        .map(|protocol| (Arc::from(protocol.name.as_ref()), Arc::from(protocol.metadata.as_ref())))
        .collect()
}

/// Generator of member ids: client id or instance id, a hyphen and a UUID from a seed.
#[derive(Debug)]
pub(super) struct MemberIds {
    state: u64,
}

impl MemberIds {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next member id.
    pub(super) fn next(&mut self, prefix: &str) -> Arc<str> {
        let (high, low) = (self.next_u64(), self.next_u64());
        // Version 4, variant 1 (RFC 9562).
        let high = (high & !0xf000) | 0x4000;
        let low = (low & !(0b11 << 62)) | (0b10 << 62);
        let (time, rest) = (high >> 32, high & 0xffff_ffff);
        Arc::from(format!(
            "{prefix}-{time:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            rest >> 16,
            rest & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        ))
    }

    /// Returns the next member id of the consumer protocol: a UUID in base64, as Kafka writes topic ids.
    pub(super) fn next_uuid(&mut self) -> Arc<str> {
        let bytes = (u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())).to_be_bytes();
        let id = URL_SAFE_NO_PAD.encode(bytes);
        // A hyphen in front would look like an option on a command line.
        if id.starts_with('-') { self.next_uuid() } else { Arc::from(id) }
    }

    /// Advances SplitMix64 by one step.
    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
