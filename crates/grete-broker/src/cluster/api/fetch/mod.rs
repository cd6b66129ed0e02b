//! Fetch: reads batches, and waits for bytes (long poll).

mod older_versions;
mod read;
mod waiting;

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::fetch::SharedFetchResponse;
use grete_wire::messages::{
    FetchRequest, FetchResponse, FetchResponseNodeEndpoint, FetchableTopicResponse, PartitionData,
};

use self::older_versions::{FIRST_VERSION_WITH_DIVERGING_EPOCH, named_partitions, unsupported};
use self::read::FetchedData;
pub(in crate::cluster) use self::waiting::WaitingFetch;
use crate::cluster::{Cluster, RequestContext};
use crate::fetch_session::{FetchSessions, SessionUse, WantedPartitions};
use crate::ids::BrokerId;
use crate::message::Response;

/// Maximum time that a Fetch waits, whatever the client asks for.
const MAX_WAIT_MS: i64 = 5 * 60 * 1000;

/// First version whose response names the leader of a partition that moved (KIP-951).
const FIRST_VERSION_WITH_LEADER: i16 = 16;

/// First version in which consumers read from followers (KIP-392).
const FIRST_VERSION_WITH_READ_REPLICA: i16 = 11;

/// Maximum bytes of a response, whatever the client asks for: Kafka's default of `fetch.max.bytes` of the broker.
const MAX_FETCH_BYTES: usize = 55 * 1024 * 1024;

/// Fetch with its session resolved.
#[derive(Debug)]
struct PlannedFetch {
    session: SessionUse,
    partitions: Arc<WantedPartitions>,
    min_bytes: usize,
    max_bytes: usize,
    read_committed: bool,
    /// Rack of the consumer; empty: none.
    rack: String,
    /// By slot, whether the partition was there when the request began to wait.
    awaited: Vec<bool>,
    /// Partitions that the request itself names, if it continues a session in a version without diverging epochs.
    named: Vec<(String, Vec<i32>)>,
}

impl Cluster {
    pub(in crate::cluster) fn fetch(&mut self, context: &RequestContext, request: &FetchRequest<'_>) {
        let seed = self.rng.next_u64();
        let sessions = self.fetch_sessions.entry(context.broker).or_insert_with(|| FetchSessions::new(seed));
        let name_of = |id| self.topics.by_id(id).map(|topic| Arc::clone(&topic.name));
        let (session, partitions) = match sessions.begin(context.version, request, name_of) {
            Ok(begun) => begun,
            Err(error) => {
                let response = FetchResponse { error_code: error.0, ..FetchResponse::default() };
                return self.reply(context, Response::Fetch(response.into()));
            }
        };
        let plan = PlannedFetch {
            session,
            partitions,
            awaited: Vec::new(),
            min_bytes: usize::try_from(request.min_bytes).unwrap_or(0),
            max_bytes: usize::try_from(request.max_bytes).unwrap_or(0).min(MAX_FETCH_BYTES),
            read_committed: request.isolation_level == 1,
            rack: request.rack_id.to_string(),
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

    fn respond_fetch(&mut self, context: &RequestContext, plan: PlannedFetch, data: FetchedData) {
        let leaders = data.leaders;
        let (session_id, mut partitions) = match self.fetch_sessions.get_mut(&context.broker) {
            Some(sessions) => sessions.respond(context.version, plan.session, plan.partitions, data.partitions),
            None => {
                let found = data.partitions.into_iter();
                (0, found.filter_map(|(slot, data)| Some((plan.partitions.topic(slot)?.clone(), data))).collect())
            }
        };
        partitions.sort_by_key(|(_, fetched)| place_in_response(&fetched.data));
        let has_diverged = partitions.iter().any(|(_, fetched)| fetched.data.diverging_epoch.epoch >= 0);
        if has_diverged && context.version < FIRST_VERSION_WITH_DIVERGING_EPOCH {
            return self.reply(context, Response::Fetch(unsupported(session_id, &plan.named).into()));
        }
        let mut responses: Vec<FetchableTopicResponse<'static>> = Vec::new();
        let mut batches = Vec::with_capacity(partitions.len());
        for (topic, fetched) in partitions {
            batches.push(fetched.batches);
            let data = fetched.data;
            match responses.last_mut() {
                Some(last) if last.topic == *topic.name && last.topic_id == topic.id => last.partitions.push(data),
                _ => responses.push(FetchableTopicResponse {
                    topic: Cow::Owned(topic.name.to_string()),
                    topic_id: topic.id,
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
        self.reply(context, Response::Fetch(SharedFetchResponse { response, batches }));
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
    data.has_error || data.bytes >= plan.min_bytes || data.unknown == plan.partitions.len()
}
