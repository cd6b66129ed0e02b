//! ShareAcknowledge, and the acknowledgements of a ShareFetch.

use std::collections::BTreeSet;

use grete_wire::ErrorCode;
use grete_wire::messages::share_acknowledge::{LeaderIdAndEpoch, PartitionData, ShareAcknowledgeTopicResponse};
use grete_wire::messages::{ShareAcknowledgeRequest, ShareAcknowledgeResponse};

use super::{AckEntry, AckFailure, AckResults};
use crate::cluster::{Cluster, RequestContext};
use crate::ids::{Millis, TopicId};
use crate::message::{Request, Response};
use crate::share::partition::{AckBatch, AckRules, SharePartition};
use crate::share::session::{FINAL_EPOCH, FIRST_EPOCH, SessionKey};

impl Cluster {
    pub(super) fn share_acknowledge(&mut self, context: &RequestContext, request: &ShareAcknowledgeRequest<'_>) {
        let begun = self.begin_acknowledge(context, request);
        let key = match begun {
            Ok(key) => key,
            Err(error) => return self.refuse(context, &Request::ShareAcknowledge(request.clone()), error),
        };
        let mut results = AckResults::new();
        for topic in &request.topics {
            for partition in topic.partitions.iter().filter(|partition| !partition.acknowledgement_batches.is_empty()) {
                let batches = &partition.acknowledgement_batches;
                let entries = batches.iter().map(|ack| (ack.first_offset, ack.last_offset, &*ack.acknowledge_types));
                let place = (topic.topic_id, partition.partition_index);
                let result = self.acknowledge_partition(context, &key, place, entries, request.is_renew_ack);
                results.push((place, result));
            }
        }
        if request.share_session_epoch == FINAL_EPOCH {
            self.end_session(&key);
        }
        let lock = self.share.settings(&key.group).record_lock_duration_ms;
        let response = self.acknowledged(results, lock);
        self.reply(context, Response::ShareAcknowledge(response));
    }

    fn begin_acknowledge(
        &mut self,
        context: &RequestContext,
        request: &ShareAcknowledgeRequest<'_>,
    ) -> Result<SessionKey, ErrorCode> {
        let key = self.session_key(context, request.group_id.as_deref(), request.member_id.as_deref())?;
        match request.share_session_epoch {
            FIRST_EPOCH => Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH),
            FINAL_EPOCH if self.share.sessions().contains(&key) => Ok(key),
            FINAL_EPOCH => Err(ErrorCode::SHARE_SESSION_NOT_FOUND),
            epoch => self.share.sessions().advance(&key, epoch).map(|()| key),
        }
    }

    fn acknowledged(&self, results: AckResults, lock: i32) -> ShareAcknowledgeResponse<'static> {
        let mut leaders = BTreeSet::new();
        let mut responses: Vec<ShareAcknowledgeTopicResponse<'static>> = Vec::new();
        for ((topic_id, partition_index), result) in results {
            let failure = result.err();
            let error = failure.map_or(ErrorCode::NONE, |failure| failure.code);
            let mut data = PartitionData {
                partition_index,
                error_code: error.0,
                error_message: failure.and_then(AckFailure::text),
                ..PartitionData::default()
            };
            if error == ErrorCode::NOT_LEADER_OR_FOLLOWER {
                let (leader_id, leader_epoch) = self.leader_of(topic_id, partition_index);
                data.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
                leaders.insert(leader_id);
            }
            match responses.last_mut().filter(|last| last.topic_id == topic_id) {
                Some(last) => last.partitions.push(data),
                None => responses.push(ShareAcknowledgeTopicResponse { topic_id, partitions: vec![data] }),
            }
        }
        ShareAcknowledgeResponse {
            acquisition_lock_timeout_ms: lock,
            responses,
            node_endpoints: self.acknowledge_endpoints(leaders),
            ..ShareAcknowledgeResponse::default()
        }
    }

    /// Applies the acknowledgements of a partition.
    ///
    /// # Errors
    /// The partition cannot be read here, the acknowledgements are not valid, or the member does not have the records.
    pub(super) fn acknowledge_partition<'a>(
        &mut self,
        context: &RequestContext,
        session: &SessionKey,
        (topic, partition): (TopicId, i32),
        entries: impl Iterator<Item = AckEntry<'a>>,
        allow_renew: bool,
    ) -> Result<(), AckFailure> {
        let no_text = |code| AckFailure { code, has_text: false };
        let batches = AckBatch::read(entries, allow_renew).map_err(no_text)?;
        let (leader_epoch, log_start) = self.readable(context, topic, partition)?;
        let settings = self.share.settings(&session.group);
        let rules = AckRules {
            lock_ends: self.now.saturating_add(Millis::from(settings.record_lock_duration_ms)),
            delivery_count_limit: settings.delivery_count_limit,
        };
        let key = Self::partition_key(session, topic, partition);
        let apply = |found: &mut SharePartition| {
            let mut changed = found.follow(leader_epoch, log_start);
            let result = found.acknowledge(&session.member, &batches, rules);
            let result = result.map(|acknowledged| changed.extend(acknowledged));
            (result, changed)
        };
        let result = self.share.with_partition(&key, &mut self.effects, apply);
        result.unwrap_or(Err(ErrorCode::INVALID_RECORD_STATE))?;
        // Released records wait for a member, and others may follow where the window was full.
        self.complete_share_fetches(topic, partition, false);
        Ok(())
    }

    /// Ends a session, and gives back what its member has of the partitions that this broker leads.
    pub(in crate::cluster) fn end_session(&mut self, session: &SessionKey) {
        self.share.sessions().end(session);
        self.release_session(session);
    }

    /// Gives back what a session's member has.
    pub(in crate::cluster) fn release_session(&mut self, session: &SessionKey) {
        let topics = &self.topics;
        let leads = |topic: TopicId, partition: i32| {
            let found = topics.by_id(topic).and_then(|topic| topic.partition(partition));
            found.is_some_and(|found| found.leader == Some(session.broker))
        };
        for (topic, partition) in self.share.release(session, leads, &mut self.effects) {
            self.complete_share_fetches(topic, partition, false);
        }
    }
}
