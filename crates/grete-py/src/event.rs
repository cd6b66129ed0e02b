//! Events that cost next to nothing without listeners.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use grete_sys::clock::monotonic_nanos;
use pyo3::exceptions::{PyException, PyKeyError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMappingProxy, PyString, PyTuple};

type Listeners = Option<Py<PyTuple>>;

/// Age from which the difference of the two clocks is taken again, in nanoseconds.
const MAX_DIFFERENCE_AGE: u64 = 100_000_000;

/// Difference of the time since 1970 and [`monotonic_nanos`], and when the difference was taken. An event needs the
/// second clock for durations; reading the first one as well would be a tenth of the cost of an event.
struct WallClock {
    difference: AtomicU64,
    taken: AtomicU64,
}

static WALL_CLOCK: WallClock = WallClock { difference: AtomicU64::new(0), taken: AtomicU64::new(0) };

impl WallClock {
    /// Returns the nanoseconds since 1970 at a time of [`monotonic_nanos`] that has just been read. Events of the first
    /// [`MAX_DIFFERENCE_AGE`] after a step of the system's clock have times of before the step.
    ///
    /// Two threads may both take the difference: each store is whole, and both differences are right.
    fn at(&self, now: u64) -> u64 {
        let taken = self.taken.load(Ordering::Acquire);
        let mut difference = self.difference.load(Ordering::Relaxed);
        if taken == 0 || now.saturating_sub(taken) > MAX_DIFFERENCE_AGE {
            difference = Self::difference();
            self.difference.store(difference, Ordering::Relaxed);
            self.taken.store(now, Ordering::Release);
        }
        now.saturating_add(difference)
    }

    /// Returns the difference by the attempt in which the two clocks were read in the shortest time: a thread that is
    /// descheduled between them would be wrong by the pause.
    fn difference() -> u64 {
        let attempt = |_| {
            let before = monotonic_nanos();
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let pause = monotonic_nanos().saturating_sub(before);
            let wall = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
            (pause, wall.saturating_sub(before.saturating_add(pause / 2)))
        };
        (0..3).map(attempt).min().map_or(0, |(_, difference)| difference)
    }
}

/// Channel of one kind of event of one monitor. True while it has listeners.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct EventChannel {
    /// Name of the event, such as "consumer.stalled".
    #[pyo3(get)]
    name: Py<PyString>,
    /// Called with the event, the listener that raised, and its exception.
    report: Py<PyAny>,
    /// Number of listeners in the tuple, readable without a lock. Shared with readers that do not use Python.
    count: Arc<AtomicUsize>,
    /// Never changed, only replaced: an emission finishes with the tuple that it began with. None: no listeners.
    listeners: Mutex<Listeners>,
    /// Called after each change of the listeners.
    watcher: Mutex<Option<Py<PyAny>>>,
}

impl EventChannel {
    /// Locks the listeners. No Python code runs under this lock, so no thread waits for it while it holds the GIL.
    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_listeners(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Returns the shared number of listeners.
    pub(crate) fn listener_count(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.count)
    }

    fn snapshot(&self, py: Python<'_>) -> Listeners {
        self.lock().as_ref().map(|listeners| listeners.clone_ref(py))
    }

    /// Replaces the listeners by the result of `change`; None from `change` keeps them.
    ///
    /// Making a tuple and comparing listeners may run Python code, in which another thread, or the same thread, changes
    /// the listeners. Then the change is applied again to the present listeners.
    fn update_listeners<'py>(
        &self,
        py: Python<'py>,
        mut change: impl FnMut(Vec<Bound<'py, PyAny>>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>>,
    ) -> PyResult<bool> {
        loop {
            let before = self.snapshot(py);
            let listeners = before.as_ref().map_or_else(Vec::new, |listeners| listeners.bind(py).iter().collect());
            let Some(changed) = change(listeners)? else { return Ok(false) };
            let count = changed.len();
            let after = if count == 0 { None } else { Some(PyTuple::new(py, changed)?.unbind()) };
            let mut now = self.lock();
            let unchanged = match (&before, &*now) {
                (None, None) => true,
                (Some(before), Some(now)) => before.is(now),
                _ => false,
            };
            if unchanged {
                let replaced = std::mem::replace(&mut *now, after);
                self.count.store(count, Ordering::Release);
                drop(now);
                drop(replaced); // without the lock: it may hold the last reference to a listener
                self.notify_watcher(py)?;
                return Ok(true);
            }
        }
    }

