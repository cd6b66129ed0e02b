//! Import of columns from a foreign library, as records to produce.
//!
//! Imported arrays are validated once, completely: presence of buffers, lengths, ascending offsets, views within their
//! buffers. The interface does not give the length of a `binary` column's data buffer, so the last offset has to be
//! trusted.

mod bytes;
mod headers;
mod integers;
mod stream;
#[cfg(test)]
mod tests;

use std::ffi::CStr;

pub use bytes::BytesColumn;
pub use headers::HeadersColumn;
pub use integers::{IntegerColumn, TimestampColumn};
pub use stream::ArrowArrayStream;

use crate::c_data::{ArrowArray, ArrowSchema};

/// Reason why an array cannot be imported as records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The array was released or moved before.
    #[error("the Arrow array was released or moved before")]
    Released,
    /// The array does not conform to the interface.
    #[error("the Arrow array is malformed: {0}")]
    Malformed(&'static str),
    /// The columns are not those of records.
    #[error("{0}")]
    Column(String),
    /// The stream reported an error.
    #[error("the Arrow stream failed: {0}")]
    Stream(String),
}

/// Array and schema that were moved out of their capsules. Dropping them releases them.
#[derive(Debug)]
pub struct ImportedArray {
    array: ArrowArray,
    schema: ArrowSchema,
}

/// Records to produce, borrowed from an [`ImportedArray`].
#[derive(Debug)]
pub struct ImportedRecords<'a> {
    len: usize,
    /// Column of values.
    pub value: BytesColumn<'a>,
    /// Column of keys, if present.
    pub key: Option<BytesColumn<'a>>,
    /// Column of timestamps, if present.
    pub timestamp: Option<TimestampColumn<'a>>,
    /// Column of partitions, if present.
    pub partition: Option<IntegerColumn<'a>>,
    /// Column of headers, if present.
    pub headers: Option<HeadersColumn<'a>>,
}

/// Accepted columns. Others are refused, so that a misspelled name loses no data.
const COLUMN_NAMES: &str = "value, key, timestamp, partition and headers";

impl ImportedArray {
    /// Takes ownership of both.
    ///
    /// # Safety
    /// Array and schema come from one exporter and conform to the C data interface: the pointers refer to data as
    /// `schema` describes it, and stay valid until the array is released.
    #[must_use]
    pub unsafe fn new(array: ArrowArray, schema: ArrowSchema) -> Self {
        Self { array, schema }
    }

    /// Returns the array as records. It must be a struct with a column `value` and optionally `key`, `timestamp`,
    /// `partition` and `headers`, or a single column of values.
    ///
    /// # Errors
    /// The reason why the array is refused, in terms of the exporter's columns.
    pub fn records(&self) -> Result<ImportedRecords<'_>, ImportError> {
        // SAFETY: by the contract of `new`; array and schema live as long as the borrow.
        let node = unsafe { ArrayNode::new(&self.array, &self.schema, "value") }?;
        if node.format != "+s" {
            let value = BytesColumn::from_node(&node)?;
            return Ok(ImportedRecords {
                len: node.len,
                value,
                key: None,
                timestamp: None,
                partition: None,
                headers: None,
            });
        }
        let (mut value, mut key, mut timestamp, mut partition, mut headers) = (None, None, None, None, None);
        node.reject_null_rows()?;
        for child in node.children()? {
            match child.name.as_str() {
                "value" => value = Some(BytesColumn::from_node(&child)?),
                "key" => key = Some(BytesColumn::from_node(&child)?),
                "timestamp" => timestamp = Some(TimestampColumn::from_node(&child)?),
                "partition" => partition = Some(IntegerColumn::from_node(&child)?),
                "headers" => headers = Some(HeadersColumn::from_node(&child)?),
                // A column that the export of `Messages` adds; the offset of a consumed record has no meaning for a
                // produced one.
                "offset" => {}
                other => {
                    return Err(ImportError::Column(format!(
                        "there is a column {other:?}: records have {COLUMN_NAMES}; select and rename columns"
                    )));
                }
            }
        }
        let value = value
            .ok_or_else(|| ImportError::Column(format!("there is no column \"value\"; records have {COLUMN_NAMES}")))?;
        Ok(ImportedRecords { len: node.len, value, key, timestamp, partition, headers })
    }
}

impl ImportedRecords<'_> {
    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Array node with its schema, and the range of its rows.
pub(super) struct ArrayNode<'a> {
    pub(super) array: &'a ArrowArray,
    schema: &'a ArrowSchema,
    pub(super) name: String,
    pub(super) format: &'a str,
    /// First row, as an index into the buffers.
    pub(super) start: usize,
    pub(super) len: usize,
}

