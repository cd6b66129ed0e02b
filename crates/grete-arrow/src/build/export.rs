//! Export of built columns.

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;

use super::{Column, ColumnId, ColumnType, Data, TableBuilder};
use crate::c_data::{ArrowArray, ArrowSchema};
use crate::schema::NULLABLE;

/// Columns that are complete. They can be exported any number of times.
#[derive(Debug, Clone)]
pub struct BuiltTable(Arc<Finished>);

#[derive(Debug)]
struct Finished {
    columns: Vec<Column>,
    /// Ends and bytes of the values of each dictionary, by column.
    dictionaries: Vec<Option<(Vec<i32>, Vec<u8>)>>,
}

impl TableBuilder {
    /// Ends the construction.
    #[must_use]
    pub fn finish(self) -> BuiltTable {
        let dictionaries = self.columns.iter().map(|column| match &column.kind {
            ColumnType::Dictionary(values) => {
                let (mut ends, mut bytes) = (vec![0], Vec::new());
                for value in values {
                    bytes.extend_from_slice(value.as_bytes());
                    ends.push(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
                }
                Some((ends, bytes))
            }
            _ => None,
        });
        let dictionaries = dictionaries.collect();
        BuiltTable(Arc::new(Finished { columns: self.columns, dictionaries }))
    }
}

impl BuiltTable {
    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.columns.first().map_or(0, |root| root.length)
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the names of the columns.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let Some(root) = self.0.columns.first() else { return Vec::new() };
        root.children.iter().filter_map(|id| self.column(*id)).map(|column| column.name.as_str()).collect()
    }

    /// Exports all rows as one struct array. The array keeps the columns alive.
    #[must_use]
    pub fn array(&self) -> ArrowArray {
        self.array_of(ColumnId(0))
    }

    /// Exports the schema.
    #[must_use]
    pub fn schema(&self) -> ArrowSchema {
        self.schema_of(ColumnId(0))
    }

    fn column(&self, id: ColumnId) -> Option<&Column> {
        self.0.columns.get(id.0 as usize)
    }

    fn array_of(&self, id: ColumnId) -> ArrowArray {
        let Some(column) = self.column(id) else { return ArrowArray::empty() };
        let validity: *const c_void = if column.nulls == 0 { ptr::null() } else { column.validity.as_ptr().cast() };
        let mut buffers = vec![validity];
        match &column.data {
            Data::Nothing => {
                if matches!(column.kind, ColumnType::Null) {
                    buffers.clear();
                }
            }
            Data::Bits(bytes) | Data::Fixed(_, bytes) => buffers.push(bytes.as_ptr().cast()),
            Data::I32(values) => buffers.push(values.as_ptr().cast()),
            Data::I64(values) => buffers.push(values.as_ptr().cast()),
            Data::F32(values) => buffers.push(values.as_ptr().cast()),
            Data::F64(values) => buffers.push(values.as_ptr().cast()),
            Data::I128(values) => buffers.push(values.as_ptr().cast()),
            Data::Bytes(ends, bytes) => buffers.extend([ends.as_ptr().cast::<c_void>(), bytes.as_ptr().cast()]),
            Data::Ends(ends) => buffers.push(ends.as_ptr().cast()),
        }
        let dictionary = self.0.dictionaries.get(id.0 as usize).and_then(Option::as_ref).map(|(ends, bytes)| {
            let buffers = vec![ptr::null(), ends.as_ptr().cast(), bytes.as_ptr().cast()];
            ArrowArray::new(ends.len() - 1, 0, 0, buffers, vec![], Box::new(self.clone()))
        });
        let children = column.children.iter().map(|child| self.array_of(*child)).collect();
        let nulls = column.nulls.cast_signed() as i64;
        ArrowArray::with_dictionary(column.length, nulls, 0, buffers, children, dictionary, Box::new(self.clone()))
    }

    fn schema_of(&self, id: ColumnId) -> ArrowSchema {
        let Some(column) = self.column(id) else { return ArrowSchema::empty() };
        let children = column.children.iter().map(|child| self.schema_of(*child)).collect();
        let dictionary = match &column.kind {
            ColumnType::Dictionary(_) => Some(ArrowSchema::new(c"u", c"", 0)),
            _ => None,
        };
        let flags = if column.nullable { NULLABLE } else { 0 };
        // A name with a zero byte is cut there, as C strings are.
        let text = |text: &str| CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default();
        ArrowSchema::with_texts(text(&column.kind.format()), text(&column.name), flags, children, dictionary)
    }
}
