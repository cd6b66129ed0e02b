//! Test harness: operations over the scripted brokers of [`FakeCluster`].

use std::collections::BTreeMap;

use grete_wire::messages::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use grete_wire::{ApiKey, ErrorCode, Reader, WireError};

use super::super::*;
use crate::cluster::test_cluster::{FakeCluster, ReadyTopic, ReceivedRequest};
use crate::ids::NodeId;
use crate::rng::Rng;
use crate::time::SECOND;

#[derive(Debug)]
pub(super) struct Harness {
    pub fake: FakeCluster,
    pub operations: OperationTable,
    /// Replies received so far, by operation id.
    pub replies: BTreeMap<u32, AdminReply>,
    next_id: u32,
}

impl Harness {
    /// Creates connected brokers `b0:9092`...; topics as in [`FakeCluster::ready`]. No topic is tracked yet.
    pub fn new(brokers: &[NodeId], topics: &[ReadyTopic<'_>]) -> Self {
        let mut fake = FakeCluster::ready(brokers, topics);
        fake.event(ClusterEvent::SetTopics(Vec::new()));
        fake.settle();
        fake.actions.clear();
        Self::over(fake)
    }

    pub fn over(fake: FakeCluster) -> Self {
        let operations = OperationTable::new(OperationsConfig::default(), RequestOwner::Admin, Rng::new(7));
        Self { fake, operations, replies: BTreeMap::new(), next_id: 1 }
    }

    /// Submits an operation with a time limit of one minute, and plays the cluster.
    pub fn submit(&mut self, operation: Operation) -> u32 {
        self.submit_with_timeout(operation, 60 * SECOND)
    }

    pub fn submit_with_timeout(&mut self, operation: Operation, timeout: Nanos) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        self.step(OperationsEvent::Submit { id, operation, timeout });
        self.settle();
        id
    }

    pub fn step(&mut self, event: OperationsEvent) {
        let mut out = Vec::new();
        self.operations.step(self.fake.now, event, &self.fake.cluster, &mut out);
        for action in out {
            match action {
                OperationsAction::Send(outgoing) => self.fake.event(ClusterEvent::Send(outgoing)),
                OperationsAction::LearnNode { node, host, port } => {
                    self.fake.cluster.learn_node(node, &host, i32::from(port));
                }
                OperationsAction::RefreshMetadata => self.fake.event(ClusterEvent::RefreshMetadata),
                OperationsAction::TopicsChanged => {
                    let topics = self.operations.topics().to_vec();
                    self.fake.event(ClusterEvent::SetTopics(topics));
                }
                OperationsAction::Reply(id, reply) => {
                    assert!(self.replies.insert(id, reply).is_none(), "question {id} is answered twice");
                }
            }
        }
    }

    /// Delivers the cluster's actions to the operations. Returns whether there were any.
    pub fn deliver(&mut self) -> bool {
        let replies = std::mem::take(&mut self.fake.replies);
        let actions = std::mem::take(&mut self.fake.actions);
        let mut any = !replies.is_empty();
        for reply in replies {
            self.step(OperationsEvent::Reply(reply));
        }
        for action in actions {
            if matches!(action, ClusterAction::MetadataRefreshed) {
                any = true;
                self.step(OperationsEvent::MetadataRefreshed);
            }
        }
        for notice in std::mem::take(&mut self.fake.log_events) {
            if let ClusterLogEvent::Fatal(fault) = notice {
                self.step(OperationsEvent::Fatal(fault));
            }
        }
        any
    }

    /// Plays cluster and operations until there is no more work; no time passes.
    pub fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 1000, "a loop without an end, and without time passing");
            self.fake.settle();
            if !self.deliver() {
                return;
            }
        }
    }

    pub fn deadline(&self) -> Option<Nanos> {
        earliest(self.fake.cluster.deadline(), self.operations.deadline())
    }

    /// Advances the clock, tick by tick.
    pub fn advance(&mut self, span: Nanos) {
        let end = self.fake.now + span;
        self.settle();
        while let Some(deadline) = self.deadline().filter(|&deadline| deadline <= end) {
            let before = self.fake.now;
            self.fake.now = before.max(deadline);
            self.step(OperationsEvent::Tick);
            self.fake.event(ClusterEvent::Tick);
            self.settle();
            let stuck = self.deadline().is_some_and(|next| next <= self.fake.now);
            assert!(!stuck, "a deadline that stays in the past");
        }
        self.fake.now = end;
    }

    /// Returns the next request of that API and its broker.
    pub fn next_request(&mut self, api: ApiKey) -> (NodeId, ReceivedRequest) {
        let asked = self.fake.next_request(api).unwrap_or_else(|| panic!("no request {api}: {:?}", self.fake.requests));
        (self.node(&asked), asked)
    }

    pub fn node(&self, asked: &ReceivedRequest) -> NodeId {
        let address = &self.fake.open[&asked.conn];
        address.0.trim_start_matches('b').parse().unwrap()
    }

    pub fn has_request(&self, api: ApiKey) -> bool {
        self.fake.requests.iter().any(|asked| asked.api == api)
    }

    pub fn reply(&mut self, asked: &ReceivedRequest, body: impl FnOnce(i16, &mut Vec<u8>) -> Result<(), WireError>) {
        self.fake.respond(asked, body);
        self.settle();
    }

    /// Responds to the next FindCoordinator: `node` coordinates every group, or the lookup fails with `error`.
    pub fn respond_with_coordinator(&mut self, node: NodeId, error: ErrorCode) -> Vec<String> {
        let (_, asked) = self.next_request(ApiKey::FindCoordinator);
        let question = FindCoordinatorRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
        let keys: Vec<String> = question.coordinator_keys.iter().map(ToString::to_string).collect();
        let coordinator = |key: &String| Coordinator {
            key: key.clone().into(),
            node_id: node,
            host: format!("b{node}").into(),
            port: 9092,
            error_code: error.0,
            ..Default::default()
        };
        let coordinators = keys.iter().map(coordinator).collect();
        let answer = FindCoordinatorResponse { coordinators, ..Default::default() };
        self.reply(&asked, |version, out| answer.encode(version, out));
        keys
    }

    /// Removes and returns the reply to that operation, which must exist.
    pub fn take_reply(&mut self, id: u32) -> AdminReply {
        self.replies.remove(&id).unwrap_or_else(|| panic!("question {id} is open: {:?}", self.operations))
    }
}

pub(super) fn refused<T>(code: ErrorCode) -> Result<T, AdminError> {
    Err(AdminError::Refused { code, message: None })
}
