//! Decompression with the codecs' own readers.

use std::io::Read;

use crate::model::Refused;

/// Decompresses all of `packed`, at once.
pub fn unpack(codec: i16, packed: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut out = Vec::new();
    match codec {
        0 => out = packed.to_vec(),
        1 => drop(flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut out).map_err(|_| Refused)?),
        2 if packed.starts_with(b"\x82SNAPPY\0") => {
            let mut rest = &packed[16..];
            while !rest.is_empty() {
                let (block, after) = rest[4..].split_at(i32::from_be_bytes(rest[..4].try_into().unwrap()) as usize);
                out.extend(snap::raw::Decoder::new().decompress_vec(block).map_err(|_| Refused)?);
                rest = after;
            }
        }
        2 => out = snap::raw::Decoder::new().decompress_vec(packed).map_err(|_| Refused)?,
        3 => drop(lz4_flex::frame::FrameDecoder::new(packed).read_to_end(&mut out).map_err(|_| Refused)?),
        4 => out = zstd::decode_all(packed).map_err(|_| Refused)?,
        _ => return Err(Refused),
    }
    Ok(out)
}
