//! Avro's binary encoding: schemas, resolution between the writer's and the reader's schema, decoding and encoding.
//!
//! - [`Schema`]: a parsed schema, with its named types resolved.
//! - [`Program`]: the steps that turn data of a writer's schema into values of a reader's schema. It is compiled once
//!   for each pair, and calls a [`Sink`] for each value.
//! - [`encode()`]: the opposite direction, which takes the parts of a value from a [`Source`].
//!
//! [`Value`] is both a sink's result and a source, for Rust callers. [`Table`] is a sink that fills Arrow columns. The
//! crate knows no Python: `grete-py` has the sink and the source for Python objects.
//!
//! Data may be hostile. A length never allocates more than the bytes that have arrived, items without bytes are counted
//! ([`MAX_EMPTY_ITEMS`]), and nesting ends at [`MAX_DEPTH`].
//!
//! ```
//! use grete_avro::{Program, Schema, Value, ValueSink, encode_value};
//!
//! let writer = Schema::parse(r#"{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}"#)?;
//! let reader = Schema::parse(
//!     r#"{"type": "record", "name": "Order", "fields": [
//!         {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": null}]}"#,
//! )?;
//! let data = encode_value(&writer, &Value::Record(vec![("id".into(), Value::Int(7))]))?;
//! let program = Program::compile(&writer, &reader)?;
//! let value = program.decode(&data, &mut ValueSink::new(&reader))?;
//! assert_eq!(value, Value::Record(vec![("id".into(), Value::Long(7)), ("note".into(), Value::Null)]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod encode;
mod error;
mod program;
mod schema;
mod table;
mod value;
mod wire;

pub use encode::{Entries, Source, encode};
pub use error::{DecodeError, EncodeError, ResolveError, SchemaError};
pub use program::{MAX_DEPTH, MAX_EMPTY_ITEMS, Program, Sink};
pub use schema::{Enum, Field, Fixed, Kind, Logical, Name, Node, NodeId, Record, Schema};
pub use table::Table;
pub use value::{Value, ValueSink, encode_value};
