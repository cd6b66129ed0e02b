//! Encoding: a walk over the schema that asks a source for the parts of a value.

use crate::error::EncodeError;
use crate::program::MAX_DEPTH;
use crate::schema::{Kind, Logical, NodeId, Schema};
use crate::wire::{put_bytes, put_long};

/// Entries of a map that a source gives.
pub type Entries<S> = Vec<(<S as Source>::Key, <S as Source>::Value)>;

/// Giver of values to encode. Node ids are those of the writer's schema.
pub trait Source: Sized {
    /// Value.
    type Value;
    /// Key of a map.
    type Key;
    /// Array with its length fixed.
    type List;
    /// Error of the source, or a value that does not fit.
    type Error: From<EncodeError>;

    /// Returns whether the value is null.
    fn is_null(&mut self, value: &Self::Value) -> bool;
    /// Returns the value of a boolean.
    fn boolean(&mut self, value: &Self::Value) -> Result<bool, Self::Error>;
    /// Returns the value of an int or long.
    fn integer(&mut self, value: &Self::Value, logical: Logical) -> Result<i64, Self::Error>;
    /// Returns the value of a float or double.
    fn double(&mut self, value: &Self::Value) -> Result<f64, Self::Error>;
    /// Calls `put` with the content of bytes or of a fixed. `size`: that of the fixed.
    fn bytes(
        &mut self,
        value: &Self::Value,
        logical: Logical,
        size: Option<usize>,
        put: impl FnOnce(&[u8]),
    ) -> Result<(), Self::Error>;
    /// Calls `put` with the text of a map's key.
    fn key(&mut self, key: &Self::Key, put: impl FnOnce(&str)) -> Result<(), Self::Error>;
    /// Calls `put` with the text of a string.
    fn string(&mut self, value: &Self::Value, logical: Logical, put: impl FnOnce(&str)) -> Result<(), Self::Error>;
    /// Returns the number of an enum's symbol.
    fn symbol(&mut self, value: &Self::Value, node: NodeId) -> Result<u32, Self::Error>;
    /// Checks a record of which `found` fields were taken: what the schema does not have would be lost.
    fn check_rest(&mut self, _record: &Self::Value, _node: NodeId, _found: usize) -> Result<(), Self::Error> {
        Ok(())
    }
    /// Returns the value of a field; `None`: the record does not have it, so its default counts.
    fn field(&mut self, record: &Self::Value, node: NodeId, field: usize) -> Result<Option<Self::Value>, Self::Error>;
    /// Returns an array and its length.
    fn list(&mut self, value: &Self::Value) -> Result<(Self::List, usize), Self::Error>;
    /// Returns an item of an array.
    fn item(&mut self, list: &Self::List, index: usize) -> Result<Self::Value, Self::Error>;
    /// Returns the entries of a map.
    fn entries(&mut self, value: &Self::Value) -> Result<Entries<Self>, Self::Error>;
    /// Returns the number of a union's branch, and the value for that branch if the value names its branch.
    fn branch(&mut self, value: &Self::Value, node: NodeId) -> Result<(usize, Option<Self::Value>), Self::Error>;
    /// Returns `error` with the place at which it happened, while the error leaves a field.
    fn in_field(&mut self, error: Self::Error, _node: NodeId, _field: usize) -> Self::Error {
        error
    }
}

/// Appends the encoding of `value` to `out`. After an error, `out` holds a part of the encoding.
///
/// # Errors
/// The value does not fit the schema, or the source fails.
pub fn encode<S: Source>(schema: &Schema, source: &mut S, value: &S::Value, out: &mut Vec<u8>) -> Result<(), S::Error> {
    Walk { schema, source, depth: 0 }.value(schema.root(), value, out)
}

struct Walk<'a, S> {
    schema: &'a Schema,
    source: &'a mut S,
    depth: usize,
}

