//! Errors of decoding a record batch.

use super::Compression;
use crate::error::WireError;

/// Reason why a record batch could not be decoded. Every variant has the batch's base offset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The checksum does not match the bytes.
    #[error("batch at offset {base_offset}: CRC32C is {actual:#010x}, the batch says {expected:#010x}; fetch it again")]
    Crc {
        /// CRC in the batch's header.
        expected: u32,
        /// CRC of the batch's bytes.
        actual: u32,
        /// Base offset of the batch.
        base_offset: i64,
    },
    /// The compressed bytes are corrupt.
    #[error("batch at offset {base_offset}: {codec} data is broken: {cause}")]
    Compression {
        /// Codec of the batch.
        codec: Compression,
        /// Base offset of the batch.
        base_offset: i64,
        /// Message of the codec.
        cause: &'static str,
    },
    /// The decompressed batch exceeds the limit.
    #[error("batch at offset {base_offset}: unpacks to {bytes} bytes or more, the limit is {limit}")]
    TooLarge {
        /// Base offset of the batch.
        base_offset: i64,
        /// Bytes declared, or decompressed so far.
        bytes: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The batch's structure is inconsistent.
    #[error("batch at offset {base_offset} is malformed: {cause}")]
    Malformed {
        /// Base offset of the batch.
        base_offset: i64,
        /// Cause.
        cause: WireError,
    },
}