impl<'a> ArrayNode<'a> {
    /// # Safety
    /// As for [`ImportedArray::new`].
    unsafe fn new(array: &'a ArrowArray, schema: &'a ArrowSchema, name: &str) -> Result<Self, ImportError> {
        if array.release.is_none() || schema.release.is_none() || schema.format.is_null() {
            return Err(ImportError::Released);
        }
        // SAFETY: a live schema's format is a string that lives as long as the schema.
        let format = unsafe { CStr::from_ptr(schema.format) }.to_str().map_err(|_| ImportError::Malformed("format"))?;
        if !schema.dictionary.is_null() {
            return Err(ImportError::Column(format!("column {name:?} is dictionary-encoded; decode it first")));
        }
        let start = usize::try_from(array.offset).map_err(|_| ImportError::Malformed("offset"))?;
        let len = usize::try_from(array.length).map_err(|_| ImportError::Malformed("length"))?;
        start.checked_add(len).filter(|end| *end < isize::MAX as usize / 16).ok_or(ImportError::Malformed("length"))?;
        Ok(Self { array, schema, name: name.to_owned(), format, start, len })
    }

    /// Returns the children of a struct or list; each has at least the length that the parent needs.
    pub(super) fn children(&self) -> Result<Vec<ArrayNode<'a>>, ImportError> {
        let count = usize::try_from(self.array.n_children).map_err(|_| ImportError::Malformed("n_children"))?;
        if self.schema.n_children != self.array.n_children {
            return Err(ImportError::Malformed("n_children"));
        }
        let mut children = Vec::new();
        for index in 0..count {
            if self.array.children.is_null() || self.schema.children.is_null() {
                return Err(ImportError::Malformed("children"));
            }
            // SAFETY: by the contract of `ImportedArray::new`, both have `n_children` pointers to live structs.
            let (array, schema) = unsafe { (*self.array.children.add(index), *self.schema.children.add(index)) };
            if array.is_null() || schema.is_null() {
                return Err(ImportError::Malformed("children"));
            }
            // SAFETY: as above; children live as long as their parents.
            let (array, schema) = unsafe { (&*array, &*schema) };
            let name = if schema.name.is_null() {
                String::new()
            } else {
                // SAFETY: a non-null name is a string that lives as long as its schema.
                unsafe { CStr::from_ptr(schema.name) }.to_string_lossy().into_owned()
            };
            // SAFETY: as for the parent.
            let mut child = unsafe { ArrayNode::new(array, schema, &name) }?;
            if self.format == "+s" {
                // A struct's own offset applies to its children, too.
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

    /// Returns the buffer at `index`; `None`: it is missing or not aligned.
    pub(super) fn buffer<T>(&self, index: usize) -> Option<*const T> {
        let count = usize::try_from(self.array.n_buffers).ok()?;
        if index >= count || self.array.buffers.is_null() {
            return None;
        }
        // SAFETY: `buffers` has `n_buffers` pointers.
        let buffer: *const T = unsafe { *self.array.buffers.add(index) }.cast();
        (!buffer.is_null() && buffer.is_aligned()).then_some(buffer)
    }

    /// Returns the first `count` elements of the buffer at `index`.
    pub(super) fn elements<T>(&self, index: usize, count: usize) -> Result<&'a [T], ImportError> {
        if count == 0 {
            return Ok(&[]);
        }
        let buffer = self.buffer(index).ok_or(ImportError::Malformed("a buffer that is missing or not aligned"))?;
        // SAFETY: by the contract of `ImportedArray::new`, the buffer has as many elements as the layout requires.
        Ok(unsafe { std::slice::from_raw_parts(buffer, count) })
    }

    /// Returns the validity of the rows.
    pub(super) fn validity(&self) -> Result<Validity<'a>, ImportError> {
        let bits = match self.buffer::<u8>(0) {
            Some(_) if self.array.null_count != 0 => Some(self.elements(0, (self.start + self.len).div_ceil(8))?),
            _ => None,
        };
        Ok(Validity { bits, start: self.start })
    }

    fn reject_null_rows(&self) -> Result<(), ImportError> {
        let validity = self.validity()?;
        match (0..self.len).find(|row| !validity.is_valid(*row)) {
            Some(row) => {
                Err(ImportError::Column(format!("row {row} is null as a whole: a record has a value at least")))
            }
            None => Ok(()),
        }
    }

    pub(super) fn unsupported_format(&self, wanted: &str) -> ImportError {
        ImportError::Column(format!("column {:?} has the Arrow format {:?}; give {wanted}", self.name, self.format))
    }
}

/// Validity with one bit per row; `None`: no row is null.
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
