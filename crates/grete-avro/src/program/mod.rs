//! Programs: steps that read data of a writer's schema as values of a reader's schema.

mod resolve;
mod run;
mod skip;

use std::sync::Arc;

use crate::error::{DecodeError, ResolveError};
use crate::schema::{Logical, NodeId, Schema};
use crate::wire::Input;

/// Nesting of values in data.
pub const MAX_DEPTH: usize = 200;

/// Items without any bytes (null, a record without fields) in the arrays and maps of one datum.
pub const MAX_EMPTY_ITEMS: usize = 1 << 16;

/// Compiled pair of schemas. It is immutable, and threads may share it.
#[derive(Debug)]
pub struct Program {
    ops: Vec<Op>,
    root: OpId,
    writer: Arc<Schema>,
}

/// Index of an operation in its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpId(u32);

/// Operation: reads one value as the writer wrote it and hands it over as the reader's type.
#[derive(Debug)]
enum Op {
    Null,
    Boolean,
    Int(Logical),
    Long(Logical),
    Float,
    Double,
    Bytes(Logical),
    String(Logical),
    Fixed {
        node: NodeId,
        size: usize,
        logical: Logical,
    },
    IntAsLong(Logical),
    LongAsFloat,
    LongAsDouble,
    FloatAsDouble,
    BytesAsString(Logical),
    StringAsBytes(Logical),
    /// The reader's number of each of the writer's symbols; `None`: the reader does not know it.
    Enum {
        node: NodeId,
        symbols: Box<[Option<u32>]>,
    },
    Record {
        node: NodeId,
        steps: Box<[Step]>,
    },
    Array {
        node: NodeId,
        item: OpId,
    },
    Map {
        node: NodeId,
        item: OpId,
    },
    /// One operation for each branch of the writer.
    Union(Box<[OpId]>),
    /// A branch of the writer's union that the reader cannot read.
    Mismatch(Box<str>),
    /// Not compiled yet.
    Pending,
}

/// Part of a record.
#[derive(Debug)]
enum Step {
    /// Reads the reader's field.
    Read { field: usize, op: OpId },
    /// Skips a field that the reader does not have.
    Skip(NodeId),
    /// Takes the default of a field that the writer does not have.
    Default { field: usize, op: OpId, data: Arc<[u8]> },
}

/// Receiver of decoded values. Node ids are those of the reader's schema.
pub trait Sink {
    /// Finished value.
    type Value;
    /// Error of the sink or of the data.
    type Error: From<DecodeError>;
    /// Record under construction.
    type Record;
    /// Array under construction.
    type List;
    /// Map under construction.
    type Map;

    /// Takes a null.
    fn null(&mut self) -> Result<Self::Value, Self::Error>;
    /// Takes a boolean.
    fn boolean(&mut self, value: bool) -> Result<Self::Value, Self::Error>;
    /// Takes an int.
    fn int(&mut self, value: i32, logical: Logical) -> Result<Self::Value, Self::Error>;
    /// Takes a long.
    fn long(&mut self, value: i64, logical: Logical) -> Result<Self::Value, Self::Error>;
    /// Takes a float.
    fn float(&mut self, value: f32) -> Result<Self::Value, Self::Error>;
    /// Takes a double.
    fn double(&mut self, value: f64) -> Result<Self::Value, Self::Error>;
    /// Takes bytes.
    fn bytes(&mut self, value: &[u8], logical: Logical) -> Result<Self::Value, Self::Error>;
    /// Takes a string.
    fn string(&mut self, value: &str, logical: Logical) -> Result<Self::Value, Self::Error>;
    /// Takes the bytes of a fixed.
    fn fixed(&mut self, node: NodeId, value: &[u8], logical: Logical) -> Result<Self::Value, Self::Error>;
    /// Takes the number of an enum's symbol, which is in the enum's range.
    fn symbol(&mut self, node: NodeId, symbol: u32) -> Result<Self::Value, Self::Error>;

    /// Begins a record.
    fn begin_record(&mut self, node: NodeId) -> Result<Self::Record, Self::Error>;
    /// Announces the next value as that of a field.
    #[inline]
    fn begin_field(&mut self, _record: &mut Self::Record, _field: usize) {}
    /// Takes the value of a field. Fields come in the writer's order, those with defaults last, each once.
    fn field(&mut self, record: &mut Self::Record, field: usize, value: Self::Value) -> Result<(), Self::Error>;
    /// Ends a record.
    fn end_record(&mut self, record: Self::Record) -> Result<Self::Value, Self::Error>;

    /// Begins an array.
    fn begin_list(&mut self, node: NodeId) -> Result<Self::List, Self::Error>;
    /// Announces the next value as an item.
    #[inline]
    fn begin_item(&mut self, _list: &mut Self::List) {}
    /// Takes an item.
    fn item(&mut self, list: &mut Self::List, value: Self::Value) -> Result<(), Self::Error>;
    /// Ends an array.
    fn end_list(&mut self, list: Self::List) -> Result<Self::Value, Self::Error>;

    /// Begins a map.
    fn begin_map(&mut self, node: NodeId) -> Result<Self::Map, Self::Error>;
    /// Announces the next value as that of a key.
    #[inline]
    fn begin_entry(&mut self, _map: &mut Self::Map, _key: &str) -> Result<(), Self::Error> {
        Ok(())
    }
    /// Takes the value of a key.
    fn entry(&mut self, map: &mut Self::Map, key: &str, value: Self::Value) -> Result<(), Self::Error>;
    /// Ends a map.
    fn end_map(&mut self, map: Self::Map) -> Result<Self::Value, Self::Error>;

    /// Returns `error` with the place at which it happened, while the error leaves a field.
    #[cold]
    fn in_field(&mut self, error: Self::Error, _node: NodeId, _field: usize) -> Self::Error {
        error
    }
}

impl Program {
    /// Compiles the resolution of `writer`'s data to `reader`'s values.
    ///
    /// # Errors
    /// The schemas do not match; the error names the field and the types.
    pub fn compile(writer: &Schema, reader: &Schema) -> Result<Self, ResolveError> {
        let (ops, root) = resolve::compile(writer, reader)?;
        Ok(Self { ops, root, writer: Arc::new(writer.clone()) })
    }

    /// Decodes one datum, which ends at the end of `data`.
    ///
    /// # Errors
    /// The bytes are no datum of the writer's schema, bytes remain behind it, or the sink refuses a value.
    pub fn decode<S: Sink>(&self, data: &[u8], sink: &mut S) -> Result<S::Value, S::Error> {
        let mut run = run::Run::new(self, Input::new(data), sink);
        let value = run.value(self.root)?;
        match run.input.remaining() {
            0 => Ok(value),
            rest => Err(bytes_remain(rest).into()),
        }
    }

    /// Skips one datum, which ends at the end of `data`, and so checks its structure.
    ///
    /// # Errors
    /// The bytes are no datum of the writer's schema.
    pub fn check(&self, data: &[u8]) -> Result<(), DecodeError> {
        let mut input = Input::new(data);
        skip::skip(&self.writer, self.writer.root(), &mut input)?;
        match input.remaining() {
            0 => Ok(()),
            rest => Err(bytes_remain(rest)),
        }
    }
}

/// Returns the error of a datum that ends before its bytes do.
fn bytes_remain(count: usize) -> DecodeError {
    DecodeError::new(match count {
        1 => "1 byte remains after the data".to_owned(),
        count => format!("{count} bytes remain after the data"),
    })
}
