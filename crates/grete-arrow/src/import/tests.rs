//! Arrays that violate the interface: each is refused, and none is read beyond its end.

use std::ffi::{CStr, c_void};
use std::ptr;

use super::*;

type Buffers = Vec<Vec<u8>>;

/// Returns an array that owns its buffers; an empty buffer means a missing one.
fn array(len: usize, offset: usize, nulls: i64, buffers: Buffers, children: Vec<ArrowArray>) -> ArrowArray {
    // Aligned for every element type.
    let aligned: Vec<Vec<u64>> = buffers
        .iter()
        .map(|bytes| {
            let words = bytes.chunks(8).map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_le_bytes(word)
            });
            words.collect()
        })
        .collect();
    let pointers: Vec<*const c_void> =
        aligned.iter().map(|words| if words.is_empty() { ptr::null() } else { words.as_ptr().cast() }).collect();
    ArrowArray::new(len, nulls, offset, pointers, children, Box::new(aligned))
}

fn imported(format: &'static CStr, array: ArrowArray) -> ImportedArray {
    // SAFETY: the import validates everything that these tests violate before it reads the data.
    unsafe { ImportedArray::new(array, ArrowSchema::new(format, c"value", 2)) }
}

fn offsets(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn values(imported: &ImportedArray) -> Result<Vec<Option<Vec<u8>>>, ImportError> {
    let rows = imported.records()?;
    Ok((0..rows.len()).map(|row| rows.value.get(row).map(<[u8]>::to_vec)).collect())
}

fn text(parts: &[Option<&str>]) -> Vec<Option<Vec<u8>>> {
    parts.iter().map(|part| part.map(|text| text.as_bytes().to_vec())).collect()
}

#[test]
fn a_slice_of_a_column_with_nulls() {
    let buffers = vec![vec![0b1101], offsets(&[0, 1, 1, 3, 6]), b"abbccc".to_vec()];
    let whole = imported(c"z", array(4, 0, 1, buffers.clone(), vec![]));
    assert_eq!(values(&whole), Ok(text(&[Some("a"), None, Some("bb"), Some("ccc")])));
    let slice = imported(c"u", array(2, 1, -1, buffers, vec![]));
    assert_eq!(values(&slice), Ok(text(&[None, Some("bb")])));
}

#[test]
fn offsets_only_grow_from_nothing_up() {
    for wrong in [&[0, 3, 2][..], &[-1, 0, 3], &[2, 1, 0]] {
        let column = imported(c"z", array(2, 0, 0, vec![vec![], offsets(wrong), b"abc".to_vec()], vec![]));
        assert_eq!(values(&column), Err(ImportError::Malformed("offsets that do not only grow")), "{wrong:?}");
    }
}

#[test]
fn a_buffer_that_is_not_there_is_not_read() {
    let missing = ImportError::Malformed("a buffer that is missing or not aligned");
    for buffers in [vec![], vec![vec![]], vec![vec![], vec![]], vec![vec![], offsets(&[0, 3])]] {
        let column = imported(c"z", array(1, 0, 0, buffers, vec![]));
        assert_eq!(values(&column), Err(missing.clone()));
    }
    // Without rows nothing is read, and no buffer is required.
    assert_eq!(values(&imported(c"z", array(0, 0, 0, vec![], vec![]))), Ok(vec![]));
    assert_eq!(values(&imported(c"n", array(2, 0, 2, vec![], vec![]))), Ok(vec![None, None]));
}

fn view(len: i32, buffer: i32, start: i32) -> Vec<u8> {
    [len, 0, buffer, start].iter().flat_map(|part| part.to_le_bytes()).collect()
}

#[test]
fn views_stay_inside_their_buffers() {
    let data = b"0123456789abcdefghij".to_vec();
    let column = |view: Vec<u8>| {
        let lengths = 20_i64.to_le_bytes().to_vec();
        imported(c"vz", array(1, 0, 0, vec![vec![], view, data.clone(), lengths], vec![]))
    };
    assert_eq!(values(&column(view(13, 0, 7))), Ok(text(&[Some("789abcdefghij")])));
    for wrong in
        [view(13, 0, 8), view(13, 1, 0), view(13, 0, -1), view(13, -1, 0), view(-1, 0, 0), view(i32::MAX, 0, 1)]
    {
        assert_eq!(
            values(&column(wrong.clone())),
            Err(ImportError::Malformed("a view beyond its buffer")),
            "{wrong:?}"
        );
    }
}

fn record(children: Vec<(ArrowSchema, ArrowArray)>, len: usize) -> ImportedArray {
    let (schemas, arrays) = children.into_iter().unzip();
    // SAFETY: as in `imported`.
    unsafe {
        ImportedArray::new(array(len, 0, 0, vec![vec![]], arrays), ArrowSchema::with_children(c"+s", c"", 0, schemas))
    }
}

fn strings(name: &'static CStr, len: usize) -> (ArrowSchema, ArrowArray) {
    let ends: Vec<i32> = (0..=i32::try_from(len).expect("few")).collect();
    let column = array(len, 0, 0, vec![vec![], offsets(&ends), vec![b'x'; len.max(1)]], vec![]);
    (ArrowSchema::new(c"z", name, 2), column)
}

#[test]
fn a_struct_has_its_columns_in_full() {
    assert_eq!(values(&record(vec![strings(c"value", 3)], 3)).map(|rows| rows.len()), Ok(3));
    assert_eq!(
        values(&record(vec![strings(c"value", 2)], 3)),
        Err(ImportError::Malformed("length of a struct's child"))
    );
    assert!(matches!(values(&record(vec![strings(c"key", 3)], 3)), Err(ImportError::Column(_))));
    // SAFETY: as in `imported`.
    let torn = unsafe {
        ImportedArray::new(
            array(1, 0, 0, vec![vec![]], vec![]),
            ArrowSchema::with_children(c"+s", c"", 0, vec![ArrowSchema::new(c"z", c"value", 2)]),
        )
    };
    assert_eq!(values(&torn), Err(ImportError::Malformed("n_children")));
}

#[test]
fn what_was_taken_already_is_refused() {
    let mut source = array(1, 0, 0, vec![vec![], offsets(&[0, 1]), b"a".to_vec()], vec![]);
    // SAFETY: the test owns the source, which conforms to the interface.
    let taken = unsafe { ArrowArray::take(&raw mut source) };
    assert_eq!(values(&imported(c"z", source)), Err(ImportError::Released));
    assert_eq!(values(&imported(c"z", taken)), Ok(text(&[Some("a")])));
}

#[test]
fn lengths_that_no_memory_has_are_refused() {
    let mut endless = array(1, 0, 0, vec![vec![], offsets(&[0, 1]), b"a".to_vec()], vec![]);
    endless.length = i64::MAX;
    assert_eq!(values(&imported(c"z", endless)), Err(ImportError::Malformed("length")));
    let mut negative = array(1, 0, 0, vec![], vec![]);
    negative.offset = -1;
    assert_eq!(values(&imported(c"z", negative)), Err(ImportError::Malformed("offset")));
}

#[test]
fn times_become_milliseconds_towards_the_past() {
    let micros = array(2, 0, 0, vec![vec![], [1999_i64, -1].iter().flat_map(|t| t.to_le_bytes()).collect()], vec![]);
    let times = (ArrowSchema::new(c"tsu:UTC", c"timestamp", 2), micros);
    let records = record(vec![strings(c"value", 2), times], 2);
    let rows = records.records().expect("keeps to the interface");
    let times = rows.timestamp.as_ref().expect("a column");
    assert_eq!((times.get(0), times.get(1), times.get(2)), (Some(1), Some(-1), None));
}
