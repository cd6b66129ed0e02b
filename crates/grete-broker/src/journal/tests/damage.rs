//! Journals that were cut at any byte, or of which a byte was changed.

use super::*;

/// Returns a journal of four steps, the offsets at which the steps end, and the changes stored by each offset.
fn small_journal() -> (Vec<u8>, Vec<(u64, Vec<TestChange>)>) {
    let scratch = Scratch::new();
    let (mut journal, ..) = open(&scratch).unwrap();
    let mut stored = Vec::new();
    let mut ends = vec![(journal.len(), stored.clone())];
    let steps =
        [vec![put(1, "one"), put(2, "two")], vec![put(3, "")], vec![TestChange::Remove(2)], vec![put(4, "4444")]];
    for step in steps {
        journal.append(&step).unwrap();
        stored.extend(step);
        ends.push((journal.len(), stored.clone()));
    }
    (scratch.journal(), ends)
}

#[test]
fn a_journal_cut_at_any_byte_keeps_all_whole_steps_and_goes_on() {
    let (bytes, ends) = small_journal();
    let scratch = Scratch::new();
    for cut in FILE_HEADER.len()..=bytes.len() {
        scratch.write_journal(&bytes[..cut]);
        let (end, expected) = ends.iter().rfind(|(end, _)| *end <= cut as u64).unwrap();
        let (mut journal, replayed, changes) = open(&scratch).unwrap();
        let torn = cut as u64 - end;
        assert_eq!((&changes, replayed.cut), (expected, (torn > 0).then_some((*end, torn))), "cut at {cut}");
        assert_eq!(scratch.journal().len() as u64, *end);
        journal.append(&[put(9, "after")]).unwrap();
        drop(journal);
        let (_, replayed, changes) = open(&scratch).unwrap();
        assert_eq!((replayed.cut, changes.last()), (None, Some(&put(9, "after"))), "cut at {cut}");
    }
}

#[test]
fn a_changed_byte_is_an_error_with_file_and_offset_and_nothing_is_cut_off() {
    let (bytes, ends) = small_journal();
    let scratch = Scratch::new();
    for at in FILE_HEADER.len()..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            scratch.write_journal(&damaged);
            let (start, _) = ends.iter().rfind(|(end, _)| *end <= at as u64).unwrap();
            let error = open(&scratch).unwrap_err();
            let JournalError::Corrupt { path, offset, .. } = &error else { panic!("byte {at}: {error}") };
            assert_eq!((path, offset), (&scratch.path.join("journal"), start), "byte {at}");
            assert_eq!(scratch.journal(), damaged);
        }
    }
}

#[test]
fn the_cure_in_the_message_of_a_damaged_journal_works() {
    let (bytes, ends) = small_journal();
    let scratch = Scratch::new();
    let (start, expected) = &ends[2];
    let mut damaged = bytes.clone();
    damaged[*start as usize] ^= 1;
    scratch.write_journal(&damaged);
    let error = open(&scratch).unwrap_err().to_string();
    assert!(error.contains(&format!("`truncate -s {start} ")), "{error}");
    scratch.write_journal(&damaged[..*start as usize]);
    assert_eq!(&open(&scratch).unwrap().2, expected);
}

#[test]
fn zeros_at_the_end_are_a_torn_entry() {
    let (bytes, ends) = small_journal();
    let scratch = Scratch::new();
    for zeros in [1, 11, 12, 13, 5000] {
        scratch.write_journal(&[&bytes[..], &vec![0; zeros]].concat());
        let (_, replayed, changes) = open(&scratch).unwrap();
        assert_eq!(&changes, &ends.last().unwrap().1);
        assert_eq!(replayed.cut, Some((bytes.len() as u64, zeros as u64)));
    }
    // A byte after the zeros may belong to an acknowledged change.
    scratch.write_journal(&[&bytes[..], &[0; 20], &[1]].concat());
    assert!(matches!(open(&scratch), Err(JournalError::Corrupt { .. })));
}

#[test]
fn a_file_that_is_no_journal_is_refused() {
    let scratch = Scratch::new();
    for bytes in [&b""[..], b"GRETEJNL", b"something else entirely", &FILE_HEADER[..15]] {
        scratch.write_journal(bytes);
        assert!(matches!(open(&scratch), Err(JournalError::NotAJournal { .. })));
        assert_eq!(scratch.journal(), bytes);
    }
    let mut newer = FILE_HEADER;
    newer[8] = 77;
    scratch.write_journal(&newer);
    let error = open(&scratch).unwrap_err();
    assert!(matches!(error, JournalError::Format { found: 77, .. }), "{error}");
}

#[test]
fn changes_that_do_not_decode_are_an_error() {
    let scratch = Scratch::new();
    let (mut journal, ..) = open(&scratch).unwrap();
    journal.append(&[put(1, "one")]).unwrap();
    let offset = journal.len();
    journal.append(&[u8::MAX]).unwrap(); // no variant has this number
    drop(journal);
    let error = open(&scratch).unwrap_err();
    assert!(matches!(&error, JournalError::Decode { offset: at, .. } if *at == offset), "{error}");
}
