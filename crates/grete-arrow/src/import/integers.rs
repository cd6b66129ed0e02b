//! Import of integers and timestamps.

use super::{ArrayNode, ImportError, Validity};

/// Column of signed integers of any width.
#[derive(Debug)]
pub struct IntegerColumn<'a> {
    validity: Validity<'a>,
    values: Values<'a>,
}

#[derive(Debug)]
enum Values<'a> {
    Null,
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
}

impl<'a> IntegerColumn<'a> {
    pub(super) fn from_node(node: &ArrayNode<'a>) -> Result<Self, ImportError> {
        let values = match node.format {
            "n" => Values::Null,
            "c" => Values::I8(values(node)?),
            "s" => Values::I16(values(node)?),
            "i" => Values::I32(values(node)?),
            "l" => Values::I64(values(node)?),
            _ => return Err(node.unsupported_format("signed integers")),
        };
        Ok(Self { validity: node.validity()?, values })
    }

    /// Returns the number of a row; `None`: null, or beyond the end.
    #[inline]
    pub fn get(&self, row: usize) -> Option<i64> {
        if !self.validity.is_valid(row) {
            return None;
        }
        match &self.values {
            Values::Null => None,
            Values::I8(values) => values.get(row).copied().map(i64::from),
            Values::I16(values) => values.get(row).copied().map(i64::from),
            Values::I32(values) => values.get(row).copied().map(i64::from),
            Values::I64(values) => values.get(row).copied(),
        }
    }
}

fn values<'a, T>(node: &ArrayNode<'a>) -> Result<&'a [T], ImportError> {
    Ok(node.elements::<T>(1, node.start + node.len)?.get(node.start..).unwrap_or_default())
}

/// Column of timestamps: integers in ms since 1970, or Arrow timestamps of any unit.
#[derive(Debug)]
pub struct TimestampColumn<'a> {
    integers: IntegerColumn<'a>,
    /// Units per millisecond, or milliseconds per unit; the other one is 1.
    divide: i64,
    multiply: i64,
}

impl<'a> TimestampColumn<'a> {
    pub(super) fn from_node(node: &ArrayNode<'a>) -> Result<Self, ImportError> {
        let (divide, multiply) = match node.format.get(..3) {
            Some("tss") => (1, 1000),
            Some("tsm") => (1, 1),
            Some("tsu") => (1000, 1),
            Some("tsn") => (1_000_000, 1),
            _ if matches!(node.format, "n" | "l") => {
                return Ok(Self { integers: IntegerColumn::from_node(node)?, divide: 1, multiply: 1 });
            }
            _ => return Err(node.unsupported_format("timestamps, or int64 in milliseconds")),
        };
        let integers = IntegerColumn { validity: node.validity()?, values: Values::I64(values(node)?) };
        Ok(Self { integers, divide, multiply })
    }

    /// Returns the time of a row in ms since 1970; `None`: null, or beyond the end.
    #[inline]
    pub fn get(&self, row: usize) -> Option<i64> {
        self.integers.get(row).map(|value| value.saturating_mul(self.multiply).div_euclid(self.divide))
    }
}
