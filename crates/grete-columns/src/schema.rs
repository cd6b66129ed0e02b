//! The schema, and how much of a requested one we honour.

use std::ffi::CStr;

use crate::abi::ArrowSchema;

/// ARROW_FLAG_NULLABLE.
const NULLABLE: i64 = 2;

/// How a binary column is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// `binary_view`: zero copy, the bytes stay where they arrived. The default.
    #[default]
    View,
    /// `binary`: copied into one buffer with i32 offsets.
    Binary,
    /// `large_binary`: copied into one buffer with i64 offsets.
    LargeBinary,
}

/// The layouts of the two binary columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layouts {
    /// Of the column `key`.
    pub key: Layout,
    /// Of the column `value`.
    pub value: Layout,
}

impl Layout {
    fn format(self) -> &'static CStr {
        match self {
            Self::View => c"vz",
            Self::Binary => c"z",
            Self::LargeBinary => c"Z",
        }
    }
}

impl Layouts {
    /// `struct<offset: int64 not null, timestamp: timestamp[ms, UTC], key, value>`.
    #[must_use]
    pub fn schema(self) -> ArrowSchema {
        ArrowSchema::with_children(
            c"+s",
            c"",
            0,
            vec![
                ArrowSchema::new(c"l", c"offset", 0),
                ArrowSchema::new(c"tsm:UTC", c"timestamp", NULLABLE),
                ArrowSchema::new(self.key.format(), c"key", NULLABLE),
                ArrowSchema::new(self.value.format(), c"value", NULLABLE),
            ],
        )
    }
}

/// The layouts that a consumer asked for. The interface makes a request a wish: columns that we do not have and types
/// that we cannot make are answered with our own schema.
///
/// # Safety
/// `schema` points to a live `ArrowSchema` of whatever origin, as a capsule named `arrow_schema` promises.
#[must_use]
pub unsafe fn requested(schema: *const ArrowSchema) -> Layouts {
    let mut layouts = Layouts::default();
    // SAFETY: live by contract; `children` has `n_children` live entries; `format` and `name` are C strings or null.
    unsafe {
        let Some(schema) = schema.as_ref() else { return layouts };
        if schema.release.is_none() || schema.children.is_null() {
            return layouts;
        }
        for index in 0..usize::try_from(schema.n_children).unwrap_or(0) {
            let Some(child) = (*schema.children.add(index)).as_ref() else { continue };
            if child.name.is_null() || child.format.is_null() {
                continue;
            }
            let layout = match CStr::from_ptr(child.format).to_bytes() {
                b"z" => Layout::Binary,
                b"Z" => Layout::LargeBinary,
                _ => Layout::View,
            };
            match CStr::from_ptr(child.name).to_bytes() {
                b"key" => layouts.key = layout,
                b"value" => layouts.value = layout,
                _ => {}
            }
        }
    }
    layouts
}
