//! Shutdown and its signals, as far as they must work without the GIL.

use std::time::Instant;

use grete_client::SignalNumbers;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::client::Client;
use crate::convert::timeout_or_forever;
use crate::dispatch::dispatcher::Dispatcher;
use crate::errors;
use crate::ffi::fork_guarded::ForkGuarded;
use crate::producer::Producer;

/// Shutdown of one run: begun by a signal or a call, with one deadline that holds even while a thread keeps the GIL.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct Shutdown {
    stop: ForkGuarded<grete_client::Shutdown>,
}

#[pymethods]
impl Shutdown {
    /// `timeout`: seconds for the shutdown, unless `begin` gives others.
    #[new]
    fn new(dispatcher: &Dispatcher, timeout: f64) -> PyResult<Self> {
        let stop = grete_client::Shutdown::new(dispatcher.get()?, timeout_or_forever(Some(timeout))?);
        Ok(Self { stop: ForkGuarded::new(stop.map_err(errors::client)?) })
    }

    /// Begins the shutdown: no more jobs but the last hooks, and the time runs. In later calls the earliest deadline
    /// counts.
    #[pyo3(signature = (timeout=None))]
    fn begin(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let (stop, timeout) = (self.stop.get()?, timeout.map(|timeout| timeout_or_forever(Some(timeout))).transpose()?);
        py.detach(|| stop.begin(timeout));
        Ok(())
    }

    /// Makes the process exit with status 2 at the deadline. Before that, `dump` is raised (faulthandler's C handler
    /// dumps all stacks; 0: none).
    fn exit_at_deadline(&self, dump: i32) -> PyResult<()> {
        self.stop.get()?.exit_on_deadline(dump);
        Ok(())
    }

    /// Returns the seconds left for (handlers, delivery, closing, everything); None before the shutdown has begun.
    fn remaining(&self) -> PyResult<Option<(f64, f64, f64, f64)>> {
        let stages = self.stop.get()?.deadlines();
        Ok(stages.map(|stages| {
            let now = Instant::now();
            let [handlers, delivery, close, end] = [stages.handlers, stages.delivery, stages.close, stages.end]
                .map(|until| until.saturating_duration_since(now).as_secs_f64());
            (handlers, delivery, close, end)
        }))
    }

    /// Adds a client to close. False: too late, `close_clients` will not close it.
    fn add_client(&self, client: &Client) -> PyResult<bool> {
        Ok(self.stop.get()?.add_client(client.get()?))
    }

    /// Adds a producer to close. False: too late to count its records, so it must take none.
    fn add_producer(&self, producer: &Producer) -> PyResult<bool> {
        Ok(self.stop.get()?.add_producer(producer.client()?))
    }

    /// Delivers, commits, leaves the groups and closes the clients, or waits for another thread that does so.
    ///
    /// Returns whether all produced records are written, the numbers of those that are not (by topic; not written;
    /// unknown), and the groups that were not left, with the reasons. None: another thread does the work and has not
    /// finished in time.
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn close_clients<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(bool, Bound<'py, PyDict>, u64, u64, Vec<(String, Py<PyAny>)>)>> {
        let stop = self.stop.get()?;
        let Some(report) = py.detach(|| stop.close_clients()) else { return Ok(None) };
        let by_topic = PyDict::new(py);
        for (topic, count) in &report.undelivered.by_topic {
            by_topic.set_item(topic, count)?;
        }
        let not_left = report.failed_to_leave.iter();
        let not_left = not_left.map(|(group, error)| {
            let error = errors::client(error.clone()).into_value(py).into_any();
            (group.clone(), error)
        });
        let undelivered = &report.undelivered;
        let (not_written, unknown) = (undelivered.not_written, undelivered.unknown);
        Ok(Some((report.is_delivered(), by_topic, not_written, unknown, not_left.collect())))
    }

    /// Ends the shutdown and cancels the deadline.
    fn finish(&self) -> PyResult<()> {
        self.stop.get()?.finish();
        Ok(())
    }

    /// Returns a descriptor that is readable after a signal or `wake`.
    fn fd(&self) -> PyResult<i32> {
        Ok(self.stop.get()?.fd())
    }

    /// Makes `fd` readable, from any thread.
    fn wake(&self) -> PyResult<()> {
        self.stop.get()?.wake();
        Ok(())
    }

    /// Returns the signals since the last call, in order.
    fn drain_signals(&self) -> PyResult<Vec<i32>> {
        Ok(self.stop.get()?.take_signals())
    }
}

impl Drop for Shutdown {
    fn drop(&mut self) {
        // No object is left that could cancel the deadline. A forked child has no deadline.
        if let Ok(stop) = self.stop.get() {
            stop.finish();
        }
    }
}

/// Watches for signals in a thread that needs no GIL. The first of `stop_signals` begins the shutdown, and a second
/// `stop_signals[0]` expedites it. `quiet` stops the hand-out of records. After `dump`, C code dumps the stacks if the
/// holder of the GIL does not release it.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct SignalWatch {
    watch: ForkGuarded<grete_client::SignalWatch>,
}

#[pymethods]
impl SignalWatch {
    #[new]
    fn new(stop: &Shutdown, stop_signals: [i32; 2], quiet: i32, dump: i32) -> PyResult<Self> {
        let signal_numbers = SignalNumbers { stop: stop_signals, quiet, dump };
        let watch = grete_client::SignalWatch::start(stop.stop.get()?.clone(), signal_numbers);
        Ok(Self { watch: ForkGuarded::new(watch.map_err(errors::client)?) })
    }

    /// Returns the descriptor for `signal.set_wakeup_fd`.
    fn wakeup_fd(&self) -> PyResult<i32> {
        Ok(self.watch.get()?.wakeup_fd())
    }
}
