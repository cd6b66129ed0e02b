//! Sink that makes Python objects.

use grete_avro::{DecodeError, Logical, NodeId, Sink};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PyString};

use crate::avro::error::AvroError;
use crate::avro::shapes::{ClassShape, RecordShape, Shapes};
use crate::avro::{numbers, times};
use crate::ffi::cpython;

/// Sink for the values of one datum.
pub(super) struct PySink<'a, 'py> {
    py: Python<'py>,
    shapes: &'a Shapes,
}

/// Record under construction.
pub(super) enum Partial<'a, 'py> {
    Dict(&'a RecordShape, Bound<'py, PyDict>),
    Class(&'a ClassShape, Vec<Option<Bound<'py, PyAny>>>),
}

impl<'a, 'py> PySink<'a, 'py> {
    pub(super) fn new(py: Python<'py>, shapes: &'a Shapes) -> Self {
        Self { py, shapes }
    }
}

type Made<'py> = Result<Bound<'py, PyAny>, AvroError>;

impl<'a, 'py> Sink for PySink<'a, 'py> {
    type Value = Bound<'py, PyAny>;
    type Error = AvroError;
    type Record = Partial<'a, 'py>;
    type List = Bound<'py, PyList>;
    type Map = Bound<'py, PyDict>;

    #[inline]
    fn null(&mut self) -> Made<'py> {
        Ok(self.py.None().into_bound(self.py))
    }
    #[inline]
    fn boolean(&mut self, value: bool) -> Made<'py> {
        Ok(PyBool::new(self.py, value).to_owned().into_any())
    }
    #[inline]
    fn int(&mut self, value: i32, logical: Logical) -> Made<'py> {
        match logical {
            Logical::None => Ok(numbers::int(self.py, i64::from(value))),
            _ => Ok(times::from_integer(self.py, i64::from(value), logical)?),
        }
    }
    #[inline]
    fn long(&mut self, value: i64, logical: Logical) -> Made<'py> {
        match logical {
            Logical::None => Ok(numbers::int(self.py, value)),
            _ => Ok(times::from_integer(self.py, value, logical)?),
        }
    }
    #[inline]
    fn float(&mut self, value: f32) -> Made<'py> {
        self.double(f64::from(value))
    }
    #[inline]
    fn double(&mut self, value: f64) -> Made<'py> {
        Ok(PyFloat::new(self.py, value).into_any())
    }
    #[inline]
    fn bytes(&mut self, value: &[u8], logical: Logical) -> Made<'py> {
        match logical {
            Logical::None => Ok(PyBytes::new(self.py, value).into_any()),
            _ => Ok(numbers::from_bytes(self.py, value, logical)?),
        }
    }
    #[inline]
    fn string(&mut self, value: &str, logical: Logical) -> Made<'py> {
        match logical {
            Logical::Uuid => Ok(numbers::uuid_from_text(self.py, value)?),
            _ => Ok(PyString::new(self.py, value).into_any()),
        }
    }
    fn fixed(&mut self, _: NodeId, value: &[u8], logical: Logical) -> Made<'py> {
        self.bytes(value, logical)
    }
    #[inline]
    fn symbol(&mut self, node: NodeId, symbol: u32) -> Made<'py> {
        match self.shapes.enumeration(node)?.symbols.get(symbol as usize) {
            Some(symbol) => Ok(symbol.bind(self.py).clone()),
            None => Err(DecodeError::new("the program belongs to another schema").into()),
        }
    }

    #[inline]
    fn begin_record(&mut self, node: NodeId) -> Result<Partial<'a, 'py>, AvroError> {
        let shape = self.shapes.record(node)?;
        Ok(match &shape.class {
            Some(class) => Partial::Class(class, vec![None; class.count]),
            None => Partial::Dict(shape, shape.template.bind(self.py).copy()?),
        })
    }
    #[inline]
    fn field(
        &mut self,
        record: &mut Partial<'a, 'py>,
        field: usize,
        value: Bound<'py, PyAny>,
    ) -> Result<(), AvroError> {
        match record {
            Partial::Dict(shape, dict) => {
                if let Some(key) = shape.keys.get(field) {
                    dict.set_item(key.bind(self.py), value)?;
                }
            }
            Partial::Class(shape, arguments) => {
                if let Some(place) = shape.places.get(field).copied().flatten()
                    && let Some(argument) = arguments.get_mut(place)
                {
                    *argument = Some(value);
                }
            }
        }
        Ok(())
    }
    #[inline]
    fn end_record(&mut self, record: Partial<'a, 'py>) -> Made<'py> {
        match record {
            Partial::Dict(_, dict) => Ok(dict.into_any()),
            Partial::Class(shape, arguments) => {
                let keywords = shape.keywords.as_ref().map(|names| names.bind(self.py));
                Ok(cpython::call_with(shape.class.bind(self.py), &arguments, keywords)?)
            }
        }
    }

    #[inline]
    fn begin_list(&mut self, _: NodeId) -> Result<Bound<'py, PyList>, AvroError> {
        Ok(PyList::empty(self.py))
    }
    #[inline]
    fn item(&mut self, list: &mut Bound<'py, PyList>, value: Bound<'py, PyAny>) -> Result<(), AvroError> {
        Ok(list.append(value)?)
    }
    #[inline]
    fn end_list(&mut self, list: Bound<'py, PyList>) -> Made<'py> {
        Ok(list.into_any())
    }

    #[inline]
    fn begin_map(&mut self, _: NodeId) -> Result<Bound<'py, PyDict>, AvroError> {
        Ok(PyDict::new(self.py))
    }
    #[inline]
    fn entry(&mut self, map: &mut Bound<'py, PyDict>, key: &str, value: Bound<'py, PyAny>) -> Result<(), AvroError> {
        Ok(map.set_item(key, value)?)
    }
    #[inline]
    fn end_map(&mut self, map: Bound<'py, PyDict>) -> Made<'py> {
        Ok(map.into_any())
    }

    fn in_field(&mut self, mut error: AvroError, node: NodeId, field: usize) -> AvroError {
        if let (AvroError::Decode(error), Ok(shape)) = (&mut error, self.shapes.record(node)) {
            error.path.extend(shape.names.get(field).cloned());
        }
        error
    }
}
