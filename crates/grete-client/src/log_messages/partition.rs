//! Log events of partitions: positions, fetching, and failures.

use grete_proto::dispatch::CorruptBatch;
use grete_proto::partition::error::{PartitionError, RecoveryPolicy};
use grete_proto::partition::log_event::FetchLogEvent;
use grete_proto::principal::Principal;
use grete_proto::time::Nanos;
use grete_wire::error_code::ErrorCode;
use grete_wire::plural;

use super::{in_seconds, log_event, partition_fields, with_fields};
use crate::log_event::{Level, LogEvent};

pub(super) fn fetch_event(notice: &FetchLogEvent) -> LogEvent {
    match notice {
        FetchLogEvent::OffsetReset { tp, from, to, log_start, log_end } => log_event(
            Level::Warning,
            "offset.reset",
            format!(
                "{tp}: offset {from} is not in the log, which reaches from {log_start} to {log_end}; auto.offset.reset \
                 continues at {to}"
            ),
            with_fields(partition_fields(tp), &[("from", *from), ("to", *to)]),
        ),
        FetchLogEvent::Truncated { tp, from, to } => log_event(
            Level::Error,
            "log.truncated",
            format!("{tp}: an unclean leader election truncated the log below offset {from}; continuing at {to}"),
            with_fields(partition_fields(tp), &[("from", *from), ("to", *to)]),
        ),
        FetchLogEvent::Waiting { tp, waited, code } => log_event(
            Level::Warning,
            "position.waiting",
            format!("{tp}: no offset to start from after {} s; retrying ({})", waited / 1_000_000_000, code.name()),
            partition_fields(tp),
        ),
        FetchLogEvent::Retrying { tp, node, code, failures } => log_event(
            if *failures <= 1 { Level::Debug } else { Level::Info },
            "fetch.retrying",
            format!(
                "{tp}: {failures} {} failed since the last success, now with {} of broker {node}",
                plural(*failures, "fetch has", "fetches have"),
                code.name()
            ),
            partition_fields(tp),
        ),
        FetchLogEvent::ReplicaUnreachable { node, partitions } => log_event(
            Level::Warning,
            "fetch.replica_unreachable",
            format!(
                "broker {node}, from which {partitions} {} read as a follower, does not answer; {} read from {} until the \
                 follower is named again",
                plural(*partitions, "partition was", "partitions were"),
                plural(*partitions, "the partition is", "the partitions are"),
                plural(*partitions, "its leader", "their leaders"),
            ),
            vec![("broker", node.to_string()), ("partitions", partitions.to_string())],
        ),
        FetchLogEvent::ReplicaRefused { tp, node, code } => {
            let why = match *code {
                ErrorCode::NONE => "a corrupt batch",
                code => code.name(),
            };
            let mut fields = partition_fields(tp);
            fields.push(("broker", node.to_string()));
            log_event(
                Level::Info,
                "fetch.replica_refused",
                format!("{tp}: broker {node}, a follower, answered with {why}; the partition is read from its leader"),
                fields,
            )
        }
        FetchLogEvent::CorruptBatch { tp, offset, cause } => log_event(
            Level::Error,
            "fetch.corrupt_batch",
            format!("{tp}: the batch at offset {offset} is corrupt ({cause}); it is fetched once more"),
            with_fields(partition_fields(tp), &[("offset", *offset)]),
        ),
        FetchLogEvent::SessionError { node, code } => log_event(
            Level::Debug,
            "fetch.session_error",
            format!("broker {node} rejected a fetch session ({}); a new session is created", code.name()),
            vec![("broker", node.to_string())],
        ),
        FetchLogEvent::BadResponse { node, error } => log_event(
            Level::Error,
            "fetch.bad_response",
            format!("a Fetch response of broker {node} cannot be decoded: {error}"),
            vec![("broker", node.to_string())],
        ),
        other => log_event(Level::Info, "fetch.event", format!("{other:?}"), Vec::new()),
    }
}

pub(crate) fn corrupt_batch(corrupt: &CorruptBatch) -> LogEvent {
    log_event(
        Level::Error,
        "fetch.corrupt_batch",
        format!("{}: {}; the batch is fetched once more", corrupt.tp, corrupt.error),
        with_fields(partition_fields(&corrupt.tp), &[("offset", corrupt.offset)]),
    )
}

/// Returns the log event of a partition that cannot be read. `failing_for`: nanoseconds since it was first logged;
/// `None`: it is logged for the first time.
pub(crate) fn partition_failed(
    error: &PartitionError,
    principal: &Principal,
    failing_for: Option<Nanos>,
    is_app: bool,
) -> LogEvent {
    let tp = error.partition();
    let text = principal.in_text(&error.to_string());
    let seconds = failing_for.map_or(0.0, in_seconds);
    let still = failing_for.map_or(String::new(), |_| format!("{tp} has not been read for {seconds:.1} s: "));
    let then = match error.policy() {
        _ if !is_app => "",
        RecoveryPolicy::Retry => "; it is retried until the cause is gone, and the other partitions continue",
        RecoveryPolicy::Reset => "; it waits for a seek, and the other partitions continue",
    };
    let mut fields = partition_fields(tp);
    fields.extend([
        ("reason", error.reason().to_owned()),
        ("error", text.clone()),
        ("seconds", format!("{seconds:.3}")),
    ]);
    log_event(Level::Error, "partition.failed", format!("{still}{text}{then}"), fields)
}

pub(crate) fn partition_recovered(error: &PartitionError, lasted: Nanos) -> LogEvent {
    let (tp, seconds) = (error.partition(), in_seconds(lasted));
    let mut fields = partition_fields(tp);
    fields.extend([("reason", error.reason().to_owned()), ("seconds", format!("{seconds:.3}"))]);
    let message = format!("{tp} is read again, after {seconds:.1} s ({})", error.reason());
    log_event(Level::Info, "partition.recovered", message, fields)
}
