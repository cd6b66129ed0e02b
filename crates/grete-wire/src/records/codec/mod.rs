//! Compression codecs of record batches: one file per codec, with its decoder and its encoder.

pub(super) mod compressor;
pub(super) mod decompressor;
mod gzip;
mod lz4;
mod output;
mod snappy;
mod zstd;

/// Reason why decompression failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodecError {
    /// The data is invalid.
    Corrupt(&'static str),
    /// The data declares, or decompresses to, at least this many bytes, which exceeds the limit.
    TooLarge(u64),
}

impl From<crate::WireError> for CodecError {
    fn from(_: crate::WireError) -> Self {
        CodecError::Corrupt("the data ends too early")
    }
}

/// Copies `bytes` to `at` of `room` and returns their end; `None`: they do not fit.
pub(super) fn write_at(room: &mut [u8], at: usize, bytes: &[u8]) -> Option<usize> {
    let end = at + bytes.len();
    room.get_mut(at..end)?.copy_from_slice(bytes);
    Some(end)
}
