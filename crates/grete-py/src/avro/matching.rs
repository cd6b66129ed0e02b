//! Choice of a union's branch for a Python object, by the rules of fastavro.

use grete_avro::{Kind, Logical, NodeId, Source};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::avro::error::AvroError;
use crate::avro::source::PySource;
use crate::avro::{numbers, times};

/// Nesting to which an object is compared with a branch. Deeper parts count as fitting.
const MAX_DEPTH: usize = 32;

/// Number of a branch, and the value without the name of the branch.
type NamedBranch<'py> = (usize, Option<Bound<'py, PyAny>>);

impl<'py> PySource<'_, 'py> {
    /// Returns the branch that a value names: a tuple (name, value), or a dict with the key "-type".
    pub(super) fn named_branch(
        &self,
        value: &Bound<'py, PyAny>,
        branches: &[NodeId],
    ) -> Result<Option<NamedBranch<'py>>, AvroError> {
        let (name, inner) = if let Ok(pair) = value.cast::<PyTuple>()
            && pair.len() == 2
            && let Ok(name) = pair.get_item(0)?.cast_into::<PyString>()
        {
            (name, Some(pair.get_item(1)?))
        } else if let Ok(dict) = value.cast::<PyDict>()
            && let Some(name) = dict.get_item("-type")?
            && let Ok(name) = name.cast_into::<PyString>()
        {
            (name, None)
        } else {
            return Ok(None);
        };
        let name = name.to_str()?;
        let found = branches.iter().position(|&id| match &self.schema.node(id).kind {
            Kind::Record(one) => one.name.full == name,
            Kind::Enum(one) => one.name.full == name,
            Kind::Fixed(one) => one.name.full == name,
            _ => inner.is_some() && self.schema.describe(id) == name,
        });
        Ok(found.map(|branch| (branch, inner)))
    }

    /// Returns the branch that fits best: the first one, but the record that has most fields of the value, and a double
    /// before a float.
    pub(super) fn best_branch(
        &mut self,
        value: &Bound<'py, PyAny>,
        branches: &[NodeId],
    ) -> Result<Option<usize>, AvroError> {
        let kind = |id: NodeId| &self.schema.node(id).kind;
        let others = || branches.iter().filter(|&&id| !matches!(kind(id), Kind::Null));
        if value.is_none() {
            return Ok(branches.iter().position(|&id| matches!(kind(id), Kind::Null)));
        }
        if others().count() == 1 {
            return Ok(branches.iter().position(|&id| !matches!(kind(id), Kind::Null)));
        }
        if let Some(named) = self.branch_of_class(value, branches) {
            return Ok(Some(named));
        }
        let (mut best, mut most_fields) = (None, None);
        for (index, &id) in branches.iter().enumerate() {
            let schema = self.schema;
            let kind = &schema.node(id).kind;
            if !self.fits(value, id, 0)? {
                continue;
            }
            match kind {
                Kind::Record(record) => {
                    let mut fields = 0;
                    for field in 0..record.fields.len() {
                        fields += usize::from(self.field(value, id, field)?.is_some());
                    }
                    if most_fields.is_none_or(|most| fields > most) {
                        (best, most_fields) = (Some(index), Some(fields));
                    }
                }
                Kind::Float => {
                    let double =
                        branches.iter().skip(index).position(|&id| matches!(schema.node(id).kind, Kind::Double));
                    return Ok(Some(double.map_or(index, |after| index + after)));
                }
                _ => return Ok(Some(index)),
            }
        }
        Ok(best)
    }

    /// Returns the record that has the name of the value's class, if the value is an object of a class.
    fn branch_of_class(&self, value: &Bound<'py, PyAny>, branches: &[NodeId]) -> Option<usize> {
        if value.is_instance_of::<PyDict>() {
            return None;
        }
        let name = value.get_type().name().ok()?;
        let name = name.to_str().ok()?;
        branches
            .iter()
            .position(|&id| matches!(&self.schema.node(id).kind, Kind::Record(record) if record.name.short() == name))
    }

    fn fits(&mut self, value: &Bound<'py, PyAny>, id: NodeId, depth: usize) -> Result<bool, AvroError> {
        if depth > MAX_DEPTH {
            return Ok(true);
        }
        let schema = self.schema;
        let node = schema.node(id);
        let is_int = || value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
        let is_bytes = || value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>();
        Ok(match &node.kind {
            Kind::Null => value.is_none(),
            Kind::Boolean => value.is_instance_of::<PyBool>(),
            Kind::Int if is_int() => value.extract::<i32>().is_ok(),
            Kind::Long if is_int() => value.extract::<i64>().is_ok(),
            Kind::Int | Kind::Long => {
                node.logical != Logical::None && times::to_integer(value, node.logical).is_ok_and(|one| one.is_some())
            }
            Kind::Float | Kind::Double => value.is_instance_of::<PyFloat>() || is_int(),
            Kind::Bytes => is_bytes() || self.fits_logical(value, node.logical, None),
            Kind::Fixed(fixed) => match value.cast::<PyBytes>() {
                Ok(bytes) => bytes.as_bytes().len() == fixed.size,
                Err(_) => self.fits_logical(value, node.logical, Some(fixed.size)),
            },
            Kind::String => {
                value.is_instance_of::<PyString>()
                    || (node.logical == Logical::Uuid && numbers::uuid_number(value).is_ok_and(|one| one.is_some()))
            }
            Kind::Enum(_) => self.symbol(value, id).is_ok(),
            Kind::Array(item) => {
                if !value.is_instance_of::<PyList>() && !value.is_instance_of::<PyTuple>() {
                    return Ok(false);
                }
                for inner in value.try_iter()? {
                    if !self.fits(&inner?, *item, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            Kind::Map(item) => {
                let Ok(dict) = value.cast::<PyDict>() else { return Ok(false) };
                // A copy: looking at a value may run code of its class, which may change the dict.
                for pair in dict.items() {
                    let (key, inner): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
                    if !key.is_instance_of::<PyString>() || !self.fits(&inner, *item, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            Kind::Union(branches) => {
                for &branch in branches {
                    if self.fits(value, branch, depth + 1)? {
                        return Ok(true);
                    }
                }
                false
            }
            Kind::Record(record) => {
                for (index, field) in record.fields.iter().enumerate() {
                    let fits = match self.field(value, id, index) {
                        Ok(Some(inner)) => self.fits(&inner, field.node, depth + 1)?,
                        Ok(None) => field.default.is_some(),
                        Err(AvroError::Encode(_)) => false, // a number, a string: no record
                        Err(error) => return Err(error),
                    };
                    if !fits {
                        return Ok(false);
                    }
                }
                value.is_instance_of::<PyDict>() || !record.fields.is_empty()
            }
        })
    }

    fn fits_logical(&self, value: &Bound<'py, PyAny>, logical: Logical, size: Option<usize>) -> bool {
        match logical {
            Logical::Decimal { precision, scale } => {
                numbers::decimal_bytes(value, precision, scale, size).is_ok_and(|one| one.is_some())
            }
            Logical::Uuid => numbers::uuid_number(value).is_ok_and(|one| one.is_some()),
            _ => false,
        }
    }
}
