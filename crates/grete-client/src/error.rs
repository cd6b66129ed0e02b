//! Errors of the client API, as users see them.

use std::fmt;

use grete_proto::request::AddressFault;
use grete_wire::access::NeededAcl;
use grete_wire::error_code::ErrorCode;

use crate::config::ConfigError;

/// Resource that an operation is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A topic.
    Topic(String),
    /// A partition.
    Partition(String, i32),
    /// A group.
    Group(String),
    /// Static member of a group, by its `group.instance.id`.
    Member(String, String),
    /// A transactional id.
    TransactionalId(String),
    /// All ACLs of the cluster.
    Acls,
    /// One ACL, by its description.
    Acl(String),
    /// Any other resource, by name.
    Other(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(name) => write!(f, "topic {name}"),
            Self::Partition(topic, partition) => write!(f, "{topic}[{partition}]"),
            Self::Group(name) => write!(f, "group {name}"),
            Self::Member(group, instance) => write!(f, "static member {instance} of group {group}"),
            Self::TransactionalId(id) => write!(f, "transactional id {id}"),
            Self::Acls => f.write_str("the ACLs"),
            Self::Acl(text) => f.write_str(text),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// Returns the cure for an error code, to be appended to the message; empty: none is known.
fn hint(code: ErrorCode, subject: &Subject) -> &'static str {
    match code {
        ErrorCode::UNKNOWN_MEMBER_ID if matches!(subject, Subject::Member(..)) => {
            "; list the group's members and their group.instance.id with describe_groups"
        }
        ErrorCode::TOPIC_ALREADY_EXISTS => "; to accept the existing topic, pass if_not_exists",
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => "; check the name against the list of topics",
        ErrorCode::TRANSACTIONAL_ID_NOT_FOUND => "; check the id against the list of transactions",
        ErrorCode::GROUP_ID_NOT_FOUND => "; check the id against the list of groups",
        ErrorCode::NON_EMPTY_GROUP | ErrorCode::UNKNOWN_MEMBER_ID => {
            "; stop the group's members first (static ones stay for their session timeout, or until remove_members)"
        }
        ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC => "; stop the members that read it first",
        ErrorCode::SECURITY_DISABLED => {
            "; the brokers have no authorizer: set authorizer.class.name on them, such as \
             org.apache.kafka.metadata.authorizer.StandardAuthorizer (grete dev --acls)"
        }
        ErrorCode::INVALID_REPLICATION_FACTOR => "; request no more replicas than there are brokers",
        _ => "",
    }
}

/// Returns the ACL that a refused operation needs, to be appended to the message; empty: the code has another meaning.
fn needed(operation: &str, subject: &Subject, code: ErrorCode, user: Option<&str>) -> String {
    let operation = match operation {
        "create_topics" => "Create",
        "delete_topics" | "delete_groups" | "delete_offsets" | "delete_records" => "Delete",
        "create_partitions" | "create_acls" | "delete_acls" | "abort_transaction" => "Alter",
        "fence_producers" => "Write",
        "config" => "DescribeConfigs",
        "alter_config" => "AlterConfigs",
        "remove_members" | "reset_offsets" | "describe_producers" => "Read",
        _ => "Describe",
    };
    let (kind, name) = match (code, subject) {
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, Subject::Topic(name) | Subject::Partition(name, _)) => {
            ("topic", name.as_str())
        }
        (ErrorCode::GROUP_AUTHORIZATION_FAILED, Subject::Group(name) | Subject::Member(name, _)) => {
            ("group", name.as_str())
        }
        (ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Subject::TransactionalId(id)) => {
            ("transactional-id", id.as_str())
        }
        (ErrorCode::CLUSTER_AUTHORIZATION_FAILED, _) => ("cluster", ""),
        _ => return String::new(),
    };
    format!("; {}", NeededAcl { operation, kind, name, user })
}

