//! Record batches (magic 2): walked by header on the network thread, decoded to columns on the workers.

mod aborted;
mod append;
mod bitmap;
mod columns;
mod compression;
mod control;
mod decode;
mod error;
mod header;
mod headers;
mod record;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod view;
mod walk;

pub use aborted::{AbortedFilter, AbortedTransaction};
pub use bitmap::Bitmap;
pub use columns::Columns;
pub use control::{ControlType, control_type};
pub use decode::{DecodeLimits, Decoder, check_crc};
pub use error::RecordError;
pub use header::{BatchHeader, Compression, HEADER_BYTES};
pub use headers::{Header, HeaderSpan, Headers};
pub use view::INLINE_BYTES;
pub use walk::{BatchWalk, walk};
