//! Snappy in xerial's framing, which is what Java reads; librdkafka and the others read it as well.

use snap::raw::{Encoder, max_compress_len};

/// Magic, version, and the oldest version that can read it.
const HEADER: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
/// Java's block.
const BLOCK: usize = 32 * 1024;

/// One encoder with its tables, and room for a block at its worst.
#[derive(Default)]
pub(super) struct Snappy {
    encoder: Option<Box<Encoder>>,
    block: Vec<u8>,
}

impl Snappy {
    /// Bytes written to `room`; `None` if it is too small.
    pub fn pack(&mut self, plain: &[u8], room: &mut [u8]) -> Result<Option<usize>, &'static str> {
        let encoder = self.encoder.get_or_insert_with(|| Box::new(Encoder::new()));
        self.block.resize(max_compress_len(BLOCK), 0);
        let Some(mut end) = super::put(room, 0, HEADER) else { return Ok(None) };
        for chunk in plain.chunks(BLOCK) {
            let packed = encoder.compress(chunk, &mut self.block).map_err(|_| "the encoder failed")?;
            let block = self.block.get(..packed).unwrap_or_default();
            let Some(start) = super::put(room, end, &(packed as i32).to_be_bytes()) else { return Ok(None) };
            let Some(next) = super::put(room, start, block) else { return Ok(None) };
            end = next;
        }
        Ok(Some(end))
    }
}
