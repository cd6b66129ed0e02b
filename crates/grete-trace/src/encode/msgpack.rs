//! MessagePack encoder.

/// Short string constant in its wire form, encoded at compile time.
macro_rules! key {
    ($text:literal) => {{
        const TEXT: &str = $text;
        const BYTES: [u8; TEXT.len() + 1] = $crate::encode::msgpack::fixstr::<{ TEXT.len() + 1 }>(TEXT);
        &BYTES
    }};
}
pub(crate) use key;

/// Returns the wire form of a string of at most 31 bytes.
pub(crate) const fn fixstr<const N: usize>(text: &str) -> [u8; N] {
    assert!(text.len() < 32 && N == text.len() + 1);
    let mut bytes = [0; N];
    bytes[0] = 0xa0 | text.len() as u8;
    let mut index = 0;
    while index < text.len() {
        bytes[index + 1] = text.as_bytes()[index];
        index += 1;
    }
    bytes
}

/// Reserves space for the head of an array of unknown length; see [`end_array`].
pub(crate) fn begin_array(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0xdd, 0, 0, 0, 0]);
    out.len() - 4
}

/// Writes the length of the array that began at `at`.
pub(crate) fn end_array(out: &mut [u8], at: usize, length: usize) {
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&(length as u32).to_be_bytes());
    }
}

pub(crate) fn array(out: &mut Vec<u8>, length: usize) {
    match length {
        0..16 => out.push(0x90 | length as u8),
        16..0x1_0000 => head(out, 0xdc, &(length as u16).to_be_bytes()),
        _ => head(out, 0xdd, &(length as u32).to_be_bytes()),
    }
}

pub(crate) fn map(out: &mut Vec<u8>, length: usize) {
    match length {
        0..16 => out.push(0x80 | length as u8),
        16..0x1_0000 => head(out, 0xde, &(length as u16).to_be_bytes()),
        _ => head(out, 0xdf, &(length as u32).to_be_bytes()),
    }
}

#[inline]
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    match text.len() {
        length @ 0..32 => out.push(0xa0 | length as u8),
        length @ 32..0x100 => out.extend_from_slice(&[0xd9, length as u8]),
        length @ 0x100..0x1_0000 => head(out, 0xda, &(length as u16).to_be_bytes()),
        length => head(out, 0xdb, &(length as u32).to_be_bytes()),
    }
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn unsigned(out: &mut Vec<u8>, number: u64) {
    match number {
        0..0x80 => out.push(number as u8),
        0x80..0x1_0000_0000 => head(out, 0xce, &(number as u32).to_be_bytes()),
        _ => head(out, 0xcf, &number.to_be_bytes()),
    }
}

pub(crate) fn float(out: &mut Vec<u8>, number: f64) {
    head(out, 0xcb, &number.to_be_bytes());
}

fn head<const N: usize>(out: &mut Vec<u8>, tag: u8, number: &[u8; N]) {
    out.push(tag);
    out.extend_from_slice(number);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_its_head() {
        let mut out = Vec::new();
        for (length, begins) in [(0, vec![0xa0]), (31, vec![0xbf]), (32, vec![0xd9, 32]), (256, vec![0xda, 1, 0])] {
            out.clear();
            string(&mut out, &"x".repeat(length));
            assert_eq!((&out[..begins.len()], out.len()), (&*begins, begins.len() + length));
        }
        out.clear();
        string(&mut out, &"x".repeat(70_000));
        assert_eq!(out[..5], [0xdb, 0, 1, 0x11, 0x70]);
        for (number, bytes) in [(5, &[5][..]), (200, &[0xce, 0, 0, 0, 200]), (1 << 40, &[0xcf, 0, 0, 1, 0, 0, 0, 0, 0])]
        {
            out.clear();
            unsigned(&mut out, number);
            assert_eq!(out, bytes);
        }
        out.clear();
        array(&mut out, 15);
        array(&mut out, 16);
        array(&mut out, 70_000);
        map(&mut out, 3);
        map(&mut out, 300);
        map(&mut out, 70_000);
        assert_eq!(out, [0x9f, 0xdc, 0, 16, 0xdd, 0, 1, 0x11, 0x70, 0x83, 0xde, 1, 0x2c, 0xdf, 0, 1, 0x11, 0x70]);
        assert_eq!(key!("trace_id"), b"\xa8trace_id");
    }
}
