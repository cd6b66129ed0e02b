//! Reads exported arrays back through the C interface alone, like a foreign library.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use grete_arrow::{ArrowArray, ArrowSchema, ColumnLayouts, Layout, export, requested_layouts};
use grete_wire::buffer_pool::{BufferPool, PooledBuf};
use grete_wire::records::{Columns, DecodeLimits, Decoder, iter_batches};

/// The C struct once more, with readable fields.
#[repr(C)]
struct Raw {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const c_void,
    children: *const *const Raw,
    dictionary: *const c_void,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    private_data: *const c_void,
}

impl Raw {
    fn of(array: &ArrowArray) -> &Raw {
        // SAFETY: both are the C interface's struct.
        unsafe { &*std::ptr::from_ref(array).cast() }
    }

    fn child(&self, index: usize) -> &Raw {
        assert!((index as i64) < self.n_children);
        // SAFETY: within `n_children`, and alive as long as the parent.
        unsafe { &**self.children.add(index) }
    }

    fn buffer<T>(&self, index: usize) -> *const T {
        assert!((index as i64) < self.n_buffers);
        // SAFETY: within `n_buffers`.
        unsafe { (*self.buffers.add(index)).cast() }
    }

    fn i64s(&self) -> Vec<i64> {
        // SAFETY: an int64 array's second buffer holds offset + length values.
        unsafe { std::slice::from_raw_parts(self.buffer::<i64>(1).add(self.offset as usize), self.length as usize) }
            .to_vec()
    }

    fn valid(&self, row: usize) -> bool {
        let bits: *const u8 = self.buffer(0);
        let bit = self.offset as usize + row;
        // SAFETY: a non-null validity buffer has a bit for each of offset + length rows.
        bits.is_null() || unsafe { *bits.add(bit / 8) } >> (bit % 8) & 1 == 1
    }

    fn views(&self) -> Vec<Option<Vec<u8>>> {
        let data_buffers = self.n_buffers as usize - 3;
        let sizes: *const i64 = self.buffer(self.n_buffers as usize - 1);
        (0..self.length as usize)
            .map(|row| {
                // SAFETY: there are offset + length views; a long one is in a data buffer, whose size is checked below.
                unsafe {
                    let view = self.buffer::<[u8; 16]>(1).add(self.offset as usize + row).read();
                    let word = |at: usize| u32::from_le_bytes(view[at..at + 4].try_into().unwrap()) as usize;
                    let (len, buffer, start) = (word(0), word(8), word(12));
                    if !self.valid(row) {
                        return None;
                    }
                    if len <= 12 {
                        return Some(view[4..4 + len].to_vec());
                    }
                    assert!(buffer < data_buffers && (start + len) as i64 <= *sizes.add(buffer));
                    Some(std::slice::from_raw_parts(self.buffer::<u8>(2 + buffer).add(start), len).to_vec())
                }
            })
            .collect()
    }

    fn binary(&self) -> Vec<Option<Vec<u8>>> {
        assert_eq!(self.n_buffers, 3);
        let end = |row: usize| {
            // SAFETY: there are offset + length + 1 ends.
            unsafe { *self.buffer::<i32>(1).add(self.offset as usize + row) as usize }
        };
        (0..self.length as usize)
            .map(|row| {
                // SAFETY: the ends are within the data.
                let bytes =
                    unsafe { std::slice::from_raw_parts(self.buffer::<u8>(2).add(end(row)), end(row + 1) - end(row)) };
                self.valid(row).then(|| bytes.to_vec())
            })
            .collect()
    }
}

/// Returns three batches of 40 rows in three buffers; every 7th key and every 5th value is null.
#[expect(clippy::redundant_allocation, reason = "what is exported derefs to columns, as pooled ones do")]
fn columns() -> Arc<Box<Columns>> {
    let mut columns = Columns::default();
    let mut decoder = Decoder::new(BufferPool::new(0), DecodeLimits::default());
    for number in 0..3_i64 {
        let slab = PooledBuf::from(batch(number * 40));
        for item in iter_batches(&slab) {
            let (header, range) = item.unwrap();
            decoder.decode(&slab, range, &header, 0, &mut columns).unwrap();
        }
    }
    Arc::new(Box::new(columns))
}

fn key(offset: i64) -> Option<Vec<u8>> {
    (offset % 7 != 0).then(|| format!("key {offset}").into_bytes())
}

fn value(offset: i64) -> Option<Vec<u8>> {
    (offset % 5 != 0).then(|| vec![offset as u8; offset as usize % 30])
}

fn timestamp(offset: i64) -> i64 {
    if offset % 11 == 0 { -1 } else { 1_000 + offset }
}

