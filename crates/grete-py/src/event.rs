//! Events that cost next to nothing while nobody listens.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::exceptions::{PyException, PyKeyError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMappingProxy, PyString, PyTuple};

type Listeners = Option<Py<PyTuple>>;

/// One kind of event of one monitor. True while somebody listens.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Event {
    name: Py<PyString>,
    /// Called with what happened, the listener and its error.
    report: Py<PyAny>,
    /// How many there are in the tuple: a look at it needs no lock. Shared with those who look without Python.
    count: Arc<AtomicUsize>,
    /// Never changed, only replaced: a dispatch goes on with the one that it has begun with. None: there are none.
    listeners: Mutex<Listeners>,
    /// Called after each change of them.
    watcher: Mutex<Option<Py<PyAny>>>,
}

impl Event {
    /// Nothing of Python's runs under this lock, so nobody ever waits for it while it holds the GIL.
    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listens(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// See there.
    pub(crate) fn count(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.count)
    }

    fn snapshot(&self, py: Python<'_>) -> Listeners {
        self.lock().as_ref().map(|listeners| listeners.clone_ref(py))
    }

    /// Replaces the listeners by what `change` makes of them; None from it: nothing is to be changed.
    ///
    /// To make a tuple or to compare listeners may run Python code, in which another thread, or this very one, changes
    /// the listeners. Then the change is made anew to what they are now.
    fn change<'py>(
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
            let same = match (&before, &*now) {
                (None, None) => true,
                (Some(before), Some(now)) => before.is(now),
                _ => false,
            };
            if same {
                let gone = std::mem::replace(&mut *now, after);
                self.count.store(count, Ordering::Release);
                drop(now);
                drop(gone); // without the lock: it may be the last to know a listener
                self.tell_watcher(py)?;
                return Ok(true);
            }
        }
    }

    fn tell_watcher(&self, py: Python<'_>) -> PyResult<()> {
        let watcher = self.watcher().as_ref().map(|watcher| watcher.clone_ref(py));
        watcher.map_or(Ok(()), |watcher| watcher.call0(py).map(drop))
    }

    fn watcher(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Event {
    #[new]
    fn new(name: Bound<'_, PyString>, report: Py<PyAny>) -> Self {
        let (listeners, watcher) = (Mutex::new(None), Mutex::new(None));
        Self { name: name.unbind(), report, count: Arc::default(), listeners, watcher }
    }

    /// As in "consumer.stalled".
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.name.bind(py).clone()
    }

    /// Whether somebody listens.
    fn __bool__(&self) -> bool {
        self.listens()
    }

    /// How many listen.
    fn __len__(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Calls the listeners, in the order of their subscriptions, here and now. One that raises is reported, and the
    /// others are called all the same; only what is no `Exception` (`KeyboardInterrupt`) comes out.
    #[pyo3(signature = (**payload))]
    fn emit(&self, py: Python<'_>, payload: Option<Bound<'_, PyDict>>) -> PyResult<()> {
        let Some(listeners) = self.snapshot(py) else { return Ok(()) };
        let occurred = Bound::new(
            py,
            Occurred {
                name: self.name.clone_ref(py),
                payload: payload.unwrap_or_else(|| PyDict::new(py)).unbind(),
                at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            },
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

    /// Calls `listener` with each event from now on, once more for each subscription.
    fn subscribe<'py>(&self, py: Python<'py>, listener: &Bound<'py, PyAny>) -> PyResult<()> {
        let with = |mut listeners: Vec<Bound<'py, PyAny>>| {
            listeners.push(listener.clone());
            Ok(Some(listeners))
        };
        self.change(py, with).map(drop)
    }

    /// Ends one subscription of `listener`, the last one; False if it has none.
    fn unsubscribe<'py>(&self, py: Python<'py>, listener: &Bound<'py, PyAny>) -> PyResult<bool> {
        self.change(py, |mut listeners| {
            for at in (0..listeners.len()).rev() {
                if listeners.get(at).map_or(Ok(false), |one| one.eq(listener))? {
                    listeners.remove(at);
                    return Ok(Some(listeners));
                }
            }
            Ok(None)
        })
    }

    /// Calls `watcher()` whenever somebody has come or gone, in the thread that did it: for who has something to do only
    /// while somebody listens. There is one at a time; None ends it.
    #[pyo3(signature = (watcher))]
    fn watch(&self, watcher: Option<Py<PyAny>>) {
        let before = std::mem::replace(&mut *self.watcher(), watcher);
        drop(before); // without the lock
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let count = self.__len__();
        format!("<Event {}: {count} listener{}>", self.name.bind(py), if count == 1 { "" } else { "s" })
    }

    /// Listeners often know what knows us. They are not let go here: their own parts of the circle are.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.report)?;
        // One that is locked is seen as kept from outside, until the next collection.
        if let Ok(watcher) = self.watcher.try_lock() {
            visit.call(&*watcher)?;
        }
        match self.listeners.try_lock() {
            Ok(listeners) => visit.call(&*listeners),
            Err(_) => Ok(()),
        }
    }
}

/// What a listener is called with. All listeners of one event get the same one.
#[pyclass(frozen, mapping, module = "grete.instrumentation")]
pub(crate) struct Occurred {
    name: Py<PyString>,
    payload: Py<PyDict>,
    at: f64,
}

impl Occurred {
    /// A field that the event always has.
    pub(crate) fn field<'py>(&self, py: Python<'py>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.payload.bind(py).get_item(name)?;
        found.ok_or_else(|| PyKeyError::new_err(format!("{} comes without {name}", self.name.bind(py))))
    }
}

#[pymethods]
impl Occurred {
    /// The event's name.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.name.bind(py).clone()
    }

    /// What is known about it, by field. Read-only.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyMappingProxy> {
        PyMappingProxy::new(py, self.payload.bind(py).as_mapping())
    }

    /// Seconds that it took; None for an event that takes none.
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.payload.bind(py).get_item(pyo3::intern!(py, "time"))
    }

    /// When it was emitted: seconds since 1970, UTC.
    #[getter]
    fn at(&self) -> f64 {
        self.at
    }

    fn __getitem__<'py>(&self, py: Python<'py>, field: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.payload.bind(py).as_any().get_item(field)
    }

    fn __contains__(&self, py: Python<'_>, field: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.payload.bind(py).contains(field)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<Occurred {}: {}>", self.name.bind(py), self.payload.bind(py).repr()?))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.payload)
    }
}
