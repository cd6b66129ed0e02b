//! Test harness: a transaction manager, its requests, and scripted responses.

use std::collections::VecDeque;
use std::sync::Arc;

use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::frame::Frame;
use grete_wire::messages::add_partitions_to_txn::{AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult};
use grete_wire::messages::find_coordinator::Coordinator;
use grete_wire::messages::txn_offset_commit::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic};
use grete_wire::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, EndTxnResponse, FindCoordinatorResponse,
    InitProducerIdResponse, TxnOffsetCommitResponse,
};

use crate::ids::{NodeId, TopicPartition};
use crate::producer::ProduceConfig;
use crate::producer::transaction::response_class::RequestKind;
use crate::producer::transaction::{
    CallId, GroupMetadata, TransactionAction, TransactionCall, TransactionCause, TransactionError, TransactionEvent,
    TransactionManager, TransactionOffset,
};
use crate::request::{OutboundRequest, Reply, Request, RequestError, Response, Target};
use crate::rng::Rng;
use crate::time::{Nanos, SECOND};

/// Node that coordinates everything.
pub(super) const COORDINATOR: NodeId = 4;
/// Number of partitions in responses, from 0; more than a request has.
pub(super) const ANSWERED: i32 = 128;
/// Producer id and epoch of the first InitProducerId.
pub(super) const FIRST: (i64, i16) = (7, 0);

pub(super) struct Harness {
    pub now: Nanos,
    pub manager: TransactionManager,
    pub sent: VecDeque<OutboundRequest>,
    /// Actions except requests.
    pub actions: Vec<TransactionAction>,
    version: i16,
    next_call: CallId,
    /// Producer id and epoch of the next response that has one.
    pub producer: (i64, i16),
}

pub(super) fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

pub(super) fn config() -> ProduceConfig {
    ProduceConfig { transactional_id: Some("t".into()), ..ProduceConfig::default() }
}

pub(super) fn offsets(count: i32) -> TransactionCall {
    let group = GroupMetadata { group_id: "g".into(), member_id: "m".into(), generation: 3, instance_id: None };
    let offset = |partition| TransactionOffset { tp: tp(partition), position: 5, leader_epoch: -1 };
    TransactionCall::SendOffsets { group: Arc::new(group), offsets: (0..count).map(offset).collect() }
}

pub(super) fn undelivered(code: Option<ErrorCode>) -> Arc<TransactionCause> {
    Arc::new(TransactionCause::Undelivered { message: "x".into(), code })
}

impl Harness {
    /// `version`: level of `transaction.version`.
    pub fn new(version: i16) -> Self {
        let manager = TransactionManager::new(&config(), Rng::new(1));
        let mut harness = Self {
            now: SECOND,
            manager,
            sent: VecDeque::new(),
            actions: Vec::new(),
            version,
            next_call: 0,
            producer: FIRST,
        };
        harness.step(TransactionEvent::Version(version));
        harness
    }

    /// Creates a manager with an open transaction.
    pub fn open(version: i16) -> Self {
        let mut harness = Self::new(version);
        let call = harness.call(TransactionCall::Begin);
        harness.respond(ErrorCode::NONE);
        harness.respond(ErrorCode::NONE);
        assert_eq!(harness.result(call), Some(Ok(())));
        harness
    }

    pub fn set_version(&mut self, version: i16) {
        self.version = version;
        self.step(TransactionEvent::Version(version));
    }

    pub fn step(&mut self, event: TransactionEvent) {
        let mut out = Vec::new();
        self.manager.step(self.now, event, &mut out);
        for action in out {
            match action {
                TransactionAction::Send(request) => self.sent.push_back(request),
                other => self.actions.push(other),
            }
        }
        assert!(self.sent.len() <= 1, "one request at a time: {:?}", self.sent);
    }

    pub fn call(&mut self, call: TransactionCall) -> CallId {
        let id = self.next_call;
        self.next_call += 1;
        self.step(TransactionEvent::Call(id, call));
        id
    }

    /// Takes the result of a call.
    pub fn result(&mut self, call: CallId) -> Option<Result<(), TransactionError>> {
        let is_done = |action: &TransactionAction| matches!(action, TransactionAction::Done(id, _) if *id == call);
        let place = self.actions.iter().position(is_done)?;
        match self.actions.remove(place) {
            TransactionAction::Done(_, result) => Some(result),
            _ => None,
        }
    }

    pub fn fatal(&self) -> Option<&TransactionError> {
        self.actions.iter().find_map(|action| match action {
            TransactionAction::Fatal(error) => Some(error),
            _ => None,
        })
    }

    /// Waits until the next request is sent.
    pub fn wait_for_request(&mut self) {
        for _ in 0..10 {
            if !self.sent.is_empty() {
                return;
            }
            let Some(deadline) = self.manager.deadline() else { return };
            self.now = self.now.max(deadline);
            self.step(TransactionEvent::Tick);
        }
        panic!("no request at the deadline");
    }

    /// Returns the kind of the request that is in flight.
    pub fn in_flight(&self) -> Option<ApiKey> {
        self.sent.front().map(|request| request.request.api())
    }

    pub fn take_request(&mut self) -> OutboundRequest {
        self.wait_for_request();
        self.sent.pop_front().expect("a request")
    }

