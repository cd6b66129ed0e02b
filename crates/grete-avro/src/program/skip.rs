//! Skipping values that the reader does not have.

use super::MAX_DEPTH;
use crate::error::DecodeError;
use crate::schema::{Kind, NodeId, Schema};
use crate::wire::Input;

/// Skips one value of `schema`.
pub(super) fn skip(schema: &Schema, node: NodeId, input: &mut Input<'_>) -> Result<(), DecodeError> {
    value(schema, node, input, 0)
}

fn value(schema: &Schema, node: NodeId, input: &mut Input<'_>, depth: usize) -> Result<(), DecodeError> {
    if depth > MAX_DEPTH {
        return Err(input.error(format_args!("values are nested deeper than {MAX_DEPTH} levels")));
    }
    match &schema.node(node).kind {
        Kind::Null => Ok(()),
        Kind::Boolean => input.boolean().map(drop),
        Kind::Int | Kind::Enum(_) => input.int().map(drop),
        Kind::Long => input.long().map(drop),
        Kind::Float => input.take(4).map(drop),
        Kind::Double => input.take(8).map(drop),
        Kind::Bytes | Kind::String => input.bytes().map(drop),
        Kind::Fixed(fixed) => input.take(fixed.size).map(drop),
        Kind::Union(branches) => {
            let branch = input.long()?;
            let found = usize::try_from(branch).ok().and_then(|branch| branches.get(branch));
            match found {
                Some(&node) => value(schema, node, input, depth + 1),
                None => Err(input.error(format_args!("branch {branch} of a union of {}", branches.len()))),
            }
        }
        Kind::Record(record) => {
            for field in &record.fields {
                value(schema, field.node, input, depth + 1)?;
            }
            Ok(())
        }
        Kind::Array(item) => blocks(schema, *item, false, input, depth),
        Kind::Map(item) => blocks(schema, *item, true, input, depth),
    }
}

fn blocks(schema: &Schema, item: NodeId, keyed: bool, input: &mut Input<'_>, depth: usize) -> Result<(), DecodeError> {
    loop {
        let (count, size) = input.block()?;
        if count == 0 {
            return Ok(());
        }
        if let Some(size) = size {
            input.take(size)?;
            continue;
        }
        for _ in 0..count {
            let before = input.remaining();
            if keyed {
                input.bytes()?;
            }
            value(schema, item, input, depth + 1)?;
            if input.remaining() == before {
                break; // the type has no bytes, so no item has any
            }
        }
    }
}
