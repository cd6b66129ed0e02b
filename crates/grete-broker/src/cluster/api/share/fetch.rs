//! ShareFetch: acknowledges, acquires records, and waits for them (long poll).

use std::collections::{BTreeMap, BTreeSet};

use grete_wire::ErrorCode;
use grete_wire::messages::share_fetch::{PartitionData, ShareFetchableTopicResponse};
use grete_wire::messages::{ShareFetchRequest, ShareFetchResponse};

use super::{AckFailure, AckResults};
use crate::cluster::{Cluster, RequestContext};
use crate::ids::{BrokerId, Millis, TopicId};
use crate::message::{Request, Response};
use crate::share::session::{FINAL_EPOCH, FIRST_EPOCH, SessionKey};

/// Maximum time that a ShareFetch waits, whatever the client asks for.
const MAX_WAIT_MS: i64 = 5 * 60 * 1000;

/// Maximum bytes of a response, whatever the client asks for.
const MAX_FETCH_BYTES: usize = 55 * 1024 * 1024;

/// Acquires as many records as asked for (KIP-1206), instead of whole batches.
const RECORD_LIMIT: i8 = 1;

/// ShareFetch whose acknowledgements are applied.
#[derive(Debug)]
pub(in crate::cluster) struct PlannedShareFetch {
    pub(super) session: SessionKey,
    /// Epoch of the request.
    pub(super) epoch: i32,
    pub(super) partitions: Vec<(TopicId, i32)>,
    pub(super) min_bytes: usize,
    pub(super) max_bytes: usize,
    pub(super) max_records: i64,
    pub(super) whole_batches: bool,
    pub(super) acks: AckResults,
    /// Time at which the answer is due, with or without records.
    pub(super) deadline: Millis,
}

/// Partitions of a response.
#[derive(Debug, Default)]
pub(super) struct ShareFetched {
    pub(super) partitions: BTreeMap<(TopicId, i32), PartitionData<'static>>,
    pub(super) bytes: usize,
    pub(super) records: i64,
    pub(super) has_error: bool,
    pub(super) leaders: BTreeSet<BrokerId>,
}

impl Cluster {
    pub(super) fn share_fetch(&mut self, context: &RequestContext, request: &ShareFetchRequest<'_>) {
        let session = match self.begin_share_fetch(context, request) {
            Ok(session) => session,
            Err(error) => return self.refuse(context, &Request::ShareFetch(request.clone()), error),
        };
        let mut acks = AckResults::new();
        for topic in &request.topics {
            for partition in topic.partitions.iter().filter(|partition| !partition.acknowledgement_batches.is_empty()) {
                let batches = &partition.acknowledgement_batches;
                let entries = batches.iter().map(|ack| (ack.first_offset, ack.last_offset, &*ack.acknowledge_types));
                let place = (topic.topic_id, partition.partition_index);
                let result = self.acknowledge_partition(context, &session, place, entries, request.is_renew_ack);
                acks.push((place, result));
            }
        }
        let is_final = request.share_session_epoch == FINAL_EPOCH;
        if is_final {
            self.end_session(&session);
        }
        let acquires = !is_final && !request.is_renew_ack && request.max_records > 0;
        let wait = i64::from(request.max_wait_ms).min(MAX_WAIT_MS);
        let plan = PlannedShareFetch {
            deadline: self.now.saturating_add(wait),
            partitions: if acquires { self.share.sessions().rotate(&session) } else { Vec::new() },
            session,
            epoch: request.share_session_epoch,
            min_bytes: usize::try_from(request.min_bytes).unwrap_or(0),
            max_bytes: usize::try_from(request.max_bytes).unwrap_or(0).min(MAX_FETCH_BYTES),
            max_records: request.max_records.into(),
            whole_batches: request.share_acquire_mode != RECORD_LIMIT,
            acks,
        };
        let fetched = self.acquire_planned(context, &plan, wait <= 0);
        if wait <= 0 || plan.partitions.is_empty() || fetched.has_error || fetched.records > 0 {
            self.respond_share_fetch(context, plan, fetched);
        } else {
            self.wait_for_records(context, plan);
        }
    }

