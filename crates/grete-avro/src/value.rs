//! Values in memory, for Rust callers and for tests.

use crate::encode::{Source, encode};
use crate::error::{DecodeError, EncodeError};
use crate::program::Sink;
use crate::schema::{Kind, Logical, NodeId, Schema};

/// Decoded value. Logical types are left as they are encoded. Records and maps keep the order of their parts.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names are Avro's")]
pub enum Value {
    Null,
    Boolean(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Bytes(Vec<u8>),
    String(String),
    Fixed(Vec<u8>),
    Enum(String),
    Array(Vec<Value>),
    Map(Vec<(String, Value)>),
    Record(Vec<(String, Value)>),
}

/// Sink that makes a [`Value`].
#[derive(Debug)]
pub struct ValueSink<'a> {
    reader: &'a Schema,
}

impl<'a> ValueSink<'a> {
    /// Creates a sink for values of the schema that the program was compiled with as the reader's.
    #[must_use]
    pub fn new(reader: &'a Schema) -> Self {
        Self { reader }
    }
}

impl Sink for ValueSink<'_> {
    type Value = Value;
    type Error = DecodeError;
    type Record = (NodeId, Vec<(String, Value)>);
    type List = Vec<Value>;
    type Map = Vec<(String, Value)>;

    fn null(&mut self) -> Result<Value, DecodeError> {
        Ok(Value::Null)
    }
    fn boolean(&mut self, value: bool) -> Result<Value, DecodeError> {
        Ok(Value::Boolean(value))
    }
    fn int(&mut self, value: i32, _: Logical) -> Result<Value, DecodeError> {
        Ok(Value::Int(value))
    }
    fn long(&mut self, value: i64, _: Logical) -> Result<Value, DecodeError> {
        Ok(Value::Long(value))
    }
    fn float(&mut self, value: f32) -> Result<Value, DecodeError> {
        Ok(Value::Float(value))
    }
    fn double(&mut self, value: f64) -> Result<Value, DecodeError> {
        Ok(Value::Double(value))
    }
    fn bytes(&mut self, value: &[u8], _: Logical) -> Result<Value, DecodeError> {
        Ok(Value::Bytes(value.to_vec()))
    }
    fn string(&mut self, value: &str, _: Logical) -> Result<Value, DecodeError> {
        Ok(Value::String(value.to_owned()))
    }
    fn fixed(&mut self, _: NodeId, value: &[u8], _: Logical) -> Result<Value, DecodeError> {
        Ok(Value::Fixed(value.to_vec()))
    }
    fn symbol(&mut self, node: NodeId, symbol: u32) -> Result<Value, DecodeError> {
        match &self.reader.node(node).kind {
            Kind::Enum(one) => Ok(Value::Enum(one.symbols.get(symbol as usize).cloned().unwrap_or_default())),
            _ => Err(DecodeError::new("the program belongs to another schema")),
        }
    }
    fn begin_record(&mut self, node: NodeId) -> Result<Self::Record, DecodeError> {
        Ok((node, Vec::new()))
    }
    fn field(&mut self, record: &mut Self::Record, field: usize, value: Value) -> Result<(), DecodeError> {
        if let Kind::Record(kind) = &self.reader.node(record.0).kind
            && let Some(field) = kind.fields.get(field)
        {
            record.1.push((field.name.clone(), value));
        }
        Ok(())
    }
    fn end_record(&mut self, record: Self::Record) -> Result<Value, DecodeError> {
        Ok(Value::Record(record.1))
    }
    fn begin_list(&mut self, _: NodeId) -> Result<Vec<Value>, DecodeError> {
        Ok(Vec::new())
    }
    fn item(&mut self, list: &mut Vec<Value>, value: Value) -> Result<(), DecodeError> {
        list.push(value);
        Ok(())
    }
    fn end_list(&mut self, list: Vec<Value>) -> Result<Value, DecodeError> {
        Ok(Value::Array(list))
    }
    fn begin_map(&mut self, _: NodeId) -> Result<Self::Map, DecodeError> {
        Ok(Vec::new())
    }
    fn entry(&mut self, map: &mut Self::Map, key: &str, value: Value) -> Result<(), DecodeError> {
        map.push((key.to_owned(), value));
        Ok(())
    }
    fn end_map(&mut self, map: Self::Map) -> Result<Value, DecodeError> {
        Ok(Value::Map(map))
    }
}

/// Encodes a value.
///
/// # Errors
/// The value does not fit the schema.
pub fn encode_value(schema: &Schema, value: &Value) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    encode(schema, &mut ValueSource { schema }, &value, &mut out)?;
    Ok(out)
}

/// Source of the parts of a [`Value`].
struct ValueSource<'v> {
    schema: &'v Schema,
}

