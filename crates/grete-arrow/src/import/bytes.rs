//! Import of nullable byte strings.

use super::{ArrayNode, ImportError, Validity};

/// Column of byte strings, or of text in UTF-8.
#[derive(Debug)]
pub struct BytesColumn<'a> {
    validity: Validity<'a>,
    layout: BytesLayout<'a>,
}

#[derive(Debug)]
enum BytesLayout<'a> {
    Null,
    /// Offsets of 32 bits.
    Small {
        offsets: &'a [i32],
        data: &'a [u8],
    },
    /// Offsets of 64 bits.
    Large {
        offsets: &'a [i64],
        data: &'a [u8],
    },
    /// Views: 12 bytes inline, or a range of a buffer.
    Views {
        views: &'a [[u8; 16]],
        buffers: Vec<&'a [u8]>,
    },
    /// Values of one fixed length.
    Fixed {
        width: usize,
        data: &'a [u8],
    },
}

/// Maximum bytes that a view holds inline.
const INLINE_BYTES: usize = 12;

impl<'a> BytesColumn<'a> {
    pub(super) fn from_node(node: &ArrayNode<'a>) -> Result<Self, ImportError> {
        let layout = match node.format {
            "n" => BytesLayout::Null,
            "z" | "u" => {
                let offsets: &[i32] = offsets(node)?;
                BytesLayout::Small { offsets, data: data(node, offsets.last().copied().unwrap_or(0).into())? }
            }
            "Z" | "U" => {
                let offsets: &[i64] = offsets(node)?;
                BytesLayout::Large { offsets, data: data(node, offsets.last().copied().unwrap_or(0))? }
            }
            "vz" | "vu" => views(node)?,
            format => match format.strip_prefix("w:").and_then(|width| width.parse::<usize>().ok()) {
                Some(width) => {
                    let len = (node.start + node.len).checked_mul(width).ok_or(ImportError::Malformed("width"))?;
                    let all = node.elements::<u8>(1, len)?;
                    BytesLayout::Fixed { width, data: all.get(node.start * width..).unwrap_or_default() }
                }
                None => return Err(node.unsupported_format("binary or text")),
            },
        };
        Ok(Self { validity: node.validity()?, layout })
    }

    /// Returns the bytes of a row; `None`: null, or beyond the end.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        if !self.validity.is_valid(row) {
            return None;
        }
        match &self.layout {
            BytesLayout::Null => None,
            BytesLayout::Small { offsets, data } => {
                data.get(*offsets.get(row)? as usize..*offsets.get(row + 1)? as usize)
            }
            BytesLayout::Large { offsets, data } => {
                data.get(*offsets.get(row)? as usize..*offsets.get(row + 1)? as usize)
            }
            BytesLayout::Views { views, buffers } => view(views.get(row)?, buffers),
            BytesLayout::Fixed { width, data } => data.get(row * width..row * width + width),
        }
    }
}

/// Returns the offsets of the array's rows, one more than rows. They ascend, from 0 or more.
fn offsets<'a, T: PartialOrd + Default>(node: &ArrayNode<'a>) -> Result<&'a [T], ImportError> {
    if node.len == 0 {
        return Ok(&[]);
    }
    let all = node.elements::<T>(1, node.start + node.len + 1)?;
    let offsets = all.get(node.start..).unwrap_or_default();
    let grows = offsets.is_sorted();
    if !grows || offsets.first().is_some_and(|first| *first < T::default()) {
        return Err(ImportError::Malformed("offsets that do not only grow"));
    }
    Ok(offsets)
}

fn data<'a>(node: &ArrayNode<'a>, end: i64) -> Result<&'a [u8], ImportError> {
    node.elements(2, usize::try_from(end).map_err(|_| ImportError::Malformed("offsets"))?)
}

fn views<'a>(node: &ArrayNode<'a>) -> Result<BytesLayout<'a>, ImportError> {
    let all = node.elements::<[u8; 16]>(1, node.start + node.len)?;
    let views = all.get(node.start..).unwrap_or_default();
    // Validity, views, the data buffers, and last their lengths.
    let count = usize::try_from(node.array.n_buffers).unwrap_or(0).saturating_sub(3);
    let lengths = node.elements::<i64>(2 + count, count)?;
    let mut buffers = Vec::with_capacity(count);
    for (place, length) in lengths.iter().enumerate() {
        let length = usize::try_from(*length).map_err(|_| ImportError::Malformed("length of a buffer"))?;
        buffers.push(node.elements::<u8>(2 + place, length)?);
    }
    let validity = node.validity()?;
    for (row, one) in views.iter().enumerate() {
        if validity.is_valid(row) && view(one, &buffers).is_none() {
            return Err(ImportError::Malformed("a view beyond its buffer"));
        }
    }
    Ok(BytesLayout::Views { views, buffers })
}

#[inline]
fn view<'a>(view: &'a [u8; 16], buffers: &[&'a [u8]]) -> Option<&'a [u8]> {
    let word = |at: usize| view.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_le_bytes);
    let len = usize::try_from(word(0)?).ok()?;
    if len <= INLINE_BYTES {
        return view.get(4..4 + len);
    }
    let (buffer, start) = (usize::try_from(word(8)?).ok()?, usize::try_from(word(12)?).ok()?);
    buffers.get(buffer)?.get(start..start.checked_add(len)?)
}