impl<S: Source> Walk<'_, S> {
    fn value(&mut self, id: NodeId, value: &S::Value, out: &mut Vec<u8>) -> Result<(), S::Error> {
        let schema = self.schema;
        let node = schema.node(id);
        match &node.kind {
            Kind::Null => {
                if !self.source.is_null(value) {
                    return Err(EncodeError::new("the type is null, the value is not").into());
                }
            }
            Kind::Boolean => out.push(u8::from(self.source.boolean(value)?)),
            Kind::Int => {
                let value = self.source.integer(value, node.logical)?;
                if i32::try_from(value).is_err() {
                    return Err(EncodeError::new(format!("{value} is no int of 32 bits; make the field a long")).into());
                }
                put_long(out, value);
            }
            Kind::Long => put_long(out, self.source.integer(value, node.logical)?),
            Kind::Float => out.extend_from_slice(&(self.source.double(value)? as f32).to_le_bytes()),
            Kind::Double => out.extend_from_slice(&self.source.double(value)?.to_le_bytes()),
            Kind::Bytes => self.source.bytes(value, node.logical, None, |bytes| put_bytes(out, bytes))?,
            Kind::String => self.source.string(value, node.logical, |text| put_bytes(out, text.as_bytes()))?,
            Kind::Fixed(fixed) => {
                let start = out.len();
                self.source.bytes(value, node.logical, Some(fixed.size), |bytes| out.extend_from_slice(bytes))?;
                let length = out.len() - start;
                if length != fixed.size {
                    let (name, size) = (&fixed.name.full, fixed.size);
                    return Err(EncodeError::new(format!("fixed {name} has {size} bytes, the value {length}")).into());
                }
            }
            Kind::Enum(_) => put_long(out, i64::from(self.source.symbol(value, id)?)),
            Kind::Union(branches) => self.union(id, branches, value, out)?,
            Kind::Record(_) | Kind::Array(_) | Kind::Map(_) => {
                if self.depth == MAX_DEPTH {
                    return Err(EncodeError::new(format!("values are nested deeper than {MAX_DEPTH} levels")).into());
                }
                self.depth += 1;
                let done = self.nested(id, value, out);
                self.depth -= 1;
                done?;
            }
        }
        Ok(())
    }

    fn union(&mut self, id: NodeId, branches: &[NodeId], value: &S::Value, out: &mut Vec<u8>) -> Result<(), S::Error> {
        // Of null and one type no value is ambiguous, and an error of the type says more than one of the union.
        if let &[first, second] = branches {
            let null = |id: NodeId| matches!(self.schema.node(id).kind, Kind::Null);
            let (place, other) = match (null(first), null(second)) {
                (true, _) => (0, second),
                (_, true) => (1, first),
                _ => (2, first),
            };
            if place < 2 {
                if self.source.is_null(value) {
                    put_long(out, place);
                    return Ok(());
                }
                if self.names_no_branch(other) {
                    put_long(out, 1 - place);
                    return self.value(other, value, out);
                }
            }
        }
        let (branch, inner) = self.source.branch(value, id)?;
        let Some(&node) = branches.get(branch) else {
            return Err(EncodeError::new("the value fits no branch of the union").into());
        };
        put_long(out, branch.cast_signed() as i64);
        match inner {
            Some(inner) => self.value(node, &inner, out),
            None => self.value(node, value, out),
        }
    }

    /// Returns whether values of the type never carry the name of their branch.
    fn names_no_branch(&self, id: NodeId) -> bool {
        !matches!(self.schema.node(id).kind, Kind::Record(_) | Kind::Enum(_) | Kind::Fixed(_))
    }

    fn nested(&mut self, id: NodeId, value: &S::Value, out: &mut Vec<u8>) -> Result<(), S::Error> {
        let schema = self.schema;
        match &schema.node(id).kind {
            Kind::Record(record) => {
                let mut found = 0;
                for (index, field) in record.fields.iter().enumerate() {
                    match self.source.field(value, id, index)? {
                        Some(inner) => {
                            found += 1;
                            self.value(field.node, &inner, out)
                                .map_err(|error| self.source.in_field(error, id, index))?;
                        }
                        None => match &field.default {
                            Some(default) => out.extend_from_slice(default),
                            None => {
                                let error = EncodeError::new("the value is missing, and the field has no default");
                                return Err(self.source.in_field(error.into(), id, index));
                            }
                        },
                    }
                }
                self.source.check_rest(value, id, found)?;
            }
            Kind::Array(item) => {
                let (list, length) = self.source.list(value)?;
                if length > 0 {
                    put_long(out, length.cast_signed() as i64);
                    for index in 0..length {
                        let inner = self.source.item(&list, index)?;
                        self.value(*item, &inner, out)?;
                    }
                }
                out.push(0);
            }
            Kind::Map(item) => {
                let entries = self.source.entries(value)?;
                if !entries.is_empty() {
                    put_long(out, entries.len().cast_signed() as i64);
                    for (key, inner) in &entries {
                        self.source.key(key, |text| put_bytes(out, text.as_bytes()))?;
                        self.value(*item, inner, out)?;
                    }
                }
                out.push(0);
            }
            _ => {}
        }
        Ok(())
    }
}
