//! Test harness: an accumulator and its sender, a cluster made of a table, and scripted broker responses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use grete_wire::SegmentedBuf;
use grete_wire::api::ApiKey;
use grete_wire::buffer_pool::{BufferPool, PooledBuf};
use grete_wire::error_code::ErrorCode;
use grete_wire::frame::Frame;
use grete_wire::messages::produce::{LeaderIdAndEpoch, NodeEndpoint, TopicProduceResponse};
use grete_wire::messages::{InitProducerIdResponse, PartitionProduceResponse, ProduceResponse};
use grete_wire::produce::ProduceRequestBody;
use grete_wire::records::{BatchHeader, Columns, DecodeLimits, Decoder, ProducerRecord, iter_batches};

use crate::cluster::view::ClusterView;
use crate::cluster::{NO_EPOCH, NO_LEADER, PartitionMetadata};
use crate::ids::{NodeId, TopicPartition};
use crate::producer::{
    Accumulator, AppendAction, AppendError, BatchPromise, Outcome, ProduceConfig, RecordResult, Sender, SenderAction,
    SenderEvent, SenderLogEvent, SharedAccumulator, TopicId,
};
use crate::request::{Channel, OutboundRequest, Reply, Request, RequestError, Response, Target, Token};
use crate::rng::Rng;
use crate::time::Nanos;

/// Cluster metadata as the producer reads it.
#[derive(Debug, Default)]
pub(crate) struct FakeMetadata {
    pub topics: BTreeMap<String, Result<Vec<PartitionMetadata>, ErrorCode>>,
    /// Time of the last response that reported the topic as unknown.
    pub missing: BTreeMap<String, Nanos>,
    pub ids: BTreeMap<String, u128>,
    pub unready: BTreeSet<NodeId>,
    pub muted: BTreeMap<NodeId, Nanos>,
}

impl ClusterView for FakeMetadata {
    fn leader(&self, tp: &TopicPartition) -> Option<(NodeId, i32)> {
        let partitions = self.topics.get(&*tp.topic)?.as_ref().ok()?;
        let meta = partitions.get(usize::try_from(tp.partition).ok()?)?;
        (meta.leader >= 0).then_some((meta.leader, meta.leader_epoch))
    }

    fn partitions(&self, topic: &str) -> Option<Result<&[PartitionMetadata], ErrorCode>> {
        self.topics.get(topic).map(|known| known.as_ref().map(Vec::as_slice).map_err(|&code| code))
    }

    fn missing_at(&self, topic: &str) -> Option<Nanos> {
        self.missing.get(topic).copied()
    }

    fn topic_id(&self, topic: &str) -> Option<u128> {
        self.ids.get(topic).copied()
    }

    fn api_version(&self, node: NodeId, _: Channel, api: ApiKey) -> Option<i16> {
        (!self.unready.contains(&node)).then_some(*api.ours().end())
    }

    fn is_muted(&self, node: NodeId, now: Nanos) -> bool {
        self.muted.get(&node).is_some_and(|&until| now < until)
    }

    fn metadata_version(&self) -> u64 {
        0
    }
}

/// A batch as a broker sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    pub topic: String,
    pub partition: i32,
    pub id: i64,
    pub epoch: i16,
    pub sequence: i32,
    pub values: Vec<String>,
}

impl Batch {
    /// Returns producer id, epoch, base sequence and record count.
    pub fn stamp(&self) -> (i64, i16, i32, usize) {
        (self.id, self.epoch, self.sequence, self.values.len())
    }
}

/// A produce request that waits for a response.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub node: NodeId,
    pub token: Token,
    pub batches: Vec<Batch>,
    pub bytes: usize,
    version: i16,
    pub body: ProduceRequestBody,
}

impl Sent {
    pub fn only(&self) -> &Batch {
        assert_eq!(self.batches.len(), 1, "{self:?}");
        &self.batches[0]
    }
}

