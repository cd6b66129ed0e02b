//! From columns to one struct array.

use std::ffi::c_void;
use std::ops::{Deref, Range};
use std::ptr;
use std::sync::Arc;

use grete_wire::records::{Bitmap, Columns};

use crate::abi::ArrowArray;
use crate::compact;
use crate::schema::{Layout, Layouts};

/// Kafka's "this record has no timestamp".
const NO_TIMESTAMP: i64 = -1;

/// Exports `rows` of `columns`, and says with which layouts (a `binary` column beyond 2 GiB is given as a view instead).
///
/// `rows` is clamped to the columns. Timestamps of -1 become null: as instants they would read 1969-12-31T23:59:59.999.
/// Views are exported in place; every array made here, and each child that a consumer moves out, keeps `columns` alive.
#[must_use]
pub fn export<C>(columns: &Arc<C>, rows: Range<usize>, wanted: Layouts) -> (ArrowArray, Layouts)
where
    C: Deref<Target = Columns> + Send + Sync + 'static,
{
    let data: &Columns = columns;
    let end = rows.end.min(data.offsets.len());
    // An empty array has no offset either: Arrow C++ takes its buffers as empty, and an offset as beyond them.
    let rows = if rows.start < end { rows.start..end } else { 0..0 };
    let (key, key_layout) = binary(columns, &data.keys, &data.key_nulls, &rows, wanted.key, |row| data.key(row));
    let (value, value_layout) =
        binary(columns, &data.values, &data.value_nulls, &rows, wanted.value, |row| data.value(row));
    let children = vec![
        ArrowArray::new(rows.len(), 0, 0, vec![ptr::null(), address(&data.offsets, rows.start)], vec![], keep(columns)),
        timestamps(columns, &rows),
        key,
        value,
    ];
    let array = ArrowArray::new(rows.len(), 0, 0, vec![ptr::null()], children, Box::new(()));
    (array, Layouts { key: key_layout, value: value_layout })
}

fn keep<C: Send + Sync + 'static>(columns: &Arc<C>) -> Box<dyn Send + Sync> {
    Box::new(Arc::clone(columns))
}

/// Where element `start` lies. An empty vector's dangling address is fine: Arrow reads no element of it.
fn address<T>(elements: &[T], start: usize) -> *const c_void {
    elements.get(start..).unwrap_or_default().as_ptr().cast()
}

fn timestamps<C>(columns: &Arc<C>, rows: &Range<usize>) -> ArrowArray
where
    C: Deref<Target = Columns> + Send + Sync + 'static,
{
    let values = columns.timestamps.get(rows.clone()).unwrap_or_default();
    let buffer: *const c_void = values.as_ptr().cast();
    let nulls = values.iter().filter(|&&value| value == NO_TIMESTAMP).count();
    if nulls == 0 {
        return ArrowArray::new(values.len(), 0, 0, vec![ptr::null(), buffer], vec![], keep(columns));
    }
    let validity = compact::validity(values.iter().map(|&value| value != NO_TIMESTAMP));
    let buffers = vec![validity.as_ptr().cast(), buffer];
    let keep_alive = Box::new((Arc::clone(columns), validity));
    ArrowArray::new(values.len(), nulls.cast_signed() as i64, 0, buffers, vec![], keep_alive)
}

fn binary<'a, C>(
    columns: &Arc<C>,
    views: &[u128],
    nulls: &Bitmap,
    rows: &Range<usize>,
    layout: Layout,
    get: impl Fn(usize) -> Option<&'a [u8]>,
) -> (ArrowArray, Layout)
where
    C: Deref<Target = Columns> + Send + Sync + 'static,
{
    let copied = match layout {
        Layout::View => None,
        Layout::Binary => compact::binary::<i32>(rows.clone().map(&get)),
        Layout::LargeBinary => compact::binary::<i64>(rows.clone().map(&get)),
    };
    match copied {
        Some(array) => (array, layout),
        None => (views_in_place(columns, views, nulls, rows), Layout::View),
    }
}

/// `binary_view`: validity, views, the data buffers, and last (in the C interface only) the data buffers' sizes.
fn views_in_place<C>(columns: &Arc<C>, views: &[u128], nulls: &Bitmap, rows: &Range<usize>) -> ArrowArray
where
    C: Deref<Target = Columns> + Send + Sync + 'static,
{
    let sizes: Vec<i64> = columns.buffers.iter().map(|slab| slab.len().cast_signed() as i64).collect();
    let (validity, null_count) = match nulls.null_count() {
        0 => (ptr::null(), 0),
        count if rows.len() == views.len() => (nulls.words().as_ptr().cast(), count.cast_signed() as i64),
        _ => (nulls.words().as_ptr().cast(), -1), // of a slice, not counted: whoever needs it counts the bits
    };
    // The offset counts for the validity bits and the views alike; a bit has no address of its own to point to.
    let mut buffers = vec![validity, views.as_ptr().cast()];
    buffers.extend(columns.buffers.iter().map(|slab| slab.as_ptr().cast::<c_void>()));
    buffers.push(sizes.as_ptr().cast());
    ArrowArray::new(rows.len(), null_count, rows.start, buffers, vec![], Box::new((Arc::clone(columns), sizes)))
}
