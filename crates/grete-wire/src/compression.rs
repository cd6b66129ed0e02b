//! Compression codecs of record batches.

use std::ops::RangeInclusive;

/// Compression codec of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// No compression.
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// Snappy, raw or in xerial's framing.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// zstd (RFC 8878, KIP-110).
    Zstd,
}

impl Compression {
    /// Returns the compression levels of the codec, from fast to small; `None`: the codec has no levels.
    #[must_use]
    pub fn level_range(self) -> Option<RangeInclusive<i32>> {
        match self {
            Self::None | Self::Snappy | Self::Lz4 => None,
            Self::Gzip => Some(0..=9),
            Self::Zstd => Some(zstd::zstd_safe::min_c_level()..=zstd::zstd_safe::max_c_level()),
        }
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}
