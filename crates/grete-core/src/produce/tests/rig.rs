//! An accumulator and its machine, a cluster that is a table, and brokers that say what a test wants them to say.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use grete_wire::Outbound;
use grete_wire::api_key::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::frame::Frame;
use grete_wire::messages::produce_response::{LeaderIdAndEpoch, NodeEndpoint, TopicProduceResponse};
use grete_wire::messages::{InitProducerIdResponse, PartitionProduceResponse, ProduceResponse};
use grete_wire::produce::ProduceBody;
use grete_wire::records::{BatchHeader, Columns, DecodeLimits, Decoder, NewRecord, walk};
use grete_wire::slab::{Slab, SlabPool};

use crate::cluster::{NO_EPOCH, NO_LEADER, PartitionMeta};
use crate::ids::{NodeId, TopicPartition};
use crate::produce::{
    Accumulator, Outcome, ProduceAction, ProduceConfig, ProduceEvent, ProduceMachine, ProduceNotice, Receipt, Refused,
    Settled, SharedAccumulator, TopicId, Wake,
};
use crate::request::{Channel, Outgoing, Reply, Request, RequestError, Response, Target, Token};
use crate::rng::Rng;
use crate::time::Nanos;
use crate::view::ClusterView;

/// The cluster, as far as a producer looks at it.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub topics: BTreeMap<String, Result<Vec<PartitionMeta>, ErrorCode>>,
    pub ids: BTreeMap<String, u128>,
    pub unready: BTreeSet<NodeId>,
    pub muted: BTreeMap<NodeId, Nanos>,
}

impl ClusterView for Table {
    fn leader(&self, tp: &TopicPartition) -> Option<(NodeId, i32)> {
        let partitions = self.topics.get(&*tp.topic)?.as_ref().ok()?;
        let meta = partitions.get(usize::try_from(tp.partition).ok()?)?;
        (meta.leader >= 0).then_some((meta.leader, meta.leader_epoch))
    }

    fn partitions(&self, topic: &str) -> Option<Result<&[PartitionMeta], ErrorCode>> {
        self.topics.get(topic).map(|known| known.as_ref().map(Vec::as_slice).map_err(|&code| code))
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
    /// Who sent it, and under which numbers.
    pub fn stamp(&self) -> (i64, i16, i32, usize) {
        (self.id, self.epoch, self.sequence, self.values.len())
    }
}

/// A Produce request that is to be answered.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub node: NodeId,
    pub token: Token,
    pub batches: Vec<Batch>,
    pub bytes: usize,
    version: i16,
    body: ProduceBody,
}

impl Sent {
    pub fn only(&self) -> &Batch {
        assert_eq!(self.batches.len(), 1, "{self:?}");
        &self.batches[0]
    }
}

/// What a broker says of one partition.
#[derive(Debug, Clone, Default)]
pub(crate) struct Says {
    pub code: ErrorCode,
    pub offset: i64,
    pub appended_at: Option<i64>,
    pub message: Option<&'static str>,
    pub leader: Option<(NodeId, i32)>,
}

impl From<ErrorCode> for Says {
    fn from(code: ErrorCode) -> Self {
        Self { code, offset: -1, ..Self::default() }
    }
}

pub(crate) struct Rig {
    pub now: Nanos,
    pub table: Table,
    pub machine: ProduceMachine,
    pub accumulator: SharedAccumulator,
    pub sent: VecDeque<Sent>,
    pub asked_identity: VecDeque<Token>,
    /// Everything but requests and what the rig does by itself.
    pub actions: Vec<ProduceAction>,
}

pub(crate) fn config() -> ProduceConfig {
    ProduceConfig { linger: 0, ..ProduceConfig::default() }
}

