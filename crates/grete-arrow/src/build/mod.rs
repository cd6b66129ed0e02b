//! Columns that are filled row by row, and their export.
//!
//! A column is addressed by its [`ColumnId`], so that a decoder can keep the id in place of a borrow. Each push appends
//! one value; a struct, list or map is pushed after the values inside it.

mod column_type;
mod export;

pub use column_type::{ColumnSpec, ColumnType, TimeUnit};
pub use export::BuiltTable;

use self::column_type::Storage;

/// Index of a column in its builder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnId(u32);

/// Reason why a value cannot be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The column has another type.
    #[error("the column has another type")]
    Type,
    /// The column would exceed the 2 GiB that its 32-bit offsets can address.
    #[error("a column exceeds 2 GiB; convert fewer records at once")]
    TooLarge,
}

/// Columns under construction. The first column is the struct of all.
#[derive(Debug)]
pub struct TableBuilder {
    pub(crate) columns: Vec<Column>,
}

/// Column under construction.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) nullable: bool,
    pub(crate) kind: ColumnType,
    pub(crate) children: Vec<ColumnId>,
    pub(crate) data: Data,
    pub(crate) length: usize,
    pub(crate) nulls: usize,
    /// Validity bits of the values up to the last null; empty while there is no null.
    pub(crate) validity: Vec<u8>,
}

/// Values of a column.
#[derive(Debug)]
pub(crate) enum Data {
    Nothing,
    Bits(Vec<u8>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    I128(Vec<i128>),
    /// Ends of the values, beginning with 0, and their bytes.
    Bytes(Vec<i32>, Vec<u8>),
    Fixed(usize, Vec<u8>),
    /// Ends of the lists, beginning with 0.
    Ends(Vec<i32>),
}

impl TableBuilder {
    /// Creates columns without rows.
    #[must_use]
    pub fn new(fields: Vec<ColumnSpec>) -> Self {
        let mut builder = Self { columns: Vec::new() };
        builder.add(ColumnSpec { name: String::new(), nullable: false, kind: ColumnType::Struct(fields) });
        builder
    }

    /// Returns the struct of all columns, which is pushed once for each row.
    #[must_use]
    pub fn root(&self) -> ColumnId {
        ColumnId(0)
    }

    /// Returns the fields of a struct, the item of a list, or the key and the value of a map; `None`: there is no such.
    #[must_use]
    #[inline]
    pub fn child(&self, id: ColumnId, index: usize) -> Option<ColumnId> {
        self.columns.get(id.0 as usize)?.children.get(index).copied()
    }

    fn add(&mut self, spec: ColumnSpec) -> ColumnId {
        let id = ColumnId(self.columns.len() as u32);
        let data = match spec.kind.storage() {
            Storage::Nothing => Data::Nothing,
            Storage::Bits => Data::Bits(Vec::new()),
            Storage::I32 => Data::I32(Vec::new()),
            Storage::I64 => Data::I64(Vec::new()),
            Storage::F32 => Data::F32(Vec::new()),
            Storage::F64 => Data::F64(Vec::new()),
            Storage::I128 => Data::I128(Vec::new()),
            Storage::Bytes => Data::Bytes(vec![0], Vec::new()),
            Storage::Fixed(size) => Data::Fixed(size, Vec::new()),
            Storage::Ends => Data::Ends(vec![0]),
        };
        let ColumnSpec { name, nullable, mut kind } = spec;
        let inner = kind.take_children();
        self.columns.push(Column {
            name,
            nullable,
            kind,
            children: Vec::new(),
            data,
            length: 0,
            nulls: 0,
            validity: Vec::new(),
        });
        let children = inner.into_iter().map(|child| self.add(child)).collect();
        if let Some(column) = self.columns.get_mut(id.0 as usize) {
            column.children = children;
        }
        id
    }

    #[inline]
    fn column(&mut self, id: ColumnId) -> Result<&mut Column, PushError> {
        self.columns.get_mut(id.0 as usize).ok_or(PushError::Type)
    }

    /// Appends a null, with nulls in the fields of a struct.
    ///
    /// # Errors
    /// The id is that of another builder.
    pub fn push_null(&mut self, id: ColumnId) -> Result<(), PushError> {
        let column = self.column(id)?;
        match &mut column.data {
            Data::Nothing => {}
            Data::Bits(bits) => push_bit(bits, column.length, false),
            Data::I32(values) => values.push(0),
            Data::I64(values) => values.push(0),
            Data::F32(values) => values.push(0.0),
            Data::F64(values) => values.push(0.0),
            Data::I128(values) => values.push(0),
            Data::Fixed(size, bytes) => bytes.resize(bytes.len() + *size, 0),
            Data::Bytes(ends, _) | Data::Ends(ends) => ends.push(ends.last().copied().unwrap_or(0)),
        }
        column.push_validity(false);
        if matches!(column.kind, ColumnType::Struct(_)) {
            for index in 0..column.children.len() {
                if let Some(child) = self.child(id, index) {
                    self.push_null(child)?;
                }
            }
        }
        Ok(())
    }

