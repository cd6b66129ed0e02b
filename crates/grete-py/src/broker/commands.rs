//! Commands to embedded brokers: name and keyword arguments from Python.

use std::sync::Arc;

use grete_broker::cluster::LoggedRequest;
use grete_broker::fault::{FaultAction, FaultRule};
use grete_broker::ids::{Millis, TopicPartition};
use grete_broker::log::StoredRecord;
use grete_wire::{ApiKey, ErrorCode};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::EmbeddedBroker;

type Headers = Vec<(String, Option<Vec<u8>>)>;

/// Runs a command.
pub(super) fn run<'py>(
    broker: &EmbeddedBroker,
    py: Python<'py>,
    command: &str,
    values: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = Arguments { command, values };
    if let Some(result) = inspect(broker, py, &arguments)? {
        return Ok(result);
    }
    match command {
        "create_topic" => {
            let (name, partitions) = (arguments.get::<String>("name")?, arguments.get_or("partitions", -1)?);
            let configs: Vec<(String, String)> = match arguments.values.get_item("configs")? {
                Some(configs) => configs.cast::<PyDict>()?.items().extract()?,
                None => Vec::new(),
            };
            broker.command(py, move |cluster, _, _| {
                let configs: Vec<(&str, &str)> =
                    configs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                cluster.create_topic(&name, partitions, &configs).map_err(|(_, message)| message)
            })?;
        }
        "delete_topic" => {
            let name: String = arguments.get("name")?;
            broker.command(py, move |cluster, _, _| match cluster.delete_topic(&name) {
                true => Ok(()),
                false => Err(format!("topic {name} does not exist")),
            })?;
        }
        "compact" => {
            let topic: String = arguments.get("topic")?;
            broker.command(py, move |cluster, _, _| cluster.compact(&topic))?;
        }
        "enforce_retention" => broker.command(py, |cluster, _, _| {
            cluster.enforce_retention();
            Ok(())
        })?,
        "stop_broker" => {
            let id = arguments.get("broker")?;
            broker.command(py, move |cluster, _, actions| cluster.stop_broker(id, actions))?;
        }
        "start_broker" => {
            let id = arguments.get("broker")?;
            broker.command(py, move |cluster, _, actions| cluster.start_broker(id, actions))?;
        }
        "suspend_broker" => {
            let id = arguments.get("broker")?;
            broker.command(py, move |cluster, _, _| cluster.suspend_broker(id))?;
        }
        "resume_broker" => {
            let id = arguments.get("broker")?;
            broker.command(py, move |cluster, _, actions| cluster.resume_broker(id, actions))?;
        }
        "move_leader" => {
            let (topic, partition) = (arguments.get::<String>("topic")?, arguments.get("partition")?);
            let id = arguments.get("broker")?;
            broker.command(py, move |cluster, _, _| cluster.move_leader(&topic, partition, id))?;
        }
        "move_coordinators" => broker.command(py, |cluster, _, actions| {
            cluster.move_coordinators(actions);
            Ok(())
        })?,
        "advance_clock" => {
            let ms: Millis = arguments.get("ms")?;
            broker.command(py, move |cluster, _, actions| {
                cluster.advance_clock(ms, actions);
                Ok(())
            })?;
        }
        "add_fault" => {
            let rule = fault_rule(&arguments)?;
            broker.command(py, move |cluster, _, _| {
                cluster.add_fault(rule);
                Ok(())
            })?;
        }
        "clear_faults" => broker.command(py, |cluster, _, _| {
            cluster.clear_faults();
            Ok(())
        })?,
        "force_rebalance" => {
            let group: String = arguments.get("group")?;
            broker.command(py, move |cluster, _, actions| cluster.force_rebalance(&group, actions))?;
        }
        "expire_session" => {
            let (group, member) = (arguments.get::<String>("group")?, arguments.get_or("member", String::new())?);
            broker.command(py, move |cluster, _, actions| cluster.expire_session(&group, &member, actions))?;
        }
        _ => return Err(PyValueError::new_err(format!("the brokers have no command {command:?}"))),
    }
    Ok(py.None().into_bound(py))
}

