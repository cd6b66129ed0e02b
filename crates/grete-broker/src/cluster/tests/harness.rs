//! Client that speaks to a cluster in bytes, without sockets.

use grete_wire::frame::{encode_request, parse_response_header};
use grete_wire::messages::{
    CreatableTopic, CreateTopicsRequest, FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionProduceData,
    ProduceRequest, ProduceResponse, TopicProduceData,
};
use grete_wire::records::{BatchBuilder, Compression, Compressor, ProducerRecord};
use grete_wire::{Frame, FrameReader, KafkaRequest, Reader, WireError, buffer_pool::BufferPool};

use crate::cluster::{Action, BrokerAddress, Cluster, ClusterConfig, Event};
use crate::effects::Change;
use crate::ids::{BrokerId, ConnId, Millis};

/// Cluster with its actions, and a clock that tests move.
pub struct Fixture {
    pub cluster: Cluster,
    pub now: Millis,
    pub actions: Vec<Action>,
    /// Changes of all steps so far.
    pub changes: Vec<Change>,
    last_conn: u64,
}

impl Fixture {
    pub fn new(brokers: i32) -> Self {
        Self::with(|_| (), brokers)
    }

    pub fn with(change: impl FnOnce(&mut ClusterConfig), brokers: i32) -> Self {
        let address = |id| BrokerAddress { id, host: "127.0.0.1".into(), port: 9000 + id as u16, rack: None };
        let mut config = ClusterConfig::new((1..=brokers).map(address).collect());
        change(&mut config);
        let cluster = Cluster::new(config);
        Self { cluster, now: 1_000_000, actions: Vec::new(), changes: Vec::new(), last_conn: 0 }
    }

    pub fn connect(&mut self, broker: BrokerId) -> ConnId {
        self.last_conn += 1;
        let conn = ConnId(self.last_conn);
        self.step(Event::Accepted { conn, broker, client_host: "127.0.0.1".into() });
        conn
    }

    pub fn step(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.cluster.step(self.now, event, &mut actions);
        self.keep(actions);
    }

    /// Keeps actions of a direct call.
    pub fn keep(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Persist(change) => self.changes.push(change),
                action => self.actions.push(action),
            }
        }
    }

    /// Moves the clock, with a tick at each deadline on the way.
    pub fn advance(&mut self, ms: Millis) {
        let end = self.now + ms;
        while let Some(due) = self.cluster.deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.step(Event::Tick);
        }
        self.now = end;
    }

    pub fn send<Q: KafkaRequest>(&mut self, conn: ConnId, version: i16, request: &Q) {
        self.send_body(conn, version, Q::KEY, |out| request.encode_body(version, out)).expect("the request is valid");
    }

    pub fn send_body(
        &mut self,
        conn: ConnId,
        version: i16,
        api: grete_wire::ApiKey,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        let bytes = encode_request(api, version, 7, "tester", 64, |out| body(out.tail()))?;
        let bytes: Vec<u8> = bytes.segments().iter().flat_map(|segment| segment.to_vec()).collect();
        self.step(Event::Frame { conn, frame: Frame::from(bytes[4..].to_vec()) });
        Ok(())
    }

    /// Takes the frames that were written to a connection since the last call.
    pub fn received(&mut self, conn: ConnId) -> Vec<Frame> {
        let mut reader = FrameReader::new(BufferPool::new(1 << 20), 1 << 30);
        let mut frames = Vec::new();
        let mut kept = Vec::new();
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Write { conn: to, bytes } if to == conn => {
                    for segment in bytes.segments() {
                        let mut rest: &[u8] = segment;
                        while !rest.is_empty() {
                            let space = reader.read_buf();
                            let n = rest.len().min(space.len());
                            space[..n].copy_from_slice(&rest[..n]);
                            reader.advance(n);
                            rest = &rest[n..];
                            while let Some(frame) = reader.next().expect("frames are whole") {
                                frames.push(frame);
                            }
                        }
                    }
                }
                action => kept.push(action),
            }
        }
        self.actions = kept;
        frames
    }

    /// Sends a request and decodes its response, which comes in the same step.
    pub fn call<Q: KafkaRequest, T>(
        &mut self,
        conn: ConnId,
        version: i16,
        request: &Q,
        check: impl FnOnce(Q::Response<'_>) -> T,
    ) -> T {
        self.send(conn, version, request);
        let frames = self.received(conn);
        assert_eq!(frames.len(), 1, "{} is answered at once; {:?}", Q::KEY, self.actions);
        decode::<Q, T>(version, &frames[0], check)
    }

    pub fn is_closed(&self, conn: ConnId) -> bool {
        self.actions.contains(&Action::Close { conn })
    }

    pub fn logged(&self) -> Vec<&str> {
        let mut lines = Vec::new();
        for action in &self.actions {
            if let Action::Log(line) = action {
                lines.push(line.as_str());
            }
        }
        lines
    }

    pub fn create_topic(&mut self, conn: ConnId, name: &str, partitions: i32) -> i16 {
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: -1,
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
        self.call(conn, 7, &request, |response| response.topics[0].error_code)
    }

    /// Produces values in one batch. Returns the error code and the base offset.
    pub fn produce(&mut self, conn: ConnId, topic: &str, partition: i32, values: &[&str]) -> (i16, i64) {
        let records = batch(values);
        let request = produce_request(topic, partition, &records);
        self.call(conn, 9, &request, |response: ProduceResponse<'_>| {
            let partition = &response.responses[0].partition_responses[0];
            (partition.error_code, partition.base_offset)
        })
    }
}

