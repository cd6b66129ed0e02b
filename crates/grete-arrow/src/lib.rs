//! Arrow C Data Interface of Grete's record columns, without an arrow crate and without Python. `grete-py` makes the
//! capsules.
//!
//! - [`export()`]: exports [`Columns`](grete_wire::records::Columns) as one struct array of `offset int64, timestamp
//!   timestamp[ms, UTC], key binary_view, value binary_view`. The consumer reads the very bytes that came from the
//!   socket (or the decompressor); the array keeps the columns alive.
//! - [`ArrowArray`] and [`ArrowSchema`]: the two `repr(C)` structs of the
//!   [interface](https://arrow.apache.org/docs/format/CDataInterface.html), with their release callbacks.
//! - [`ImportedArray`]: the opposite direction, columns of a foreign library as records to produce.
//! - [`TableBuilder`]: columns of any type that are filled row by row, for formats that are decoded to columns.
//!
//! ```
//! use std::sync::Arc;
//!
//! use grete_arrow::{ColumnLayouts, export};
//! use grete_wire::records::Columns;
//!
//! let columns = Arc::new(Box::new(Columns::default()));
//! let (array, layouts) = export(&columns, 0..columns.len(), ColumnLayouts::default());
//! let schema = layouts.schema();
//! // Dropping `array` and `schema` calls their release callbacks.
//! # drop((array, schema));
//! ```

mod binary;
mod build;
mod c_data;
mod export;
mod import;
mod schema;

pub use build::{BuiltTable, ColumnId, ColumnSpec, ColumnType, PushError, TableBuilder, TimeUnit};
pub use c_data::{ArrowArray, ArrowSchema};
pub use export::export;
pub use import::{
    ArrowArrayStream, BytesColumn, HeadersColumn, ImportError, ImportedArray, ImportedRecords, IntegerColumn,
    TimestampColumn,
};
pub use schema::{ColumnLayouts, Layout, requested_layouts};

/// Views are kept as little-endian `u128`, which is Arrow's in-memory layout on little-endian machines only.
const _: () = assert!(cfg!(target_endian = "little"), "grete-arrow exports views in place: little-endian only");