    /// Calls the listeners with an event of these fields. `emitted`: the time by [`monotonic_nanos`].
    fn deliver(&self, py: Python<'_>, emitted: u64, fields: impl FnOnce(Python<'_>) -> Fields) -> PyResult<()> {
        let Some(listeners) = self.snapshot(py) else { return Ok(()) };
        let occurred = Bound::new(
            py,
            Event { name: self.name.clone_ref(py), fields: Mutex::new(fields(py)), at: WALL_CLOCK.at(emitted) },
        )?;
        for listener in listeners.bind(py) {
            match listener.call1((&occurred,)) {
                Err(error) if error.is_instance_of::<PyException>(py) => {
                    self.report.call1(py, (&occurred, &listener, error))?;
                }
                called => drop(called?),
            }
        }
        Ok(())
    }

    fn notify_watcher(&self, py: Python<'_>) -> PyResult<()> {
        let watcher = self.watcher().as_ref().map(|watcher| watcher.clone_ref(py));
        watcher.map_or(Ok(()), |watcher| watcher.call0(py).map(drop))
    }

    fn watcher(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl EventChannel {
    #[new]
    fn new(name: Bound<'_, PyString>, report: Py<PyAny>) -> Self {
        let (listeners, watcher) = (Mutex::new(None), Mutex::new(None));
        Self { name: name.unbind(), report, count: Arc::default(), listeners, watcher }
    }

    /// Returns whether the event has listeners.
    fn __bool__(&self) -> bool {
        self.has_listeners()
    }

    /// Returns the number of listeners.
    fn __len__(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Calls the listeners in the calling thread, in the order of their subscriptions. A listener that raises is
    /// reported, and the others are called all the same. Only an exception that is no `Exception` (`KeyboardInterrupt`)
    /// propagates.
    #[pyo3(signature = (**payload))]
    fn emit(&self, py: Python<'_>, payload: Option<Bound<'_, PyDict>>) -> PyResult<()> {
        self.deliver(py, monotonic_nanos(), |py| Fields::Made(payload.unwrap_or_else(|| PyDict::new(py)).unbind()))
    }

    /// Calls the listeners like `emit`. The fields are what `make(*args)` returns, a dict, and are made when a listener
    /// first reads one: an event of each job would otherwise cost more than an empty job.
    #[pyo3(signature = (make, *args))]
    fn emit_deferred(&self, py: Python<'_>, make: Bound<'_, PyAny>, args: Bound<'_, PyTuple>) -> PyResult<()> {
        self.deliver(py, monotonic_nanos(), |_| Fields::Deferred { make: make.unbind(), args: args.unbind() })
    }

    /// Calls the listeners like `emit_deferred`, with fields that `make(job, messages, error, time)` returns: `time` is
    /// the number of seconds since `begin`, a time of `time.monotonic()`.
    fn emit_timed(
        &self,
        py: Python<'_>,
        make: Py<PyAny>,
        begin: f64,
        job: Py<PyAny>,
        messages: Py<PyAny>,
        error: Py<PyAny>,
    ) -> PyResult<()> {
        // One clock is read for the duration and for the event's own time, and no tuple is made of the arguments: this is
        // the event of each job.
        let now = monotonic_nanos();
        let seconds = now as f64 / 1e9 - begin;
        self.deliver(py, now, |_| Fields::Timed { make, args: [job, messages, error], seconds })
    }

    /// Calls `listener` with each event from now on, once more for each subscription.
    fn subscribe<'py>(&self, py: Python<'py>, listener: &Bound<'py, PyAny>) -> PyResult<()> {
        let append = |mut listeners: Vec<Bound<'py, PyAny>>| {
            listeners.push(listener.clone());
            Ok(Some(listeners))
        };
        self.update_listeners(py, append).map(drop)
    }

    /// Ends the last subscription of `listener`; False if it has none.
    fn unsubscribe<'py>(&self, py: Python<'py>, listener: &Bound<'py, PyAny>) -> PyResult<bool> {
        self.update_listeners(py, |mut listeners| {
            for at in (0..listeners.len()).rev() {
                if listeners.get(at).map_or(Ok(false), |one| one.eq(listener))? {
                    listeners.remove(at);
                    return Ok(Some(listeners));
                }
            }
            Ok(None)
        })
    }

    /// Calls `watcher()` after each subscription and unsubscription, in the thread that made it: for work that is
    /// needed only while there are listeners. There is one watcher at a time; None ends it.
    fn watch(&self, watcher: Option<Py<PyAny>>) {
        let before = std::mem::replace(&mut *self.watcher(), watcher);
        drop(before); // without the lock
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let count = self.__len__();
        format!("<EventChannel {}: {count} listener{}>", self.name.bind(py), if count == 1 { "" } else { "s" })
    }

    /// Visits the listeners, which often refer back to the channel. The channel does not clear them: the listeners' own
    /// references break the cycle.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.report)?;
        // A locked field counts as reachable until the next collection.
        if let Ok(watcher) = self.watcher.try_lock() {
            visit.call(&*watcher)?;
        }
        match self.listeners.try_lock() {
            Ok(listeners) => visit.call(&*listeners),
            Err(_) => Ok(()),
        }
    }
}

