//! Metric families as Python objects.

use grete_health::metrics::descriptors::MetricDescriptor;
use grete_health::metrics::{Label, MetricVisitor, Value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

/// Visitor that builds a list of (name, kind, help, samples). A sample is (labels, value); the value of a histogram is
/// (buckets, sum, count).
pub(super) struct FamilyList<'py> {
    py: Python<'py>,
    families: Bound<'py, PyList>,
    /// Descriptor and samples of the last family.
    current_family: Option<(&'static MetricDescriptor, Bound<'py, PyList>)>,
    result: PyResult<()>,
}

impl<'py> FamilyList<'py> {
    pub(super) fn new(py: Python<'py>) -> Self {
        Self { py, families: PyList::empty(py), current_family: None, result: Ok(()) }
    }

    pub(super) fn into_list(self) -> PyResult<Bound<'py, PyList>> {
        self.result.map(|()| self.families)
    }

    fn add_family(&mut self, entry: &'static MetricDescriptor) -> PyResult<()> {
        let samples = PyList::empty(self.py);
        self.families.append((entry.name, entry.kind.name(), entry.help, &samples))?;
        self.current_family = Some((entry, samples));
        Ok(())
    }

    fn add_sample(&self, labels: &[Label<'_>], value: Value<'_>) -> PyResult<()> {
        let Some((entry, samples)) = &self.current_family else { return Ok(()) };
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

impl MetricVisitor for FamilyList<'_> {
    fn family(&mut self, entry: &'static MetricDescriptor) {
        if self.result.is_ok() {
            self.result = self.add_family(entry);
        }
    }

    fn sample(&mut self, labels: &[Label<'_>], value: Value<'_>) {
        if self.result.is_ok() {
            self.result = self.add_sample(labels, value);
        }
    }
}
