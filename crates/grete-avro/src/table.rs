//! Sink that fills Arrow columns: one row for each datum, one column for each field.

use grete_arrow::{BuiltTable, ColumnId, ColumnSpec, ColumnType, PushError, TableBuilder, TimeUnit};

use crate::error::{DecodeError, ResolveError};
use crate::program::Sink;
use crate::schema::{Kind, Logical, NodeId, Schema};

/// Columns of one table. Types that are used at several places have columns at each of them.
const MAX_COLUMNS: usize = 10_000;

/// Digits of Arrow's `decimal128`.
const MAX_PRECISION: u32 = 38;

/// Columns of the reader's schema, filled by [`Program::decode`](crate::Program::decode).
///
/// A record's fields are the columns; data of another type is one column `value`. A nullable union is its type; an enum
/// is a dictionary; a decimal of up to 38 digits is a `decimal128`; a duration, and a larger decimal, are bytes.
#[derive(Debug)]
pub struct Table {
    builder: TableBuilder,
    /// Column of the next value.
    current: ColumnId,
    is_record: bool,
    names: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table without rows.
    ///
    /// # Errors
    /// The schema has a type that Arrow does not have: a union of several types, or a record that contains itself.
    pub fn new(reader: &Schema) -> Result<Self, ResolveError> {
        let mut specs = Specs { schema: reader, open: Vec::new(), count: 0 };
        let root = specs.column("value", reader.root(), true).map_err(ResolveError)?;
        let is_record = matches!(root.kind, ColumnType::Struct(_));
        let fields = match root.kind {
            // A tombstone has null in each column.
            ColumnType::Struct(fields) => {
                fields.into_iter().map(|field| ColumnSpec { nullable: true, ..field }).collect()
            }
            _ => vec![root],
        };
        let names = reader.nodes().iter().map(|node| match &node.kind {
            Kind::Record(record) => record.fields.iter().map(|field| field.name.clone()).collect(),
            _ => Vec::new(),
        });
        let names = names.collect();
        let builder = TableBuilder::new(fields);
        Ok(Self { current: builder.root(), builder, is_record, names })
    }

    /// Creates a table that has rows, but no columns.
    #[must_use]
    pub fn without_columns() -> Self {
        let builder = TableBuilder::new(Vec::new());
        Self { current: builder.root(), builder, is_record: true, names: Vec::new() }
    }

    /// Prepares the next row. Each row is one call of this method, then one of
    /// [`Program::decode`](crate::Program::decode) or of [`Table::push_nulls`], then one of [`Table::end_row`].
    pub fn begin_row(&mut self) {
        let root = self.builder.root();
        self.current = if self.is_record { root } else { self.builder.child(root, 0).unwrap_or(root) };
    }

    /// Appends a row of nulls.
    ///
    /// # Errors
    /// A column is full.
    pub fn push_nulls(&mut self) -> Result<(), DecodeError> {
        let root = self.builder.root();
        let mut index = 0;
        while let Some(column) = self.builder.child(root, index) {
            self.builder.push_null(column).map_err(push_error)?;
            index += 1;
        }
        self.builder.push_struct(root).map_err(push_error)
    }

    /// Ends a row that was decoded.
    ///
    /// # Errors
    /// A column is full.
    pub fn end_row(&mut self) -> Result<(), DecodeError> {
        if self.is_record {
            return Ok(()); // the record has pushed its struct
        }
        self.builder.push_struct(self.builder.root()).map_err(push_error)
    }

    /// Ends the construction.
    #[must_use]
    pub fn finish(self) -> BuiltTable {
        self.builder.finish()
    }
}

#[cold]
fn push_error(error: PushError) -> DecodeError {
    DecodeError::new(error.to_string())
}

/// Columns so far, and the records around the next one.
struct Specs<'a> {
    schema: &'a Schema,
    open: Vec<NodeId>,
    count: usize,
}

