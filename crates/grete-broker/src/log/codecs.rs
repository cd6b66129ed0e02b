//! Contexts of the codecs, which all logs of a process share.

use grete_wire::buffer_pool::BufferPool;
use grete_wire::records::{BatchReader, Compressor, DecodeLimits};

/// Maximum length of a decompressed batch.
const MAX_DECOMPRESSED_BYTES: usize = 128 << 20;
/// Maximum bytes of idle buffers for decompressed batches.
const IDLE_BUFFER_BYTES: usize = 4 << 20;

/// Contexts of the codecs. One for all logs: a context takes more memory than most batches.
#[derive(Debug)]
pub struct Codecs {
    /// Reader and decompressor.
    pub(super) reader: BatchReader,
    /// Compressor.
    pub(super) compressor: Compressor,
}

impl Codecs {
    /// Creates the contexts. Each codec's is allocated on first use.
    #[must_use]
    pub fn new() -> Self {
        let limits = DecodeLimits { max_decompressed_batch_bytes: MAX_DECOMPRESSED_BYTES };
        Self { reader: BatchReader::new(BufferPool::new(IDLE_BUFFER_BYTES), limits), compressor: Compressor::new() }
    }
}

impl Default for Codecs {
    fn default() -> Self {
        Self::new()
    }
}
