//! Connections of clients: one request at a time each, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use grete_wire::{ApiKey, Frame};

use crate::acl::ANONYMOUS;
use crate::ids::{BrokerId, ConnId, Millis, RequestId};
use crate::sasl::session::SaslSession;

/// Maximum number of requests that wait for the one before them. More are left in the kernel's buffers.
pub const MAX_QUEUED_REQUESTS: usize = 64;

/// Bytes of waiting requests from which on a connection is not read from.
pub const MAX_QUEUED_CONNECTION_BYTES: usize = 1 << 20;

/// Maximum bytes of the waiting requests of all connections. A request beyond it closes its connection.
pub const MAX_QUEUED_BYTES: usize = 256 << 20;

/// Connection of a client to a virtual broker.
///
/// A broker handles one request of a connection at a time, as Kafka does, so responses have the order of the requests.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) broker: BrokerId,
    pub(crate) client_host: Arc<str>,
    /// Requests that wait for the one in progress.
    pub(crate) queue: VecDeque<Frame>,
    /// Bytes of the waiting requests.
    pub(crate) queued_bytes: usize,
    pub(crate) in_progress: Option<RequestId>,
    pub(crate) is_paused: bool,
    /// Time of the last request or response.
    pub(crate) used_at: Millis,
    /// Login of the client; unused without SASL.
    pub(crate) sasl: SaslSession,
    /// Principal of the client's certificate; `None`: the client has shown none.
    pub(crate) certified: Option<Arc<str>>,
    /// Whether the connection is closed after the response to the request in progress.
    pub(crate) ends_after_response: bool,
}

impl Connection {
    pub(crate) fn new(broker: BrokerId, client_host: Arc<str>, now: Millis) -> Self {
        Self {
            broker,
            client_host,
            queue: VecDeque::new(),
            queued_bytes: 0,
            in_progress: None,
            is_paused: false,
            used_at: now,
            sasl: SaslSession::default(),
            certified: None,
            ends_after_response: false,
        }
    }

    /// Returns the principal of the client: of its login, else of its certificate.
    pub(crate) fn principal(&self, has_logins: bool) -> Arc<str> {
        let user = self.sasl.principal().filter(|_| has_logins).map(|user| format!("User:{user}").into());
        user.or_else(|| self.certified.clone()).unwrap_or_else(|| ANONYMOUS.into())
    }

    /// Returns since when no request is in progress or waits; `None`: one is or does.
    pub(crate) fn idle_since(&self) -> Option<Millis> {
        (self.in_progress.is_none() && self.queue.is_empty()).then_some(self.used_at)
    }

    /// Returns whether so much waits that reading has to pause.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= MAX_QUEUED_REQUESTS || self.queued_bytes >= MAX_QUEUED_CONNECTION_BYTES
    }

    /// Returns whether little enough waits that reading can go on.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.len() < MAX_QUEUED_REQUESTS / 2 && self.queued_bytes < MAX_QUEUED_CONNECTION_BYTES / 2
    }
}

/// Request in progress, without its body.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// Identifier of the request.
    pub id: RequestId,
    /// Connection of the request.
    pub conn: ConnId,
    /// Broker that got the request.
    pub broker: BrokerId,
    /// API of the request.
    pub api: ApiKey,
    /// Version of request and response.
    pub version: i16,
    /// Number that the response repeats.
    pub correlation_id: i32,
    /// `client.id`; empty if the client has none.
    pub client_id: Arc<str>,
    /// Address of the client without the port.
    pub client_host: Arc<str>,
    /// Principal of the client, such as `User:alice`.
    pub principal: Arc<str>,
    /// Time at which the broker began the request.
    pub began_at: Millis,
}