/// Runs a command that returns something. `None`: the command is another one.
fn inspect<'py>(
    broker: &EmbeddedBroker,
    py: Python<'py>,
    arguments: &Arguments<'_, 'py>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let result = match arguments.command {
        "topics" => {
            let topics = broker.command(py, |cluster, _, _| {
                let topics = cluster.topics().iter();
                Ok(topics.map(|topic| (topic.name.to_string(), topic.partitions.len())).collect::<Vec<_>>())
            })?;
            let result = PyDict::new(py);
            topics.into_iter().try_for_each(|(name, partitions)| result.set_item(name, partitions))?;
            result.into_any()
        }
        "offsets" => {
            let topic: String = arguments.get("topic")?;
            broker.command(py, move |cluster, _, _| cluster.offsets(&topic))?.into_pyobject(py)?
        }
        "records" => {
            let tp = TopicPartition::new(arguments.get::<String>("topic")?, arguments.get("partition")?);
            let (from, limit) = (arguments.get_or("from_offset", -1)?, arguments.get_or("limit", usize::MAX)?);
            let records = broker.command(py, move |cluster, _, _| cluster.records(&tp, from, limit))?;
            let result = PyList::empty(py);
            records.into_iter().try_for_each(|record| result.append(record_fields(py, record)))?;
            result.into_any()
        }
        "committed" => {
            let group: String = arguments.get("group")?;
            let committed = broker.command(py, move |cluster, _, _| Ok(cluster.committed(&group)))?;
            let result = PyDict::new(py);
            for (tp, committed) in committed {
                result.set_item((&*tp.topic, tp.partition), (committed.offset, &*committed.metadata))?;
            }
            result.into_any()
        }
        "groups" => {
            let groups = broker.command(py, |cluster, _, _| Ok(cluster.groups()))?;
            let result = PyDict::new(py);
            groups.into_iter().try_for_each(|(name, state)| result.set_item(name, state))?;
            result.into_any()
        }
        "members" => {
            let group: String = arguments.get("group")?;
            broker.command(py, move |cluster, _, _| Ok(cluster.members(&group)))?.into_pyobject(py)?
        }
        "requests" => {
            let logged: Vec<LoggedRequest> =
                broker.command(py, |cluster, _, _| Ok(cluster.logged_requests().cloned().collect()))?;
            let result = PyList::empty(py);
            for request in logged {
                result.append((
                    request.at,
                    request.broker,
                    &*request.client_id,
                    request.api.name(),
                    request.version,
                    request.fault.as_deref(),
                ))?;
            }
            result.into_any()
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

/// Returns offset, timestamp, key, value and headers.
#[expect(clippy::type_complexity, reason = "a tuple for Python")]
fn record_fields(
    py: Python<'_>,
    record: StoredRecord,
) -> (i64, i64, Option<Bound<'_, PyBytes>>, Option<Bound<'_, PyBytes>>, Vec<(String, Option<Bound<'_, PyBytes>>)>) {
    let bytes = |bytes: Vec<u8>| PyBytes::new(py, &bytes);
    let headers: Headers = record.headers;
    let headers = headers.into_iter().map(|(name, value)| (name, value.map(bytes))).collect();
    (record.offset, record.timestamp, record.key.map(bytes), record.value.map(bytes), headers)
}

fn fault_rule(arguments: &Arguments<'_, '_>) -> PyResult<FaultRule> {
    let action: String = arguments.get("action")?;
    let action = match action.as_str() {
        "error" => {
            let name: String = arguments.get("error")?;
            let code = ErrorCode::ALL.iter().copied().find(|code| code.name() == name);
            FaultAction::Error(code.ok_or_else(|| {
                PyValueError::new_err(format!("Kafka has no error {name:?}: use a name like NOT_LEADER_OR_FOLLOWER"))
            })?)
        }
        "delay" => FaultAction::Delay(arguments.get("ms")?),
        "disconnect" => FaultAction::Disconnect,
        "disconnect_after" => FaultAction::DisconnectAfter,
        "never_answer" => FaultAction::NeverAnswer,
        "half_frame" => FaultAction::HalfFrame,
        other => return Err(PyValueError::new_err(format!("there is no fault {other:?}"))),
    };
    let api = match arguments.get_or::<Option<String>>("api", None)? {
        Some(name) => Some(ApiKey::ALL.iter().copied().find(|api| api.name() == name).ok_or_else(|| {
            PyValueError::new_err(format!(
                "Kafka has no API {name:?}: use a name like Produce; see grete dev --features"
            ))
        })?),
        None => None,
    };
    let text = |name| Ok::<_, PyErr>(arguments.get_or::<Option<String>>(name, None)?.map(Arc::from));
    Ok(FaultRule {
        topic: text("topic")?,
        partition: arguments.get_or("partition", None)?,
        client_id: text("client_id")?,
        except_client_id: text("except_client_id")?,
        broker: arguments.get_or("broker", None)?,
        skip: arguments.get_or("skip", 0)?,
        times: arguments.get_or("times", None)?,
        ..FaultRule::new(api, action)
    })
}

/// Keyword arguments of a command.
struct Arguments<'a, 'py> {
    command: &'a str,
    values: &'a Bound<'py, PyDict>,
}

impl<'py> Arguments<'_, 'py> {
    fn get<T: for<'a> FromPyObject<'a, 'py>>(&self, name: &str) -> PyResult<T> {
        let Some(value) = self.values.get_item(name)? else {
            return Err(PyValueError::new_err(format!("{} needs the argument {name}", self.command)));
        };
        value.extract().map_err(Into::into)
    }

    fn get_or<T: for<'a> FromPyObject<'a, 'py>>(&self, name: &str, default: T) -> PyResult<T> {
        if self.values.contains(name)? { self.get(name) } else { Ok(default) }
    }
}
