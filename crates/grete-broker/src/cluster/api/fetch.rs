//! Fetch: reads batches, and waits for bytes (long poll).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{
    AbortedTransaction, FetchRequest, FetchResponse, FetchResponseEpochEndOffset, FetchResponseLeaderIdAndEpoch,
    FetchResponseNodeEndpoint, FetchableTopicResponse, PartitionData,
};

use super::older_fetch::{FIRST_VERSION_WITH_DIVERGING_EPOCH, named_partitions, unsupported};
use crate::acl::{Operation, ResourceType};
use crate::cluster::{Cluster, RequestContext};
use crate::fetch_session::{FetchSessions, FetchTopicKey, SessionUse, WantedPartition, is_unknown};
use crate::ids::{BrokerId, Millis, RequestId, TopicId};
use crate::message::Response;
use crate::topics::Topic;

/// Maximum time that a Fetch waits, whatever the client asks for.
const MAX_WAIT_MS: i64 = 5 * 60 * 1000;

/// First version whose response names the leader of a partition that moved (KIP-951).
const FIRST_VERSION_WITH_LEADER: i16 = 16;

/// Maximum bytes of a response, whatever the client asks for: Kafka's default of `fetch.max.bytes` of the broker.
const MAX_FETCH_BYTES: usize = 55 * 1024 * 1024;

/// Fetch with its session resolved.
#[derive(Debug)]
struct PlannedFetch {
    session: SessionUse,
    partitions: Vec<WantedPartition>,
    min_bytes: usize,
    max_bytes: usize,
    read_committed: bool,
    /// For each partition, whether it was there when the request began to wait.
    awaited: Vec<bool>,
    /// Partitions that the request itself names, if it continues a session in a version without diverging epochs.
    named: Vec<(String, Vec<i32>)>,
}

/// Fetch that waits for bytes.
#[derive(Debug)]
struct WaitingFetch {
    context: RequestContext,
    plan: PlannedFetch,
    deadline: Millis,
}

/// All Fetches that wait, by deadline and by partition.
#[derive(Debug, Default)]
pub(in crate::cluster) struct WaitingFetches {
    waiting: BTreeMap<RequestId, WaitingFetch>,
    deadlines: BTreeSet<(Millis, RequestId)>,
    by_partition: HashMap<(TopicId, i32), BTreeSet<RequestId>>,
}

impl WaitingFetches {
    /// Returns the earliest time at which a Fetch has waited long enough.
    pub(in crate::cluster) fn deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Forgets a Fetch, for example of a connection that has ended.
    pub(in crate::cluster) fn remove(&mut self, request: RequestId) {
        let Some(fetch) = self.waiting.remove(&request) else { return };
        self.deadlines.remove(&(fetch.deadline, request));
        self.by_partition.retain(|_, requests| {
            requests.remove(&request);
            !requests.is_empty()
        });
    }
}

/// Data of all partitions that a Fetch reads.
#[derive(Default)]
struct FetchedData {
    partitions: Vec<(WantedPartition, PartitionData<'static>)>,
    bytes: usize,
    has_error: bool,
    leaders: BTreeSet<BrokerId>,
}

impl Cluster {
    pub(in crate::cluster) fn fetch(&mut self, context: &RequestContext, request: &FetchRequest<'_>) {
        let seed = self.rng.next_u64();
        let sessions = self.fetch_sessions.entry(context.broker).or_insert_with(|| FetchSessions::new(seed));
        let (session, mut partitions) = match sessions.begin(context.version, request) {
            Ok(begun) => begun,
            Err(error) => {
                let response = FetchResponse { error_code: error.0, ..FetchResponse::default() };
                return self.reply(context, Response::Fetch(response));
            }
        };
        for wanted in partitions.iter_mut().filter(|wanted| wanted.topic.id != 0 && wanted.known_name.is_none()) {
            wanted.known_name = self.topics.by_id(wanted.topic.id).map(|topic| Arc::clone(&topic.name));
        }
        let plan = PlannedFetch {
            session,
            partitions,
            awaited: Vec::new(),
            min_bytes: usize::try_from(request.min_bytes).unwrap_or(0),
            max_bytes: usize::try_from(request.max_bytes).unwrap_or(0).min(MAX_FETCH_BYTES),
            read_committed: request.isolation_level == 1,
            named: named_partitions(context.version, session, request),
        };
        let data = self.read_planned(context, &plan);
        let wait = i64::from(request.max_wait_ms).min(MAX_WAIT_MS);
        if wait <= 0 || plan.partitions.is_empty() || is_enough(&plan, &data) {
            self.respond_fetch(context, plan, data);
        } else {
            self.wait_for_bytes(context, plan, self.now.saturating_add(wait));
        }
    }