    /// Begins or continues the session of a request.
    fn begin_share_fetch(
        &mut self,
        context: &RequestContext,
        request: &ShareFetchRequest<'_>,
    ) -> Result<SessionKey, ErrorCode> {
        let key = self.session_key(context, request.group_id.as_deref(), request.member_id.as_deref())?;
        let waits = request.max_wait_ms > 0 || request.min_bytes > 0 || request.max_records > 0;
        if request.is_renew_ack && (waits || request.max_bytes > 0) {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let named = request.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|partition| ((topic.topic_id, partition.partition_index), partition))
        });
        let has_acks = named.clone().any(|(_, partition)| !partition.acknowledgement_batches.is_empty());
        let added: Vec<(TopicId, i32)> = named.map(|(place, _)| place).collect();
        match request.share_session_epoch {
            FIRST_EPOCH if has_acks => Err(ErrorCode::INVALID_REQUEST),
            FIRST_EPOCH => {
                let limit = self.share.config().max_sessions;
                let unique: BTreeSet<_> = added.iter().copied().collect();
                let is_replaced =
                    self.share.sessions().begin(key.clone(), context.conn, unique.into_iter().collect(), limit)?;
                if is_replaced {
                    self.release_session(&key);
                }
                Ok(key)
            }
            FINAL_EPOCH if self.share.sessions().contains(&key) => Ok(key),
            FINAL_EPOCH => Err(ErrorCode::SHARE_SESSION_NOT_FOUND),
            epoch => {
                self.share.sessions().advance(&key, epoch)?;
                let forgotten = request.forgotten_topics_data.iter();
                let forgotten =
                    forgotten.flat_map(|topic| topic.partitions.iter().map(|index| (topic.topic_id, *index)));
                let forgotten: Vec<(TopicId, i32)> = forgotten.collect();
                self.share.sessions().change(&key, added, &forgotten);
                Ok(key)
            }
        }
    }

    pub(super) fn respond_share_fetch(
        &mut self,
        context: &RequestContext,
        plan: PlannedShareFetch,
        mut fetched: ShareFetched,
    ) {
        for ((topic, partition_index), result) in plan.acks {
            let data = fetched
                .partitions
                .entry((topic, partition_index))
                .or_insert_with(|| PartitionData { partition_index, ..PartitionData::default() });
            let failure = result.err();
            let error = failure.map_or(ErrorCode::NONE, |failure| failure.code);
            data.acknowledge_error_code = error.0;
            data.acknowledge_error_message = failure.and_then(AckFailure::text);
            if error == ErrorCode::NOT_LEADER_OR_FOLLOWER {
                let (leader_id, leader_epoch) = self.leader_of(topic, partition_index);
                (data.current_leader.leader_id, data.current_leader.leader_epoch) = (leader_id, leader_epoch);
                fetched.leaders.insert(leader_id);
            }
        }
        // The first response of a session names all partitions.
        let first = plan.partitions.iter().filter(|_| plan.epoch == FIRST_EPOCH);
        for &(topic, partition_index) in first {
            let new = || PartitionData { partition_index, ..PartitionData::default() };
            fetched.partitions.entry((topic, partition_index)).or_insert_with(new);
        }
        let mut responses: Vec<ShareFetchableTopicResponse<'static>> = Vec::new();
        for ((topic_id, _), data) in fetched.partitions {
            match responses.last_mut().filter(|last| last.topic_id == topic_id) {
                Some(last) => last.partitions.push(data),
                None => responses.push(ShareFetchableTopicResponse { topic_id, partitions: vec![data] }),
            }
        }
        let response = ShareFetchResponse {
            acquisition_lock_timeout_ms: self.share.settings(&plan.session.group).record_lock_duration_ms,
            responses,
            node_endpoints: self.fetch_endpoints(fetched.leaders),
            ..ShareFetchResponse::default()
        };
        self.reply(context, Response::ShareFetch(response));
    }
}
