//! Rights of the client of a request, if the brokers have an authorizer.
//!
//! A request is checked before its handler. Parts that the client may not do are taken out (`requests`), and their
//! refusals wait for the response of the rest, to which they are added (`responses`). The handlers therefore see
//! allowed parts only. What a response lists by itself is cut down to what the client may describe (`conceal`).

mod acls;
mod conceal;
mod requests;
mod responses;

pub(super) use acls::check_numbers;
use grete_wire::ErrorCode;

use super::error_response::error_response;
use super::{Cluster, RequestContext};
use crate::acl::{AclChange, CLUSTER_NAME, Operation, ResourceType};
use crate::effects::Change;
use crate::ids::RequestId;
use crate::message::{Request, Response};

impl Cluster {
    /// Returns whether the client of a request may do something with a resource. True without an authorizer.
    pub(super) fn may(&self, context: &RequestContext, operation: Operation, kind: ResourceType, name: &str) -> bool {
        let Some(config) = &self.config.acls else { return true };
        let client = (&*context.principal, &*context.client_host);
        self.authorizer.is_allowed(config, client, operation, kind, name)
    }

    fn may_topic(&self, context: &RequestContext, operation: Operation, name: &str) -> bool {
        self.may(context, operation, ResourceType::Topic, name)
    }

    fn may_group(&self, context: &RequestContext, operation: Operation, name: &str) -> bool {
        self.may(context, operation, ResourceType::Group, name)
    }

    fn may_cluster(&self, context: &RequestContext, operation: Operation) -> bool {
        self.may(context, operation, ResourceType::Cluster, CLUSTER_NAME)
    }

    fn may_transact(&self, context: &RequestContext, operation: Operation, id: &str) -> bool {
        self.may(context, operation, ResourceType::TransactionalId, id)
    }

    /// Returns whether the client may write with an idempotent producer: `IdempotentWrite` on the cluster, or `Write` on
    /// any topic (KIP-679).
    fn may_write_idempotently(&self, context: &RequestContext) -> bool {
        let Some(config) = &self.config.acls else { return true };
        let client = (&*context.principal, &*context.client_host);
        self.may_cluster(context, Operation::IdempotentWrite)
            || self.authorizer.is_allowed_on_any(config, client, Operation::Write, ResourceType::Topic)
    }

    /// Keeps the refusal of a part of a request until the rest is answered.
    fn refuse_part(&mut self, context: &RequestContext, part: &Request<'_>, error: ErrorCode) {
        if let Some(response) = error_response(part, context.version, error) {
            self.keep_refusal(context.id, response);
        }
    }

    fn keep_refusal(&mut self, request: RequestId, refusal: Response) {
        self.refusals.entry(request).or_default().push(refusal);
    }

    /// Completes a response: cuts it down to what the client may see, and adds the refused parts of the request.
    pub(super) fn complete_response(&mut self, context: &RequestContext, response: &mut Response) {
        if self.config.acls.is_some() {
            self.conceal(context, response);
        }
        for refusal in self.refusals.remove(&context.id).unwrap_or_default() {
            responses::add(response, refusal);
        }
    }

    /// Applies a change of the ACLs and stores it.
    pub(super) fn change_acls(&mut self, change: AclChange) {
        self.authorizer.apply(&change);
        self.effects.change(Change::Acl(change));
    }
}
