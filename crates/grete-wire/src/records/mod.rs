//! Record batches (magic 2): walked by header on the network thread, decoded to columns on the workers; encoded record
//! by record where they are appended, packed and checksummed where they are sent.

mod aborted;
mod append;
mod bitmap;
mod builder;
mod columns;
mod compression;
mod compressor;
mod control;
mod decode;
mod encoded;
mod error;
mod header;
mod headers;
mod new_record;
mod record;
mod short;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod view;
mod walk;

pub use aborted::{AbortedFilter, AbortedTransaction};
pub use bitmap::Bitmap;
pub use builder::BatchBuilder;
pub use columns::Columns;
pub use compressor::Compressor;
pub use control::{ControlType, control_type};
pub use decode::{DecodeLimits, Decoder, check_crc};
pub use encoded::EncodedBatch;
pub use error::RecordError;
pub use header::{BatchHeader, Compression, HEADER_BYTES};
pub use headers::{Header, HeaderSpan, Headers};
pub use new_record::{NewHeader, NewRecord};
pub use view::INLINE_BYTES;
pub use walk::{BatchWalk, walk};
