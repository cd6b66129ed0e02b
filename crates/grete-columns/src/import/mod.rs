//! The other way round: columns that somebody else exports, as records to be written.
//!
//! What comes is checked once, in full: buffers that are there, lengths, offsets that only grow, views inside their buffers.
//! The interface does not say how long a data buffer of `binary` is, so that the last offset has to be believed.

mod bytes;
mod error;
mod headers;
mod integers;
mod stream;
#[cfg(test)]
mod tests;

use std::ffi::CStr;

pub use bytes::BytesColumn;
pub use error::ImportError;
pub use headers::HeadersColumn;
pub use integers::{Integers, Timestamps};
pub use stream::ArrowArrayStream;

use crate::abi::{ArrowArray, ArrowSchema};

/// An array and its schema, moved out of their capsules. Dropping it releases them.
#[derive(Debug)]
pub struct Imported {
    array: ArrowArray,
    schema: ArrowSchema,
}

/// Records to be written, borrowed from an [`Imported`] array.
#[derive(Debug)]
pub struct NewRows<'a> {
    len: usize,
    /// Values.
    pub value: BytesColumn<'a>,
    /// Keys, if there is such a column.
    pub key: Option<BytesColumn<'a>>,
    /// Timestamps in milliseconds, if there is such a column.
    pub timestamp: Option<Timestamps<'a>>,
    /// Partitions, if there is such a column.
    pub partition: Option<Integers<'a>>,
    /// Headers, if there is such a column.
    pub headers: Option<HeadersColumn<'a>>,
}

/// Columns that mean something; others are refused, so that a misspelled name loses nothing.
const NAMES: &str = "value, key, timestamp, partition and headers";

impl Imported {
    /// Takes both over.
    ///
    /// # Safety
    /// They come from one exporter of the C data interface and keep to it: pointers lead to what `schema` says, and stay
    /// valid until the array is released.
    #[must_use]
    pub unsafe fn new(array: ArrowArray, schema: ArrowSchema) -> Self {
        Self { array, schema }
    }

    /// The array as records: a struct with a column `value` and perhaps `key`, `timestamp`, `partition` and `headers`, or one
    /// column of values.
    ///
    /// # Errors
    /// What is wrong with it, in the exporter's terms.
    pub fn rows(&self) -> Result<NewRows<'_>, ImportError> {
        // SAFETY: by the contract of `new`; both live as long as the borrow.
        let node = unsafe { Node::new(&self.array, &self.schema, "value") }?;
        if node.format != "+s" {
            let value = BytesColumn::of(&node)?;
            return Ok(NewRows { len: node.len, value, key: None, timestamp: None, partition: None, headers: None });
        }
        let (mut value, mut key, mut timestamp, mut partition, mut headers) = (None, None, None, None, None);
        node.refuse_nulls()?;
        for child in node.children()? {
            match child.name.as_str() {
                "value" => value = Some(BytesColumn::of(&child)?),
                "key" => key = Some(BytesColumn::of(&child)?),
                "timestamp" => timestamp = Some(Timestamps::of(&child)?),
                "partition" => partition = Some(Integers::of(&child)?),
                "headers" => headers = Some(HeadersColumn::of(&child)?),
                // What `Messages` export besides; where a record was says nothing about where it goes.
                "offset" => {}
                other => {
                    return Err(ImportError::Column(format!(
                        "there is a column {other:?}: records have {NAMES}; select and rename columns"
                    )));
                }
            }
        }
        let value =
            value.ok_or_else(|| ImportError::Column(format!("there is no column \"value\"; records have {NAMES}")))?;
        Ok(NewRows { len: node.len, value, key, timestamp, partition, headers })
    }
}

impl NewRows<'_> {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// One array with its schema, and the part of it that counts.
pub(super) struct Node<'a> {
    pub(super) array: &'a ArrowArray,
    schema: &'a ArrowSchema,
    pub(super) name: String,
    pub(super) format: &'a str,
    /// The first row, in the buffers.
    pub(super) start: usize,
    pub(super) len: usize,
}

