//! Columns of whole numbers, and of times.

use super::{ImportError, Node, Validity};

/// A column of signed integers of any width.
#[derive(Debug)]
pub struct Integers<'a> {
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

impl<'a> Integers<'a> {
    pub(super) fn of(node: &Node<'a>) -> Result<Self, ImportError> {
        let values = match node.format {
            "n" => Values::Null,
            "c" => Values::I8(values(node)?),
            "s" => Values::I16(values(node)?),
            "i" => Values::I32(values(node)?),
            "l" => Values::I64(values(node)?),
            _ => return Err(node.unusable("signed integers")),
        };
        Ok(Self { validity: node.validity()?, values })
    }

    /// The number of a row; `None` for null, and beyond the end.
    #[inline]
    #[must_use]
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

fn values<'a, T>(node: &Node<'a>) -> Result<&'a [T], ImportError> {
    Ok(node.elements::<T>(1, node.start + node.len)?.get(node.start..).unwrap_or_default())
}

/// A column of times: integers of milliseconds since 1970, or Arrow timestamps of any unit.
#[derive(Debug)]
pub struct Timestamps<'a> {
    integers: Integers<'a>,
    /// Units in a millisecond, or milliseconds in a unit.
    divide: i64,
    multiply: i64,
}

impl<'a> Timestamps<'a> {
    pub(super) fn of(node: &Node<'a>) -> Result<Self, ImportError> {
        let (divide, multiply) = match node.format.get(..3) {
            Some("tss") => (1, 1000),
            Some("tsm") => (1, 1),
            Some("tsu") => (1000, 1),
            Some("tsn") => (1_000_000, 1),
            _ if matches!(node.format, "n" | "l") => {
                return Ok(Self { integers: Integers::of(node)?, divide: 1, multiply: 1 });
            }
            _ => return Err(node.unusable("timestamps, or int64 in milliseconds")),
        };
        let integers = Integers { validity: node.validity()?, values: Values::I64(values(node)?) };
        Ok(Self { integers, divide, multiply })
    }

    /// Milliseconds since 1970 of a row; `None` for null, and beyond the end.
    #[inline]
    #[must_use]
    pub fn get(&self, row: usize) -> Option<i64> {
        self.integers.get(row).map(|value| value.saturating_mul(self.multiply).div_euclid(self.divide))
    }
}
