//! What can be wrong with a record batch.

use super::Compression;
use crate::error::WireError;

/// Why a record batch could not be decoded. Every variant names the batch by its base offset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The checksum does not fit the bytes.
    #[error("batch at offset {base_offset}: CRC32C is {actual:#010x}, the batch says {expected:#010x}; fetch it again")]
    Crc {
        /// What the batch says.
        expected: u32,
        /// What its bytes give.
        actual: u32,
        /// First offset of the batch.
        base_offset: i64,
    },
    /// The compressed bytes do not unpack.
    #[error("batch at offset {base_offset}: {codec} data is broken: {cause}")]
    Compression {
        /// The codec that the batch names.
        codec: Compression,
        /// First offset of the batch.
        base_offset: i64,
        /// What the codec says.
        cause: &'static str,
    },
    /// The batch unpacks to more than is allowed.
    #[error("batch at offset {base_offset}: unpacks to {bytes} bytes or more, the limit is {limit}")]
    TooLarge {
        /// First offset of the batch.
        base_offset: i64,
        /// Bytes declared, or unpacked so far.
        bytes: u64,
        /// The limit in force.
        limit: u64,
    },
    /// The batch's structure contradicts itself.
    #[error("batch at offset {base_offset} is malformed: {cause}")]
    Malformed {
        /// First offset of the batch.
        base_offset: i64,
        /// What is wrong.
        cause: WireError,
    },
}
