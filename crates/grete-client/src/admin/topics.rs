//! Topics: create, delete, extend and describe topics.

use std::sync::Arc;

use grete_proto::admin::{AdminReply, ExpectedTopicState, NewTopic, Operation, TopicDescription};
use grete_wire::error_code::ErrorCode;

use super::{Admin, CallContext, ItemResults};
use crate::error::{ClientError, Subject};

/// Name of a topic, and its description.
type NamedTopicResult = (String, Result<TopicDescription, ClientError>);

fn topic_subject(name: &Arc<str>) -> Subject {
    Subject::Topic(name.to_string())
}

impl Admin {
    /// Creates topics. True: created; false: it existed (with `if_not_exists`). Returns when every broker knows the
    /// topics and each partition has a leader, so that a produce to any of them works.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single topics are in the results.
    pub fn create_topics(
        &self,
        call: &CallContext<'_>,
        topics: Vec<NewTopic>,
        if_not_exists: bool,
        validate_only: bool,
    ) -> Result<ItemResults<bool>, ClientError> {
        let expected: Vec<(Arc<str>, ExpectedTopicState)> =
            topics.iter().map(|topic| (topic.name.clone(), expected_partitions(topic))).collect();
        let results = match self.execute(call, Operation::CreateTopics { topics, validate_only })? {
            AdminReply::Done(results) => {
                call.item_results(results, expected.iter().map(|(name, _)| topic_subject(name)))
            }
            other => return Err(call.wrong_reply_type(&other)),
        };
        let accept = |result| match result {
            Err(ClientError::Refused { code: ErrorCode::TOPIC_ALREADY_EXISTS, .. }) if if_not_exists => Ok(false),
            result => result.map(|()| true),
        };
        let results: ItemResults<bool> = results.into_iter().map(accept).collect();
        if !validate_only {
            self.await_propagation(call, successful(expected, &results))?;
        }
        Ok(results)
    }

    /// Deletes topics. Returns when no broker knows them any more.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single topics are in the results.
    pub fn delete_topics(&self, call: &CallContext<'_>, names: Vec<Arc<str>>) -> Result<ItemResults<()>, ClientError> {
        let results = match self.execute(call, Operation::DeleteTopics { names: names.clone() })? {
            AdminReply::Done(results) => call.item_results(results, names.iter().map(topic_subject)),
            other => return Err(call.wrong_reply_type(&other)),
        };
        self.await_propagation(
            call,
            successful(names.into_iter().map(|name| (name, ExpectedTopicState::Gone)).collect(), &results),
        )?;
        Ok(results)
    }

    /// Adds partitions to topics up to these totals. Returns when every broker knows them.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single topics are in the results.
    pub fn create_partitions(
        &self,
        call: &CallContext<'_>,
        totals: Vec<(Arc<str>, i32)>,
        validate_only: bool,
    ) -> Result<ItemResults<()>, ClientError> {
        let count = |total: i32| ExpectedTopicState::Partitions(usize::try_from(total).unwrap_or(0));
        let expected: Vec<(Arc<str>, ExpectedTopicState)> =
            totals.iter().map(|(name, total)| (name.clone(), count(*total))).collect();
        let results = match self.execute(call, Operation::CreatePartitions { totals, validate_only })? {
            AdminReply::Done(results) => {
                call.item_results(results, expected.iter().map(|(name, _)| topic_subject(name)))
            }
            other => return Err(call.wrong_reply_type(&other)),
        };
        if !validate_only {
            self.await_propagation(call, successful(expected, &results))?;
        }
        Ok(results)
    }

    /// Returns all topics, as seen by one broker, sorted by name.
    ///
    /// # Errors
    /// Fails if no broker answers in time.
    pub fn all_topics(&self, call: &CallContext<'_>) -> Result<Vec<TopicDescription>, ClientError> {
        // A topic that is refused here may not be seen by this user.
        let mut topics: Vec<_> = self.metadata(call, None)?.into_iter().filter_map(|(_, found)| found.ok()).collect();
        topics.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// Returns these topics, as seen by one broker.
    ///
    /// # Errors
    /// Fails if no broker answers in time; errors of single topics are in the results.
    pub fn describe_topics(
        &self,
        call: &CallContext<'_>,
        names: Vec<Arc<str>>,
    ) -> Result<ItemResults<TopicDescription>, ClientError> {
        let mut found = self.metadata(call, Some(names.clone()))?;
        let take = |name: &Arc<str>| match found.iter().position(|(other, _)| **other == **name) {
            Some(index) => found.swap_remove(index).1,
            None => Err(call.refused_error(topic_subject(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None)),
        };
        Ok(names.iter().map(take).collect())
    }

    fn metadata(
        &self,
        call: &CallContext<'_>,
        names: Option<Vec<Arc<str>>>,
    ) -> Result<Vec<NamedTopicResult>, ClientError> {
        let topics = match self.execute(call, Operation::DescribeTopics { names })? {
            AdminReply::Topics(results) => call.single_result(results, Subject::Other("topics".into()))?,
            other => return Err(call.wrong_reply_type(&other)),
        };
        let named = topics.into_iter().map(|(name, found)| {
            let found = found.map_err(|error| call.item_error(Subject::Topic(name.clone()), error));
            (name, found)
        });
        Ok(named.collect())
    }
}

/// Returns the state of a new topic that every broker must know.
fn expected_partitions(topic: &NewTopic) -> ExpectedTopicState {
    // -1 selects the broker's default, which is at least one.
    let count = usize::try_from(topic.partitions).unwrap_or(1).max(topic.assignment.len());
    ExpectedTopicState::Partitions(count)
}

/// Returns the expected states of the items that succeeded.
fn successful<T>(
    expected: Vec<(Arc<str>, ExpectedTopicState)>,
    results: &ItemResults<T>,
) -> Vec<(Arc<str>, ExpectedTopicState)> {
    expected.into_iter().zip(results).filter(|(_, result)| result.is_ok()).map(|(item, _)| item).collect()
}
