//! Stopping, as far as it must work without the GIL.

use std::time::{Duration, Instant};

use grete_client::SignalNumbers;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::client::Client;
use crate::dispatcher::{Dispatcher, seconds};
use crate::errors;
use crate::handle::Handle;
use crate::producer::Producer;

/// Longer than any stop, short enough to be added to a clock.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn patience(timeout: f64) -> PyResult<Duration> {
    Ok(seconds(Some(timeout))?.map_or(YEAR, |timeout| timeout.min(YEAR)))
}

/// The stop of one run: begun by a signal or a call, with one deadline that holds whoever has the GIL.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Stop {
    stop: Handle<grete_client::Stop>,
}

#[pymethods]
impl Stop {
    /// A stop has `timeout` seconds unless `begin` says otherwise.
    #[new]
    fn new(dispatcher: &Dispatcher, timeout: f64) -> PyResult<Self> {
        let stop = grete_client::Stop::new(dispatcher.get()?, patience(timeout)?);
        Ok(Self { stop: Handle::new(stop.map_err(errors::client)?) })
    }

    /// No more jobs but last hooks, and the time runs. Again: the earliest end counts.
    #[pyo3(signature = (timeout=None))]
    fn begin(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let (stop, timeout) = (self.stop.get()?, timeout.map(patience).transpose()?);
        py.detach(|| stop.begin(timeout));
        Ok(())
    }

    /// The process ends with status 2 when the time is up, and not only the stop. Before, `dump` is raised (faulthandler's C
    /// handler dumps all stacks; 0: none).
    fn exit_at_the_end(&self, dump: i32) -> PyResult<()> {
        self.stop.get()?.exit_at_the_end(dump);
        Ok(())
    }

    /// Seconds left for (handlers, delivery, closing, everything); None before the beginning.
    fn left(&self) -> PyResult<Option<(f64, f64, f64, f64)>> {
        let stages = self.stop.get()?.stages();
        Ok(stages.map(|stages| {
            let now = Instant::now();
            let [handlers, delivery, close, end] = [stages.handlers, stages.delivery, stages.close, stages.end]
                .map(|until| until.saturating_duration_since(now).as_secs_f64());
            (handlers, delivery, close, end)
        }))
    }

    /// False: it comes too late to be closed by the farewell.
    fn add_client(&self, client: &Client) -> PyResult<bool> {
        Ok(self.stop.get()?.add_client(client.get()?))
    }

    /// False: it comes too late to be counted, and must take no record.
    fn add_producer(&self, producer: &Producer) -> PyResult<bool> {
        Ok(self.stop.get()?.add_producer(producer.client()?))
    }

    /// Delivers, commits, leaves, closes; or waits for whoever is at it. Returns whether offsets were committed (not when
    /// produced records were given up), these records by topic, and the groups that were not left, with the reasons. None:
    /// somebody else is at it, and not done in time.
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn say_farewell<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(bool, Bound<'py, PyDict>, u64, u64, Vec<(String, Py<PyAny>)>)>> {
        let stop = self.stop.get()?;
        let Some(parting) = py.detach(|| stop.say_farewell()) else { return Ok(None) };
        let by_topic = PyDict::new(py);
        for (topic, count) in &parting.undelivered.by_topic {
            by_topic.set_item(topic, count)?;
        }
        let not_left = parting.not_left.iter();
        let not_left = not_left.map(|(group, error)| {
            let error = errors::client(error.clone()).into_value(py).into_any();
            (group.clone(), error)
        });
        let undelivered = &parting.undelivered;
        let (not_written, unknown) = (undelivered.not_written, undelivered.unknown);
        Ok(Some((parting.committed(), by_topic, not_written, unknown, not_left.collect())))
    }

    /// All is done: the deadline is called off.
    fn over(&self) -> PyResult<()> {
        self.stop.get()?.over();
        Ok(())
    }

    /// Readable after a signal or `wake`.
    fn fd(&self) -> PyResult<i32> {
        Ok(self.stop.get()?.fd())
    }

    /// Makes `fd` readable, from any thread.
    fn wake(&self) -> PyResult<()> {
        self.stop.get()?.wake();
        Ok(())
    }

    /// The signals since the last call, in order.
    fn take_signals(&self) -> PyResult<Vec<i32>> {
        Ok(self.stop.get()?.take_signals())
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        // Nobody is left who could call the deadline off; in a forked child there is none.
        if let Ok(stop) = self.stop.get() {
            stop.over();
        }
    }
}

/// Watches for signals with a thread that needs no GIL: the first of `stop` begins the stop, a second `stop[0]` hurries it;
/// `quiet` hands out no more records; after `dump` stacks are dumped by C code if the GIL's holder does not give it back.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct SignalWatch {
    watch: Handle<grete_client::SignalWatch>,
}

#[pymethods]
impl SignalWatch {
    #[new]
    fn new(stop: &Stop, stop_signals: [i32; 2], quiet: i32, dump: i32) -> PyResult<Self> {
        let numbers = SignalNumbers { stop: stop_signals, quiet, dump };
        let watch = grete_client::SignalWatch::start(stop.stop.get()?.clone(), numbers);
        Ok(Self { watch: Handle::new(watch.map_err(errors::client)?) })
    }

    /// For `signal.set_wakeup_fd`.
    fn wakeup_fd(&self) -> PyResult<i32> {
        Ok(self.watch.get()?.wakeup_fd())
    }
}
