//! Kafka's wire format: messages, frames, record batches and error codes. The crate has no I/O, no clock, no threads
//! and no unsafe code; it is the lowest layer of Grete.
//!
//! Start with these types:
//!
//! - [`KafkaRequest`]: a request with its [`ApiKey`] and the type of its response.
//! - [`FrameReader`]: splits a connection's byte stream into [`Frame`]s, one message each.
//! - [`records::BatchBuilder`] and [`records::Decoder`]: encode and decode record batches (magic 2).
//!
//! ```
//! use grete_wire::records::{BatchBuilder, Compression, Compressor, ProducerRecord, iter_batches};
//!
//! let mut builder = BatchBuilder::new(Vec::new());
//! builder.append(&ProducerRecord { timestamp: 1_700_000_000_000, value: Some(b"hello"), ..Default::default() })?;
//! let batch = builder.finish(Compression::None, None, &mut Compressor::new())?;
//!
//! let (header, range) = iter_batches(batch.bytes()).next().expect("one batch")?;
//! assert_eq!((header.record_count, range), (1, 0..batch.len()));
//! # Ok::<(), grete_wire::WireError>(())
//! ```
#![forbid(unsafe_code)]

pub mod access;
pub mod api;
pub mod buffer_pool;
mod compression;
pub mod error;
pub mod error_code;
pub mod fetch;
pub mod frame;
pub mod messages;
mod plural;
pub mod primitives;
mod printable;
pub mod produce;
pub mod records;
mod schema;
pub mod segmented_buf;
pub mod write_buffer;

pub use api::{ApiKey, KafkaRequest};
pub use error::WireError;
pub use error_code::ErrorCode;
pub use frame::{Frame, FrameReader};
pub use plural::{counted, plural};
pub use primitives::Reader;
pub use printable::one_line;
pub use segmented_buf::SegmentedBuf;