impl Specs<'_> {
    fn column(&mut self, name: &str, id: NodeId, nullable: bool) -> Result<ColumnSpec, String> {
        self.count += 1;
        if self.count > MAX_COLUMNS {
            return Err(format!("there are more than {MAX_COLUMNS} columns; read fewer fields with a reader's schema"));
        }
        let node = self.schema.node(id);
        if let Kind::Union(branches) = &node.kind {
            let null = |id: &NodeId| matches!(self.schema.node(*id).kind, Kind::Null);
            let others: Vec<NodeId> = branches.iter().copied().filter(|id| !null(id)).collect();
            return match others[..] {
                [] => self.column(name, *branches.first().unwrap_or(&id), true),
                [one] => self.column(name, one, nullable || branches.len() > 1),
                _ => Err(format!(
                    "field {name}: Arrow has no column for a {}; leave the field out with a reader's schema",
                    self.schema.describe(id)
                )),
            };
        }
        let kind = match (&node.kind, node.logical) {
            (Kind::Null, _) => ColumnType::Null,
            (Kind::Boolean, _) => ColumnType::Boolean,
            (Kind::Int, Logical::Date) => ColumnType::Date32,
            (Kind::Int, Logical::TimeMillis) => ColumnType::Time32Millis,
            (Kind::Int, _) => ColumnType::Int32,
            (Kind::Long, logical) => long_column(logical),
            (Kind::Float, _) => ColumnType::Float32,
            (Kind::Double, _) => ColumnType::Float64,
            (Kind::Bytes | Kind::Fixed(_), Logical::Decimal { precision, scale }) if precision <= MAX_PRECISION => {
                ColumnType::Decimal { precision, scale }
            }
            (Kind::Bytes, _) => ColumnType::Binary,
            (Kind::String, _) => ColumnType::Utf8,
            (Kind::Fixed(fixed), _) => ColumnType::FixedBinary(fixed.size),
            (Kind::Enum(one), _) => ColumnType::Dictionary(one.symbols.clone()),
            (Kind::Array(item), _) => ColumnType::List(Box::new(self.column("item", *item, false)?)),
            (Kind::Map(value), _) => ColumnType::Map(Box::new(self.column("value", *value, false)?)),
            (Kind::Record(record), _) => {
                if self.open.contains(&id) {
                    return Err(format!(
                        "field {name}: record {} contains itself, which Arrow has no type for; leave the field out \
                         with a reader's schema",
                        record.name.full
                    ));
                }
                self.open.push(id);
                let fields = record.fields.iter().map(|field| self.column(&field.name, field.node, false));
                let fields = fields.collect::<Result<Vec<_>, _>>()?;
                self.open.pop();
                ColumnType::Struct(fields)
            }
            (Kind::Union(_), _) => ColumnType::Null,
        };
        let nullable = nullable || matches!(kind, ColumnType::Null);
        Ok(ColumnSpec { name: name.to_owned(), nullable, kind })
    }
}

fn long_column(logical: Logical) -> ColumnType {
    let (unit, utc) = match logical {
        Logical::TimeMicros => return ColumnType::Time64Micros,
        Logical::TimestampMillis => (TimeUnit::Millis, true),
        Logical::TimestampMicros => (TimeUnit::Micros, true),
        Logical::TimestampNanos => (TimeUnit::Nanos, true),
        Logical::LocalTimestampMillis => (TimeUnit::Millis, false),
        Logical::LocalTimestampMicros => (TimeUnit::Micros, false),
        Logical::LocalTimestampNanos => (TimeUnit::Nanos, false),
        _ => return ColumnType::Int64,
    };
    ColumnType::Timestamp { unit, utc }
}

/// Returns the value of big-endian two's complement.
fn unscaled(bytes: &[u8]) -> Result<i128, DecodeError> {
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let filler = if negative { 0xff } else { 0 };
    let (extra, low) = bytes.split_at(bytes.len().saturating_sub(16));
    let mut value = [filler; 16];
    for (to, from) in value.iter_mut().rev().zip(low.iter().rev()) {
        *to = *from;
    }
    if extra.iter().any(|byte| *byte != filler) || (value[0] & 0x80 != 0) != negative {
        return Err(DecodeError::new("a decimal has more than 128 bits"));
    }
    Ok(i128::from_be_bytes(value))
}

impl Sink for Table {
    type Value = ();
    type Error = DecodeError;
    type Record = (ColumnId, NodeId);
    type List = ColumnId;
    type Map = (ColumnId, ColumnId);

