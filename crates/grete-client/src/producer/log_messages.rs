//! Log events and errors of the producer: converts events of the sans-IO core to text.

use grete_proto::cluster::ClusterLogEvent;
use grete_proto::ids::TopicPartition;
use grete_proto::principal::Principal;
use grete_proto::producer::ProducerLogEvent;
use grete_proto::producer::{
    Accumulator, DropReason, DroppedRecords, FatalError, LastError, RetryCause, SenderLogEvent, TransactionCause,
    TransactionError, TransactionLogEvent,
};
use grete_proto::request::RequestError;
use grete_wire::access::NeededAcl;
use grete_wire::error_code::ErrorCode;
use grete_wire::{counted, plural};

use crate::error::ClientError;
use crate::log_event::{Level, LogEvent};
use crate::log_messages;

const NO_CONNECTION: LastError = LastError::Request(RequestError::NoConnection);
const NOT_ALLOWED: LastError = LastError::Code(ErrorCode::CLUSTER_AUTHORIZATION_FAILED);

fn batch_log_event(
    level: Level,
    name: &'static str,
    message: String,
    tp: &TopicPartition,
    records: impl ToString,
) -> LogEvent {
    let fields = vec![
        ("topic", tp.topic.to_string()),
        ("partition", tp.partition.to_string()),
        ("records", records.to_string()),
    ];
    LogEvent { level, name, message, fields }
}

/// Returns the log event for an event of the core; `None`: the event is not logged.
pub(super) fn producer_event(notice: &ProducerLogEvent, principal: &Principal) -> Option<LogEvent> {
    Some(match notice {
        ProducerLogEvent::Cluster(ClusterLogEvent::TopicError { topic, error })
            if *error == ErrorCode::TOPIC_AUTHORIZATION_FAILED =>
        {
            log_messages::concealed_topic_event(topic, "Write", principal)
        }
        ProducerLogEvent::Cluster(notice) => return log_messages::cluster_event(notice),
        ProducerLogEvent::Sender(notice) => match notice {
            SenderLogEvent::Retried { tp, batches, records, cause } => batch_log_event(
                Level::Info,
                "produce.retried",
                format!("{tp}: {} sent again: {cause}", fmt_batches(*batches, *records)),
                tp,
                records,
            ),
            SenderLogEvent::Split { tp, records, code } => batch_log_event(
                Level::Info,
                "produce.split",
                format!(
                    "{tp}: a batch of {} is too large for the topic ({}): halved",
                    counted(*records, "record"),
                    code.name()
                ),
                tp,
                records,
            ),
            SenderLogEvent::RecordsDropped { reason: why, dropped: lost } => return records_dropped(*why, lost),
            SenderLogEvent::ProducerIdAssigned { producer_id, epoch } => LogEvent {
                level: Level::Debug,
                name: "produce.id_assigned",
                message: format!("the producer's id is {producer_id}, epoch {epoch}"),
                fields: vec![("producer_id", producer_id.to_string()), ("epoch", epoch.to_string())],
            },
            SenderLogEvent::ProducerIdFailed(cause) => LogEvent {
                // The cause is in the log already, as an event of the connections, or of the records that it fails.
                level: if *cause == NO_CONNECTION || *cause == NOT_ALLOWED { Level::Debug } else { Level::Info },
                name: "produce.id_pending",
                message: format!("InitProducerId has not succeeded yet, retrying: {cause}"),
                fields: Vec::new(),
            },
            _ => return None,
        },
        ProducerLogEvent::Transaction(notice) => return transaction_event(notice),
    })
}

