//! Arrow's BinaryView: 16 bytes that hold a short value, or the position of a long one.
//!
//! As one little-endian `u128`: length (i32), then a value of up to 12 bytes, zero padded. A longer value has its first
//! 4 bytes, the buffer's index (i32) and the offset in that buffer (i32).

use crate::buffer_pool::PooledBuf;

/// Maximum length of a value that the view itself holds, in bytes.
pub const INLINE_BYTES: usize = 12;

/// Returns the view of a value longer than [`INLINE_BYTES`]. `prefix`: the first 4 bytes of the value.
#[inline(always)]
pub(crate) fn outline(len: u32, prefix: u32, buffer: u32, offset: u32) -> u128 {
    let low = u64::from(len) | u64::from(prefix) << 32;
    let high = u64::from(buffer) | u64::from(offset) << 32;
    u128::from(low) | u128::from(high) << 64
}

/// Masks that keep the first n bytes of the view: those of the first 4, and those of the next 8.
const INLINE_MASKS: [(u32, u64); INLINE_BYTES + 1] = {
    let mut keep = [(0, 0); INLINE_BYTES + 1];
    let mut n = 1;
    while n <= INLINE_BYTES {
        let head = if n >= 4 { u32::MAX } else { (1 << (8 * n)) - 1 };
        let tail = if n <= 4 {
            0
        } else if n == 12 {
            u64::MAX
        } else {
            (1 << (8 * (n - 4))) - 1
        };
        keep[n] = (head, tail);
        n += 1;
    }
    keep
};

/// Returns the view of the first `len` of the given 12 bytes; `None`: `len` is over 12.
#[inline(always)]
pub(crate) fn inline(len: usize, bytes: &[u8; INLINE_BYTES]) -> Option<u128> {
    let &(head_mask, tail_mask) = INLINE_MASKS.get(len)?;
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
    let head = u32::from_le_bytes([a, b, c, d]) & head_mask;
    let tail = u64::from_le_bytes([e, f, g, h, i, j, k, l]) & tail_mask;
    let low = len as u64 | u64::from(head) << 32;
    Some(u128::from(low) | u128::from(tail) << 64)
}

/// Returns the view of `value`, which is at `offset` of buffer number `buffer`.
pub(crate) fn from_bytes(value: &[u8], buffer: u32, offset: u32) -> u128 {
    let mut start = [0; INLINE_BYTES];
    let n = value.len().min(INLINE_BYTES);
    if let (Some(to), Some(from)) = (start.get_mut(..n), value.get(..n)) {
        to.copy_from_slice(from);
    }
    let [a, b, c, d, ..] = start;
    inline(value.len(), &start)
        .unwrap_or_else(|| outline(value.len() as u32, u32::from_le_bytes([a, b, c, d]), buffer, offset))
}

/// Returns the index of the value's buffer; `None`: the view itself holds the value.
pub(crate) fn buffer_index(view: u128) -> Option<u32> {
    (view as u32 as usize > INLINE_BYTES).then_some((view >> 64) as u32)
}

/// Returns the view of the same long value in another buffer.
pub(crate) fn with_buffer(view: u128, buffer: u32) -> u128 {
    view & !(u128::from(u32::MAX) << 64) | u128::from(buffer) << 64
}

/// Returns the value of a view. Empty if the view points outside of its buffers.
pub(crate) fn bytes<'a>(view: &'a u128, buffers: &'a [PooledBuf]) -> &'a [u8] {
    let len = *view as u32 as usize;
    if len <= INLINE_BYTES {
        // The view's own bytes are in memory as Arrow expects them.
        return bytemuck::bytes_of(view).get(4..4 + len).unwrap_or_default();
    }
    let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as u32 as usize);
    buffers.get(buffer).and_then(|slab| slab.get(offset..offset + len)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_of_any_length_gives_its_bytes_back() {
        let slab = PooledBuf::from((0u8..200).collect::<Vec<_>>());
        for len in 0..40 {
            let value = slab.get(100..100 + len).unwrap();
            let view = from_bytes(value, 0, 100);
            assert_eq!(bytes(&view, std::slice::from_ref(&slab)), value);
            let raw = view.to_le_bytes();
            assert_eq!(raw[..4], (len as i32).to_le_bytes());
            if len <= INLINE_BYTES {
                assert_eq!(raw[4..4 + len], *value);
                assert!(raw[4 + len..].iter().all(|&b| b == 0));
            } else {
                assert_eq!(raw[4..8], value[..4]);
                assert_eq!(raw[8..12], 0i32.to_le_bytes());
                assert_eq!(raw[12..16], 100i32.to_le_bytes());
            }
        }
    }
}