/// Response for one partition.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakePartitionResponse {
    pub code: ErrorCode,
    pub offset: i64,
    pub appended_at: Option<i64>,
    pub message: Option<&'static str>,
    pub leader: Option<(NodeId, i32)>,
}

impl From<ErrorCode> for FakePartitionResponse {
    fn from(code: ErrorCode) -> Self {
        Self { code, offset: -1, ..Self::default() }
    }
}

pub(crate) struct Harness {
    pub now: Nanos,
    pub metadata: FakeMetadata,
    pub sender: Sender,
    pub accumulator: SharedAccumulator,
    pub sent: VecDeque<Sent>,
    pub producer_id_requests: VecDeque<Token>,
    /// Actions except requests and those that the harness handles itself.
    pub actions: Vec<SenderAction>,
}

pub(crate) fn config() -> ProduceConfig {
    ProduceConfig { linger: 0, ..ProduceConfig::default() }
}

impl Harness {
    pub fn new(config: ProduceConfig) -> Self {
        let accumulator = Arc::new(Mutex::new(Accumulator::new(&config, Rng::new(1))));
        let machine = Sender::new(config, Arc::clone(&accumulator), Rng::new(2));
        Self {
            now: 1_000_000_000,
            metadata: FakeMetadata::default(),
            sender: machine,
            accumulator,
            sent: VecDeque::new(),
            producer_id_requests: VecDeque::new(),
            actions: Vec::new(),
        }
    }

    /// Creates a harness with a producer id that brokers have seen, and a topic "orders" with these partition leaders.
    pub fn ready(config: ProduceConfig, leaders: &[NodeId]) -> Self {
        let mut rig = Self::new(config);
        rig.lead("orders", leaders);
        rig.topic("orders");
        if !rig.producer_id_requests.is_empty() {
            rig.identify(7, 0);
        }
        rig.sender.mark_proven();
        rig.actions.clear();
        rig
    }

    pub fn lead(&mut self, topic: &str, leaders: &[NodeId]) {
        let meta = |&leader: &NodeId| PartitionMetadata {
            leader,
            leader_epoch: if leader == NO_LEADER { NO_EPOCH } else { 1 },
            error: ErrorCode::NONE,
        };
        self.metadata.topics.insert(topic.to_owned(), Ok(leaders.iter().map(meta).collect()));
        self.step(SenderEvent::MetadataChanged);
    }

