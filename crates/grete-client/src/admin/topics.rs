//! Topics.

use std::sync::Arc;

use grete_core::admin::{AdminReply, NewTopic, Operation, TopicDescription, Wish};
use grete_wire::error_code::ErrorCode;

use super::{Admin, Call, Each};
use crate::error::{ClientError, Subject};

/// A name, and what there is to say of it.
type Found = (String, Result<TopicDescription, ClientError>);

fn topic(name: &Arc<str>) -> Subject {
    Subject::Topic(name.to_string())
}

impl Admin {
    /// Creates topics; true: it was created, false: it was there (with `if_not_exists`). Returns when every broker knows
    /// them and each partition has a leader, so that a produce to any of them works.
    ///
    /// # Errors
    /// When nobody answers; what became of each topic is in the results.
    pub fn create_topics(
        &self,
        call: &Call<'_>,
        topics: Vec<NewTopic>,
        if_not_exists: bool,
        validate_only: bool,
    ) -> Result<Each<bool>, ClientError> {
        let wished: Vec<(Arc<str>, Wish)> = topics.iter().map(|topic| (topic.name.clone(), wish(topic))).collect();
        let results = match self.ask(call, Operation::CreateTopics { topics, validate_only })? {
            AdminReply::Done(results) => call.each(results, wished.iter().map(|(name, _)| topic(name))),
            other => return Err(call.misplaced(&other)),
        };
        let accept = |result| match result {
            Err(ClientError::Refused { code: ErrorCode::TOPIC_ALREADY_EXISTS, .. }) if if_not_exists => Ok(false),
            result => result.map(|()| true),
        };
        let results: Each<bool> = results.into_iter().map(accept).collect();
        if !validate_only {
            self.spread(call, pick(wished, &results))?;
        }
        Ok(results)
    }

    /// Deletes topics; returns when no broker knows them any more.
    ///
    /// # Errors
    /// When nobody answers; what became of each topic is in the results.
    pub fn delete_topics(&self, call: &Call<'_>, names: Vec<Arc<str>>) -> Result<Each<()>, ClientError> {
        let results = match self.ask(call, Operation::DeleteTopics { names: names.clone() })? {
            AdminReply::Done(results) => call.each(results, names.iter().map(topic)),
            other => return Err(call.misplaced(&other)),
        };
        self.spread(call, pick(names.into_iter().map(|name| (name, Wish::Gone)).collect(), &results))?;
        Ok(results)
    }

    /// Adds partitions to topics, up to these totals; returns when every broker knows them.
    ///
    /// # Errors
    /// When nobody answers; what became of each topic is in the results.
    pub fn create_partitions(
        &self,
        call: &Call<'_>,
        totals: Vec<(Arc<str>, i32)>,
        validate_only: bool,
    ) -> Result<Each<()>, ClientError> {
        let count = |total: i32| Wish::Partitions(usize::try_from(total).unwrap_or(0));
        let wished: Vec<(Arc<str>, Wish)> = totals.iter().map(|(name, total)| (name.clone(), count(*total))).collect();
        let results = match self.ask(call, Operation::CreatePartitions { totals, validate_only })? {
            AdminReply::Done(results) => call.each(results, wished.iter().map(|(name, _)| topic(name))),
            other => return Err(call.misplaced(&other)),
        };
        if !validate_only {
            self.spread(call, pick(wished, &results))?;
        }
        Ok(results)
    }

    /// All topics, as one broker has them.
    ///
    /// # Errors
    /// When no broker answers in time.
    pub fn all_topics(&self, call: &Call<'_>) -> Result<Vec<TopicDescription>, ClientError> {
        // A topic that is refused here is not ours to see.
        let mut topics: Vec<_> = self.metadata(call, None)?.into_iter().filter_map(|(_, found)| found.ok()).collect();
        topics.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// These topics, as one broker has them.
    ///
    /// # Errors
    /// When no broker answers in time; what there is to say of each topic is in the results.
    pub fn describe_topics(
        &self,
        call: &Call<'_>,
        names: Vec<Arc<str>>,
    ) -> Result<Each<TopicDescription>, ClientError> {
        let mut found = self.metadata(call, Some(names.clone()))?;
        let take = |name: &Arc<str>| match found.iter().position(|(other, _)| **other == **name) {
            Some(index) => found.swap_remove(index).1,
            None => Err(call.refused(topic(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None)),
        };
        Ok(names.iter().map(take).collect())
    }

    fn metadata(&self, call: &Call<'_>, names: Option<Vec<Arc<str>>>) -> Result<Vec<Found>, ClientError> {
        let topics = match self.ask(call, Operation::DescribeTopics { names })? {
            AdminReply::Topics(results) => call.only(results, Subject::Other("topics".into()))?,
            other => return Err(call.misplaced(&other)),
        };
        let named = topics.into_iter().map(|(name, found)| {
            let found = found.map_err(|error| call.failed(Subject::Topic(name.clone()), error));
            (name, found)
        });
        Ok(named.collect())
    }
}

/// What every broker shall know of a new topic.
fn wish(topic: &NewTopic) -> Wish {
    // -1 is the broker's own default: one at least.
    let count = usize::try_from(topic.partitions).unwrap_or(1).max(topic.assignment.len());
    Wish::Partitions(count)
}

/// The wishes whose item was done.
fn pick<T>(wished: Vec<(Arc<str>, Wish)>, results: &Each<T>) -> Vec<(Arc<str>, Wish)> {
    wished.into_iter().zip(results).filter(|(_, result)| result.is_ok()).map(|(wish, _)| wish).collect()
}
