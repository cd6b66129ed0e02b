//! Disks that take a part of a write, or nothing.

use std::io;
use std::sync::{Arc, Mutex};

use super::*;

/// File in memory that holds `capacity` bytes.
#[derive(Debug, Clone)]
struct SmallDisk {
    bytes: Arc<Mutex<Vec<u8>>>,
    capacity: usize,
    /// Whether the cut after a failed write fails, too.
    refuses_cut: bool,
}

impl JournalFile for SmallDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut stored = self.bytes.lock().unwrap();
        let room = self.capacity.saturating_sub(stored.len());
        stored.extend(bytes.iter().take(room));
        if bytes.len() > room { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        if self.refuses_cut {
            return Err(io::ErrorKind::Other.into());
        }
        self.bytes.lock().unwrap().truncate(len as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_does_not_fit_is_refused_and_all_before_it_is_kept() {
    for capacity in FILE_HEADER.len()..200 {
        for refuses_cut in [false, true] {
            let scratch = Scratch::new();
            let (mut journal, ..) = open(&scratch).unwrap();
            let bytes = Arc::new(Mutex::new(scratch.journal()));
            journal.file = Box::new(SmallDisk { bytes: Arc::clone(&bytes), capacity, refuses_cut });
            let mut acknowledged = Vec::new();
            let error = (0..100).find_map(|key| {
                let change = put(key, "a value");
                let error = journal.append(std::slice::from_ref(&change)).err();
                acknowledged.extend(error.is_none().then_some(change));
                error
            });
            let error = error.expect("a full disk").to_string();
            assert!(error.contains("make room"), "{error}");
            // Smaller changes would fit, but the state in memory has the change that is missing in the file.
            assert!(matches!(journal.append(&[TestChange::Remove(0)]), Err(JournalError::Failed { .. })));
            drop(journal);
            scratch.write_journal(&bytes.lock().unwrap());
            let (_, replayed, changes) = open(&scratch).unwrap();
            assert_eq!(changes, acknowledged, "{capacity} bytes");
            assert!(refuses_cut || replayed.cut.is_none());
        }
    }
}
