//! DeleteTopics and DeleteRecords.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use grete_wire::ErrorCode;
use grete_wire::messages::{
    DeletableTopicResult, DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};

use crate::cluster::{Cluster, RequestContext};
use crate::ids::TopicId;
use crate::message::Response;
use crate::topics::TopicChange;

impl Cluster {
    pub(in crate::cluster) fn delete_topics(&mut self, context: &RequestContext, request: &DeleteTopicsRequest<'_>) {
        let by_name = |name: &Cow<'_, str>| DeleteTopicState { name: Some(Cow::Owned(name.to_string())), topic_id: 0 };
        let listed: Vec<DeleteTopicState<'_>> = match context.version {
            ..6 => request.topic_names.iter().map(by_name).collect(),
            _ => request.topics.clone(),
        };
        let responses = self.delete_listed(&listed);
        let response = DeleteTopicsResponse { responses, ..DeleteTopicsResponse::default() };
        self.reply(context, Response::DeleteTopics(response));
    }

    /// Deletes topics. A name or id that is listed twice gets one refusal, and so does a name whose id is listed as well.
    fn delete_listed(&mut self, listed: &[DeleteTopicState<'_>]) -> Vec<DeletableTopicResult<'static>> {
        const INVALID: ErrorCode = ErrorCode::INVALID_REQUEST;
        let mut times: HashMap<(Option<&str>, TopicId), usize> = HashMap::new();
        for topic in listed {
            *times.entry((topic.name.as_deref(), topic.topic_id)).or_default() += 1;
        }
        let times_of = |name: Option<&str>, id| times.get(&(name, id)).copied().unwrap_or_default();
        let mut answered = HashSet::new();
        let mut responses = Vec::new();
        for topic in listed {
            let (name, id) = (topic.name.as_deref(), topic.topic_id);
            let (found, missing) = match (name, id) {
                (None, 0) => {
                    responses.push(undeleted(topic, INVALID, "A topic needs a name or an id."));
                    continue;
                }
                (Some(_), 1..) => {
                    responses.push(undeleted(topic, INVALID, "A topic has a name or an id, not both."));
                    continue;
                }
                (Some(name), 0) => (self.topics.get(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                (None, id) => (self.topics.by_id(id), ErrorCode::UNKNOWN_TOPIC_ID),
            };
            if !answered.insert((name, id)) {
                continue;
            }
            if times_of(name, id) > 1 {
                let message = if name.is_some() { "Duplicate topic name." } else { "Duplicate topic id." };
                responses.push(undeleted(topic, INVALID, message));
                continue;
            }
            let Some((found_id, found_name)) = found.map(|topic| (topic.id, topic.name.to_string())) else {
                responses.push(undeleted(topic, missing, missing.message()));
                continue;
            };
            if name.is_some() && times_of(None, found_id) > 0 {
                let found = DeleteTopicState { name: topic.name.clone(), topic_id: found_id };
                responses.push(undeleted(&found, INVALID, "The topic of this name is listed by its id as well."));
                continue;
            }
            if name.is_none() && times_of(Some(&found_name), 0) == 1 {
                // The refusal of the name is the answer.
                continue;
            }
            self.delete_topic(&found_name);
            responses.push(DeletableTopicResult {
                name: Some(Cow::Owned(found_name)),
                topic_id: found_id,
                ..DeletableTopicResult::default()
            });
        }
        responses
    }

    /// Deletes a topic with its records and its committed offsets. Returns whether the topic existed.
    pub fn delete_topic(&mut self, name: &str) -> bool {
        let Some(topic) = self.topics.get(name) else { return false };
        let (id, partitions) = (topic.id, i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX));
        let bytes: usize = topic.partitions.iter().map(|partition| partition.log.bytes()).sum();
        self.change_topics(TopicChange::Deleted { id });
        self.log_bytes = self.log_bytes.saturating_sub(bytes);
        self.groups.on_topic_deleted(name, &mut self.effects);
        self.share.forget_topic(id, &mut self.effects);
        for partition in 0..partitions {
            self.complete_fetches(id, partition, true);
        }
        true
    }

    fn delete_partition_records(
        &mut self,
        context: &RequestContext,
        topic: &str,
        index: i32,
        offset: i64,
    ) -> Result<i64, ErrorCode> {
        let found = self.topics.get(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let partition = found.partition(index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        self.check_leader(context, partition, -1)?;
        // A topic without any policy keeps all records, and may lose them by request.
        let has_policy = |policy| found.config.list_contains("cleanup.policy", policy);
        if has_policy("compact") && !has_policy("delete") {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        let id = found.id;
        self.delete_before((id, index), offset)
    }

    pub(in crate::cluster) fn delete_records(&mut self, context: &RequestContext, request: &DeleteRecordsRequest<'_>) {
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                let result =
                    self.delete_partition_records(context, &topic.name, partition.partition_index, partition.offset);
                partitions.push(DeleteRecordsPartitionResult {
                    partition_index: partition.partition_index,
                    low_watermark: result.unwrap_or(-1),
                    error_code: result.err().unwrap_or(ErrorCode::NONE).0,
                });
            }
            topics.push(DeleteRecordsTopicResult { name: Cow::Owned(topic.name.to_string()), partitions });
        }
        let response = DeleteRecordsResponse { topics, ..DeleteRecordsResponse::default() };
        self.reply(context, Response::DeleteRecords(response));
    }
}

fn undeleted(listed: &DeleteTopicState<'_>, error: ErrorCode, message: &'static str) -> DeletableTopicResult<'static> {
    DeletableTopicResult {
        name: listed.name.as_ref().map(|name| Cow::Owned(name.to_string())),
        topic_id: listed.topic_id,
        error_code: error.0,
        error_message: Some(Cow::Borrowed(message)),
    }
}