fn misfit<T>(value: &Value) -> Result<T, EncodeError> {
    Err(EncodeError::new(format!("{value:?} does not fit the type")))
}

impl<'v> Source for ValueSource<'v> {
    type Value = &'v Value;
    type Key = &'v str;
    type List = &'v [Value];
    type Error = EncodeError;

    fn is_null(&mut self, value: &&'v Value) -> bool {
        matches!(value, Value::Null)
    }
    fn boolean(&mut self, value: &&'v Value) -> Result<bool, EncodeError> {
        if let Value::Boolean(value) = value { Ok(*value) } else { misfit(value) }
    }
    fn integer(&mut self, value: &&'v Value, _: Logical) -> Result<i64, EncodeError> {
        match value {
            Value::Int(value) => Ok(i64::from(*value)),
            Value::Long(value) => Ok(*value),
            other => misfit(other),
        }
    }
    fn double(&mut self, value: &&'v Value) -> Result<f64, EncodeError> {
        match value {
            Value::Float(value) => Ok(f64::from(*value)),
            Value::Double(value) => Ok(*value),
            other => misfit(other),
        }
    }
    fn bytes(
        &mut self,
        value: &&'v Value,
        _: Logical,
        _: Option<usize>,
        put: impl FnOnce(&[u8]),
    ) -> Result<(), EncodeError> {
        match value {
            Value::Bytes(bytes) | Value::Fixed(bytes) => put(bytes),
            other => return misfit(other),
        }
        Ok(())
    }
    fn string(&mut self, value: &&'v Value, _: Logical, put: impl FnOnce(&str)) -> Result<(), EncodeError> {
        if let Value::String(text) = value {
            put(text);
            return Ok(());
        }
        misfit(value)
    }
    fn symbol(&mut self, value: &&'v Value, node: NodeId) -> Result<u32, EncodeError> {
        let (Value::Enum(symbol), Kind::Enum(one)) = (value, &self.schema.node(node).kind) else {
            return misfit(value);
        };
        let found = one.symbols.iter().position(|known| known == symbol);
        found.map(|at| at as u32).map_or_else(|| misfit(value), Ok)
    }
    fn field(&mut self, record: &&'v Value, node: NodeId, field: usize) -> Result<Option<&'v Value>, EncodeError> {
        let (Value::Record(fields), Kind::Record(kind)) = (record, &self.schema.node(node).kind) else {
            return misfit(record);
        };
        let name = kind.fields.get(field).map(|field| field.name.as_str());
        Ok(fields.iter().find(|(one, _)| Some(one.as_str()) == name).map(|(_, value)| value))
    }
    fn list(&mut self, value: &&'v Value) -> Result<(&'v [Value], usize), EncodeError> {
        if let Value::Array(items) = value { Ok((items, items.len())) } else { misfit(value) }
    }
    fn item(&mut self, list: &&'v [Value], index: usize) -> Result<&'v Value, EncodeError> {
        list.get(index).ok_or_else(|| EncodeError::new("the array has become shorter"))
    }
    fn entries(&mut self, value: &&'v Value) -> Result<Vec<(&'v str, &'v Value)>, EncodeError> {
        let Value::Map(entries) = value else { return misfit(value) };
        Ok(entries.iter().map(|(key, value)| (key.as_str(), value)).collect())
    }
    fn key(&mut self, key: &&'v str, put: impl FnOnce(&str)) -> Result<(), EncodeError> {
        put(key);
        Ok(())
    }
    fn branch(&mut self, value: &&'v Value, node: NodeId) -> Result<(usize, Option<&'v Value>), EncodeError> {
        let Kind::Union(branches) = &self.schema.node(node).kind else { return misfit(value) };
        let fits = |id: &NodeId| match (&self.schema.node(*id).kind, value) {
            (Kind::Record(record), Value::Record(fields)) => {
                record.fields.len() == fields.len()
                    && record.fields.iter().zip(fields.iter()).all(|(field, (name, _))| field.name == *name)
            }
            (Kind::Enum(one), Value::Enum(symbol)) => one.symbols.contains(symbol),
            (Kind::Fixed(fixed), Value::Fixed(bytes)) => fixed.size == bytes.len(),
            (kind, value) => matches!(
                (kind, value),
                (Kind::Null, Value::Null)
                    | (Kind::Boolean, Value::Boolean(_))
                    | (Kind::Int, Value::Int(_))
                    | (Kind::Long, Value::Long(_))
                    | (Kind::Float, Value::Float(_))
                    | (Kind::Double, Value::Double(_))
                    | (Kind::Bytes, Value::Bytes(_))
                    | (Kind::String, Value::String(_))
                    | (Kind::Array(_), Value::Array(_))
                    | (Kind::Map(_), Value::Map(_))
            ),
        };
        branches.iter().position(fits).map_or_else(|| misfit(value), |at| Ok((at, None)))
    }
}
