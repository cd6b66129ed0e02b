//! One call of a user: its name, its time, and what became of what it asked.

use std::time::{Duration, Instant};

use grete_core::admin::{AdminError, AdminReply};
use grete_core::ids::TopicPartition;
use grete_core::request::RequestError;
use grete_wire::error_code::ErrorCode;

use crate::error::{ClientError, Subject};

/// One result for each thing that was asked for, in that order.
pub type Each<T> = Vec<Result<T, ClientError>>;

/// A call under way. However many questions it takes, it has one time.
pub struct Call<'c> {
    operation: &'c str,
    timeout: Duration,
    deadline: Instant,
    interrupted: &'c (dyn Fn() -> bool + Sync),
}

impl<'c> Call<'c> {
    /// Begins now. `interrupted` is asked after each Unix signal that ends a sleep of the calling thread: whether to give up.
    #[must_use]
    pub fn new(operation: &'c str, timeout: Duration, interrupted: &'c (dyn Fn() -> bool + Sync)) -> Self {
        Self { operation, timeout, deadline: Instant::now() + timeout, interrupted }
    }

    pub(super) fn operation(&self) -> &str {
        self.operation
    }

    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    pub(super) fn interrupted(&self) -> bool {
        (self.interrupted)()
    }

    /// The same call with at most so much time for its next question.
    pub(super) fn within(&self, most: Duration) -> Self {
        let deadline = self.deadline.min(Instant::now() + most);
        Self { operation: self.operation, timeout: self.timeout, deadline, interrupted: self.interrupted }
    }

    pub(super) fn unfinished(&self, detail: &str) -> ClientError {
        let (operation, seconds) = (self.operation.to_owned(), self.timeout.as_secs_f64());
        ClientError::Unfinished { operation, seconds, detail: detail.to_owned() }
    }

    pub(super) fn refused(&self, subject: Subject, code: ErrorCode, message: Option<String>) -> ClientError {
        refusal(self.operation, subject, code, message)
    }

    /// An item's error in a user's terms.
    pub(super) fn failed(&self, subject: Subject, error: AdminError) -> ClientError {
        let AdminError::TimedOut { last, .. } = &error else { return failure(self.operation, subject, error) };
        let unreachable = *last == Some(RequestError::NoConnection.to_string());
        let hint = if unreachable { "; check that brokers can be reached under bootstrap.servers" } else { "" };
        self.unfinished(&format!("{error}{hint}"))
    }

    /// The results of several items; `subject` names each.
    pub(super) fn each<T>(
        &self,
        results: Vec<Result<T, AdminError>>,
        subjects: impl IntoIterator<Item = Subject>,
    ) -> Each<T> {
        let named = results.into_iter().zip(subjects);
        named.map(|(result, subject)| result.map_err(|error| self.failed(subject, error))).collect()
    }

    /// The result of the only item.
    pub(super) fn only<T>(&self, results: Vec<Result<T, AdminError>>, subject: Subject) -> Result<T, ClientError> {
        match results.into_iter().next() {
            Some(result) => result.map_err(|error| self.failed(subject, error)),
            None => Err(self.unfinished("there was no answer")),
        }
    }

    /// The core answers each kind of question with its own kind of answer.
    pub(super) fn misplaced(&self, reply: &AdminReply) -> ClientError {
        ClientError::Invalid(format!("{}: the answer does not fit the question: {reply:?}", self.operation))
    }
}

/// What a broker said no to.
pub(crate) fn refusal(operation: &str, subject: Subject, code: ErrorCode, message: Option<String>) -> ClientError {
    let message = match (code, &subject, message) {
        // What brokers say of these speaks of servers and partitions, whatever was asked.
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Subject::Topic(_), _)
        | (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Subject::Partition(..), None) => "there is no such topic".to_owned(),
        (ErrorCode::GROUP_ID_NOT_FOUND, Subject::Group(_), None) => {
            "there is no classic or consumer group of that id".to_owned()
        }
        (ErrorCode::NON_EMPTY_GROUP, Subject::Group(_), None) => "the group has members".to_owned(),
        (code, _, message) => message.unwrap_or_else(|| code.message().to_owned()),
    };
    ClientError::Refused { operation: operation.to_owned(), subject, code, message }
}

/// An error that time has no part in, in a user's terms.
pub(crate) fn failure(operation: &str, subject: Subject, error: AdminError) -> ClientError {
    match error {
        AdminError::Refused { code, message } => refusal(operation, subject, code, message),
        AdminError::NoPartition { .. } => {
            refusal(operation, subject, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Some(error.to_string()))
        }
        AdminError::NoBroker(_) => {
            refusal(operation, subject, ErrorCode::BROKER_ID_NOT_REGISTERED, Some(error.to_string()))
        }
        AdminError::NotKafka(error) => ClientError::NotKafka(error.to_string()),
        error => ClientError::Invalid(format!("{operation} of {subject}: {error}")),
    }
}

pub(crate) fn partition(tp: &TopicPartition) -> Subject {
    Subject::Partition(tp.topic.to_string(), tp.partition)
}