    /// Answers the request in flight, after waiting for one.
    pub fn respond(&mut self, code: ErrorCode) -> ApiKey {
        let request = self.take_request();
        let api = request.request.api();
        let result = Ok(self.response(&request.request, code));
        let node = if let Target::Node(node) = request.target { node } else { 1 };
        self.step(TransactionEvent::Reply(Reply { token: request.token, node, result }));
        api
    }

    pub fn fail(&mut self, error: RequestError) {
        let request = self.take_request();
        self.step(TransactionEvent::Reply(Reply { token: request.token, node: COORDINATOR, result: Err(error) }));
    }

    /// Answers with success until there is no request left.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            if self.manager.awaits_settled() {
                self.step(TransactionEvent::Settled { gap: false });
            }
            self.wait_for_request();
            if self.sent.is_empty() {
                return;
            }
            self.respond(ErrorCode::NONE);
        }
        panic!("it never ends: {:?}", self.manager);
    }

    pub fn response(&mut self, request: &Request, code: ErrorCode) -> Response {
        let (api, error_code) = (request.api(), code.0);
        let mut body = Vec::new();
        let (producer_id, producer_epoch) = if code == ErrorCode::NONE { self.producer } else { (-1, -1) };
        let version = match api {
            ApiKey::FindCoordinator => {
                let Request::FindCoordinator(asked) = request else { panic!("{request:?}") };
                let coordinator = |key: &std::borrow::Cow<'static, str>| Coordinator {
                    key: key.clone(),
                    node_id: if code == ErrorCode::NONE { COORDINATOR } else { -1 },
                    host: "h".into(),
                    port: if code == ErrorCode::NONE { 9092 } else { -1 },
                    error_code,
                    ..Default::default()
                };
                let coordinators = asked.coordinator_keys.iter().map(coordinator).collect();
                FindCoordinatorResponse { coordinators, ..Default::default() }.encode(4, &mut body).expect("fits");
                4
            }
            ApiKey::InitProducerId => {
                let answer = InitProducerIdResponse { error_code, producer_id, producer_epoch, ..Default::default() };
                answer.encode(5, &mut body).expect("fits");
                5
            }
            ApiKey::AddPartitionsToTxn => {
                let result = |partition_index| AddPartitionsToTxnPartitionResult {
                    partition_index,
                    partition_error_code: error_code,
                };
                let topic = AddPartitionsToTxnTopicResult {
                    name: "orders".into(),
                    results_by_partition: (0..ANSWERED).map(result).collect(),
                };
                let answer =
                    AddPartitionsToTxnResponse { results_by_topic_v3_and_below: vec![topic], ..Default::default() };
                answer.encode(3, &mut body).expect("fits");
                3
            }
            ApiKey::AddOffsetsToTxn => {
                AddOffsetsToTxnResponse { error_code, ..Default::default() }.encode(3, &mut body).expect("fits");
                3
            }
            ApiKey::TxnOffsetCommit => {
                let partition = |partition_index| TxnOffsetCommitResponsePartition { partition_index, error_code };
                let topic = TxnOffsetCommitResponseTopic {
                    name: "orders".into(),
                    partitions: (0..ANSWERED).map(partition).collect(),
                };
                let version = if self.version >= 2 { 5 } else { 3 };
                let answer = TxnOffsetCommitResponse { topics: vec![topic], ..Default::default() };
                answer.encode(version, &mut body).expect("fits");
                version
            }
            ApiKey::EndTxn => {
                let is_new = self.version >= 2;
                let mut answer = EndTxnResponse { error_code, ..Default::default() };
                if is_new {
                    (answer.producer_id, answer.producer_epoch) = (producer_id, producer_epoch);
                }
                answer.encode(if is_new { 5 } else { 4 }, &mut body).expect("fits");
                if is_new { 5 } else { 4 }
            }
            other => panic!("unexpected: {other:?}"),
        };
        Response { api, version, frame: Frame::from(body), body: 0 }
    }
}

/// Brings a manager to the point at which a request of this kind is in flight.
pub(super) fn in_flight(version: i16, kind: RequestKind) -> (Harness, CallId) {
    match kind {
        RequestKind::FindCoordinator | RequestKind::InitProducerId => {
            let mut harness = Harness::new(version);
            let call = harness.call(TransactionCall::Begin);
            if kind == RequestKind::InitProducerId {
                harness.respond(ErrorCode::NONE);
            }
            (harness, call)
        }
        RequestKind::AddPartitions => {
            let mut harness = Harness::open(version);
            harness.step(TransactionEvent::PartitionsWanted(vec![tp(0), tp(1)]));
            let call = harness.call(TransactionCall::Commit);
            (harness, call)
        }
        RequestKind::AddOffsets | RequestKind::FindGroupCoordinator | RequestKind::CommitOffsets => {
            let mut harness = Harness::open(version);
            let call = harness.call(offsets(2));
            if version < 2 && kind != RequestKind::AddOffsets {
                harness.respond(ErrorCode::NONE);
            }
            if kind == RequestKind::CommitOffsets {
                harness.respond(ErrorCode::NONE);
            }
            (harness, call)
        }
        RequestKind::Commit | RequestKind::Abort => {
            let mut harness = Harness::open(version);
            harness.step(TransactionEvent::PartitionsWanted(vec![tp(0)]));
            if version < 2 {
                harness.respond(ErrorCode::NONE);
            }
            let is_commit = kind == RequestKind::Commit;
            let call = harness.call(if is_commit { TransactionCall::Commit } else { TransactionCall::Abort });
            harness.step(TransactionEvent::Settled { gap: false });
            (harness, call)
        }
    }
}