    pub fn lock(&self) -> std::sync::MutexGuard<'_, Accumulator> {
        self.accumulator.lock().expect("no thread panics")
    }

    pub fn used(&self) -> usize {
        self.lock().used_bytes()
    }

    pub fn pending(&self) -> u64 {
        self.lock().pending_records()
    }

    pub fn topic(&mut self, name: &str) -> TopicId {
        let id = self.lock().topic(name);
        self.step(SenderEvent::Drain);
        id
    }

    pub fn try_append(
        &mut self,
        partition: i32,
        value: &str,
    ) -> Result<(Arc<BatchPromise>, u32, AppendAction), AppendError> {
        let now = self.now;
        let mut accumulator = self.accumulator.lock().expect("no thread panics");
        let topic = accumulator.topic("orders");
        let record = ProducerRecord { timestamp: 1, value: Some(value.as_bytes()), ..ProducerRecord::default() };
        let appended = accumulator.append(now, topic, Some(partition), &record)?;
        Ok((Arc::clone(appended.promise), appended.index, appended.action))
    }

    /// Appends a record and steps the sender.
    pub fn produce(&mut self, partition: i32, value: &str) -> (Arc<BatchPromise>, u32) {
        let (receipt, index, _) = self.try_append(partition, value).expect("taken");
        self.step(SenderEvent::Drain);
        (receipt, index)
    }

    /// Appends one batch per list of values, all of them ready at once.
    pub fn batches(&mut self, partition: i32, batches: &[&[&str]]) -> Vec<Arc<BatchPromise>> {
        let mut receipts = Vec::new();
        for values in batches {
            for value in *values {
                receipts.push(self.try_append(partition, value).expect("taken").0);
            }
            self.lock().flush();
            self.step(SenderEvent::Drain);
        }
        receipts.dedup_by(|a, b| Arc::ptr_eq(a, b));
        receipts
    }

    pub fn step(&mut self, event: SenderEvent) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let mut actions = Vec::new();
            self.sender.step(self.now, event, &self.metadata, &mut actions);
            for action in actions {
                match action {
                    SenderAction::Send(outgoing) => self.take(outgoing),
                    SenderAction::TrackedTopicsChanged => next = Some(SenderEvent::MetadataChanged),
                    action => self.actions.push(action),
                }
            }
        }
    }

    /// Advances the clock, with a tick whenever one is due.
    pub fn pass(&mut self, span: Nanos) {
        let end = self.now + span;
        let mut ticks = 0;
        while let Some(deadline) = self.sender.deadline().filter(|&deadline| deadline <= end) {
            self.now = self.now.max(deadline);
            self.step(SenderEvent::Tick);
            ticks += 1;
            assert!(ticks < 100_000, "the deadline is never reached: {deadline}");
        }
        self.now = end;
        self.step(SenderEvent::Tick);
    }

    fn take(&mut self, outgoing: OutboundRequest) {
        match (&outgoing.request, outgoing.target) {
            (Request::Dyn(any), Target::Any) if any.api() == ApiKey::InitProducerId => {
                self.producer_id_requests.push_back(outgoing.token);
            }
            (Request::Produce(body), Target::Node(node)) => {
                assert_eq!(outgoing.channel, Channel::Produce);
                let batches: Vec<Batch> = body.topics.iter().flat_map(batches).collect();
                let mut bytes = SegmentedBuf::default();
                let version = body.max_version();
                body.encode(version, &mut bytes).expect("can be encoded");
                let mut places: Vec<_> = batches.iter().map(|batch| (&batch.topic, batch.partition)).collect();
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len(), batches.len(), "one batch of each partition");
                let (token, bytes, body) = (outgoing.token, bytes.len(), body.clone());
                self.sent.push_back(Sent { node, token, batches, bytes, version, body });
            }
            other => panic!("unexpected: {other:?}"),
        }
    }

    pub fn next_sent(&mut self) -> Sent {
        self.sent.pop_front().expect("a request")
    }

    pub fn all_sent(&mut self) -> Vec<Sent> {
        self.sent.drain(..).collect()
    }

    pub fn identify(&mut self, id: i64, epoch: i16) {
        self.respond_to_init_producer_id(ErrorCode::NONE, id, epoch);
    }

    pub fn respond_to_init_producer_id(&mut self, code: ErrorCode, producer_id: i64, producer_epoch: i16) {
        let token = self.producer_id_requests.pop_front().expect("asked");
        let answer = InitProducerIdResponse { error_code: code.0, producer_id, producer_epoch, ..Default::default() };
        let mut body = Vec::new();
        answer.encode(5, &mut body).expect("encodes");
        let response = Response { api: ApiKey::InitProducerId, version: 5, frame: Frame::from(body), body: 0 };
        self.step(SenderEvent::Reply(Reply { token, node: 1, result: Ok(response) }));
    }

    /// Responds that all batches of the request are written, from `offset` on.
    pub fn accept(&mut self, sent: &Sent, offset: i64) {
        self.respond(sent, |_| FakePartitionResponse { offset, ..FakePartitionResponse::default() });
    }

    pub fn reject(&mut self, sent: &Sent, code: ErrorCode) {
        self.respond(sent, |_| code.into());
    }

    pub fn respond(&mut self, sent: &Sent, says: impl Fn(&Batch) -> FakePartitionResponse) {
        self.answer_some(sent, |batch| Some(says(batch)));
    }

    pub fn answer_some(&mut self, sent: &Sent, says: impl Fn(&Batch) -> Option<FakePartitionResponse>) {
        let mut response = ProduceResponse::default();
        for batch in &sent.batches {
            let Some(says) = says(batch) else { continue };
            let named = sent.body.topics.iter().find(|topic| *topic.name == *batch.topic).expect("sent");
            if let Some((leader, _)) = says.leader {
                let endpoint = NodeEndpoint { node_id: leader, host: "new".into(), port: 9, ..Default::default() };
                response.node_endpoints.push(endpoint);
            }
            let (leader_id, leader_epoch) = says.leader.unwrap_or((-1, -1));
            let part = PartitionProduceResponse {
                index: batch.partition,
                error_code: says.code.0,
                base_offset: says.offset,
                log_append_time_ms: says.appended_at.unwrap_or(-1),
                error_message: says.message.map(Into::into),
                current_leader: LeaderIdAndEpoch { leader_id, leader_epoch },
                ..Default::default()
            };
            response.responses.push(TopicProduceResponse {
                name: batch.topic.clone().into(),
                topic_id: named.id,
                partition_responses: vec![part],
            });
        }
        // Brokers respond in no particular order.
        response.responses.reverse();
        let mut body = Vec::new();
        response.encode(sent.version, &mut body).expect("encodes");
        self.reply_bytes(sent, body);
    }

    pub fn reply_bytes(&mut self, sent: &Sent, body: Vec<u8>) {
        let response = Response { api: ApiKey::Produce, version: sent.version, frame: Frame::from(body), body: 0 };
        self.step(SenderEvent::Reply(Reply { token: sent.token, node: sent.node, result: Ok(response) }));
    }

    pub fn fail(&mut self, sent: &Sent, error: RequestError) {
        self.step(SenderEvent::Reply(Reply { token: sent.token, node: sent.node, result: Err(error) }));
    }

    pub fn log_events(&self) -> Vec<&SenderLogEvent> {
        let mut notices = Vec::new();
        for action in &self.actions {
            if let SenderAction::LogEvent(notice) = action {
                notices.push(notice);
            }
        }
        notices
    }

    pub fn has(&self, wanted: impl Fn(&SenderAction) -> bool) -> bool {
        self.actions.iter().any(wanted)
    }
}

