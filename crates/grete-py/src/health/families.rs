//! Metrics as Python's own objects.

use grete_health::metrics::catalogue::Entry;
use grete_health::metrics::{Label, Sink, Value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

/// Makes a list of (name, kind, help, samples); a sample is (labels, value), and a histogram's value (buckets, sum, count).
pub(super) struct Families<'py> {
    py: Python<'py>,
    families: Bound<'py, PyList>,
    /// The last family's labels, and its samples.
    last: Option<(&'static Entry, Bound<'py, PyList>)>,
    failed: PyResult<()>,
}

impl<'py> Families<'py> {
    pub(super) fn new(py: Python<'py>) -> Self {
        Self { py, families: PyList::empty(py), last: None, failed: Ok(()) }
    }

    pub(super) fn into_list(self) -> PyResult<Bound<'py, PyList>> {
        self.failed.map(|()| self.families)
    }

    fn add_family(&mut self, entry: &'static Entry) -> PyResult<()> {
        let samples = PyList::empty(self.py);
        self.families.append((entry.name, entry.kind.name(), entry.help, &samples))?;
        self.last = Some((entry, samples));
        Ok(())
    }

    fn add_sample(&self, labels: &[Label<'_>], value: Value<'_>) -> PyResult<()> {
        let Some((entry, samples)) = &self.last else { return Ok(()) };
        let named = PyDict::new(self.py);
        for (name, label) in entry.labels.iter().zip(labels) {
            let text = match label {
                Label::Text(text) => PyString::new(self.py, text),
                Label::Number(number) => PyString::new(self.py, &number.to_string()),
            };
            named.set_item(PyString::intern(self.py, name), text)?;
        }
        samples.append((named, self.value(value)?))
    }

    fn value(&self, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match value {
            Value::Count(count) => count.into_pyobject(self.py)?.into_any(),
            Value::Number(number) => number.into_pyobject(self.py)?.into_any(),
            Value::Histogram(histogram) => {
                let buckets = PyTuple::new(self.py, histogram.cumulative().collect::<Vec<_>>())?;
                (buckets, histogram.sum, histogram.count()).into_pyobject(self.py)?.into_any()
            }
        })
    }
}

impl Sink for Families<'_> {
    fn family(&mut self, entry: &'static Entry) {
        if self.failed.is_ok() {
            self.failed = self.add_family(entry);
        }
    }

    fn sample(&mut self, labels: &[Label<'_>], value: Value<'_>) {
        if self.failed.is_ok() {
            self.failed = self.add_sample(labels, value);
        }
    }
}
