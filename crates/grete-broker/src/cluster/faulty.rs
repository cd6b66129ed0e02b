//! Requests that meet a fault.

use std::sync::Arc;

use grete_wire::{ApiKey, ErrorCode, Frame, SegmentedBuf};

use super::event::Action;
use super::{Cluster, RequestContext};
use crate::fault::{FaultAction, FaultRule, FaultTarget};
use crate::ids::RequestId;
use crate::message::Request;

/// APIs whose handlers give an error to the partitions that a rule names.
const WITH_PARTITION_ERRORS: &[ApiKey] =
    &[ApiKey::Produce, ApiKey::Fetch, ApiKey::ListOffsets, ApiKey::ShareFetch, ApiKey::ShareAcknowledge];

impl Cluster {
    /// Returns the fault rule that applies to a request.
    pub(super) fn fault_of(&mut self, context: &RequestContext, request: &Request<'_>) -> Option<FaultRule> {
        let target = FaultTarget { api: context.api, client_id: &context.client_id, broker: context.broker };
        let topics = &self.topics;
        self.faults.apply(target, request, |id| topics.by_id(id).map(|topic| Arc::clone(&topic.name)))
    }

    /// Handles a request as its fault says.
    pub(super) fn handle_faulty(
        &mut self,
        context: &RequestContext,
        request: Request<'_>,
        frame: &Frame,
        rule: FaultRule,
        actions: &mut Vec<Action>,
    ) {
        match rule.action {
            FaultAction::Error(_) if WITH_PARTITION_ERRORS.contains(&context.api) => {
                self.partition_fault = Some(rule);
                self.handle(context, request);
                self.partition_fault = None;
            }
            FaultAction::Error(error) => self.refuse(context, &request, error),
            FaultAction::Delay(ms) => {
                let due = self.now.saturating_add(ms);
                self.delayed.insert((due, context.id), (context.clone(), frame.clone()));
            }
            FaultAction::Disconnect => self.close_connection(context.conn, actions),
            FaultAction::NeverAnswer => {}
            FaultAction::DisconnectAfter | FaultAction::HalfFrame => {
                self.damaged.insert(context.id, rule.action);
                self.handle(context, request);
            }
        }
    }

    /// Returns the error that a fault gives to a partition of the request in progress.
    pub(super) fn partition_fault(&self, topic: &str, partition: i32) -> Option<ErrorCode> {
        let rule = self.partition_fault.as_ref().filter(|rule| rule.covers(topic, partition))?;
        match rule.action {
            FaultAction::Error(error) => Some(error),
            _ => None,
        }
    }

    /// Handles the requests whose delay is over.
    pub(super) fn begin_delayed(&mut self) {
        while let Some(key) = self.delayed.keys().next().copied().filter(|(due, _)| *due <= self.now) {
            let Some((context, frame)) = self.delayed.remove(&key) else { continue };
            // The request was decoded before its delay began.
            if let Ok(request) = Self::decode(&context, &frame) {
                self.handle(&context, request);
            }
        }
    }

    /// Sends the damaged part of a response and closes the connection. Returns whether the request has such a fault.
    pub(super) fn respond_damaged(
        &mut self,
        request: RequestId,
        bytes: &SegmentedBuf,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some(action) = self.damaged.remove(&request) else { return false };
        let Some(context) = self.requests.get(&request) else { return true };
        let conn = context.conn;
        if action == FaultAction::HalfFrame {
            let mut half = bytes.to_vec();
            half.truncate(half.len() / 2);
            actions.push(Action::Write { conn, bytes: half.into() });
        }
        self.close_connection(conn, actions);
        true
    }
}
