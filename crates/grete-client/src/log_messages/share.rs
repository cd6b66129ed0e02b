//! Log events of share groups.

use grete_proto::share::ShareLogEvent;
use grete_wire::{counted, plural};

use super::{in_seconds, log_event, partition_fields, with_fields};
use crate::log_event::{Level, LogEvent};

pub(super) fn share_event(notice: &ShareLogEvent) -> LogEvent {
    match notice {
        ShareLogEvent::LocksLost { tp, records, first, uncertain } => {
            let count = u64::try_from(*records).unwrap_or(u64::MAX);
            let message = if *uncertain {
                format!(
                    "{tp}: the leader refused the acknowledgement of the record at offset {first}, which was sent before over a \
                     connection that was lost; the record is done, or is delivered again"
                )
            } else {
                format!(
                    "{tp}: the {} of {} from offset {first} on had ended before the acknowledgement, so {} delivered again; \
                     handlers may run longer than share.record.lock.duration.ms, or the leader was restarted",
                    plural(count, "lock", "locks"),
                    counted(count, "record"),
                    plural(count, "it is", "they are")
                )
            };
            let level = if *uncertain { Level::Info } else { Level::Warning };
            let fields = with_fields(partition_fields(tp), &[("offset", *first)]);
            log_event(level, "queue.locks_lost", message, [fields, vec![("records", records.to_string())]].concat())
        }
        ShareLogEvent::LocksExpired { tp, records, first } => log_event(
            Level::Warning,
            "queue.locks_lost",
            format!(
                "{tp}: the {} of {} from offset {first} on ended before the renewal, so another member may have processed {}, \
                 too; this process was stopped or got no CPU, or the leader was away or cannot renew locks",
                plural(*records, "lock", "locks"),
                counted(*records, "record"),
                plural(*records, "it", "them")
            ),
            [with_fields(partition_fields(tp), &[("offset", *first)]), vec![("records", records.to_string())]].concat(),
        ),
        ShareLogEvent::NoRenewal { node, lock } => log_event(
            Level::Warning,
            "queue.no_renewal",
            format!(
                "broker {node} cannot renew the locks of records (Kafka 4.2 can): a record whose handler runs longer than {:.0} s is \
                 delivered again meanwhile; raise share.record.lock.duration.ms of the group, or upgrade the brokers",
                in_seconds(*lock)
            ),
            vec![("broker", node.to_string()), ("seconds", format!("{:.3}", in_seconds(*lock)))],
        ),
        ShareLogEvent::SessionLost { node, code } => log_event(
            Level::Debug,
            "queue.session_lost",
            format!("broker {node} rejected a share session ({}); a new session is created", code.name()),
            vec![("broker", node.to_string())],
        ),
        ShareLogEvent::ImplausibleResponse { node } => log_event(
            Level::Error,
            "queue.bad_response",
            format!(
                "a ShareFetch response of broker {node} names acquired records that overlap or are too many; it is \
                 ignored, and the records are delivered again when their locks end"
            ),
            vec![("broker", node.to_string())],
        ),
    }
}