pub(crate) fn result(receipt: &BatchPromise, index: u32) -> RecordResult {
    receipt.result(index).expect("settled")
}

pub(crate) fn outcome(receipt: &BatchPromise) -> Option<Outcome> {
    receipt.result(0).map(|settled| settled.outcome)
}

fn batches(topic: &grete_wire::produce::ProduceTopic) -> Vec<Batch> {
    let mut all = Vec::new();
    for (partition, bytes) in &topic.partitions {
        let header = BatchHeader::parse(bytes).expect("a header");
        let values = values(bytes);
        assert_eq!(values.len(), usize::try_from(header.record_count).expect("a count"));
        all.push(Batch {
            topic: topic.name.to_string(),
            partition: *partition,
            id: header.producer_id,
            epoch: header.producer_epoch,
            sequence: header.base_sequence,
            values,
        });
    }
    all
}

/// Returns the records of a batch after a check of its checksum.
fn values(bytes: &[u8]) -> Vec<String> {
    let slab = PooledBuf::from(bytes.to_vec());
    let (mut columns, mut decoder) = (Columns::default(), Decoder::new(BufferPool::new(0), DecodeLimits::default()));
    let (header, range) = iter_batches(&slab).next().expect("a batch").expect("whole");
    decoder.decode(&slab, range, &header, 0, &mut columns).expect("right");
    let value = |row| String::from_utf8(columns.value(row).expect("not null").to_vec()).expect("text");
    (0..columns.len()).map(value).collect()
}
