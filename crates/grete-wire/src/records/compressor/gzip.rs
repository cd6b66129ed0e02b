//! gzip (RFC 1952), one member.

use flate2::{Compress, Compression, FlushCompress, Status};

/// One deflater, reset from batch to batch.
#[derive(Default)]
pub(super) struct Gzip {
    deflater: Option<(u32, Compress)>,
}

/// zlib's own.
const DEFAULT_LEVEL: u32 = 6;
/// The window of 32 KiB that every inflater has.
const WINDOW_BITS: u8 = 15;

impl Gzip {
    /// Bytes written to `room`; `None` if it is too small.
    pub fn pack(&mut self, level: Option<i32>, plain: &[u8], room: &mut [u8]) -> Result<Option<usize>, &'static str> {
        let level = level.map_or(DEFAULT_LEVEL, i32::cast_unsigned);
        let deflater = match &mut self.deflater {
            Some((made, deflater)) if *made == level => {
                deflater.reset();
                deflater
            }
            other => &mut other.insert((level, Compress::new_gzip(Compression::new(level), WINDOW_BITS))).1,
        };
        match deflater.compress(plain, room, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => Ok(Some(deflater.total_out() as usize)),
            Ok(_) => Ok(None),
            Err(_) => Err("the deflater failed"),
        }
    }
}
