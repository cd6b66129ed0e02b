//! Protocol Buffers: an encoder, and a decoder for the short responses.

/// Returns the first byte of a field with a number below 16.
pub(crate) const fn key(field: u8, wire: WireType) -> u8 {
    assert!(field > 0 && field < 16);
    field << 3 | wire as u8
}

/// Wire type of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

/// Bytes of a length that is filled in later, without moving the bytes after it. Enough for any body.
const WIDE: usize = 5;

pub(crate) fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Returns the bytes of a number as a varint.
pub(crate) fn varint_len(number: usize) -> usize {
    (usize::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// Returns the bytes of a field with `length` bytes of content: key, length and content.
pub(crate) fn field_len(length: usize) -> usize {
    1 + varint_len(length) + length
}

pub(crate) fn varint_field(out: &mut Vec<u8>, key: u8, number: u64) {
    out.push(key);
    varint(out, number);
}

pub(crate) fn fixed64_field(out: &mut Vec<u8>, key: u8, number: u64) {
    out.push(key);
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn bytes_field(out: &mut Vec<u8>, key: u8, bytes: &[u8]) {
    out.push(key);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a nested message. Content of 128 to 16,383 bytes is written in place; other content is moved by a byte or
/// two.
pub(crate) fn nested(out: &mut Vec<u8>, key: u8, write: impl FnOnce(&mut Vec<u8>)) {
    const GUESSED: usize = 2;
    out.extend_from_slice(&[key, 0, 0]);
    let begin = out.len();
    write(out);
    let length = out.len() - begin;
    let width = varint_len(length);
    let at = begin - GUESSED;
    if width > GUESSED {
        out.resize(out.len() + width - GUESSED, 0);
    }
    if width != GUESSED {
        out.copy_within(begin..begin + length, at + width);
        out.truncate(at + width + length);
    }
    put(out, at, length, width);
}

/// Begins a message that may become long. Returns its position for [`end`].
pub(crate) fn begin(out: &mut Vec<u8>, key: u8) -> usize {
    out.push(key);
    let at = out.len();
    out.extend_from_slice(&[0; WIDE]);
    at
}

/// Writes the length of the message that began at `at` and ends here. It may be called again when the message has
/// changed.
pub(crate) fn end(out: &mut [u8], at: usize) {
    let length = out.len().saturating_sub(at + WIDE);
    put(out, at, length, WIDE);
}

/// Writes a length in `width` bytes, which may be more than necessary; decoders accept that.
fn put(out: &mut [u8], at: usize, mut length: usize, width: usize) {
    let Some(place) = out.get_mut(at..at + width) else { return };
    for byte in place.iter_mut() {
        *byte = length as u8 | 0x80;
        length >>= 7;
    }
    if let Some(last) = place.last_mut() {
        *last &= 0x7f;
    }
}

/// Decoded field.
#[derive(Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Calls `each` with all fields of a message, except groups. `None`: the message is malformed, at least from some
/// position on.
pub(crate) fn for_each_field<'a>(mut message: &'a [u8], mut each: impl FnMut(u64, Value<'a>)) -> Option<()> {
    let rest = &mut message;
    while !rest.is_empty() {
        let key = read_varint(rest)?;
        let value = match key & 7 {
            0 => Value::Number(read_varint(rest)?),
            1 => Value::Number(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?)),
            2 => {
                let length = read_varint(rest)?;
                Value::Bytes(take(rest, usize::try_from(length).ok()?)?)
            }
            5 => Value::Number(u64::from(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?))),
            _ => return None,
        };
        each(key >> 3, value);
    }
    Some(())
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: u8 = key(1, WireType::Bytes);

    fn all(message: &[u8]) -> Option<Vec<(u64, Value<'_>)>> {
        let mut fields = Vec::new();
        for_each_field(message, |field, value| fields.push((field, value)))?;
        Some(fields)
    }

    #[test]
    fn lengths_are_as_short_as_they_can_be() {
        for (length, head) in [
            (0, &[10, 0][..]),
            (127, &[10, 127]),
            (128, &[10, 0x80, 1]),
            (16_383, &[10, 0xff, 0x7f]),
            (16_384, &[10, 0x80, 0x80, 1]),
        ] {
            let mut out = Vec::new();
            nested(&mut out, TEXT, |out| out.resize(out.len() + length, 7));
            assert_eq!((&out[..head.len()], out.len()), (head, head.len() + length));
            assert!(out[head.len()..].iter().all(|&byte| byte == 7), "{length}");
            assert_eq!(field_len(length), out.len());
        }
    }

    #[test]
    fn a_long_message_may_end_twice() {
        let mut out = Vec::new();
        let at = begin(&mut out, TEXT);
        out.extend_from_slice(b"abc");
        end(&mut out, at);
        assert_eq!(all(&out), Some(vec![(1, Value::Bytes(b"abc"))]));
        out.truncate(out.len() - 1);
        end(&mut out, at);
        assert_eq!(all(&out), Some(vec![(1, Value::Bytes(b"ab"))]));
    }

    #[test]
    fn what_is_no_message_is_none() {
        for broken in [&[8][..], &[8, 0x80], &[9, 1, 2], &[10, 3, 1, 2], &[11], &[14], &[13, 1], &[0xff; 11]] {
            assert_eq!(all(broken), None, "{broken:?}");
        }
        assert_eq!(all(&[13, 1, 0, 0, 0]), Some(vec![(1, Value::Number(1))]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers in prop::collection::vec(any::<u64>(), 0..5), text in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut out = Vec::new();
            for &each in &numbers {
                let before = out.len();
                varint_field(&mut out, key(2, WireType::Varint), each);
                prop_assert_eq!(out.len() - before, 1 + varint_len(each as usize));
                fixed64_field(&mut out, key(3, WireType::Fixed64), each);
            }
            bytes_field(&mut out, TEXT, &text);
            let mut expected = Vec::new();
            for each in numbers {
                expected.extend([(2, Value::Number(each)), (3, Value::Number(each))]);
            }
            expected.push((1, Value::Bytes(&text)));
            prop_assert_eq!(all(&out), Some(expected));
        }

        #[test]
        fn nothing_makes_it_panic(message in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = all(&message);
        }
    }
}
