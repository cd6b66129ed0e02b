//! Arrow schema of exported records, and negotiation of a requested schema.

use std::ffi::CStr;

use crate::c_data::ArrowSchema;

/// ARROW_FLAG_NULLABLE.
pub(crate) const NULLABLE: i64 = 2;

/// Layout of a binary column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// `binary_view`: zero copy, the bytes stay where they were received. The default.
    #[default]
    View,
    /// `binary`: copied into one buffer with i32 offsets.
    Binary,
    /// `large_binary`: copied into one buffer with i64 offsets.
    LargeBinary,
}

/// The layouts of the two binary columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnLayouts {
    /// Layout of the column `key`.
    pub key: Layout,
    /// Layout of the column `value`.
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

impl ColumnLayouts {
    /// Returns the schema `struct<offset: int64 not null, timestamp: timestamp[ms, UTC], key, value>`.
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

/// Returns the layouts that a consumer requested. A request is not binding by the interface: unknown columns and
/// unsupported types get the default layouts.
///
/// # Safety
/// `schema` points to a live `ArrowSchema` of any origin, or is null, as a capsule named `arrow_schema` guarantees.
#[must_use]
pub unsafe fn requested_layouts(schema: *const ArrowSchema) -> ColumnLayouts {
    let mut layouts = ColumnLayouts::default();
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