fn varint(value: i64, out: &mut Vec<u8>) {
    let mut zigzag = ((value << 1) ^ (value >> 63)) as u64;
    while zigzag >= 0x80 {
        out.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}

fn batch(base: i64) -> Vec<u8> {
    let mut records = Vec::new();
    for delta in 0..40 {
        let mut record = vec![0];
        varint(timestamp(base + delta) - 5_000, &mut record);
        varint(delta, &mut record);
        for field in [key(base + delta), value(base + delta)] {
            varint(field.as_ref().map_or(-1, |field| field.len() as i64), &mut record);
            record.extend(field.unwrap_or_default());
        }
        varint(0, &mut record);
        varint(record.len() as i64, &mut records);
        records.extend(record);
    }
    let mut checked = Vec::new();
    checked.extend(0_i16.to_be_bytes());
    checked.extend(39_i32.to_be_bytes());
    checked.extend(5_000_i64.to_be_bytes());
    checked.extend(6_000_i64.to_be_bytes());
    checked.extend([0xff; 14]); // no producer
    checked.extend(40_i32.to_be_bytes());
    checked.extend(records);
    let mut out = Vec::new();
    out.extend(base.to_be_bytes());
    out.extend((checked.len() as i32 + 9).to_be_bytes());
    out.extend(0_i32.to_be_bytes());
    out.push(2);
    out.extend(crc32c::crc32c(&checked).to_be_bytes());
    out.extend(checked);
    out
}

fn check(array: &ArrowArray, rows: Range<i64>, read: impl Fn(&Raw) -> Vec<Option<Vec<u8>>>) {
    let raw = Raw::of(array);
    assert_eq!((raw.length, raw.n_children, raw.n_buffers), (rows.end - rows.start, 4, 1));
    assert_eq!(raw.child(0).i64s(), rows.clone().collect::<Vec<_>>());
    assert_eq!(raw.child(1).i64s(), rows.clone().map(timestamp).collect::<Vec<_>>());
    for (row, offset) in rows.clone().enumerate() {
        assert_eq!(raw.child(1).valid(row), timestamp(offset) != -1);
    }
    assert_eq!(read(raw.child(2)), rows.clone().map(key).collect::<Vec<_>>());
    assert_eq!(read(raw.child(3)), rows.map(value).collect::<Vec<_>>());
}

#[test]
fn any_rows_come_out_as_they_were() {
    let columns = columns();
    for (start, end) in [(0, 120), (0, 1), (1, 9), (63, 66), (40, 80), (119, 120), (7, 7), (0, 0)] {
        let (array, layouts) = export(&columns, start..end, ColumnLayouts::default());
        assert_eq!(layouts, ColumnLayouts::default());
        check(&array, start as i64..end as i64, Raw::views);
        assert!(start < end || Raw::of(&array).child(3).offset == 0);
        let wanted = ColumnLayouts { key: Layout::Binary, value: Layout::Binary };
        let (array, layouts) = export(&columns, start..end, wanted);
        assert_eq!(layouts, wanted);
        check(&array, start as i64..end as i64, Raw::binary);
    }
}

#[test]
fn rows_that_do_not_exist_are_left_out() {
    let columns = columns();
    let (array, _) = export(&columns, 100..1_000, ColumnLayouts::default());
    check(&array, 100..120, Raw::views);
    let (array, _) = export(&columns, 500..1_000, ColumnLayouts::default());
    check(&array, 120..120, Raw::views);
}

#[test]
fn the_last_release_lets_go_of_the_columns() {
    let columns = columns();
    let (array, _) = export(&columns, 0..120, ColumnLayouts::default());
    assert!(Arc::strong_count(&columns) > 1);
    drop(array);
    assert_eq!(Arc::strong_count(&columns), 1);
}

#[test]
fn a_child_moved_out_outlives_its_parent() {
    let columns = columns();
    let (array, _) = export(&columns, 0..120, ColumnLayouts::default());
    let child = Raw::of(&array).child(3);
    // SAFETY: the interface's way of moving a child: copy the struct, mark the source as released.
    let moved = unsafe {
        let source = std::ptr::from_ref(child).cast_mut();
        let moved: ArrowArray = std::ptr::read(source.cast());
        (*source).release = None;
        moved
    };
    drop(array);
    assert_eq!(Arc::strong_count(&columns), 2);
    assert_eq!(Raw::of(&moved).views(), (0..120).map(value).collect::<Vec<_>>());
    drop(moved);
    assert_eq!(Arc::strong_count(&columns), 1);
}

#[test]
fn a_schema_is_read_back_as_the_layouts_that_it_was_made_of() {
    for layouts in [
        ColumnLayouts::default(),
        ColumnLayouts { key: Layout::Binary, value: Layout::View },
        ColumnLayouts { key: Layout::LargeBinary, value: Layout::Binary },
    ] {
        let schema: ArrowSchema = layouts.schema();
        // SAFETY: a live schema.
        assert_eq!(unsafe { requested_layouts(&schema) }, layouts);
    }
    // SAFETY: null gives the default.
    assert_eq!(unsafe { requested_layouts(std::ptr::null()) }, ColumnLayouts::default());
}
