//! Export of columns as one struct array.

use std::ffi::c_void;
use std::ops::{Deref, Range};
use std::ptr;
use std::sync::Arc;

use grete_wire::records::{Bitmap, Columns};

use crate::binary;
use crate::c_data::ArrowArray;
use crate::schema::{ColumnLayouts, Layout};

/// Kafka's timestamp of a record without one.
const NO_TIMESTAMP: i64 = -1;

/// Exports `rows` of `columns`. Returns the array and its layouts, since a `binary` column beyond 2 GiB is exported as
/// a view.
///
/// `rows` is clamped to the columns. Timestamps of -1 become null; otherwise they would read as
/// 1969-12-31T23:59:59.999. Views are exported in place. Every array made here, and each child that a consumer moves
/// out, keeps `columns` alive.
#[must_use]
pub fn export<C>(columns: &Arc<C>, rows: Range<usize>, wanted: ColumnLayouts) -> (ArrowArray, ColumnLayouts)
where
    C: Deref<Target = Columns> + Send + Sync + 'static,
{
    let data: &Columns = columns;
    let end = rows.end.min(data.offsets.len());
    // An empty array has no offset either: Arrow C++ considers its buffers empty, and an offset out of bounds.
    let rows = if rows.start < end { rows.start..end } else { 0..0 };
    let (key, key_layout) = binary_column(columns, &data.keys, &data.key_nulls, &rows, wanted.key, |row| data.key(row));
    let (value, value_layout) =
        binary_column(columns, &data.values, &data.value_nulls, &rows, wanted.value, |row| data.value(row));
    let children = vec![
        ArrowArray::new(
            rows.len(),
            0,
            0,
            vec![ptr::null(), element_ptr(&data.offsets, rows.start)],
            vec![],
            boxed_owner(columns),
        ),
        timestamp_column(columns, &rows),
        key,
        value,
    ];
    let array = ArrowArray::new(rows.len(), 0, 0, vec![ptr::null()], children, Box::new(()));
    (array, ColumnLayouts { key: key_layout, value: value_layout })
}

fn boxed_owner<C: Send + Sync + 'static>(columns: &Arc<C>) -> Box<dyn Send + Sync> {
    Box::new(Arc::clone(columns))
}

/// Returns the address of element `start`. The dangling address of an empty vector is fine, as Arrow reads no element
/// of it.
fn element_ptr<T>(elements: &[T], start: usize) -> *const c_void {
    elements.get(start..).unwrap_or_default().as_ptr().cast()
}

fn timestamp_column<C>(columns: &Arc<C>, rows: &Range<usize>) -> ArrowArray
where
    C: Deref<Target = Columns> + Send + Sync + 'static,
{
    let values = columns.timestamps.get(rows.clone()).unwrap_or_default();
    let buffer: *const c_void = values.as_ptr().cast();
    let nulls = values.iter().filter(|&&value| value == NO_TIMESTAMP).count();
    if nulls == 0 {
        return ArrowArray::new(values.len(), 0, 0, vec![ptr::null(), buffer], vec![], boxed_owner(columns));
    }
    let validity = binary::validity_bitmap(values.iter().map(|&value| value != NO_TIMESTAMP));
    let buffers = vec![validity.as_ptr().cast(), buffer];
    let keep_alive = Box::new((Arc::clone(columns), validity));
    ArrowArray::new(values.len(), nulls.cast_signed() as i64, 0, buffers, vec![], keep_alive)
}

fn binary_column<'a, C>(
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
        Layout::Binary => binary::binary_array::<i32>(rows.clone().map(&get)),
        Layout::LargeBinary => binary::binary_array::<i64>(rows.clone().map(&get)),
    };
    match copied {
        Some(array) => (array, layout),
        None => (binary_view_array(columns, views, nulls, rows), Layout::View),
    }
}

/// Returns a `binary_view` array: validity, views, the data buffers, and last (only in the C interface) the data
/// buffers' sizes.
fn binary_view_array<C>(columns: &Arc<C>, views: &[u128], nulls: &Bitmap, rows: &Range<usize>) -> ArrowArray
where
    C: Deref<Target = Columns> + Send + Sync + 'static,
{
    let sizes: Vec<i64> = columns.buffers.iter().map(|slab| slab.len().cast_signed() as i64).collect();
    let (validity, null_count) = match nulls.null_count() {
        0 => (ptr::null(), 0),
        count if rows.len() == views.len() => (nulls.words().as_ptr().cast(), count.cast_signed() as i64),
        _ => (nulls.words().as_ptr().cast(), -1), // a slice's nulls: the consumer counts them on demand
    };
    // The offset applies to validity bits and views alike, because a single bit has no address.
    let mut buffers = vec![validity, views.as_ptr().cast()];
    buffers.extend(columns.buffers.iter().map(|slab| slab.as_ptr().cast::<c_void>()));
    buffers.push(sizes.as_ptr().cast());
    ArrowArray::new(rows.len(), null_count, rows.start, buffers, vec![], Box::new((Arc::clone(columns), sizes)))
}
