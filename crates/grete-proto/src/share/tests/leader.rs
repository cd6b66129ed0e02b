//! Acquirer with one or more partitions, and the requests that it sends.

use grete_wire::api::ApiKey;
use grete_wire::frame::Frame;
use grete_wire::messages::share_fetch::{AcquiredRecords, PartitionData, ShareFetchableTopicResponse};
use grete_wire::messages::{
    ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse, share_acknowledge,
};
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch};
use grete_wire::{ErrorCode, Reader};

use crate::fetch::CompletedFetch;
use crate::ids::{NodeId, PartitionHandle, TopicPartition};
use crate::partition::table::PartitionTable;
use crate::request::{Channel, OutboundRequest, Reply, RequestError, Response, Token};
use crate::rng::Rng;
use crate::share::{AckType, Acknowledgement, ShareAcquirer, ShareAction, ShareConfig, ShareEvent, ShareLogEvent};
use crate::test_util::FakeClusterView;
use crate::time::{MILLI, Nanos};

pub(super) const TOPIC_ID: u128 = 7;
pub(super) const LOCK_MS: i32 = 1000;

/// Request that the acquirer has sent.
#[derive(Debug)]
pub(super) enum Sent {
    Fetch(Token, NodeId, ShareFetchRequest<'static>),
    Acknowledge(Token, NodeId, ShareAcknowledgeRequest<'static>),
}

impl Sent {
    pub(super) fn token(&self) -> Token {
        match self {
            Self::Fetch(token, ..) | Self::Acknowledge(token, ..) => *token,
        }
    }

    pub(super) fn node(&self) -> NodeId {
        match self {
            Self::Fetch(_, node, _) | Self::Acknowledge(_, node, _) => *node,
        }
    }

    pub(super) fn epoch(&self) -> i32 {
        match self {
            Self::Fetch(_, _, request) => request.share_session_epoch,
            Self::Acknowledge(_, _, request) => request.share_session_epoch,
        }
    }

    /// Acknowledgements: partition, first and last offset, type.
    pub(super) fn acks(&self) -> Vec<(i32, i64, i64, i8)> {
        match self {
            Self::Fetch(_, _, request) => {
                let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
                let batches = partitions.flat_map(|partition| {
                    let index = partition.partition_index;
                    partition.acknowledgement_batches.iter().map(move |batch| (index, batch))
                });
                batches
                    .map(|(index, batch)| (index, batch.first_offset, batch.last_offset, batch.acknowledge_types[0]))
                    .collect()
            }
            Self::Acknowledge(_, _, request) => {
                let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
                let batches = partitions.flat_map(|partition| {
                    let index = partition.partition_index;
                    partition.acknowledgement_batches.iter().map(move |batch| (index, batch))
                });
                batches
                    .map(|(index, batch)| (index, batch.first_offset, batch.last_offset, batch.acknowledge_types[0]))
                    .collect()
            }
        }
    }
}

/// What a response says about one partition.
#[derive(Debug, Default, Clone)]
pub(super) struct Answer {
    pub(super) partition: i32,
    pub(super) acquired: Vec<(i64, i64, i16)>,
    pub(super) ack_error: i16,
    pub(super) error: i16,
}

/// Acquirer with its surroundings.
pub(super) struct Harness {
    pub(super) now: Nanos,
    pub(super) acquirer: ShareAcquirer,
    pub(super) view: FakeClusterView,
    pub(super) table: PartitionTable,
    pub(super) slots: Vec<PartitionHandle>,
    pub(super) sent: Vec<Sent>,
    pub(super) data: Vec<CompletedFetch>,
    pub(super) log: Vec<ShareLogEvent>,
    pub(super) closed: bool,
    pub(super) refreshes: usize,
}

impl Harness {
    pub(super) fn new(partitions: i32, concurrency: usize) -> Self {
        let mut view = FakeClusterView::new();
        view.set_topic_id("t", TOPIC_ID);
        let mut table = PartitionTable::new();
        let mut slots = Vec::new();
        for partition in 0..partitions {
            let tp = TopicPartition::new("t", partition);
            view.set_leader(&tp, Some((1 + partition % 2, 0)));
            slots.push(table.add(tp, 1));
        }
        let config = ShareConfig { concurrency, ..ShareConfig::new("g") };
        Self {
            now: 0,
            acquirer: ShareAcquirer::new(config, Rng::new(1)),
            view,
            table,
            slots,
            sent: Vec::new(),
            data: Vec::new(),
            log: Vec::new(),
            closed: false,
            refreshes: 0,
        }
    }

    pub(super) fn step(&mut self, event: ShareEvent) {
        let mut out = Vec::new();
        self.acquirer.step(self.now, event, "me", &self.view, &mut self.table, &mut out);
        for action in out {
            match action {
                ShareAction::Send(request) => self.sent.push(decode(&request)),
                ShareAction::Data(chunk) => self.data.push(chunk),
                ShareAction::LogEvent(event) => self.log.push(event),
                ShareAction::Closed => self.closed = true,
                ShareAction::RefreshMetadata => self.refreshes += 1,
                _ => {}
            }
        }
    }

    /// Moves the clock, and ticks at each deadline on the way.
    pub(super) fn advance(&mut self, ms: u64) {
        let until = self.now + ms * MILLI;
        while let Some(at) = self.acquirer.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let before = (self.sent.len(), self.acquirer.deadline());
            self.step(ShareEvent::Tick);
            assert!(
                before != (self.sent.len(), self.acquirer.deadline()) || at > self.now,
                "a timer that stands still"
            );
        }
        self.now = until;
    }

    /// Takes the oldest request that is not answered.
    pub(super) fn next(&mut self) -> Sent {
        assert!(!self.sent.is_empty(), "no request was sent");
        self.sent.remove(0)
    }

    pub(super) fn acknowledge(&mut self, partition: usize, first: i64, last: i64, kind: AckType) {
        let ack = Acknowledgement { first, last, kind };
        self.step(ShareEvent::Acknowledge(vec![(self.slots[partition], vec![ack])]));
    }

    pub(super) fn answer(&mut self, to: &Sent, answers: &[Answer]) {
        self.answer_with(to, ErrorCode::NONE, answers);
    }

    pub(super) fn answer_with(&mut self, to: &Sent, code: ErrorCode, answers: &[Answer]) {
        let result = Ok(Self::response(to, code, answers));
        self.step(ShareEvent::Reply(Reply { token: to.token(), node: to.node(), result }));
    }

    /// Answers with ranges that the records do not have.
    pub(super) fn answer_hostile(&mut self, to: &Sent, ranges: &[(i64, i64, i16)]) {
        let answer = Answer { acquired: ranges.to_vec(), ..Answer::default() };
        let result = Ok(Self::response_with(to, ErrorCode::NONE, &[answer], |_| Vec::new()));
        self.step(ShareEvent::Reply(Reply { token: to.token(), node: to.node(), result }));
    }

    pub(super) fn fail(&mut self, to: &Sent, error: RequestError) {
        self.step(ShareEvent::Reply(Reply { token: to.token(), node: to.node(), result: Err(error) }));
    }

    fn response(to: &Sent, code: ErrorCode, answers: &[Answer]) -> Response {
        Self::response_with(to, code, answers, batches)
    }

    fn response_with(
        to: &Sent,
        code: ErrorCode,
        answers: &[Answer],
        records: impl Fn(&[(i64, i64, i16)]) -> Vec<u8>,
    ) -> Response {
        let mut body = Vec::new();
        let (api, version) = match to {
            Sent::Fetch(..) => {
                let partitions = answers.iter().map(|answer| PartitionData {
                    partition_index: answer.partition,
                    error_code: answer.error,
                    acknowledge_error_code: answer.ack_error,
                    records: records(&answer.acquired).into(),
                    acquired_records: answer
                        .acquired
                        .iter()
                        .map(|(first_offset, last_offset, delivery_count)| AcquiredRecords {
                            first_offset: *first_offset,
                            last_offset: *last_offset,
                            delivery_count: *delivery_count,
                        })
                        .collect(),
                    ..PartitionData::default()
                });
                let response = ShareFetchResponse {
                    error_code: code.0,
                    acquisition_lock_timeout_ms: LOCK_MS,
                    responses: vec![ShareFetchableTopicResponse {
                        topic_id: TOPIC_ID,
                        partitions: partitions.collect(),
                    }],
                    ..ShareFetchResponse::default()
                };
                response.encode(2, &mut body).unwrap();
                (ApiKey::ShareFetch, 2)
            }
            Sent::Acknowledge(..) => {
                let partitions = answers.iter().map(|answer| share_acknowledge::PartitionData {
                    partition_index: answer.partition,
                    error_code: answer.ack_error,
                    ..share_acknowledge::PartitionData::default()
                });
                let response = ShareAcknowledgeResponse {
                    error_code: code.0,
                    acquisition_lock_timeout_ms: LOCK_MS,
                    responses: vec![share_acknowledge::ShareAcknowledgeTopicResponse {
                        topic_id: TOPIC_ID,
                        partitions: partitions.collect(),
                    }],
                    ..ShareAcknowledgeResponse::default()
                };
                response.encode(2, &mut body).unwrap();
                (ApiKey::ShareAcknowledge, 2)
            }
        };
        let frame = Frame::from(body);
        Response { api, version, frame, body: 0 }
    }
}

/// One record batch for each acquired range.
fn batches(acquired: &[(i64, i64, i16)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (first, last, _) in acquired {
        let records: Vec<_> = (*first..=*last).map(|offset| TestRecord::value(0, offset.to_string())).collect();
        bytes.extend(build_batch(*first, &records, &BatchOptions::default()));
    }
    bytes
}

fn decode(request: &OutboundRequest) -> Sent {
    let mut body = grete_wire::SegmentedBuf::default();
    request.request.encode_body(2, &mut body).unwrap();
    let bytes: &'static [u8] = Vec::leak(body.to_vec());
    let node = match request.target {
        crate::request::Target::Node(node) => node,
        other => panic!("a request of a share group goes to its leader, not to {other:?}"),
    };
    match (request.request.api(), request.channel) {
        (ApiKey::ShareFetch, Channel::Fetch) => {
            Sent::Fetch(request.token, node, ShareFetchRequest::decode(2, &mut Reader::new(bytes)).unwrap())
        }
        (ApiKey::ShareAcknowledge, Channel::Fetch) => {
            Sent::Acknowledge(request.token, node, ShareAcknowledgeRequest::decode(2, &mut Reader::new(bytes)).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

pub(super) fn acquired(partition: i32, ranges: &[(i64, i64, i16)]) -> Answer {
    Answer { partition, acquired: ranges.to_vec(), ..Answer::default() }
}

pub(super) fn acked(partition: i32) -> Answer {
    Answer { partition, ..Answer::default() }
}

/// Ranges that were handed out, as offsets with their delivery counts.
pub(super) fn handed_out(chunks: &[CompletedFetch]) -> Vec<(i64, u16)> {
    let ranges = chunks.iter().flat_map(|chunk| chunk.acquired.as_deref().unwrap_or_default());
    ranges.flat_map(|range| range.offsets().map(|offset| (offset, range.deliveries))).collect()
}