/// Returns the log event for an event of a transaction; `None`: the event is not logged.
fn transaction_event(notice: &TransactionLogEvent) -> Option<LogEvent> {
    let event = |level, name, message| Some(LogEvent { level, name, message, fields: Vec::new() });
    match notice {
        TransactionLogEvent::Initialized { producer_id, epoch, version } => Some(LogEvent {
            level: Level::Debug,
            name: "produce.id_assigned",
            message: format!(
                "the transactional producer's id is {producer_id}, epoch {epoch} (transaction.version {version})"
            ),
            fields: vec![("producer_id", producer_id.to_string()), ("epoch", epoch.to_string())],
        }),
        // The call that ends the transaction reports it, too.
        TransactionLogEvent::Failed(cause) => {
            event(Level::Warning, "transaction.failed", format!("the transaction can only be aborted: {cause}"))
        }
        TransactionLogEvent::Aborted(cause) => {
            let level = if **cause == TransactionCause::Requested { Level::Debug } else { Level::Info };
            event(level, "transaction.aborted", format!("the transaction was aborted: {cause}"))
        }
        TransactionLogEvent::Committed => {
            event(Level::Debug, "transaction.committed", "the transaction was committed".to_owned())
        }
        // Usual for some milliseconds after a transaction.
        TransactionLogEvent::Retried { cause: RetryCause::Code(ErrorCode::CONCURRENT_TRANSACTIONS), .. } => None,
        TransactionLogEvent::Retried { request, cause } => {
            event(Level::Info, "transaction.pending", format!("{request} has not succeeded yet, retrying: {cause}"))
        }
        _ => None,
    }
}

/// Returns the error of a call about transactions.
pub(crate) fn transaction_error(error: &TransactionError, principal: &Principal) -> ClientError {
    let message = principal.in_text(&error.to_string());
    match error {
        TransactionError::Aborted(_) | TransactionError::Failed(_) => {
            ClientError::TransactionAborted { message, code: error.code() }
        }
        TransactionError::Fenced { .. } => ClientError::Fenced { message, code: error.code() },
        TransactionError::Unauthorized { .. } => ClientError::Authorization(message),
        TransactionError::CommitUnknown(_) => ClientError::CommitUnknown { message, code: error.code() },
        TransactionError::Closed => ClientError::Closed { what: "producer" },
        TransactionError::Refused { .. } | TransactionError::Unsupported(_) => {
            ClientError::TransactionFailed { message, code: error.code() }
        }
        _ => ClientError::TransactionState(message),
    }
}

/// Formats the batches of one partition, or of several partitions of which one is named, with their verb.
fn fmt_batches(batches: u32, records: u64) -> String {
    let (of, are) = (counted(records, "record"), plural(records, "is", "are"));
    match batches {
        0 | 1 => format!("{of} {are}"),
        batches => format!("{of} in {batches} batches (also of other partitions) {are}"),
    }
}

/// Returns one log event for all records that were dropped together, perhaps of many partitions.
fn records_dropped(why: DropReason, lost: &[DroppedRecords]) -> Option<LogEvent> {
    let first = lost.first()?;
    let batches = lost.iter().map(|lost| lost.batches).fold(0, u32::saturating_add);
    let records = lost.iter().map(|lost| lost.records).sum::<u64>();
    let unknown = lost.iter().map(|lost| lost.unknown).sum::<u64>();
    let fate = match unknown {
        0 => format!("no broker has {}", plural(records, "it", "them")),
        _ if unknown == records => format!("{} may have been written", plural(records, "it", "they")),
        _ => format!("{unknown} of them may have been written, the others are on no broker"),
    };
    let (name, happened) = match why {
        DropReason::Aborted => {
            let (of, are) = (counted(records, "record"), plural(records, "is", "are"));
            let message = format!("{of} of {} {are} not committed: the transaction was aborted", first.tp.topic);
            return Some(batch_log_event(Level::Debug, "transaction.dropped", message, &first.tp, records));
        }
        DropReason::Expired => ("produce.expired", "not delivered within delivery.timeout.ms".to_owned()),
        DropReason::NoMetadata => {
            ("produce.expired", "not sent, because no broker has named the topic's partitions in time".to_owned())
        }
        DropReason::Closed => ("produce.given_up", "given up when the producer was closed".to_owned()),
        DropReason::Fatal => ("produce.given_up", "given up, because the producer has failed".to_owned()),
        DropReason::Refused(code) => ("produce.failed", format!("refused: {} ({})", code.message(), code.name())),
    };
    let others = match lost.len() {
        1 => String::new(),
        count => format!(" and {}", counted(count - 1, "other partition")),
    };
    let several = if batches > 1 { format!(" in {batches} batches") } else { String::new() };
    let (of, were) = (counted(records, "record"), plural(records, "was", "were"));
    let place = if first.tp.partition < 0 { first.tp.topic.to_string() } else { first.tp.to_string() };
    let message = format!("{place}{others}: {of}{several} {were} {happened}; {fate}");
    Some(batch_log_event(Level::Error, name, message, &first.tp, records))
}

