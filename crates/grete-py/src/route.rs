//! A route's settings on their way from Python to the dispatcher.

use std::sync::Arc;
use std::time::Duration;

use grete_client::{Concurrency, OffsetPolicy, Pool, RatePolicy, RetryPolicy, RoutePolicy};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Topics and how their records are processed. Seconds are floats, sizes bytes.
#[pyclass(frozen, module = "grete._core")]
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
        *, id, name, topics, pool="threads", concurrency="partition", key_slots=0, max_messages=500, max_bytes=16 << 20,
        max_wait=0.0, max_in_flight=4096, offsets="auto", max_unmarked=100_000, offset_map=false, attempts=Some(5),
        backoff=(0.2, 30.0), jitter=0.2, dead_letter=false, priority=0, rate_limit=None, delay=None, expire=None, eof=false,
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
        max_messages: usize,
        max_bytes: usize,
        max_wait: f64,
        max_in_flight: usize,
        offsets: &str,
        max_unmarked: usize,
        offset_map: bool,
        attempts: Option<u32>,
        backoff: (f64, f64),
        jitter: f64,
        dead_letter: bool,
        priority: i32,
        rate_limit: Option<(u32, f64)>,
        delay: Option<f64>,
        expire: Option<f64>,
        eof: bool,
        tick: Option<f64>,
        stall_after: Option<f64>,
        handler_timeout: Option<f64>,
    ) -> PyResult<Self> {
        for (setting, value) in
            [("max_messages", max_messages), ("max_bytes", max_bytes), ("max_in_flight", max_in_flight)]
        {
            if value == 0 {
                return Err(PyValueError::new_err(format!("{setting} is at least 1, not 0")));
            }
        }
        if attempts == Some(0) {
            return Err(PyValueError::new_err(
                "attempts counts the first run, too: it is at least 1, or None for ever",
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
        let policy = RoutePolicy {
            route: id,
            name: Arc::from(name),
            pool: one_of("pool", pool, &[("threads", Pool::Threads), ("loop", Pool::Loop)])?,
            concurrency: one_of(
                "concurrency",
                concurrency,
                &[
                    ("partition", Concurrency::Partition),
                    ("key", Concurrency::Key),
                    ("unordered", Concurrency::Unordered),
                ],
            )?,
            key_slots: key_slots.max(1),
            max_messages,
            max_bytes,
            max_wait: nanos("max_wait", max_wait)?,
            max_in_flight,
            offsets: one_of(
                "offsets",
                offsets,
                &[
                    ("auto", OffsetPolicy::Auto),
                    ("manual", OffsetPolicy::Manual),
                    ("at_most_once", OffsetPolicy::AtMostOnce),
                ],
            )?,
            max_unmarked,
            offset_map,
            retry: RetryPolicy {
                attempts,
                first: nanos("backoff", backoff.0)?,
                longest: nanos("backoff", backoff.1)?,
                jitter_percent: (jitter * 100.0).round() as u32,
            },
            dead_letter,
            priority,
            rate_limit,
            delay_ms: milliseconds("delay", delay)?,
            expire_ms: milliseconds("expire", expire)?,
            eof,
            tick: optional("tick", tick)?,
            hooks: true,
            stall_after: optional("stall_after", stall_after)?,
            handler_timeout: optional("handler_timeout", handler_timeout)?,
        };
        Ok(Self { route: grete_client::Route { topics, policy: Arc::new(policy) } })
    }

    /// As given; jobs carry it.
    #[getter]
    fn id(&self) -> u32 {
        self.route.policy.route
    }

    /// The handler's name, for reports.
    #[getter]
    fn name(&self) -> &str {
        &self.route.policy.name
    }

    /// The topics' names.
    #[getter]
    fn topics(&self) -> Vec<String> {
        self.route.topics.clone()
    }

    fn __repr__(&self) -> String {
        format!("<Route {} {} of {}>", self.route.policy.route, self.route.policy.name, self.route.topics.join(", "))
    }
}

fn one_of<T: Copy>(setting: &str, given: &str, known: &[(&str, T)]) -> PyResult<T> {
    known.iter().find(|(name, _)| *name == given).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        PyValueError::new_err(format!("{setting} is one of {}, not {given:?}", names.join(", ")))
    })
}

/// The duration; refused if it is none.
fn duration(setting: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{setting} is a number of seconds from 0 up, not {seconds}")))
}

fn nanos(setting: &str, seconds: f64) -> PyResult<u64> {
    Ok(u64::try_from(duration(setting, seconds)?.as_nanos()).unwrap_or(u64::MAX))
}

fn optional(setting: &str, seconds: Option<f64>) -> PyResult<Option<u64>> {
    seconds.map(|seconds| nanos(setting, seconds)).transpose()
}

fn milliseconds(setting: &str, seconds: Option<f64>) -> PyResult<Option<i64>> {
    let in_ms = |seconds| Ok(i64::try_from(duration(setting, seconds)?.as_millis()).unwrap_or(i64::MAX));
    seconds.map(in_ms).transpose()
}
