//! What a producer's machines have to say, in words for logs and errors.

use grete_core::ids::TopicPartition;
use grete_core::produce::{FatalError, GiveUp, Lost, ProduceNotice};
use grete_core::producer::ProducerNotice;
use grete_wire::error_code::ErrorCode;

use crate::error::ClientError;
use crate::notice::{Level, Notice};
use crate::report;

fn make(level: Level, name: &'static str, message: String, tp: &TopicPartition, records: impl ToString) -> Notice {
    let fields = vec![
        ("topic", tp.topic.to_string()),
        ("partition", tp.partition.to_string()),
        ("records", records.to_string()),
    ];
    Notice { level, name, message, fields }
}

/// The notice for the log; some are of no interest to anybody.
pub(super) fn notice(notice: &ProducerNotice) -> Option<Notice> {
    Some(match notice {
        ProducerNotice::Cluster(notice) => return report::cluster(notice),
        ProducerNotice::Produce(notice) => match notice {
            ProduceNotice::Retried { tp, batches, records, cause } => make(
                Level::Info,
                "produce.retried",
                format!("{tp}: {} are sent again: {cause}", several(*batches, *records)),
                tp,
                records,
            ),
            ProduceNotice::Split { tp, records, code } => make(
                Level::Info,
                "produce.split",
                format!("{tp}: a batch of {records} records is too large for the topic ({}): halved", code.name()),
                tp,
                records,
            ),
            ProduceNotice::GivenUp { why, lost } => return given_up(*why, lost),
            ProduceNotice::Identity { producer_id, epoch } => Notice {
                level: Level::Debug,
                name: "produce.identity",
                message: format!("the producer's id is {producer_id}, epoch {epoch}"),
                fields: vec![("producer_id", producer_id.to_string()), ("epoch", epoch.to_string())],
            },
            ProduceNotice::NoIdentity(cause) => Notice {
                level: Level::Info,
                name: "produce.no_identity",
                message: format!("no broker gives the producer an id yet, asking again: {cause}"),
                fields: Vec::new(),
            },
            _ => return None,
        },
    })
}

/// Of one partition, or of several of which one is named.
fn several(batches: u32, records: u64) -> String {
    match batches {
        0 | 1 => format!("{records} records"),
        batches => format!("{records} records in {batches} batches, of other partitions, too,"),
    }
}

/// Records that were given up in one go, perhaps of many partitions: one line.
fn given_up(why: GiveUp, lost: &[Lost]) -> Option<Notice> {
    let first = lost.first()?;
    let batches = lost.iter().map(|lost| lost.batches).fold(0, u32::saturating_add);
    let records = lost.iter().map(|lost| lost.records).sum::<u64>();
    let unknown = lost.iter().map(|lost| lost.unknown).sum::<u64>();
    let fate = match unknown {
        0 => "no broker has them".to_owned(),
        _ if unknown == records => "they may have been written".to_owned(),
        _ => format!("{unknown} of them may have been written, the others are on no broker"),
    };
    let (name, happened) = match why {
        GiveUp::Expired => ("produce.expired", "were not delivered within delivery.timeout.ms".to_owned()),
        GiveUp::Closed => ("produce.given_up", "were given up when the producer was closed".to_owned()),
        GiveUp::Fatal => ("produce.given_up", "were given up, because the producer has failed".to_owned()),
        GiveUp::Refused(code) => ("produce.failed", format!("were refused: {} ({})", code.message(), code.name())),
    };
    let others = match lost.len() {
        1 => String::new(),
        count => format!(" and {} other partitions", count - 1),
    };
    let several = if batches > 1 { format!(" in {batches} batches") } else { String::new() };
    let message = format!("{}{others}: {records} records{several} {happened}; {fate}", first.tp);
    Some(make(Level::Error, name, message, &first.tp, records))
}

/// The producer has failed for good.
pub(super) fn failed(error: &ClientError) -> Notice {
    Notice { level: Level::Error, name: "producer.failed", message: error.to_string(), fields: Vec::new() }
}

pub(super) fn fatal(error: &FatalError) -> ClientError {
    match error {
        FatalError::NotKafka(error) => ClientError::NotKafka(error.to_string()),
        FatalError::Identity(code) if *code == ErrorCode::CLUSTER_AUTHORIZATION_FAILED => {
            ClientError::Authorization(error.to_string())
        }
        FatalError::Identity(code) => report::kafka("asking for a producer id", *code),
        other => ClientError::Invalid(other.to_string()),
    }
}

/// What the metadata says is wrong with a topic.
pub(super) fn topic(topic: &str, code: ErrorCode) -> ClientError {
    match code {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => ClientError::UnknownTopic {
            topic: topic.to_owned(),
            message: format!(
                "there is no topic {topic:?}: check the name, create it, or set allow.auto.create.topics=true"
            ),
        },
        ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
            ClientError::Authorization(format!("topic {topic:?}: {} ({})", code.message(), code.name()))
        }
        code => report::kafka(&format!("topic {topic:?}"), code),
    }
}
