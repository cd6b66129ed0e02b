//! Record batches (magic 2). The network thread iterates over headers, workers decode records to columns. Producers
//! encode each record where it is appended; batches are compressed and checksummed before they are sent.

mod aborted_transactions;
mod batch_header;
mod batch_iter;
mod binary_view;
mod bitmap;
mod broker;
mod codec;
mod columns;
mod control;
mod decode;
mod decode_columns;
mod encode;
mod error;
mod record;
mod record_headers;
#[cfg(any(test, feature = "testing"))]
pub mod test_encoder;

pub use crate::compression::Compression;
pub use aborted_transactions::{AbortedTransaction, AbortedTransactionFilter};
pub use batch_header::{BatchHeader, HEADER_BYTES};
pub use batch_iter::{BatchIter, iter_batches};
pub use binary_view::INLINE_BYTES;
pub use bitmap::Bitmap;
pub use broker::batch_reader::{BatchReader, BatchRecord, BatchRecordIter, BatchRecords};
pub use broker::leader_fields::{LeaderFields, TimestampType};
pub use broker::marker::EndTransactionMarker;
pub use codec::compressor::Compressor;
pub use columns::Columns;
pub use control::{ControlType, control_type};
pub use decode::{DecodeLimits, Decoder, check_crc};
pub use encode::batch_builder::BatchBuilder;
pub use encode::encoded_batch::EncodedBatch;
pub use encode::producer_record::{ProducerHeader, ProducerRecord};
pub use error::RecordError;
pub use record_headers::{Header, HeaderRange, Headers};
