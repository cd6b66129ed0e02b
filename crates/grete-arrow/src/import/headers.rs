//! Import of header columns: lists of (name, value), or maps.

use super::{ArrayNode, BytesColumn, ImportError, Validity};

/// Column of record headers.
#[derive(Debug)]
pub struct HeadersColumn<'a> {
    validity: Validity<'a>,
    offsets: Offsets<'a>,
    names: BytesColumn<'a>,
    values: BytesColumn<'a>,
}

#[derive(Debug)]
enum Offsets<'a> {
    None,
    Small(&'a [i32]),
    Large(&'a [i64]),
}

impl Offsets<'_> {
    fn range(&self, row: usize) -> Option<std::ops::Range<usize>> {
        match self {
            Self::None => None,
            Self::Small(offsets) => {
                Some(usize::try_from(*offsets.get(row)?).ok()?..usize::try_from(*offsets.get(row + 1)?).ok()?)
            }
            Self::Large(offsets) => {
                Some(usize::try_from(*offsets.get(row)?).ok()?..usize::try_from(*offsets.get(row + 1)?).ok()?)
            }
        }
    }
}

const EXPECTED: &str = "a list of structs (name as text, value as binary), or a map of these";

impl<'a> HeadersColumn<'a> {
    pub(super) fn from_node(node: &ArrayNode<'a>) -> Result<Self, ImportError> {
        let count = if node.len == 0 { 0 } else { node.start + node.len + 1 };
        let offsets = match node.format {
            "+l" | "+m" => Offsets::Small(node.elements::<i32>(1, count)?.get(node.start..).unwrap_or_default()),
            "+L" => Offsets::Large(node.elements::<i64>(1, count)?.get(node.start..).unwrap_or_default()),
            "n" => Offsets::None,
            _ => return Err(node.unsupported_format(EXPECTED)),
        };
        let entries = node.children()?.into_iter().next();
        let Some(entries) = entries.filter(|entries| entries.format == "+s") else {
            return Err(node.unsupported_format(EXPECTED));
        };
        let [name, value] =
            <[ArrayNode<'_>; 2]>::try_from(entries.children()?).map_err(|_| node.unsupported_format(EXPECTED))?;
        if !matches!(name.format, "u" | "U" | "vu") {
            return Err(name.unsupported_format("text for the names of headers"));
        }
        let column = Self {
            validity: node.validity()?,
            offsets,
            names: BytesColumn::from_node(&name)?,
            values: BytesColumn::from_node(&value)?,
        };
        for row in 0..node.len {
            for (name, _) in column.get(row) {
                if name.is_none_or(|name| std::str::from_utf8(name).is_err()) {
                    return Err(ImportError::Column(format!("a header of row {row} has no name that is text")));
                }
            }
        }
        Ok(column)
    }

    /// Returns the names (validated as UTF-8) and values of a row.
    pub fn get(&self, row: usize) -> impl Iterator<Item = (Option<&'a [u8]>, Option<&'a [u8]>)> {
        let range = if self.validity.is_valid(row) { self.offsets.range(row) } else { None };
        range.unwrap_or_default().map(|entry| (self.names.get(entry), self.values.get(entry)))
    }
}
