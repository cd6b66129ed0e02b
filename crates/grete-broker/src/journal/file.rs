//! Operations on the journal's file, as a trait so that tests imitate a full disk.

use std::fmt::Debug;
use std::io::{self, Write};

use super::OwnFile;

/// File that grows at its end.
pub(super) trait JournalFile: Debug + Send {
    /// Writes all bytes at the end. After an error a part of the bytes may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file to `len` bytes.
    fn truncate(&mut self, len: u64) -> io::Result<()>;

    /// Waits until the disk has the file's bytes.
    fn sync(&mut self) -> io::Result<()>;
}

impl JournalFile for OwnFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        (**self).write_all(bytes)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
