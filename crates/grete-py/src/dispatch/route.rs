//! Conversion of a route's settings from Python for the dispatcher.

use std::sync::Arc;
use std::time::Duration;

use grete_client::{Concurrency, DedupPolicy, IdSource, OffsetPolicy, Pool, RatePolicy, RetryPolicy, RouteConfig};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert;

/// Topics and how their records are processed. Durations in seconds, sizes in bytes.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct Route {
    route: grete_client::Route,
}

impl Route {
    pub(crate) fn get(&self) -> &grete_client::Route {
        &self.route
    }
}

#[pymethods]
impl Route {
    #[new]
    #[pyo3(signature = (
        *, id, name, topics, pool="threads", concurrency="partition", key_slots=0, shares=1, max_concurrency=None, max_messages=None, max_bytes=None,
        max_wait=0.0, max_in_flight=None, offsets="auto", queue=false, max_unmarked=None, offset_map=false, attempts=Some(5),
        backoff=(0.2, 30.0), jitter=0.2, dead_letter=false, priority=0, rate_limit=None, delay=None, max_age=None, dedup=None, eof=false,
        tick=None, stall_after=None, handler_timeout=None
    ))]
    #[allow(clippy::too_many_arguments)]
    #[allow(clippy::fn_params_excessive_bools)]
    fn new(
        id: u32,
        name: &str,
        topics: Vec<String>,
        pool: &str,
        concurrency: &str,
        key_slots: u32,
        shares: u32,
        max_concurrency: Option<u32>,
        max_messages: Option<usize>,
        max_bytes: Option<usize>,
        max_wait: f64,
        max_in_flight: Option<usize>,
        offsets: &str,
        queue: bool,
        max_unmarked: Option<usize>,
        offset_map: bool,
        attempts: Option<u32>,
        backoff: (f64, f64),
        jitter: f64,
        dead_letter: bool,
        priority: i32,
        rate_limit: Option<(u32, f64)>,
        delay: Option<f64>,
        max_age: Option<f64>,
        dedup: Option<(String, String, f64, usize)>,
        eof: bool,
        tick: Option<f64>,
        stall_after: Option<f64>,
        handler_timeout: Option<f64>,
    ) -> PyResult<Self> {
        let defaults = RouteConfig::default();
        let max_messages = max_messages.unwrap_or(defaults.max_messages);
        let max_bytes = max_bytes.unwrap_or(defaults.max_bytes);
        let max_in_flight = max_in_flight.unwrap_or(defaults.max_in_flight);
        for (setting, value) in
            [("max_messages", max_messages), ("max_bytes", max_bytes), ("max_in_flight", max_in_flight)]
        {
            if value == 0 {
                return Err(PyValueError::new_err(format!("{setting} is at least 1, not 0")));
            }
        }
        if attempts == Some(0) {
            return Err(PyValueError::new_err(
                "attempts counts the first run, too: it is at least 1, or None for no limit",
            ));
        }
        if !(0.0..=1.0).contains(&jitter) {
            return Err(PyValueError::new_err(format!("jitter is a share of the wait, 0 to 1, not {jitter}")));
        }
        let rate_limit = match rate_limit {
            Some((0, _)) => return Err(PyValueError::new_err("a rate_limit of 0 records would never run anything")),
            Some((records, per)) => Some(RatePolicy { records, per: nanos("rate_limit", per)?.max(1) }),
            None => None,
        };
        let policy = RouteConfig {
            route: id,
            name: Arc::from(name),
            pool: parse_choice("pool", pool, &[("threads", Pool::Threads), ("loop", Pool::EventLoop)])?,
            concurrency: parse_choice(
                "concurrency",
                concurrency,
                &[
                    ("partition", Concurrency::Partition),
                    ("key", Concurrency::Key),
                    ("unordered", Concurrency::Unordered),
                ],
            )?,
            key_slots,
            shares,
            max_concurrency,
            max_messages,
            max_bytes,
            max_wait: nanos("max_wait", max_wait)?,
            max_in_flight,
            offsets: parse_choice(
                "offsets",
                offsets,
                &[
                    ("auto", OffsetPolicy::Auto),
                    ("manual", OffsetPolicy::Manual),
                    ("at_most_once", OffsetPolicy::AtMostOnce),
                ],
            )?,
            queue,
            max_unmarked: max_unmarked.unwrap_or(defaults.max_unmarked),
            offset_map,
            retry: RetryPolicy {
                attempts,
                backoff: nanos("backoff", backoff.0)?,
                max_backoff: nanos("backoff", backoff.1)?,
                jitter_percent: (jitter * 100.0).round() as u32,
            },
            dead_letter,
            priority,
            rate_limit,
            delay_ms: milliseconds("delay", delay)?,
            max_age_ms: milliseconds("max_age", max_age)?,
            dedup: dedup.map(parse_dedup).transpose()?.map(Arc::new),
            eof,
            tick: optional_nanos("tick", tick)?,
            hooks: true,
            stall_after: optional_nanos("stall_after", stall_after)?,
            handler_timeout: optional_nanos("handler_timeout", handler_timeout)?,
        };
        Ok(Self { route: grete_client::Route { topics, policy: Arc::new(policy) } })
    }

    /// Id of the route; its jobs carry it.
    #[getter]
    fn id(&self) -> u32 {
        self.route.policy.route
    }

    /// Name of the handler, for reports.
    #[getter]
    fn name(&self) -> &str {
        &self.route.policy.name
    }

    /// Names of the topics.
    #[getter]
    fn topics(&self) -> Vec<String> {
        self.route.topics.clone()
    }

    fn __repr__(&self) -> String {
        format!("<Route {} {} of {}>", self.route.policy.route, self.route.policy.name, self.route.topics.join(", "))
    }
}