    fn wait_for_bytes(&mut self, context: &RequestContext, mut plan: PlannedFetch, deadline: Millis) {
        let request = context.id;
        for wanted in &plan.partitions {
            let topic = self.fetched_topic(&wanted.topic);
            plan.awaited.push(topic.is_some_and(|topic| topic.partition(wanted.fetch.partition).is_some()));
            if let Some(topic) = topic {
                let key = (topic.id, wanted.fetch.partition);
                self.waiting_fetches.by_partition.entry(key).or_default().insert(request);
            }
        }
        self.waiting_fetches.deadlines.insert((deadline, request));
        let fetch = WaitingFetch { context: context.clone(), plan, deadline };
        self.waiting_fetches.waiting.insert(request, fetch);
    }

    /// Answers the Fetches that wait for a partition and now have enough bytes. `at_once`: also those that have not,
    /// because the partition moved or is gone.
    pub(in crate::cluster) fn complete_fetches(&mut self, topic: TopicId, partition: i32, at_once: bool) {
        let Some(requests) = self.waiting_fetches.by_partition.get(&(topic, partition)) else { return };
        for request in requests.clone() {
            let Some(fetch) = self.waiting_fetches.waiting.get(&request) else { continue };
            let data = self.read_planned(&fetch.context, &fetch.plan);
            if at_once || is_enough(&fetch.plan, &data) {
                self.complete_fetch(request, data);
            }
        }
    }

    /// Answers the Fetches that have waited long enough.
    pub(in crate::cluster) fn expire_fetches(&mut self) {
        while let Some((_, request)) =
            self.waiting_fetches.deadlines.first().filter(|(due, _)| *due <= self.now).copied()
        {
            let Some(fetch) = self.waiting_fetches.waiting.get(&request) else {
                self.waiting_fetches.deadlines.pop_first();
                continue;
            };
            let data = self.read_planned(&fetch.context, &fetch.plan);
            self.complete_fetch(request, data);
        }
    }

    fn complete_fetch(&mut self, request: RequestId, data: FetchedData) {
        let Some(fetch) = self.waiting_fetches.waiting.get(&request) else { return };
        let (context, deadline) = (fetch.context.clone(), fetch.deadline);
        for wanted in &fetch.plan.partitions {
            let Some(id) = self.fetched_topic(&wanted.topic).map(|topic| topic.id) else { continue };
            let key = (id, wanted.fetch.partition);
            if let Some(requests) = self.waiting_fetches.by_partition.get_mut(&key) {
                requests.remove(&request);
                if requests.is_empty() {
                    self.waiting_fetches.by_partition.remove(&key);
                }
            }
        }
        self.waiting_fetches.deadlines.remove(&(deadline, request));
        if let Some(fetch) = self.waiting_fetches.waiting.remove(&request) {
            self.respond_fetch(&context, fetch.plan, data);
        }
    }

    fn fetched_topic(&self, key: &FetchTopicKey) -> Option<&Topic> {
        if key.id != 0 { self.topics.by_id(key.id) } else { self.topics.get(&key.name) }
    }