impl Rig {
    pub fn new(config: ProduceConfig) -> Self {
        let accumulator = Arc::new(Mutex::new(Accumulator::new(&config, Rng::new(1))));
        let machine = ProduceMachine::new(config, Arc::clone(&accumulator), Rng::new(2));
        Self {
            now: 1_000_000_000,
            table: Table::default(),
            machine,
            accumulator,
            sent: VecDeque::new(),
            asked_identity: VecDeque::new(),
            actions: Vec::new(),
        }
    }

    /// With an identity that brokers have seen, and a topic "orders" whose partitions these nodes lead.
    pub fn ready(config: ProduceConfig, leaders: &[NodeId]) -> Self {
        let mut rig = Self::new(config);
        rig.lead("orders", leaders);
        rig.topic("orders");
        if !rig.asked_identity.is_empty() {
            rig.identify(7, 0);
        }
        rig.machine.prove();
        rig.actions.clear();
        rig
    }

    pub fn lead(&mut self, topic: &str, leaders: &[NodeId]) {
        let meta = |&leader: &NodeId| PartitionMeta {
            leader,
            leader_epoch: if leader == NO_LEADER { NO_EPOCH } else { 1 },
            error: ErrorCode::NONE,
        };
        self.table.topics.insert(topic.to_owned(), Ok(leaders.iter().map(meta).collect()));
        self.step(ProduceEvent::MetadataChanged);
    }

