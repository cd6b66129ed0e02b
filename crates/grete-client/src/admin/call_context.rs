//! Call context of the admin client: operation, deadline, and conversion of its errors.

use std::time::{Duration, Instant};

use grete_proto::admin::{AdminError, AdminReply};
use grete_proto::ids::TopicPartition;
use grete_proto::request::RequestError;
use grete_proto::sasl::{SaslError, TokenState, TokenStore};
use grete_wire::error_code::ErrorCode;

use super::Admin;
use crate::error::{ClientError, Subject};

/// One result for each requested item, in the order of the request.
pub type ItemResults<T> = Vec<Result<T, ClientError>>;

/// Admin call in progress. All its requests share one deadline.
pub struct CallContext<'c> {
    operation: &'c str,
    user: Option<&'c str>,
    tokens: Option<&'c TokenStore>,
    timeout: Duration,
    deadline: Instant,
    interrupted: &'c (dyn Fn() -> bool + Sync),
}

impl<'c> CallContext<'c> {
    /// Begins a call now. `interrupted` is called after each Unix signal that ends a sleep of the calling thread; true
    /// ends the call.
    pub fn new(operation: &'c str, timeout: Duration, interrupted: &'c (dyn Fn() -> bool + Sync)) -> Self {
        Self { operation, user: None, tokens: None, timeout, deadline: Instant::now() + timeout, interrupted }
    }

    /// Names the user of the client's login in errors, and looks whether there is a token when the time is up.
    #[must_use]
    pub fn of_client(self, client: &'c Admin, user: Option<&'c str>) -> Self {
        Self { user, tokens: client.tokens(), ..self }
    }

    pub(super) fn operation(&self) -> &str {
        self.operation
    }

    pub(super) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    pub(super) fn interrupted(&self) -> bool {
        (self.interrupted)()
    }

    /// Returns the same call with at most `most` left for its next request.
    pub(super) fn capped(&self, most: Duration) -> Self {
        let deadline = self.deadline.min(Instant::now() + most);
        Self { deadline, ..*self }
    }

    pub(super) fn timed_out(&self, detail: &str) -> ClientError {
        let (operation, seconds) = (self.operation.to_owned(), self.timeout.as_secs_f64());
        // Without a token no login can have succeeded, so the source of tokens is the cause.
        let (reason, lasts) = match self.tokens.map(TokenStore::state) {
            Some(TokenState::Awaited) => (format!("its source has not answered for {seconds:.1} s").into(), false),
            Some(TokenState::Failed { reason, lasts }) => (reason, lasts),
            Some(TokenState::Ready(_)) | None => {
                return ClientError::Incomplete { operation, seconds, detail: detail.to_owned() };
            }
        };
        ClientError::Authentication(format!("{operation}: {}", SaslError::NoToken { reason, lasts }))
    }
    pub(super) fn refused_error(&self, subject: Subject, code: ErrorCode, message: Option<String>) -> ClientError {
        refused_error(self.operation, self.user, subject, code, message)
    }

    /// Converts the error of an item for the user.
    pub(super) fn item_error(&self, subject: Subject, error: AdminError) -> ClientError {
        let AdminError::TimedOut { last, .. } = &error else {
            return client_error(self.operation, self.user, subject, error);
        };
        let unreachable = *last == Some(RequestError::NoConnection.to_string());
        let hint = if unreachable { "; check that brokers can be reached under bootstrap.servers" } else { "" };
        self.timed_out(&format!("{error}{hint}"))
    }

    /// Converts the results of several items; `subjects` names the items in order.
    pub(super) fn item_results<T>(
        &self,
        results: Vec<Result<T, AdminError>>,
        subjects: impl IntoIterator<Item = Subject>,
    ) -> ItemResults<T> {
        let named = results.into_iter().zip(subjects);
        named.map(|(result, subject)| result.map_err(|error| self.item_error(subject, error))).collect()
    }

    /// Converts the result of the only item.
    pub(super) fn single_result<T>(
        &self,
        results: Vec<Result<T, AdminError>>,
        subject: Subject,
    ) -> Result<T, ClientError> {
        match results.into_iter().next() {
            Some(result) => result.map_err(|error| self.item_error(subject, error)),
            None => Err(self.timed_out("there was no response")),
        }
    }

    /// Returns the error for a reply of the wrong type. The core answers each kind of request with its own kind of
    /// reply.
    pub(super) fn wrong_reply_type(&self, reply: &AdminReply) -> ClientError {
        ClientError::Invalid(format!("{}: the reply does not match the request: {reply:?}", self.operation))
    }
}

/// Returns the error for an operation that a broker refused.
pub(crate) fn refused_error(
    operation: &str,
    user: Option<&str>,
    subject: Subject,
    code: ErrorCode,
    message: Option<String>,
) -> ClientError {
    let message = match (code, &subject, message) {
        // The brokers' messages for these codes are about servers and partitions, whatever the request was.
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Subject::Topic(_), _)
        | (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Subject::Partition(..), None) => "there is no such topic".to_owned(),
        (ErrorCode::GROUP_ID_NOT_FOUND, Subject::Group(_), None) => "there is no group of that id".to_owned(),
        (ErrorCode::NON_EMPTY_GROUP, Subject::Group(_), None) => "the group has members".to_owned(),
        (code, _, message) => message.unwrap_or_else(|| code.message().to_owned()),
    };
    let user = user.map(Into::into);
    ClientError::Refused { operation: operation.to_owned(), subject, code, message, user }
}

/// Converts an error for the user. The error must not be a timeout.
pub(crate) fn client_error(operation: &str, user: Option<&str>, subject: Subject, error: AdminError) -> ClientError {
    match error {
        AdminError::Refused { code, message } => refused_error(operation, user, subject, code, message),
        AdminError::NoPartition { .. } => {
            refused_error(operation, user, subject, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Some(error.to_string()))
        }
        AdminError::NoBroker(_) => {
            refused_error(operation, user, subject, ErrorCode::BROKER_ID_NOT_REGISTERED, Some(error.to_string()))
        }
        AdminError::Unusable(fault) => ClientError::unusable(&fault),
        error => ClientError::Invalid(format!("{operation} of {subject}: {error}")),
    }
}

pub(crate) fn partition_subject(tp: &TopicPartition) -> Subject {
    Subject::Partition(tp.topic.to_string(), tp.partition)
}
