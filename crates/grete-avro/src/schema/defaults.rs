//! Defaults of fields: JSON in the schema, encoded once with the field's type.

use std::collections::HashMap;

use serde_json::Value;

use super::{Kind, NodeId, Schema};
use crate::error::SchemaError;
use crate::wire::{put_bytes, put_long};

/// Defaults as they stand in the text, by record and number of the field.
pub(super) type Defaults = HashMap<(NodeId, usize), Value>;

/// Nesting of a default. A record whose default contains itself has no end.
const MAX_DEPTH: usize = 64;

/// Values in all defaults of a schema.
const MAX_VALUES: u32 = 1 << 20;

/// Sets the default of each field.
pub(super) fn encode_all(schema: &mut Schema, defaults: &Defaults) -> Result<(), SchemaError> {
    let mut encoded = Vec::with_capacity(defaults.len());
    let mut encoder = Encoder { schema, defaults, values: 0 };
    for (&(id, index), json) in defaults {
        let Kind::Record(record) = &schema.node(id).kind else { continue };
        let Some(field) = record.fields.get(index) else { continue };
        let mut out = Vec::new();
        encoder.encode(field.node, json, &mut out, 0).map_err(|reason| {
            SchemaError::new(format!("field {}.{}: default {reason}", record.name.full, field.name))
        })?;
        encoded.push((id, index, out));
    }
    for (id, index, bytes) in encoded {
        if let Kind::Record(record) = &mut schema.nodes[id.index()].kind
            && let Some(field) = record.fields.get_mut(index)
        {
            field.default = Some(bytes.into());
        }
    }
    Ok(())
}

/// Encoder of defaults, and the number of values that it has encoded.
struct Encoder<'a> {
    schema: &'a Schema,
    defaults: &'a Defaults,
    values: u32,
}

impl Encoder<'_> {
    fn encode(&mut self, id: NodeId, json: &Value, out: &mut Vec<u8>, depth: usize) -> Result<(), String> {
        let schema = self.schema;
        self.values += 1;
        if depth > MAX_DEPTH || self.values > MAX_VALUES {
            return Err("has no end: it contains itself".into());
        }
        let misfit = || format!("{json} does not fit the type {}", schema.describe(id));
        match (&schema.node(id).kind, json) {
            (Kind::Null, Value::Null) => {}
            (Kind::Boolean, Value::Bool(value)) => out.push(u8::from(*value)),
            (Kind::Int, Value::Number(number)) => {
                let value = number.as_i64().and_then(|value| i32::try_from(value).ok()).ok_or_else(misfit)?;
                put_long(out, i64::from(value));
            }
            (Kind::Long, Value::Number(number)) => put_long(out, number.as_i64().ok_or_else(misfit)?),
            (Kind::Float, _) => out.extend_from_slice(&(float(json).ok_or_else(misfit)? as f32).to_le_bytes()),
            (Kind::Double, _) => out.extend_from_slice(&float(json).ok_or_else(misfit)?.to_le_bytes()),
            (Kind::String, Value::String(text)) => put_bytes(out, text.as_bytes()),
            (Kind::Bytes, Value::String(text)) => put_bytes(out, &latin1(text).ok_or_else(misfit)?),
            (Kind::Fixed(fixed), Value::String(text)) => {
                let bytes = latin1(text).filter(|bytes| bytes.len() == fixed.size).ok_or_else(misfit)?;
                out.extend_from_slice(&bytes);
            }
            (Kind::Enum(one), Value::String(text)) => {
                let symbol = one.symbols.iter().position(|symbol| symbol == text).ok_or_else(misfit)?;
                put_long(out, symbol.cast_signed() as i64);
            }
            (Kind::Array(item), Value::Array(items)) => {
                if !items.is_empty() {
                    put_long(out, items.len().cast_signed() as i64);
                }
                for one in items {
                    self.encode(*item, one, out, depth + 1)?;
                }
                out.push(0);
            }
            (Kind::Map(item), Value::Object(entries)) => {
                if !entries.is_empty() {
                    put_long(out, entries.len().cast_signed() as i64);
                }
                for (key, one) in entries {
                    put_bytes(out, key.as_bytes());
                    self.encode(*item, one, out, depth + 1)?;
                }
                out.push(0);
            }
            (Kind::Union(branches), _) => {
                // The specification has the first branch; newer ones any that fits.
                let start = out.len();
                for (number, &branch) in branches.iter().enumerate() {
                    put_long(out, number.cast_signed() as i64);
                    if self.encode(branch, json, out, depth + 1).is_ok() {
                        return Ok(());
                    }
                    out.truncate(start);
                }
                return Err(misfit());
            }
            (Kind::Record(record), Value::Object(object)) => {
                for (index, field) in record.fields.iter().enumerate() {
                    let value =
                        object.get(&field.name).or_else(|| self.defaults.get(&(id, index))).ok_or_else(|| {
                            format!("{json} has no {}, which has no default in record {}", field.name, record.name.full)
                        })?;
                    self.encode(field.node, value, out, depth + 1)?;
                }
            }
            _ => return Err(misfit()),
        }
        Ok(())
    }
}

/// Returns a number, or what some writers put for those that JSON has not.
fn float(json: &Value) -> Option<f64> {
    match json {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" | "INF" => Some(f64::INFINITY),
            "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the bytes that a text stands for: one for each code point up to 255.
fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}