impl<'a> Node<'a> {
    /// # Safety
    /// As for [`Imported::new`].
    unsafe fn new(array: &'a ArrowArray, schema: &'a ArrowSchema, name: &str) -> Result<Self, ImportError> {
        if array.release.is_none() || schema.release.is_none() || schema.format.is_null() {
            return Err(ImportError::Released);
        }
        // SAFETY: a live schema's format is a string that lives as long as it.
        let format = unsafe { CStr::from_ptr(schema.format) }.to_str().map_err(|_| ImportError::Malformed("format"))?;
        if !schema.dictionary.is_null() {
            return Err(ImportError::Column(format!("column {name:?} is dictionary-encoded; decode it first")));
        }
        let start = usize::try_from(array.offset).map_err(|_| ImportError::Malformed("offset"))?;
        let len = usize::try_from(array.length).map_err(|_| ImportError::Malformed("length"))?;
        start.checked_add(len).filter(|end| *end < isize::MAX as usize / 16).ok_or(ImportError::Malformed("length"))?;
        Ok(Self { array, schema, name: name.to_owned(), format, start, len })
    }

    /// The children of a struct, or of a list: each as long as the parent wants it at least.
    pub(super) fn children(&self) -> Result<Vec<Node<'a>>, ImportError> {
        let count = usize::try_from(self.array.n_children).map_err(|_| ImportError::Malformed("n_children"))?;
        if self.schema.n_children != self.array.n_children {
            return Err(ImportError::Malformed("n_children"));
        }
        let mut children = Vec::new();
        for place in 0..count {
            if self.array.children.is_null() || self.schema.children.is_null() {
                return Err(ImportError::Malformed("children"));
            }
            // SAFETY: both arrays have `n_children` pointers to live structs, by the contract of `Imported::new`.
            let (array, schema) = unsafe { (*self.array.children.add(place), *self.schema.children.add(place)) };
            if array.is_null() || schema.is_null() {
                return Err(ImportError::Malformed("children"));
            }
            // SAFETY: as above; they live as long as their parents.
            let (array, schema) = unsafe { (&*array, &*schema) };
            let name = if schema.name.is_null() {
                String::new()
            } else {
                // SAFETY: a name that is there is a string that lives as long as its schema.
                unsafe { CStr::from_ptr(schema.name) }.to_string_lossy().into_owned()
            };
            // SAFETY: as for the parent.
            let mut child = unsafe { Node::new(array, schema, &name) }?;
            if self.format == "+s" {
                // A struct's own offset counts for its children, too.
                if child.len < self.start + self.len {
                    return Err(ImportError::Malformed("length of a struct's child"));
                }
                child.start += self.start;
                child.len = self.len;
            }
            children.push(child);
        }
        Ok(children)
    }

    /// The buffer at `place`, if it is there.
    pub(super) fn buffer<T>(&self, place: usize) -> Option<*const T> {
        let count = usize::try_from(self.array.n_buffers).ok()?;
        if place >= count || self.array.buffers.is_null() {
            return None;
        }
        // SAFETY: `buffers` has `n_buffers` pointers.
        let buffer: *const T = unsafe { *self.array.buffers.add(place) }.cast();
        (!buffer.is_null() && buffer.is_aligned()).then_some(buffer)
    }

    /// The `count` elements of the buffer at `place`, counted from its beginning.
    pub(super) fn elements<T>(&self, place: usize, count: usize) -> Result<&'a [T], ImportError> {
        if count == 0 {
            return Ok(&[]);
        }
        let buffer = self.buffer(place).ok_or(ImportError::Malformed("a buffer that is missing or not aligned"))?;
        // SAFETY: the layout says that the buffer holds that many, by the contract of `Imported::new`.
        Ok(unsafe { std::slice::from_raw_parts(buffer, count) })
    }

    /// Which rows are there.
    pub(super) fn validity(&self) -> Result<Validity<'a>, ImportError> {
        let bits = match self.buffer::<u8>(0) {
            Some(_) if self.array.null_count != 0 => Some(self.elements(0, (self.start + self.len).div_ceil(8))?),
            _ => None,
        };
        Ok(Validity { bits, start: self.start })
    }

    fn refuse_nulls(&self) -> Result<(), ImportError> {
        let validity = self.validity()?;
        match (0..self.len).find(|row| !validity.is_valid(*row)) {
            Some(row) => {
                Err(ImportError::Column(format!("row {row} is null as a whole: a record has a value at least")))
            }
            None => Ok(()),
        }
    }

    pub(super) fn unusable(&self, wanted: &str) -> ImportError {
        ImportError::Column(format!("column {:?} has the Arrow format {:?}; give {wanted}", self.name, self.format))
    }
}

/// One bit per row; no bits: all are there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Validity<'a> {
    bits: Option<&'a [u8]>,
    start: usize,
}

impl Validity<'_> {
    #[inline]
    pub(super) fn is_valid(&self, row: usize) -> bool {
        let Some(bits) = self.bits else { return true };
        let at = self.start + row;
        bits.get(at / 8).is_none_or(|byte| byte >> (at % 8) & 1 == 1)
    }
}
