//! Replacement of a journal by a snapshot.

use super::*;

/// Journal with more than a mebibyte, of which the last change is needed.
fn large_journal(scratch: &Scratch) -> Journal {
    let (mut journal, ..) = open(scratch).unwrap();
    let value = "x".repeat(10_000);
    while !journal.wants_compaction() {
        assert!(journal.len() < 1 << 20);
        journal.append(&[put(1, &value)]).unwrap();
    }
    journal
}

#[test]
fn a_snapshot_replaces_a_journal_of_which_most_is_garbage() {
    let scratch = Scratch::new();
    let mut journal = large_journal(&scratch);
    let snapshot = [put(1, "last"), put(2, "other")];
    assert!(journal.compact(&snapshot).unwrap());
    assert!(!journal.wants_compaction());
    assert_eq!((journal.len(), scratch.journal().len() < 100), (scratch.journal().len() as u64, true));
    journal.append(&[put(3, "after")]).unwrap();
    drop(journal);
    let (_, _, changes) = open(&scratch).unwrap();
    assert_eq!(changes, [put(1, "last"), put(2, "other"), put(3, "after")]);
}

#[test]
fn a_large_snapshot_comes_back_whole() {
    let scratch = Scratch::new();
    let mut journal = large_journal(&scratch);
    for _ in 0..400 {
        journal.append(&[put(1, &"y".repeat(10_000))]).unwrap();
    }
    let snapshot: Vec<_> = (0..220).map(|key| put(key, &"z".repeat(10_000))).collect();
    assert!(journal.compact(&snapshot).unwrap());
    drop(journal);
    assert_eq!(open(&scratch).unwrap().2, snapshot);
}

#[test]
fn a_journal_that_is_mostly_needed_stays_and_is_tried_again_when_it_has_doubled() {
    let scratch = Scratch::new();
    let mut journal = large_journal(&scratch);
    let before = scratch.journal();
    let snapshot: Vec<_> = (0..100).map(|key| put(key, &"x".repeat(10_000))).collect();
    assert!(!journal.compact(&snapshot).unwrap());
    assert_eq!(scratch.journal(), before);
    assert!(!journal.wants_compaction());
    while journal.len() < 2 * before.len() as u64 {
        assert!(!journal.wants_compaction());
        journal.append(&[put(1, &"x".repeat(10_000))]).unwrap();
    }
    assert!(journal.wants_compaction());
}

#[test]
fn a_compaction_that_fails_keeps_the_old_journal() {
    let scratch = Scratch::new();
    let mut journal = large_journal(&scratch);
    std::fs::create_dir(scratch.path.join("journal.new")).unwrap();
    assert!(journal.compact(&[put(1, "last")]).is_err());
    std::fs::remove_dir(scratch.path.join("journal.new")).unwrap();
    journal.append(&[put(2, "after")]).unwrap();
    drop(journal);
    let (_, _, changes) = open(&scratch).unwrap();
    assert_eq!((changes.len(), changes.last()), (106, Some(&put(2, "after"))));
}

#[test]
fn the_rest_of_an_interrupted_compaction_is_removed() {
    let scratch = Scratch::new();
    let (mut journal, ..) = open(&scratch).unwrap();
    journal.append(&[put(1, "kept")]).unwrap();
    drop(journal);
    std::fs::write(scratch.path.join("journal.new"), b"half of a snapsh").unwrap();
    assert_eq!(open(&scratch).unwrap().2, [put(1, "kept")]);
    assert!(!scratch.path.join("journal.new").exists());
}
