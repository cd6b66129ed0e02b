//! Health of a process, reported by threads that need no GIL.

mod http_protocol;
mod kafka_sink;
mod metric_families;
mod source;
mod swarm_metrics;
mod threads;

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use grete_health::checks::{GIL_WAIT_WARNING, LOOP_WAIT_WARNING};
use grete_health::metrics::prometheus;
use grete_health::probes::Server;
use grete_health::{
    FailedPartitionProbe, GilProbeHandle, HealthCollector, JobStack, Limits, MetricsPublisher, MissingTopic, Pipe,
    ProcessReporter, Reporter,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::client::Client;
use crate::dispatch::dispatcher::Dispatcher;
use crate::errors;
use crate::ffi::fork_guarded::ForkGuarded;
use crate::producer::Producer;
use kafka_sink::KafkaSink;
use metric_families::FamilyList;
use source::ProcessSource;
use threads::HealthThreads;

pub(crate) use http_protocol::HttpProtocol;
pub(crate) use swarm_metrics::{SharedText, aggregate_metrics, metric_descriptors};

/// Adds the constants that the supervisor's probes have in common with those of a process.
pub(crate) fn add_constants(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("EXPOSITION_CONTENT_TYPE", prometheus::CONTENT_TYPE)?;
    module.add("GIL_WAIT_WARNING", GIL_WAIT_WARNING.as_secs_f64())?;
    module.add("LOOP_WAIT_WARNING", LOOP_WAIT_WARNING.as_secs_f64())
}

/// Longest report interval in seconds. Reports at longer intervals would be useless.
const MAX_REPORT_INTERVAL: f64 = 3600.0;

fn report_interval(seconds: f64) -> PyResult<Duration> {
    let time = Duration::try_from_secs_f64(seconds).ok();
    time.filter(|time| !time.is_zero() && seconds <= MAX_REPORT_INTERVAL).ok_or_else(|| {
        PyValueError::new_err(format!("an interval is above 0 and at most {MAX_REPORT_INTERVAL} s, not {seconds}"))
    })
}

/// Health of this process, reported and served by threads that need no GIL. In a forked child every use raises
/// `ForkedClientError`.
#[pyclass(frozen, weakref, module = "grete._native")]
pub(crate) struct Health {
    threads: ForkGuarded<Arc<HealthThreads>>,
    source: ForkGuarded<Arc<ProcessSource>>,
    examiner: ForkGuarded<Arc<HealthCollector>>,
    /// Callable that is registered with `atexit`; `None` until the first thread starts.
    at_exit: Mutex<Option<Py<PyAny>>>,
}

#[pymethods]
impl Health {
    /// `app`: name of the App. The timeouts are in seconds; `None` or infinite: no limit. `failed_partition`: probes
    /// that fail while a partition cannot be read: "readyz", "livez" (both) or "none".
    #[new]
    #[pyo3(signature = (dispatcher, app="", gil_timeout=None, not_ready_timeout=None, failed_partition="readyz"))]
    fn new(
        dispatcher: &Dispatcher,
        app: &str,
        gil_timeout: Option<f64>,
        not_ready_timeout: Option<f64>,
        failed_partition: &str,
    ) -> PyResult<Self> {
        let source = Arc::new(ProcessSource::new(dispatcher.get()?.clone()));
        let limit = |seconds: Option<f64>| seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let limits = Limits {
            gil_timeout: limit(gil_timeout),
            not_ready_timeout: limit(not_ready_timeout),
            failed_partition: match failed_partition {
                "readyz" => FailedPartitionProbe::Ready,
                "livez" => FailedPartitionProbe::Live,
                "none" => FailedPartitionProbe::None,
                other => {
                    return Err(PyValueError::new_err(format!("a probe is readyz, livez or none, not {other:?}")));
                }
            },
        };
        let examiner = Arc::new(HealthCollector::new(app.into(), limits, Arc::clone(&source) as _));
        Ok(Self {
            threads: ForkGuarded::new(Arc::default()),
            source: ForkGuarded::new(source),
            examiner: ForkGuarded::new(examiner),
            at_exit: Mutex::default(),
        })
    }

    /// Adds a client's membership and activity to the reports. Each change of its readiness is reported at once.
    fn add_client(&self, client: &Client) -> PyResult<()> {
        let client = client.get()?;
        let threads = Arc::downgrade(self.threads.get()?);
        client.on_ready_change(move || {
            if let Some(threads) = threads.upgrade()
                && let Some(reporter) = threads.reporter.get()
            {
                reporter.report_now();
            }
        });
        self.source.get()?.add(client.clone());
        Ok(())
    }

    /// Adds a producer's activity to the reports, even after its end.
    fn add_producer(&self, producer: &Producer) -> PyResult<()> {
        self.source.get()?.add_producer(producer.client()?.clone());
        Ok(())
    }

    /// Sets the topics that are needed and do not exist, in place of those set before: (topic, text). The text says
    /// what needs the topic, and the cure.
    fn set_missing(&self, topics: Vec<(String, String)>) -> PyResult<()> {
        let topics = topics.into_iter().map(|(topic, text)| MissingTopic { topic, text });
        self.source.get()?.set_missing(topics.collect());
        Ok(())
    }

    /// Starts a thread that writes reports. `fd`: the write end of a pipe. `interval`: seconds between two reports.
    /// `gil_probe`: measure the wait for the GIL. `shared_text`: each report also publishes the metrics there.
    #[pyo3(signature = (fd, interval, gil_probe=true, shared_text=None))]
    fn report(
        &self,
        py: Python<'_>,
        fd: i32,
        interval: f64,
        gil_probe: bool,
        shared_text: Option<&SharedText>,
    ) -> PyResult<()> {
        let time = report_interval(interval)?;
        let (threads, source, examiner) = (self.threads.get()?, self.source.get()?, self.examiner.get()?);
        if threads.reporter.get().is_some() {
            return Err(PyRuntimeError::new_err("it reports already"));
        }
        let wrong = |error| errors::health(&error);
        let pipe = Pipe::new(fd).map_err(wrong)?;
        self.register_atexit(py, threads)?;
        let watch = gil_probe.then(|| self.gil_probe(threads)).transpose()?;
        let publisher =
            shared_text.map(|board| MetricsPublisher { shared_text: board.to_arc(), collector: Arc::clone(examiner) });
        let source = Arc::clone(source) as _;
        let reporter = Reporter::start(pipe, time, source, watch, publisher, grete_health::exit_orphaned);
        if let Err(second) = threads.reporter.set(reporter.map_err(wrong)?) {
            second.close();
        }
        Ok(())
    }

    /// Starts a thread that writes reports of the process to a topic. `key`: that of all reports. `facts`: JSON object
    /// that each report repeats. `interval`: seconds between two reports.
    fn report_to(
        &self,
        py: Python<'_>,
        producer: &Producer,
        topic: String,
        key: Vec<u8>,
        facts: String,
        interval: f64,
    ) -> PyResult<()> {
        let threads = self.threads.get()?;
        if threads.process_reporter.get().is_some() {
            return Err(PyRuntimeError::new_err("it reports to a topic already"));
        }
        let time = report_interval(interval)?;
        self.register_atexit(py, threads)?;
        self.gil_probe(threads)?;
        let sink = KafkaSink::new(producer.client()?.clone(), topic, key);
        let reporter = ProcessReporter::start(facts, time, Arc::clone(self.examiner.get()?), sink);
        if let Err(second) = threads.process_reporter.set(reporter.map_err(|error| errors::health(&error))?) {
            second.close();
        }
        Ok(())
    }

    /// Sets the stacks of the next reports to a topic: (text, stack, time). `text` describes the job; the time is in
    /// seconds since 1970.
    fn set_stacks(&self, stacks: Vec<(String, String, f64)>) -> PyResult<()> {
        let Some(reporter) = self.threads.get()?.process_reporter.get() else { return Ok(()) };
        let taken = |at: f64| Duration::try_from_secs_f64(at).unwrap_or_default();
        let stacks = stacks.into_iter().map(|(text, stack, at)| JobStack { text, stack, taken_at: taken(at) });
        reporter.set_stacks(stacks.collect());
        Ok(())
    }

    /// Starts a thread that answers probes. `listeners`: descriptors of listening sockets, which the thread duplicates.
    fn serve(&self, py: Python<'_>, listeners: Vec<RawFd>) -> PyResult<()> {
        let threads = self.threads.get()?;
        if threads.server.get().is_some() {
            return Err(PyRuntimeError::new_err("it serves already"));
        }
        self.register_atexit(py, threads)?;
        self.gil_probe(threads)?;
        let server = Server::start(&listeners, Arc::clone(self.examiner.get()?) as _);
        if let Err(second) = threads.server.set(server.map_err(|error| errors::health(&error))?) {
            second.close();
        }
        Ok(())
    }

    /// Closes a forked child's copies of the descriptors that the parent's threads have open.
    fn leave_to_parent(&self) {
        // Plain memory and system calls only: the parent's threads do not exist here, and none of their locks is waited
        // for.
        if self.threads.get().is_err() {
            self.threads.get_unguarded().close_in_child();
        }
    }

    /// Returns all metrics in Prometheus' text format.
    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        let examiner = self.examiner.get()?;
        let text = py.detach(|| prometheus::write(examiner.metrics(), Vec::new()));
        Ok(String::from_utf8(text)?)
    }

    /// Returns all metrics as Python objects.
    fn families<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let examiner = self.examiner.get()?;
        let metrics = py.detach(|| examiner.metrics());
        let mut families = FamilyList::new(py);
        metrics.visit(&mut families);
        families.into_list()
    }

    /// Ends all threads. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let threads = self.threads.get()?;
        py.detach(|| threads.close());
        let at_exit = self.at_exit.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(at_exit) = at_exit {
            py.import("atexit")?.call_method1("unregister", (at_exit,))?;
        }
        Ok(())
    }
}

impl Health {
    fn gil_probe(&self, threads: &HealthThreads) -> PyResult<GilProbeHandle> {
        let watch = threads.start_gil_probe().map_err(|error| errors::health(&error))?;
        self.examiner.get()?.set_gil_probe(watch.clone());
        Ok(watch)
    }

    /// Registers the end of the threads with `atexit`, once.
    fn register_atexit(&self, py: Python<'_>, threads: &Arc<HealthThreads>) -> PyResult<()> {
        let is_registered =
            |at_exit: &Mutex<Option<_>>| at_exit.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !is_registered(&self.at_exit) {
            // Without the lock: this call runs Python, and a thread that waits for the lock may hold the GIL.
            let at_exit = threads::register_close_at_exit(py, threads)?;
            *self.at_exit.lock().unwrap_or_else(PoisonError::into_inner) = Some(at_exit);
        }
        Ok(())
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        // A forked child has no threads to end. If the interpreter is shutting down, the `atexit` callback has ended
        // them.
        if let Ok(threads) = self.threads.get() {
            Python::try_attach(|py| py.detach(|| threads.close()));
        }
    }
}
