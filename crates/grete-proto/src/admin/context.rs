//! Context of one operation during a step.

use std::collections::BTreeMap;

use super::event::OperationsAction;
use crate::cluster::Cluster;
use crate::ids::NodeId;
use crate::request::{Channel, OutboundRequest, Request, RequestOwner, Target, Token};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos};

/// Parts of the operation table that one operation uses during a step.
pub(super) struct Context<'o> {
    pub now: Nanos,
    pub cluster: &'o Cluster,
    pub refreshes: u64,
    pub rng: &'o mut Rng,
    pub stale_metadata: bool,
    /// The caller's id of the operation.
    pub operation: u32,
    pub request_timeout: Nanos,
    pub owner: RequestOwner,
    /// Operation id of each request token.
    pub tokens: &'o mut BTreeMap<u32, u32>,
    pub next_token: &'o mut u32,
    pub out: &'o mut Vec<OperationsAction>,
}

impl Context<'_> {
    pub fn send(&mut self, target: Target, request: Request) -> u32 {
        let id = *self.next_token;
        *self.next_token = id.wrapping_add(1);
        self.tokens.insert(id, self.operation);
        let token = Token { owner: self.owner, id };
        // The full setting, even if the operation has less time left: a request that times out closes the connection,
        // which other operations share.
        let timeout = self.request_timeout;
        self.out.push(OperationsAction::Send(OutboundRequest {
            target,
            channel: Channel::Control,
            request,
            token,
            timeout,
        }));
        id
    }

    pub fn learn_node(&mut self, node: NodeId, host: &str, port: u16) {
        self.out.push(OperationsAction::LearnNode { node, host: host.into(), port });
    }

    /// Returns the time limit that brokers get, in milliseconds: half the request timeout, so that a broker responds
    /// before the connection is closed.
    pub fn broker_timeout_ms(&self) -> i32 {
        i32::try_from(self.request_timeout / MILLI / 2).unwrap_or(i32::MAX)
    }
}