/// Returns the log event for a fatal error of the producer.
pub(super) fn producer_failed(error: &ClientError) -> LogEvent {
    LogEvent { level: Level::Error, name: "producer.failed", message: error.to_string(), fields: Vec::new() }
}

pub(super) fn fatal_error(error: &FatalError, principal: &Principal) -> ClientError {
    match error {
        FatalError::Unusable(fault) => ClientError::unusable(fault),
        FatalError::Transaction(error) => transaction_error(error, principal),
        FatalError::ProducerId(code) => ClientError::kafka("asking for a producer id", *code),
        other => ClientError::Invalid(other.to_string()),
    }
}

/// Returns the error for a topic that does not exist according to the brokers.
pub(super) fn unknown_topic_error(topic: &str, accumulator: &Accumulator) -> ClientError {
    let similar = accumulator.similar_topic(topic);
    let similar = similar.map_or_else(String::new, |similar| format!(" (did you mean {similar:?}?)"));
    let message = format!(
        "there is no topic {topic:?}: check the name{similar}, create the topic (grete topics create {topic}), or set \
         allow.auto.create.topics=true"
    );
    ClientError::UnknownTopic { topic: topic.to_owned(), partition: None, message }
}

/// Returns the error for a topic whose metadata contains an error code.
pub(super) fn topic_error(topic: &str, code: ErrorCode, principal: &Principal) -> ClientError {
    match code {
        ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
            let user = principal.user();
            let needed = NeededAcl { operation: "Write", kind: "topic", name: topic, user: user.as_deref() };
            ClientError::Authorization(format!("topic {topic:?}: not allowed ({}): {needed}", code.name()))
        }
        code => ClientError::kafka(&format!("topic {topic:?}"), code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(partition: i32, records: u64, unknown: u64) -> DroppedRecords {
        DroppedRecords { tp: TopicPartition::new("orders", partition), batches: 1, records, unknown }
    }

    fn expired(lost: &[DroppedRecords]) -> String {
        records_dropped(DropReason::Expired, lost).expect("worth a line").message
    }

    #[test]
    fn lines_count_records_with_the_right_plural() {
        let sent_again = |batches, records| {
            let tp = TopicPartition::new("orders", 0);
            let event = SenderLogEvent::Retried { tp, batches, records, cause: NO_CONNECTION };
            producer_event(&ProducerLogEvent::Sender(event), &Principal::Unknown).expect("worth a line").message
        };
        assert!(sent_again(1, 1).starts_with("orders[0]: 1 record is sent again: "), "{}", sent_again(1, 1));
        let several = "orders[0]: 7 records in 2 batches (also of other partitions) are sent again: ";
        assert!(sent_again(2, 7).starts_with(several), "{}", sent_again(2, 7));
        assert_eq!(
            expired(&[dropped(0, 1, 0)]),
            "orders[0]: 1 record was not delivered within delivery.timeout.ms; no broker has it"
        );
        assert_eq!(
            expired(&[dropped(0, 1, 1)]),
            "orders[0]: 1 record was not delivered within delivery.timeout.ms; it may have been written"
        );
        assert_eq!(
            expired(&[dropped(0, 2, 2), dropped(1, 3, 0)]),
            "orders[0] and 1 other partition: 5 records in 2 batches were not delivered within delivery.timeout.ms; 2 of \
             them may have been written, the others are on no broker"
        );
    }
}
