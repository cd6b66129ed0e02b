//! Names, classes and symbols of a schema as Python objects.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use grete_avro::{Enum, Kind, NodeId, Record, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

/// Python objects of each node of a schema.
pub(super) struct Shapes {
    shapes: Vec<Shape>,
}

enum Shape {
    Plain,
    Record(RecordShape),
    Enum(EnumShape),
}

/// Record as a dict, or as an object of a class.
pub(super) struct RecordShape {
    /// Names of the fields, interned: dicts and attributes find them by identity.
    pub(super) keys: Vec<Py<PyString>>,
    pub(super) names: Vec<String>,
    /// Dict with all keys. A copy has its final size at once.
    pub(super) template: Py<PyDict>,
    pub(super) class: Option<ClassShape>,
    /// Class of the last object whose fields were found to be in the schema.
    pub(super) checked: Mutex<Option<Py<PyType>>>,
}

impl RecordShape {
    /// Returns a field of the object that the schema does not have. The fields of a class are compared once.
    pub(super) fn unknown_field(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let class = object.get_type();
        if self.checked.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|known| known.is(&class)) {
            return Ok(None);
        }
        for attribute in ["__struct_fields__", "__pydantic_fields__", "__dataclass_fields__", "_fields"] {
            let Ok(fields) = class.getattr(attribute) else { continue };
            for name in fields.try_iter()? {
                let name = name?.str()?.to_string();
                if !self.names.contains(&name) {
                    return Ok(Some(name));
                }
            }
            break;
        }
        let before = self.checked.lock().unwrap_or_else(PoisonError::into_inner).replace(class.unbind());
        drop(before); // after the lock: dropping a class may run Python code
        Ok(None)
    }
}

/// Class and the arguments of its call.
pub(super) struct ClassShape {
    pub(super) class: Py<PyAny>,
    /// Place of each field among the arguments; `None`: the class does not have the field.
    pub(super) places: Vec<Option<usize>>,
    pub(super) count: usize,
    /// Names of the last arguments.
    pub(super) keywords: Option<Py<PyTuple>>,
}

/// Symbols of an enum.
pub(super) struct EnumShape {
    pub(super) symbols: Vec<Py<PyAny>>,
    pub(super) numbers: HashMap<String, u32>,
}

impl Shapes {
    pub(super) fn new(py: Python<'_>, schema: &Schema, types: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let shapes = schema.nodes().iter().map(|node| match &node.kind {
            Kind::Record(record) => Ok(Shape::Record(record_shape(py, record, types)?)),
            Kind::Enum(one) => Ok(Shape::Enum(enum_shape(py, one, types)?)),
            _ => Ok(Shape::Plain),
        });
        Ok(Self { shapes: shapes.collect::<PyResult<_>>()? })
    }

    #[inline]
    pub(super) fn record(&self, node: NodeId) -> PyResult<&RecordShape> {
        match self.shapes.get(node.index()) {
            Some(Shape::Record(shape)) => Ok(shape),
            _ => Err(PyValueError::new_err("the program belongs to another schema")),
        }
    }

    #[inline]
    pub(super) fn enumeration(&self, node: NodeId) -> PyResult<&EnumShape> {
        match self.shapes.get(node.index()) {
            Some(Shape::Enum(shape)) => Ok(shape),
            _ => Err(PyValueError::new_err("the program belongs to another schema")),
        }
    }
}

fn record_shape(py: Python<'_>, record: &Record, types: Option<&Bound<'_, PyDict>>) -> PyResult<RecordShape> {
    let names: Vec<String> = record.fields.iter().map(|field| field.name.clone()).collect();
    let keys: Vec<_> = names.iter().map(|name| PyString::intern(py, name)).collect();
    let template = PyDict::new(py);
    for key in &keys {
        template.set_item(key, py.None())?;
    }
    let class = match types.map(|types| types.get_item(&record.name.full)).transpose()?.flatten() {
        None => None,
        Some(found) => {
            let (class, positional, keywords): (Py<PyAny>, Vec<String>, Vec<String>) = found.extract()?;
            let arguments: Vec<&String> = positional.iter().chain(&keywords).collect();
            let places = names.iter().map(|name| arguments.iter().position(|one| *one == name)).collect();
            let keywords: Vec<_> = keywords.iter().map(|name| PyString::intern(py, name)).collect();
            let keywords = if keywords.is_empty() { None } else { Some(PyTuple::new(py, keywords)?.unbind()) };
            Some(ClassShape { class, places, count: arguments.len(), keywords })
        }
    };
    let keys = keys.into_iter().map(Bound::unbind).collect();
    Ok(RecordShape { keys, names, template: template.unbind(), class, checked: Mutex::new(None) })
}

fn enum_shape(py: Python<'_>, one: &Enum, types: Option<&Bound<'_, PyDict>>) -> PyResult<EnumShape> {
    let members = types.map(|types| types.get_item(&one.name.full)).transpose()?.flatten();
    let symbols = one.symbols.iter().map(|symbol| {
        let text = PyString::intern(py, symbol);
        match &members {
            Some(members) => members.get_item(text).map(Bound::unbind),
            None => Ok(text.into_any().unbind()),
        }
    });
    let symbols = symbols.collect::<PyResult<_>>()?;
    let numbers = one.symbols.iter().cloned().zip(0..).collect();
    Ok(EnumShape { symbols, numbers })
}
