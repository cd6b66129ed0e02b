//! Calls about transactions, with the GIL detached while they wait.

use std::sync::Arc;
use std::time::Duration;

use grete_client::produce::{GroupMetadata, TransactionCall, TransactionOffset};
use grete_client::{PendingTransactionCall, Producer as ClientProducer, TopicPartition, TransactionStatus};
use pyo3::prelude::*;

use super::Producer;
use crate::convert::parse_timeout;
use crate::errors;
use crate::log_event;

/// Group id, member id, generation and instance id.
type GroupArg = (String, String, i32, Option<String>);
/// Topic, partition and position.
type OffsetArg = (String, i32, i64);

/// Builds the call for its name; `None`: no such call.
fn call_of(name: &str, group: Option<GroupArg>, offsets: Vec<OffsetArg>) -> Option<TransactionCall> {
    Some(match (name, group) {
        ("init_transactions", _) => TransactionCall::Init,
        ("begin_transaction", _) => TransactionCall::Begin,
        ("commit_transaction", _) => TransactionCall::Commit,
        ("abort_transaction", _) => TransactionCall::Abort,
        ("send_offsets", Some((group, member, generation, instance))) => TransactionCall::SendOffsets {
            group: Arc::new(GroupMetadata {
                group_id: group.into(),
                member_id: member.into(),
                generation,
                instance_id: instance.map(Into::into),
            }),
            offsets: offsets
                .into_iter()
                .map(|(topic, partition, position)| TransactionOffset {
                    tp: TopicPartition::new(topic, partition),
                    position,
                    leader_epoch: -1,
                })
                .collect(),
        },
        _ => return None,
    })
}

/// Makes a call and waits for its result, at most `timeout` seconds (None: no limit).
pub(super) fn run(
    slf: &Bound<'_, Producer>,
    name: &str,
    timeout: Option<f64>,
    group: Option<GroupArg>,
    offsets: Vec<OffsetArg>,
) -> PyResult<()> {
    let py = slf.py();
    let timeout = parse_timeout(timeout)?;
    let client = Producer::open_client(slf)?;
    let Some(call) = call_of(name, group, offsets) else {
        return Err(errors::client(grete_client::ClientError::Invalid(format!("there is no call {name:?}"))));
    };
    let deadline = timeout.map(|timeout| client.deadline(timeout));
    let pending = py.detach(|| client.begin_transaction_call(call)).map_err(errors::client)?;
    let result = loop {
        let status = py.detach(|| client.await_transaction(&pending, deadline));
        let ended = match status {
            TransactionStatus::Done(result) => break result.map_err(errors::client),
            TransactionStatus::Pending => continue,
            TransactionStatus::Interrupted => log_event::check_interrupted(py).err(),
            TransactionStatus::TimedOut => Some(errors::transaction_timeout(name, timeout)),
        };
        if let Some(error) = ended {
            break give_up(py, client, name, &pending, error);
        }
    };
    // The callbacks of records that the call has settled.
    Producer::finish_callbacks(slf, deadline.or(Some(client.deadline(Duration::from_secs(1)))))?;
    result
}

/// Ends a call whose caller waits no longer. A transaction that has begun meanwhile is aborted, because no caller knows it.
fn give_up(
    py: Python<'_>,
    client: &ClientProducer,
    name: &str,
    pending: &PendingTransactionCall,
    error: PyErr,
) -> PyResult<()> {
    let result = py.detach(|| client.cancel_transaction_call(pending));
    let is_timeout = error.is_instance_of::<pyo3::exceptions::PyTimeoutError>(py);
    match result {
        Some(result) if is_timeout => return result.map_err(errors::client),
        Some(Ok(())) if name == "begin_transaction" => {
            // Its result does not matter: a close would abort it, too.
            let _ = py.detach(|| client.begin_transaction_call(TransactionCall::Abort));
        }
        _ => {}
    }
    Err(error)
}
