//! Floor 1: the Arrow C Data Interface over wire's columns.
//!
//! Hand-rolled, without an arrow crate: two `repr(C)` structs, their release callbacks, and one struct-typed array of
//! `offset int64, timestamp timestamp[ms, UTC], key binary_view, value binary_view`. The consumer of the interface reads
//! the very bytes that came from the socket (or the decompressor); the exported array holds the columns alive.
//!
//! The layout is Arrow's: <https://arrow.apache.org/docs/format/CDataInterface.html>. This crate knows no Python; the
//! capsules are made one floor up. [`Imported`] is the other
//! way round: columns that somebody else made, as records to be written.

mod abi;
mod array;
mod compact;
mod import;
mod schema;

pub use abi::{ArrowArray, ArrowSchema};
pub use array::export;
pub use import::{ArrowArrayStream, BytesColumn, HeadersColumn, ImportError, Imported, Integers, NewRows, Timestamps};
pub use schema::{Layout, Layouts, requested};

/// Views are kept as little-endian `u128`, which is Arrow's in-memory layout on little-endian machines only.
const _: () = assert!(cfg!(target_endian = "little"), "grete-columns exports views in place: little-endian only");