    /// Appends a boolean.
    ///
    /// # Errors
    /// The column has another type.
    #[inline]
    pub fn push_bool(&mut self, id: ColumnId, value: bool) -> Result<(), PushError> {
        let column = self.column(id)?;
        let Data::Bits(bits) = &mut column.data else { return Err(PushError::Type) };
        push_bit(bits, column.length, value);
        column.push_validity(true);
        Ok(())
    }

    /// Appends an integer of 32 bits, a date, a time of day in milliseconds, or the index of a dictionary.
    ///
    /// # Errors
    /// The column has another type.
    #[inline]
    pub fn push_i32(&mut self, id: ColumnId, value: i32) -> Result<(), PushError> {
        let column = self.column(id)?;
        let Data::I32(values) = &mut column.data else { return Err(PushError::Type) };
        values.push(value);
        column.push_validity(true);
        Ok(())
    }

    /// Appends an integer of 64 bits, a time of day in microseconds, or a timestamp.
    ///
    /// # Errors
    /// The column has another type.
    #[inline]
    pub fn push_i64(&mut self, id: ColumnId, value: i64) -> Result<(), PushError> {
        let column = self.column(id)?;
        let Data::I64(values) = &mut column.data else { return Err(PushError::Type) };
        values.push(value);
        column.push_validity(true);
        Ok(())
    }

    /// Appends a number of 32 bits.
    ///
    /// # Errors
    /// The column has another type.
    #[inline]
    pub fn push_f32(&mut self, id: ColumnId, value: f32) -> Result<(), PushError> {
        let column = self.column(id)?;
        let Data::F32(values) = &mut column.data else { return Err(PushError::Type) };
        values.push(value);
        column.push_validity(true);
        Ok(())
    }

    /// Appends a number of 64 bits.
    ///
    /// # Errors
    /// The column has another type.
    #[inline]
    pub fn push_f64(&mut self, id: ColumnId, value: f64) -> Result<(), PushError> {
        let column = self.column(id)?;
        let Data::F64(values) = &mut column.data else { return Err(PushError::Type) };
        values.push(value);
        column.push_validity(true);
        Ok(())
    }

    /// Appends the unscaled value of a decimal.
    ///
    /// # Errors
    /// The column has another type.
    #[inline]
    pub fn push_i128(&mut self, id: ColumnId, value: i128) -> Result<(), PushError> {
        let column = self.column(id)?;
        let Data::I128(values) = &mut column.data else { return Err(PushError::Type) };
        values.push(value);
        column.push_validity(true);
        Ok(())
    }

    /// Appends bytes, or UTF-8 text to a column of text.
    ///
    /// # Errors
    /// The column has another type, another size, or is full.
    #[inline]
    pub fn push_bytes(&mut self, id: ColumnId, value: &[u8]) -> Result<(), PushError> {
        let column = self.column(id)?;
        match &mut column.data {
            Data::Bytes(ends, bytes) => {
                ends.push(i32::try_from(bytes.len() + value.len()).map_err(|_| PushError::TooLarge)?);
                bytes.extend_from_slice(value);
            }
            Data::Fixed(size, bytes) if *size == value.len() => bytes.extend_from_slice(value),
            _ => return Err(PushError::Type),
        }
        column.push_validity(true);
        Ok(())
    }

    /// Appends a struct: its fields have their values already.
    ///
    /// # Errors
    /// The column has another type.
    #[inline]
    pub fn push_struct(&mut self, id: ColumnId) -> Result<(), PushError> {
        let column = self.column(id)?;
        column.push_validity(true);
        Ok(())
    }

    /// Appends a list or map: those values of its items that no list before it has.
    ///
    /// # Errors
    /// The column has another type, or is full.
    pub fn push_list(&mut self, id: ColumnId) -> Result<(), PushError> {
        let item = self.child(id, 0).ok_or(PushError::Type)?;
        let length = self.column(item)?.length;
        let column = self.column(id)?;
        let Data::Ends(ends) = &mut column.data else { return Err(PushError::Type) };
        ends.push(i32::try_from(length).map_err(|_| PushError::TooLarge)?);
        column.push_validity(true);
        Ok(())
    }
}

impl Column {
    #[inline]
    fn push_validity(&mut self, valid: bool) {
        if !valid {
            if self.nulls == 0 {
                // All values before this one are valid.
                self.validity = vec![0xff; self.length / 8];
                if !self.length.is_multiple_of(8) {
                    self.validity.push((1_u8 << (self.length % 8)) - 1);
                }
            }
            self.nulls += 1;
        }
        if self.nulls > 0 {
            push_bit(&mut self.validity, self.length, valid);
        }
        self.length += 1;
    }
}

/// Appends bit number `length`.
#[inline]
fn push_bit(bits: &mut Vec<u8>, length: usize, value: bool) {
    if length.is_multiple_of(8) {
        bits.push(0);
    }
    if let Some(byte) = bits.last_mut() {
        *byte |= u8::from(value) << (length % 8);
    }
}