/// Error of a client's call, or the reason for the end of the client.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The handle was created before a fork.
    #[error(
        "this {what} was made before a fork and belongs to the parent process; make a new one in the child, after the fork"
    )]
    Forked {
        /// Kind of handle, for example "producer".
        what: &'static str,
    },
    /// The handle was closed.
    #[error("this {what} is closed; make a new one")]
    Closed {
        /// Kind of handle, for example "producer".
        what: &'static str,
    },
    /// The timeout of the call has passed.
    #[error("{operation} had no answer within {seconds:.1} s; {hint}")]
    TimedOut {
        /// Operation that timed out.
        operation: String,
        /// Timeout in seconds.
        seconds: f64,
        /// Cure to suggest to the user.
        hint: &'static str,
    },
    /// The timeout of the call has passed while parts of the result were missing.
    #[error("{operation} had no answer within {seconds:.1} s: {detail}")]
    Incomplete {
        /// Operation that timed out.
        operation: String,
        /// Timeout in seconds.
        seconds: f64,
        /// Missing parts, and the errors so far.
        detail: String,
    },
    /// The partition was revoked or lost, or its position was moved.
    #[error(
        "the partition is not this job's any more: it was revoked or lost, or its position was moved meanwhile. \
         Records that were not marked before are processed again by the partition's new owner; end the handler"
    )]
    Revoked,
    /// A record that the job produced before a mark was not written, so the mark does not count.
    #[error(
        "a record that was produced before this mark was not written: the mark does not count, and the record behind it is \
         processed again; see the error of its delivery"
    )]
    Undelivered,
    /// A signal handler ended the wait.
    #[error("{operation} was interrupted")]
    Interrupted {
        /// Operation that was interrupted.
        operation: String,
    },
    /// The broker refused an operation on a topic or a group.
    #[error("{operation} of {subject}: {} ({}){}{}", .message.trim_end_matches('.'), .code.name(), hint(*.code, .subject), needed(operation, subject, *.code, .user.as_deref()))]
    Refused {
        /// Operation that was refused.
        operation: String,
        /// Resource that the operation is about.
        subject: Subject,
        /// Kafka's error code.
        code: ErrorCode,
        /// Message of the broker, or the client's text for the code.
        message: String,
        /// User of the client's login; `None`: there is none, or a token names the user.
        user: Option<Box<str>>,
    },
    /// The broker answered with an error.
    #[error("{operation}: the broker answered {name} ({code}): {message}")]
    Kafka {
        /// Operation that failed.
        operation: String,
        /// Number of Kafka's error code.
        code: i16,
        /// Name of Kafka's error code.
        name: &'static str,
        /// Meaning of the error code.
        message: String,
    },
    /// No address of `bootstrap.servers` is a Kafka broker.
    #[error("{0}")]
    NotKafka(String),
    /// No encrypted connection to any address of `bootstrap.servers` can be made.
    #[error("{message}")]
    Tls {
        /// Kind of the failure as one word, for example "unknown_ca".
        reason: &'static str,
        /// Message for the user: the error and the cure.
        message: String,
    },
    /// The brokers refuse the client's login.
    #[error("{0}")]
    Authentication(String),
    /// Authorization failed.
    #[error("{0}")]
    Authorization(String),
    /// A batch is still corrupt after a second fetch.
    #[error("{topic}[{partition}]: the batch at offset {offset} cannot be read: {message}")]
    CorruptBatch {
        /// Topic of the partition.
        topic: String,
        /// Partition of the batch.
        partition: i32,
        /// Base offset of the batch.
        offset: i64,
        /// Defect of the batch.
        message: String,
    },
    /// Another member of the group uses the same `group.instance.id`.
    #[error("{message}")]
    FencedInstance {
        /// `group.id`.
        group: String,
        /// `group.instance.id`.
        instance: String,
        /// Message for the user: which member was fenced, and the cure.
        message: String,
    },
    /// The group refuses this member.
    #[error("{0}")]
    Group(String),
    /// The partition has no valid offset, and `auto.offset.reset` is none.
    #[error("{0}")]
    NoOffset(String),
    /// A partition cannot be read, and `on_failed_partition="stop"` ends the App.
    #[error("{message}; on_failed_partition is \"stop\", so the App ends")]
    PartitionFailed {
        /// Topic of the partition.
        topic: String,
        /// Partition that cannot be read.
        partition: i32,
        /// Reason as one word, as in the field `reason` of the log event.
        reason: &'static str,
        /// Message for the user: the error and the cure.
        message: String,
    },
    /// The partition is assigned to another member or to none.
    #[error(
        "{topic}[{partition}] is not assigned to {owner}: only the positions of assigned partitions can be moved or held"
    )]
    NotAssigned {
        /// Topic of the partition.
        topic: String,
        /// Partition that is not assigned.
        partition: i32,
        /// Client that does not own the partition, for example "this consumer".
        owner: &'static str,
    },
    /// `buffer.memory` stayed full until the deadline.
    #[error(
        "the producer's memory is full ({limit} bytes, buffer.memory), so the record for topic {topic:?} was not taken: \
         records come faster than brokers take them, or no broker takes any"
    )]
    BufferFull {
        /// Topic of the record.
        topic: String,
        /// `buffer.memory` in bytes.
        limit: usize,
    },
    /// The memory for records of exactly-once jobs is used up, and no commit makes room.
    #[error(
        "topic {topic:?}: no room for the record: running exactly-once jobs have staged {limit} bytes (buffer.memory), and \
         only their end makes room; produce less in one job (max_messages), or raise buffer.memory"
    )]
    StagingFull {
        /// Topic of the record.
        topic: String,
        /// `buffer.memory` in bytes.
        limit: usize,
    },
    /// A record is larger than the limits allow, so it can never be sent.
    #[error(
        "topic {topic:?}: a record of {bytes} bytes is above the {limit} that max.request.size and buffer.memory allow"
    )]
    RecordTooLarge {
        /// Topic of the record.
        topic: String,
        /// Size of the record in bytes.
        bytes: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// The topic, or the partition of the topic, does not exist.
    #[error("{message}")]
    UnknownTopic {
        /// Name of the topic.
        topic: String,
        /// Partition that the topic does not have; `None`: the topic does not exist.
        partition: Option<i32>,
        /// Message for the user: the error and the cure.
        message: String,
    },
    /// The transaction was aborted, or can only be aborted. Another one may succeed.
    #[error("{message}")]
    TransactionAborted {
        /// Message for the user: the cause and the cure.
        message: String,
        /// Error code of a broker; `None`: no broker reported one.
        code: Option<ErrorCode>,
    },
    /// Another producer has taken over the `transactional.id`.
    #[error("{message}")]
    Fenced {
        /// Message for the user: the cause and the cure.
        message: String,
        /// Error code of a broker; `None`: no broker reported one.
        code: Option<ErrorCode>,
    },
    /// Whether a transaction was committed is not known.
    #[error("{message}")]
    CommitUnknown {
        /// Message for the user: the cause and the cure.
        message: String,
        /// Error code of a broker; `None`: no broker reported one.
        code: Option<ErrorCode>,
    },
    /// The producer can have no more transactions.
    #[error("{message}")]
    TransactionFailed {
        /// Message for the user: the cause and the cure.
        message: String,
        /// Error code of a broker; `None`: no broker reported one.
        code: Option<ErrorCode>,
    },
    /// The call does not fit the state of the producer's transaction.
    #[error("{0}")]
    TransactionState(String),
    /// The call does not fit the state of the handle.
    #[error("{0}")]
    Invalid(String),
    /// A system call failed.
    #[error("{what}: {cause}")]
    Os {
        /// Operation that was tried.
        what: &'static str,
        /// Message of the system error.
        cause: String,
    },
}

impl ClientError {
    /// Returns the error of a client none of whose addresses can be used.
    pub(crate) fn unusable(fault: &AddressFault) -> Self {
        match fault {
            AddressFault::Tls { failure, .. } => Self::Tls { reason: failure.kind.name(), message: fault.to_string() },
            AddressFault::NotKafka(error) => Self::NotKafka(error.to_string()),
            AddressFault::Login(error) => Self::Authentication(error.to_string()),
        }
    }

    /// Returns the error for an error code of a broker. `operation`: what was refused.
    pub(crate) fn kafka(operation: &str, code: ErrorCode) -> Self {
        Self::Kafka {
            operation: operation.to_owned(),
            code: code.0,
            name: code.name(),
            message: code.message().to_owned(),
        }
    }

    /// Returns the error for a panic of the network thread.
    pub(crate) fn network_thread_panicked() -> Self {
        Self::Os {
            what: "the network thread has ended on a fault of Grete's own",
            cause: "stderr says where; please report it".into(),
        }
    }

    pub(crate) fn os(what: &'static str, cause: &std::io::Error) -> Self {
        Self::Os { what, cause: cause.to_string() }
    }
}