/// Fields of an event.
enum Fields {
    Made(Py<PyDict>),
    /// The result of `make(*args)`, later.
    Deferred {
        make: Py<PyAny>,
        args: Py<PyTuple>,
    },
    /// The result of `make(*args, seconds)`, later.
    Timed {
        make: Py<PyAny>,
        args: [Py<PyAny>; 3],
        seconds: f64,
    },
}

/// One emitted event. All listeners of an event get the same object.
#[pyclass(frozen, mapping, module = "grete.instrumentation")]
pub(crate) struct Event {
    /// Name of the event.
    #[pyo3(get)]
    name: Py<PyString>,
    fields: Mutex<Fields>,
    /// Time of the emission in nanoseconds since 1970.
    at: u64,
}

impl Event {
    /// Returns a field that the event always has.
    pub(crate) fn field<'py>(&self, py: Python<'py>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.fields(py)?.get_item(name)?;
        found.ok_or_else(|| PyKeyError::new_err(format!("{} comes without {name}", self.name.bind(py))))
    }

    fn lock(&self) -> MutexGuard<'_, Fields> {
        self.fields.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the fields, and makes them at the first call.
    ///
    /// `make` is Python code, so it is called without the lock. Two threads may both call it; all get the dict that was
    /// stored first.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (make, args) = match &*self.lock() {
            Fields::Made(fields) => return Ok(fields.bind(py).clone()),
            Fields::Deferred { make, args } => (make.clone_ref(py), args.clone_ref(py)),
            Fields::Timed { make, args, seconds } => {
                let [job, messages, error] = args;
                (make.clone_ref(py), (job, messages, error, *seconds).into_pyobject(py)?.unbind())
            }
        };
        let made = make.call1(py, args)?.into_bound(py).cast_into::<PyDict>()?;
        let mut now = self.lock();
        if let Fields::Made(first) = &*now {
            return Ok(first.bind(py).clone());
        }
        let before = std::mem::replace(&mut *now, Fields::Made(made.clone().unbind()));
        drop(now);
        drop(before); // without the lock: a destructor may run anything
        Ok(made)
    }
}

#[pymethods]
impl Event {
    /// Fields of the event by name. Read-only.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMappingProxy>> {
        Ok(PyMappingProxy::new(py, self.fields(py)?.as_mapping()))
    }

    /// Time of the emission: seconds since 1970, UTC.
    #[getter]
    fn at(&self) -> f64 {
        self.at as f64 / 1e9
    }

    /// Duration in seconds; None for an event without a duration.
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.fields(py)?.get_item(pyo3::intern!(py, "time"))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, field: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.fields(py)?.as_any().get_item(field)
    }

    fn __contains__(&self, py: Python<'_>, field: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.fields(py)?.contains(field)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<Event {}: {}>", self.name.bind(py), self.fields(py)?.repr()?))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Locked fields count as reachable until the next collection.
        let Ok(fields) = self.fields.try_lock() else { return Ok(()) };
        match &*fields {
            Fields::Made(fields) => visit.call(fields),
            Fields::Deferred { make, args } => {
                visit.call(make)?;
                visit.call(args)
            }
            Fields::Timed { make, args, .. } => {
                visit.call(make)?;
                args.iter().try_for_each(|arg| visit.call(arg))
            }
        }
    }
}