    pub fn lock(&self) -> std::sync::MutexGuard<'_, Accumulator> {
        self.accumulator.lock().expect("nobody panics")
    }

    pub fn used(&self) -> usize {
        self.lock().used_bytes()
    }

    pub fn pending(&self) -> u64 {
        self.lock().pending_records()
    }

    pub fn topic(&mut self, name: &str) -> TopicId {
        let id = self.lock().topic(name);
        self.step(ProduceEvent::Drain);
        id
    }

    pub fn try_append(&mut self, partition: i32, value: &str) -> Result<(Arc<Receipt>, u32, Wake), Refused> {
        let now = self.now;
        let mut accumulator = self.accumulator.lock().expect("nobody panics");
        let topic = accumulator.topic("orders");
        let record = NewRecord { timestamp: 1, value: Some(value.as_bytes()), ..NewRecord::default() };
        let appended = accumulator.append(now, topic, Some(partition), &record)?;
        Ok((Arc::clone(appended.receipt), appended.index, appended.wake))
    }

    /// Appends, and steps.
    pub fn produce(&mut self, partition: i32, value: &str) -> (Arc<Receipt>, u32) {
        let (receipt, index, _) = self.try_append(partition, value).expect("taken");
        self.step(ProduceEvent::Drain);
        (receipt, index)
    }

    /// A batch of its own for each value, all of them ready at once.
    pub fn batches(&mut self, partition: i32, batches: &[&[&str]]) -> Vec<Arc<Receipt>> {
        let mut receipts = Vec::new();
        for values in batches {
            for value in *values {
                receipts.push(self.try_append(partition, value).expect("taken").0);
            }
            self.lock().flush();
            self.step(ProduceEvent::Drain);
        }
        receipts.dedup_by(|a, b| Arc::ptr_eq(a, b));
        receipts
    }

    pub fn step(&mut self, event: ProduceEvent) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let mut actions = Vec::new();
            self.machine.step(self.now, event, &self.table, &mut actions);
            for action in actions {
                match action {
                    ProduceAction::Send(outgoing) => self.take(outgoing),
                    ProduceAction::Interest => next = Some(ProduceEvent::MetadataChanged),
                    action => self.actions.push(action),
                }
            }
        }
    }

    /// Lets time pass, with a tick whenever one is due.
    pub fn pass(&mut self, span: Nanos) {
        let end = self.now + span;
        let mut ticks = 0;
        while let Some(deadline) = self.machine.deadline().filter(|&deadline| deadline <= end) {
            self.now = self.now.max(deadline);
            self.step(ProduceEvent::Tick);
            ticks += 1;
            assert!(ticks < 100_000, "the deadline is never reached: {deadline}");
        }
        self.now = end;
        self.step(ProduceEvent::Tick);
    }

    fn take(&mut self, outgoing: Outgoing) {
        match (&outgoing.request, outgoing.target) {
            (Request::Any(any), Target::Any) if any.api() == ApiKey::InitProducerId => {
                self.asked_identity.push_back(outgoing.token);
            }
            (Request::Produce(body), Target::Node(node)) => {
                assert_eq!(outgoing.channel, Channel::Produce);
                let batches: Vec<Batch> = body.topics.iter().flat_map(batches).collect();
                let mut bytes = Outbound::default();
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
        self.answer_identity(ErrorCode::NONE, id, epoch);
    }

    pub fn answer_identity(&mut self, code: ErrorCode, producer_id: i64, producer_epoch: i16) {
        let token = self.asked_identity.pop_front().expect("asked");
        let answer = InitProducerIdResponse { error_code: code.0, producer_id, producer_epoch, ..Default::default() };
        let mut body = Vec::new();
        answer.encode(5, &mut body).expect("encodes");
        let response = Response { api: ApiKey::InitProducerId, version: 5, frame: Frame::from(body), body: 0 };
        self.step(ProduceEvent::Reply(Reply { token, node: 1, result: Ok(response) }));
    }

    /// All batches of the request are written, from that offset on.
    pub fn accept(&mut self, sent: &Sent, offset: i64) {
        self.answer(sent, |_| Says { offset, ..Says::default() });
    }

    pub fn reject(&mut self, sent: &Sent, code: ErrorCode) {
        self.answer(sent, |_| code.into());
    }

    pub fn answer(&mut self, sent: &Sent, says: impl Fn(&Batch) -> Says) {
        self.answer_some(sent, |batch| Some(says(batch)));
    }

    pub fn answer_some(&mut self, sent: &Sent, says: impl Fn(&Batch) -> Option<Says>) {
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
        // Brokers answer in no particular order.
        response.responses.reverse();
        let mut body = Vec::new();
        response.encode(sent.version, &mut body).expect("encodes");
        self.reply_bytes(sent, body);
    }

    pub fn reply_bytes(&mut self, sent: &Sent, body: Vec<u8>) {
        let response = Response { api: ApiKey::Produce, version: sent.version, frame: Frame::from(body), body: 0 };
        self.step(ProduceEvent::Reply(Reply { token: sent.token, node: sent.node, result: Ok(response) }));
    }

    pub fn fail(&mut self, sent: &Sent, error: RequestError) {
        self.step(ProduceEvent::Reply(Reply { token: sent.token, node: sent.node, result: Err(error) }));
    }

    pub fn notices(&self) -> Vec<&ProduceNotice> {
        let mut notices = Vec::new();
        for action in &self.actions {
            if let ProduceAction::Notice(notice) = action {
                notices.push(notice);
            }
        }
        notices
    }

    pub fn has(&self, wanted: impl Fn(&ProduceAction) -> bool) -> bool {
        self.actions.iter().any(wanted)
    }
}

pub(crate) fn result(receipt: &Receipt, index: u32) -> Settled {
    receipt.result(index).expect("settled")
}

pub(crate) fn outcome(receipt: &Receipt) -> Option<Outcome> {
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

/// The records of a batch, whose checksum is right.
fn values(bytes: &[u8]) -> Vec<String> {
    let slab = Slab::from(bytes.to_vec());
    let (mut columns, mut decoder) = (Columns::default(), Decoder::new(SlabPool::new(0), DecodeLimits::default()));
    let (header, range) = walk(&slab).next().expect("a batch").expect("whole");
    decoder.decode(&slab, range, &header, 0, &mut columns).expect("right");
    let value = |row| String::from_utf8(columns.value(row).expect("not null").to_vec()).expect("text");
    (0..columns.len()).map(value).collect()
}
