//! Journals that are cut, damaged, shared, full and compacted.

mod compaction;
mod damage;
mod full_disk;
mod scratch;

use serde::{Deserialize, Serialize};

use super::*;
use scratch::Scratch;

/// Change of the tests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum TestChange {
    Put { key: u32, value: String },
    Remove(u32),
}

fn put(key: u32, value: &str) -> TestChange {
    TestChange::Put { key, value: value.into() }
}

/// Opens the journal and returns all stored changes.
fn open(scratch: &Scratch) -> Result<(Journal, Replayed, Vec<TestChange>), JournalError> {
    let mut changes = Vec::new();
    let config = JournalConfig { directory: scratch.path.clone(), sync: SyncPolicy::Never };
    let (journal, replayed) = Journal::open(&config, |change| changes.push(change))?;
    assert_eq!(replayed.changes, changes.len() as u64);
    Ok((journal, replayed, changes))
}

#[test]
fn changes_come_back_in_order() {
    let scratch = Scratch::new();
    let (mut journal, replayed, changes) = open(&scratch).unwrap();
    assert_eq!((replayed, changes, journal.is_empty()), (Replayed::default(), vec![], true));
    journal.append(&[put(1, "one"), put(2, "two")]).unwrap();
    journal.append(&[TestChange::Remove(1)]).unwrap();
    drop(journal);
    let (mut journal, replayed, changes) = open(&scratch).unwrap();
    assert_eq!(changes, [put(1, "one"), put(2, "two"), TestChange::Remove(1)]);
    assert_eq!((replayed.cut, journal.is_empty()), (None, false));
    journal.append(&[put(3, "three")]).unwrap();
    drop(journal);
    assert_eq!(open(&scratch).unwrap().2.last(), Some(&put(3, "three")));
}

#[test]
fn a_step_without_changes_writes_nothing() {
    let scratch = Scratch::new();
    let (mut journal, ..) = open(&scratch).unwrap();
    let before = journal.len();
    journal.append::<TestChange>(&[]).unwrap();
    assert_eq!((journal.len(), scratch.journal().len() as u64), (before, before));
}

#[test]
fn what_was_appended_is_in_the_file_at_once() {
    let scratch = Scratch::new();
    let (mut journal, ..) = open(&scratch).unwrap();
    journal.append(&[put(1, "one")]).unwrap();
    // The journal is not dropped first: a killed process drops nothing.
    let copy = Scratch::new();
    copy.write_journal(&scratch.journal());
    assert_eq!(open(&copy).unwrap().2, [put(1, "one")]);
}

#[test]
fn a_second_journal_in_the_directory_is_refused_until_the_first_is_dropped() {
    let scratch = Scratch::new();
    let (journal, ..) = open(&scratch).unwrap();
    let error = open(&scratch).unwrap_err();
    assert!(matches!(&error, JournalError::InUse { pid, .. } if *pid == Some(std::process::id())), "{error}");
    assert!(error.to_string().contains("stop that process"), "{error}");
    drop(journal);
    open(&scratch).unwrap();
}

#[test]
fn the_directory_is_created_with_its_parents() {
    let scratch = Scratch::new();
    let config = JournalConfig { directory: scratch.path.join("a/b"), sync: SyncPolicy::EachStep };
    let (mut journal, _) = Journal::open::<TestChange>(&config, |_| ()).unwrap();
    journal.append(&[put(1, "synced")]).unwrap();
    assert!(journal.path().ends_with("a/b/journal"));
}
