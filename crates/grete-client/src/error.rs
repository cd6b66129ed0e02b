//! What can go wrong, as users see it.

use std::fmt;

use grete_wire::error_code::ErrorCode;

use crate::config::ConfigError;

/// What an operation is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A topic.
    Topic(String),
    /// A partition.
    Partition(String, i32),
    /// A group.
    Group(String),
    /// A group's static member, by its `group.instance.id`.
    Member(String, String),
    /// Something else, by its name.
    Other(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(name) => write!(f, "topic {name}"),
            Self::Partition(topic, partition) => write!(f, "{topic}[{partition}]"),
            Self::Group(name) => write!(f, "group {name}"),
            Self::Member(group, instance) => write!(f, "static member {instance} of group {group}"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// What can be done about it.
fn cure(code: ErrorCode, subject: &Subject) -> &'static str {
    match code {
        ErrorCode::UNKNOWN_MEMBER_ID if matches!(subject, Subject::Member(..)) => {
            "; look with describe_groups for who is in the group, and under which group.instance.id"
        }
        ErrorCode::TOPIC_ALREADY_EXISTS => "; to take it as it is, ask with if_not_exists",
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => "; check the name against the list of topics",
        ErrorCode::GROUP_ID_NOT_FOUND => "; check the id against the list of groups",
        ErrorCode::NON_EMPTY_GROUP | ErrorCode::UNKNOWN_MEMBER_ID => {
            "; stop the group's members first (static ones stay for their session timeout, or until remove_members)"
        }
        ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC => "; stop the members that read it first",
        ErrorCode::INVALID_REPLICATION_FACTOR => "; ask for no more replicas than there are brokers",
        _ => "",
    }
}

/// An error of a client's call, or the end of the client.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The handle was made before a fork.
    #[error(
        "this {what} was made before a fork and belongs to the parent process; make a new one in the child, after the fork"
    )]
    Forked {
        /// Which kind of handle.
        what: &'static str,
    },
    /// The handle was closed.
    #[error("this {what} is closed; make a new one")]
    Closed {
        /// Which kind of handle.
        what: &'static str,
    },
    /// The time was up.
    #[error("{operation} had no answer within {seconds:.1} s; {hint}")]
    TimedOut {
        /// What was waited for.
        operation: String,
        /// How long.
        seconds: f64,
        /// What to look at.
        hint: &'static str,
    },
    /// The time was up, and this is how far it had come.
    #[error("{operation} had no answer within {seconds:.1} s: {detail}")]
    Unfinished {
        /// What was waited for.
        operation: String,
        /// How long.
        seconds: f64,
        /// What was missing, and what went wrong on the way.
        detail: String,
    },
    /// The partition has gone to somebody else, or was sought.
    #[error(
        "the partition is not this job's any more: it was given up, taken away, or sought elsewhere meanwhile. What was not \
         marked before is processed again by whoever has the partition now; end the handler"
    )]
    Revoked,
    /// A signal handler ended the wait.
    #[error("{operation} was interrupted")]
    Interrupted {
        /// What was waited for.
        operation: String,
    },
    /// The broker refused to do that with a topic or a group.
    #[error("{operation} of {subject}: {} ({}){}", .message.trim_end_matches('.'), .code.name(), cure(*.code, .subject))]
    Refused {
        /// What was asked.
        operation: String,
        /// With what.
        subject: Subject,
        /// Kafka's code for the error.
        code: ErrorCode,
        /// The broker's words for it, or ours.
        message: String,
    },
    /// The broker refused.
    #[error("{operation}: the broker answered {name} ({code}): {message}")]
    Kafka {
        /// What was asked.
        operation: String,
        /// Kafka's number for the error.
        code: i16,
        /// Kafka's name for it.
        name: &'static str,
        /// What it means.
        message: String,
    },
    /// No address of `bootstrap.servers` speaks Kafka.
    #[error("{0}")]
    NotKafka(String),
    /// Authentication or authorisation refused.
    #[error("{0}")]
    Authorization(String),
    /// A batch that stays broken after it was fetched again.
    #[error("{topic}[{partition}]: the batch at offset {offset} cannot be read: {message}")]
    CorruptBatch {
        /// Of this topic.
        topic: String,
        /// And partition.
        partition: i32,
        /// The batch's base offset.
        offset: i64,
        /// What is wrong with it.
        message: String,
    },
    /// Another member of the group has the `group.instance.id` of this one.
    #[error("{message}")]
    FencedInstance {
        /// `group.id`.
        group: String,
        /// `group.instance.id`.
        instance: String,
        /// Who is out, and what to do.
        message: String,
    },
    /// The group will not have this member.
    #[error("{0}")]
    Group(String),
    /// The partition has no valid offset, and `auto.offset.reset` is none.
    #[error("{0}")]
    NoOffset(String),
    /// `buffer.memory` stayed full.
    #[error(
        "the producer's memory is full ({limit} bytes, buffer.memory), so the record for topic {topic:?} was not taken: \
         records come faster than brokers take them, or no broker takes any"
    )]
    QueueFull {
        /// Where the record was going.
        topic: String,
        /// The setting.
        limit: usize,
    },
    /// A record that cannot be sent, ever.
    #[error(
        "topic {topic:?}: a record of {bytes} bytes is above the {limit} that max.request.size and buffer.memory allow"
    )]
    RecordTooLarge {
        /// Where the record was going.
        topic: String,
        /// What it takes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// No such topic, or no such partition of it.
    #[error("{message}")]
    UnknownTopic {
        /// Its name.
        topic: String,
        /// What to do about it.
        message: String,
    },
    /// A call that does not fit the handle's state.
    #[error("{0}")]
    Invalid(String),
    /// The operating system refused.
    #[error("{what}: {cause}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// What it said.
        cause: String,
    },
}

impl ClientError {
    /// A thread of ours has panicked.
    pub(crate) fn fault() -> Self {
        Self::Os {
            what: "the network thread has ended on a fault of Grete's own",
            cause: "stderr says where; please report it".into(),
        }
    }

    pub(crate) fn os(what: &'static str, cause: &std::io::Error) -> Self {
        Self::Os { what, cause: cause.to_string() }
    }
}