    /// Reads all partitions. At least one batch is returned if there is any, even beyond the limits (KIP-74).
    fn read_planned(&self, context: &RequestContext, plan: &PlannedFetch) -> FetchedData {
        let mut found = FetchedData::default();
        for (place, wanted) in plan.partitions.iter().enumerate() {
            let left = plan.max_bytes.saturating_sub(found.bytes);
            let limit = usize::try_from(wanted.fetch.partition_max_bytes).unwrap_or(0).min(left);
            let is_first = found.bytes == 0;
            let data = match self.read_partition(context, plan, place, wanted, limit, is_first) {
                Ok(data) => data,
                Err(data) => {
                    // Partitions that do not exist do not end the wait in Kafka, unless there are no others.
                    found.has_error |= !is_unknown(&data);
                    found.leaders.insert(data.current_leader.leader_id);
                    *data
                }
            };
            found.bytes += data.records.as_ref().map_or(0, |records| records.len());
            found.has_error |= data.diverging_epoch.epoch >= 0;
            found.partitions.push((wanted.clone(), data));
        }
        found
    }

    fn read_partition(
        &self,
        context: &RequestContext,
        plan: &PlannedFetch,
        place: usize,
        wanted: &WantedPartition,
        limit: usize,
        is_first: bool,
    ) -> Result<PartitionData<'static>, Box<PartitionData<'static>>> {
        let index = wanted.fetch.partition;
        let failed = |error: ErrorCode| {
            Box::new(PartitionData {
                partition_index: index,
                error_code: error.0,
                high_watermark: -1,
                aborted_transactions: None,
                records: Some(Cow::Borrowed(&[])),
                ..PartitionData::default()
            })
        };
        let name = self.fetched_topic(&wanted.topic).map_or(&wanted.topic.name, |topic| &topic.name);
        if let Some(error) = self.partition_fault(name, index) {
            return Err(failed(error));
        }
        // Kafka answers these before the log is asked, with the schema's default, unless the partition is deleted while
        // the request waits.
        let unknown = |error| {
            let mut data = failed(error);
            if !plan.awaited.get(place).copied().unwrap_or_default() {
                data.aborted_transactions = Some(Vec::new());
            }
            data
        };
        if wanted.topic.id == 0 && !self.may(context, Operation::Read, ResourceType::Topic, &wanted.topic.name) {
            return Err(unknown(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
        }
        let topic = self.fetched_topic(&wanted.topic).ok_or_else(|| {
            let same_name =
                |name: &Arc<str>| self.topics.get(name).is_some_and(|topic| topic.partition(index).is_some());
            match &wanted.known_name {
                None if wanted.topic.id != 0 => unknown(ErrorCode::UNKNOWN_TOPIC_ID),
                // The topic was deleted and created again.
                Some(name) if same_name(name) => failed(ErrorCode::INCONSISTENT_TOPIC_ID),
                _ => unknown(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            }
        })?;
        if !self.may(context, Operation::Read, ResourceType::Topic, &topic.name) {
            return Err(unknown(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
        }
        let partition = topic.partition(index).ok_or_else(|| unknown(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))?;
        if let Err(error) = self.check_leader(context, partition, wanted.fetch.current_leader_epoch.max(-1)) {
            let mut data = failed(error);
            let is_moved = [ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::FENCED_LEADER_EPOCH].contains(&error);
            if is_moved && context.version >= FIRST_VERSION_WITH_LEADER {
                data.current_leader = FetchResponseLeaderIdAndEpoch {
                    leader_id: partition.leader.unwrap_or(-1),
                    leader_epoch: partition.leader_epoch,
                };
            }
            return Err(data);
        }
        let log = &partition.log;
        let offset = wanted.fetch.fetch_offset;
        if wanted.fetch.last_fetched_epoch >= 0 {
            let (epoch, end_offset) = partition.end_offset_for_epoch(wanted.fetch.last_fetched_epoch);
            if epoch < 0 || end_offset < 0 || offset < log.log_start_offset() {
                return Err(failed(ErrorCode::OFFSET_OUT_OF_RANGE));
            }
            if epoch < wanted.fetch.last_fetched_epoch || end_offset < offset {
                return Ok(PartitionData {
                    partition_index: index,
                    high_watermark: log.high_watermark(),
                    last_stable_offset: log.last_stable_offset(),
                    log_start_offset: log.log_start_offset(),
                    diverging_epoch: FetchResponseEpochEndOffset { epoch, end_offset },
                    aborted_transactions: None,
                    records: Some(Cow::Borrowed(&[])),
                    ..PartitionData::default()
                });
            }
        }
        let read = log.read(offset, limit, is_first, plan.read_committed).map_err(failed)?;
        // A batch that is larger than the limit is left out, and so is the list.
        let end = if plan.read_committed { read.last_stable_offset } else { read.high_watermark };
        let is_cut = read.batches.is_empty() && limit > 0 && offset < end;
        let mut records = Vec::with_capacity(read.bytes);
        read.batches.iter().for_each(|batch| records.extend_from_slice(batch));
        let aborted = |aborted: grete_wire::records::AbortedTransaction| AbortedTransaction {
            producer_id: aborted.producer_id,
            first_offset: aborted.first_offset,
        };
        Ok(PartitionData {
            partition_index: index,
            high_watermark: read.high_watermark,
            last_stable_offset: read.last_stable_offset,
            log_start_offset: read.log_start_offset,
            aborted_transactions: read.aborted.filter(|_| !is_cut).map(|all| all.into_iter().map(aborted).collect()),
            records: Some(Cow::Owned(records)),
            ..PartitionData::default()
        })
    }

    fn respond_fetch(&mut self, context: &RequestContext, plan: PlannedFetch, data: FetchedData) {
        let leaders = data.leaders;
        let (session_id, mut partitions) = match self.fetch_sessions.get_mut(&context.broker) {
            Some(sessions) => sessions.respond(context.version, plan.session, data.partitions),
            None => (0, data.partitions),
        };
        partitions.sort_by_key(|(_, data)| place_in_response(data));
        let has_diverged = partitions.iter().any(|(_, data)| data.diverging_epoch.epoch >= 0);
        if has_diverged && context.version < FIRST_VERSION_WITH_DIVERGING_EPOCH {
            return self.reply(context, Response::Fetch(unsupported(session_id, &plan.named)));
        }
        let mut responses: Vec<FetchableTopicResponse<'static>> = Vec::new();
        for (wanted, data) in partitions {
            let name = &*wanted.topic.name;
            match responses.last_mut() {
                Some(last) if last.topic == name && last.topic_id == wanted.topic.id => last.partitions.push(data),
                _ => responses.push(FetchableTopicResponse {
                    topic: Cow::Owned(name.to_owned()),
                    topic_id: wanted.topic.id,
                    partitions: vec![data],
                }),
            }
        }
        let endpoint = |id: BrokerId| {
            self.live_broker(id).map(|broker| FetchResponseNodeEndpoint {
                node_id: id,
                host: Cow::Owned(broker.host.to_string()),
                port: broker.port.into(),
                rack: Self::rack_of(broker).map(Cow::Owned),
            })
        };
        let node_endpoints = if context.version >= FIRST_VERSION_WITH_LEADER {
            leaders.into_iter().filter_map(endpoint).collect()
        } else {
            Vec::new()
        };
        let response = FetchResponse { session_id, responses, node_endpoints, ..FetchResponse::default() };
        self.reply(context, Response::Fetch(response));
    }
}

/// Returns a key for the order of a response: in Kafka the partitions that are missing before the log is asked come
/// last, those of unknown topic ids first among them.
fn place_in_response(data: &PartitionData<'_>) -> u8 {
    match ErrorCode(data.error_code) {
        _ if data.aborted_transactions.is_none() => 0,
        ErrorCode::UNKNOWN_TOPIC_ID => 1,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => 2,
        _ => 0,
    }
}

fn is_enough(plan: &PlannedFetch, data: &FetchedData) -> bool {
    data.has_error || data.bytes >= plan.min_bytes || data.partitions.iter().all(|(_, data)| is_unknown(data))
}
