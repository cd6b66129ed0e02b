//! LZ4 frames as Java writes them (KIP-57): independent blocks of at most 64 KiB, no checksums but the header's.

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

/// Magic; version 1 and independent blocks; at most 64 KiB each; the second byte of XXH32 over the two before.
const HEADER: &[u8; 7] = &[0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
const BLOCK: usize = 64 * 1024;
/// A block that is not packed.
const STORED: u32 = 1 << 31;
const END: [u8; 4] = [0; 4];

/// One table of what was seen where, and room for a block at its worst.
#[derive(Default)]
pub(super) struct Lz4 {
    table: Option<CompressTable>,
    block: Vec<u8>,
}

impl Lz4 {
    /// Bytes written to `room`; `None` if it is too small.
    pub fn pack(&mut self, plain: &[u8], room: &mut [u8]) -> Result<Option<usize>, &'static str> {
        let table = self.table.get_or_insert_default();
        self.block.resize(get_maximum_output_size(BLOCK), 0);
        let Some(mut end) = super::put(room, 0, HEADER) else { return Ok(None) };
        for chunk in plain.chunks(BLOCK) {
            let packed = compress_into_with_table(chunk, &mut self.block, table).map_err(|_| "the encoder failed")?;
            let (block, flag) = match self.block.get(..packed) {
                Some(block) if packed < chunk.len() => (block, 0),
                _ => (chunk, STORED),
            };
            let Some(start) = super::put(room, end, &(block.len() as u32 | flag).to_le_bytes()) else {
                return Ok(None);
            };
            let Some(next) = super::put(room, start, block) else { return Ok(None) };
            end = next;
        }
        Ok(super::put(room, end, &END))
    }
}