pub fn decode<Q: KafkaRequest, T>(version: i16, frame: &Frame, check: impl FnOnce(Q::Response<'_>) -> T) -> T {
    let (correlation_id, body) = parse_response_header(Q::KEY, version, frame).expect("a header");
    assert_eq!(correlation_id, 7);
    let mut reader = Reader::new(&frame[body..]);
    let response = Q::decode_response(version, &mut reader).expect("a body");
    assert_eq!(body + reader.position(), frame.len(), "nothing follows the body");
    check(response)
}

pub fn batch(values: &[&str]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    for value in values {
        let record =
            ProducerRecord { timestamp: 1_000_000, value: Some(value.as_bytes()), ..ProducerRecord::default() };
        builder.append(&record).expect("the record fits");
    }
    let mut batch = builder.finish(Compression::None, None, &mut Compressor::new()).expect("a batch");
    batch.set_producer_info(-1, -1, -1);
    batch.bytes().to_vec()
}

pub fn keyed_batch(key: &str, value: &str) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
    let record = ProducerRecord { timestamp: 1_000_000, key, value, ..ProducerRecord::default() };
    builder.append(&record).expect("the record fits");
    let mut batch = builder.finish(Compression::None, None, &mut Compressor::new()).expect("a batch");
    batch.set_producer_info(-1, -1, -1);
    batch.bytes().to_vec()
}

pub fn produce_request<'a>(topic: &'a str, partition: i32, records: &'a [u8]) -> ProduceRequest<'a> {
    let data = PartitionProduceData { index: partition, records: Some(records.into()) };
    let topic = TopicProduceData { name: topic.into(), partition_data: vec![data], ..TopicProduceData::default() };
    ProduceRequest { acks: -1, timeout_ms: 1000, topic_data: vec![topic], ..ProduceRequest::default() }
}

pub fn fetch_request(topic: &str, partition: i32, fetch_offset: i64, max_wait_ms: i32) -> FetchRequest<'_> {
    let partition =
        FetchPartition { partition, fetch_offset, partition_max_bytes: 1 << 20, ..FetchPartition::default() };
    let topic = FetchTopic { topic: topic.into(), partitions: vec![partition], ..FetchTopic::default() };
    FetchRequest { max_wait_ms, min_bytes: 1, topics: vec![topic], ..FetchRequest::default() }
}

/// Returns the error code and the bytes of records of the only partition in a response.
pub fn only_partition(response: &FetchResponse<'_>) -> (i16, usize) {
    let partition = &response.responses[0].partitions[0];
    (partition.error_code, partition.records.as_ref().map_or(0, |records| records.len()))
}
