//! Operations over the scripted brokers of the cluster's fixture.

use std::collections::BTreeMap;

use grete_wire::messages::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use grete_wire::{ApiKey, ErrorCode, Reader, WireError};

use super::super::*;
use crate::cluster::fixture::{Asked, Fake, ReadyTopic};
use crate::ids::NodeId;
use crate::rng::Rng;
use crate::time::SECOND;

#[derive(Debug)]
pub(super) struct Rig {
    pub fake: Fake,
    pub operations: Operations,
    /// Answers that came, by number.
    pub answers: BTreeMap<u32, AdminReply>,
    next_id: u32,
}

impl Rig {
    /// Brokers `b0:9092`..., all connected; topics as in [`Fake::ready`]. No topic is of interest yet.
    pub fn new(brokers: &[NodeId], topics: &[ReadyTopic<'_>]) -> Self {
        let mut fake = Fake::ready(brokers, topics);
        fake.event(ClusterEvent::SetTopics(Vec::new()));
        fake.settle();
        fake.actions.clear();
        Self::over(fake)
    }

    pub fn over(fake: Fake) -> Self {
        let operations = Operations::new(OperationsConfig::default(), Owner::Admin, Rng::new(7));
        Self { fake, operations, answers: BTreeMap::new(), next_id: 1 }
    }

    /// Asks with a minute's time, and lets the cluster do what it can.
    pub fn ask(&mut self, operation: Operation) -> u32 {
        self.ask_for(operation, 60 * SECOND)
    }

    pub fn ask_for(&mut self, operation: Operation, timeout: Nanos) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        self.step(OperationsEvent::Ask { id, operation, timeout });
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
                    assert!(self.answers.insert(id, reply).is_none(), "question {id} is answered twice");
                }
            }
        }
    }

    /// What the cluster had to say.
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
        for notice in std::mem::take(&mut self.fake.notices) {
            if let ClusterNotice::Fatal(not_kafka) = notice {
                self.step(OperationsEvent::Fatal(not_kafka));
            }
        }
        any
    }

    /// Until nothing moves; no time passes.
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
        earlier(self.fake.cluster.deadline(), self.operations.deadline())
    }

    /// Lets time pass, tick by tick.
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

    /// The next request of that API, and at which broker it is.
    pub fn asked(&mut self, api: ApiKey) -> (NodeId, Asked) {
        let asked =
            self.fake.next_asked(api).unwrap_or_else(|| panic!("nobody was asked {api}: {:?}", self.fake.asked));
        (self.node(&asked), asked)
    }

    pub fn node(&self, asked: &Asked) -> NodeId {
        let address = &self.fake.open[&asked.conn];
        address.0.trim_start_matches('b').parse().unwrap()
    }

    pub fn is_asked(&self, api: ApiKey) -> bool {
        self.fake.asked.iter().any(|asked| asked.api == api)
    }

    pub fn reply(&mut self, asked: &Asked, body: impl FnOnce(i16, &mut Vec<u8>) -> Result<(), WireError>) {
        self.fake.answer(asked, body);
        self.settle();
    }

    /// Answers the next lookup of coordinators: every group is with `node`, or has that error.
    pub fn locate(&mut self, node: NodeId, error: ErrorCode) -> Vec<String> {
        let (_, asked) = self.asked(ApiKey::FindCoordinator);
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

    /// The answer to that question, which has come.
    pub fn answer(&mut self, id: u32) -> AdminReply {
        self.answers.remove(&id).unwrap_or_else(|| panic!("question {id} is open: {:?}", self.operations))
    }
}

pub(super) fn refused<T>(code: ErrorCode) -> Result<T, AdminError> {
    Err(AdminError::Refused { code, message: None })
}