    #[inline]
    fn null(&mut self) -> Result<(), DecodeError> {
        self.builder.push_null(self.current).map_err(push_error)
    }
    #[inline]
    fn boolean(&mut self, value: bool) -> Result<(), DecodeError> {
        self.builder.push_bool(self.current, value).map_err(push_error)
    }
    #[inline]
    fn int(&mut self, value: i32, _: Logical) -> Result<(), DecodeError> {
        self.builder.push_i32(self.current, value).map_err(push_error)
    }
    #[inline]
    fn long(&mut self, value: i64, _: Logical) -> Result<(), DecodeError> {
        self.builder.push_i64(self.current, value).map_err(push_error)
    }
    #[inline]
    fn float(&mut self, value: f32) -> Result<(), DecodeError> {
        self.builder.push_f32(self.current, value).map_err(push_error)
    }
    #[inline]
    fn double(&mut self, value: f64) -> Result<(), DecodeError> {
        self.builder.push_f64(self.current, value).map_err(push_error)
    }
    #[inline]
    fn bytes(&mut self, value: &[u8], logical: Logical) -> Result<(), DecodeError> {
        match logical {
            Logical::Decimal { precision, .. } if precision <= MAX_PRECISION => {
                self.builder.push_i128(self.current, unscaled(value)?).map_err(push_error)
            }
            _ => self.builder.push_bytes(self.current, value).map_err(push_error),
        }
    }
    #[inline]
    fn string(&mut self, value: &str, _: Logical) -> Result<(), DecodeError> {
        self.builder.push_bytes(self.current, value.as_bytes()).map_err(push_error)
    }
    fn fixed(&mut self, _: NodeId, value: &[u8], logical: Logical) -> Result<(), DecodeError> {
        self.bytes(value, logical)
    }
    #[inline]
    fn symbol(&mut self, _: NodeId, symbol: u32) -> Result<(), DecodeError> {
        self.builder.push_i32(self.current, symbol.cast_signed()).map_err(push_error)
    }

    #[inline]
    fn begin_record(&mut self, node: NodeId) -> Result<Self::Record, DecodeError> {
        Ok((self.current, node))
    }
    #[inline]
    fn begin_field(&mut self, record: &mut Self::Record, field: usize) {
        self.current = self.builder.child(record.0, field).unwrap_or(record.0);
    }
    #[inline]
    fn field(&mut self, _: &mut Self::Record, _: usize, (): ()) -> Result<(), DecodeError> {
        Ok(())
    }
    #[inline]
    fn end_record(&mut self, record: Self::Record) -> Result<(), DecodeError> {
        self.builder.push_struct(record.0).map_err(push_error)
    }

    #[inline]
    fn begin_list(&mut self, _: NodeId) -> Result<ColumnId, DecodeError> {
        Ok(self.current)
    }
    #[inline]
    fn begin_item(&mut self, list: &mut ColumnId) {
        self.current = self.builder.child(*list, 0).unwrap_or(*list);
    }
    #[inline]
    fn item(&mut self, _: &mut ColumnId, (): ()) -> Result<(), DecodeError> {
        Ok(())
    }
    #[inline]
    fn end_list(&mut self, list: ColumnId) -> Result<(), DecodeError> {
        self.builder.push_list(list).map_err(push_error)
    }

    fn begin_map(&mut self, _: NodeId) -> Result<Self::Map, DecodeError> {
        let entries = self.builder.child(self.current, 0).ok_or_else(|| push_error(PushError::Type))?;
        Ok((self.current, entries))
    }
    fn begin_entry(&mut self, map: &mut Self::Map, key: &str) -> Result<(), DecodeError> {
        let (keys, values) = (self.builder.child(map.1, 0), self.builder.child(map.1, 1));
        let (Some(keys), Some(values)) = (keys, values) else { return Err(push_error(PushError::Type)) };
        self.current = values;
        self.builder.push_bytes(keys, key.as_bytes()).map_err(push_error)
    }
    fn entry(&mut self, map: &mut Self::Map, _: &str, (): ()) -> Result<(), DecodeError> {
        self.builder.push_struct(map.1).map_err(push_error)
    }
    fn end_map(&mut self, map: Self::Map) -> Result<(), DecodeError> {
        self.builder.push_list(map.0).map_err(push_error)
    }

    fn in_field(&mut self, mut error: DecodeError, node: NodeId, field: usize) -> DecodeError {
        error.path.extend(self.names.get(node.index()).and_then(|names| names.get(field)).cloned());
        error
    }
}