/// Parses ("header", "key" or "field", its name, the window in seconds, bytes of memory).
fn parse_dedup((kind, name, window, max_bytes): (String, String, f64, usize)) -> PyResult<DedupPolicy> {
    let id = match kind.as_str() {
        "header" => IdSource::Header(name),
        "key" => IdSource::Key,
        "field" => IdSource::Field(name),
        other => return Err(PyValueError::new_err(format!("dedup is by header, key or field, not {other:?}"))),
    };
    let window_ms = milliseconds("dedup_window", Some(window))?.unwrap_or(i64::MAX);
    Ok(DedupPolicy { id, window_ms, max_bytes })
}

fn parse_choice<T: Copy>(setting: &str, given: &str, known: &[(&str, T)]) -> PyResult<T> {
    known.iter().find(|(name, _)| *name == given).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        PyValueError::new_err(format!("{setting} is one of {}, not {given:?}", names.join(", ")))
    })
}

/// Returns the duration; refuses numbers that are no duration.
fn duration(setting: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{setting} is a number of seconds from 0 up, not {seconds}")))
}

fn nanos(setting: &str, seconds: f64) -> PyResult<u64> {
    Ok(convert::nanos(duration(setting, seconds)?))
}

fn optional_nanos(setting: &str, seconds: Option<f64>) -> PyResult<Option<u64>> {
    seconds.map(|seconds| nanos(setting, seconds)).transpose()
}

fn milliseconds(setting: &str, seconds: Option<f64>) -> PyResult<Option<i64>> {
    let in_ms = |seconds| Ok(i64::try_from(duration(setting, seconds)?.as_millis()).unwrap_or(i64::MAX));
    seconds.map(in_ms).transpose()
}

/// Returns the defaults of a route's limits, by setting. `max_bytes` is in bytes, the others are numbers of records.
#[pyfunction]
pub(crate) fn route_defaults() -> std::collections::HashMap<&'static str, usize> {
    let defaults = RouteConfig::default();
    [
        ("max_messages", defaults.max_messages),
        ("max_bytes", defaults.max_bytes),
        ("max_in_flight", defaults.max_in_flight),
        ("max_unmarked", defaults.max_unmarked),
    ]
    .into()
}
