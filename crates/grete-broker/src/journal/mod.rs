//! Journal of durable changes: what `--data DIR` stores.
//!
//! One append-only file. Each entry holds the changes of one step, so that a restart sees a step whole or not at all.
//! The driver appends the entry before it sends the responses of the step.
//!
//! | failure | what survives |
//! |---|---|
//! | the process is killed, even by SIGKILL | every acknowledged change: the kernel has the bytes |
//! | the machine fails or loses power, [`SyncPolicy::Never`] | what the kernel has written back, often all but the last 30 s |
//! | the machine fails or loses power, [`SyncPolicy::EachStep`] | every acknowledged change, as far as the disk keeps its word |
//! | the disk is full | every acknowledged change; the step that did not fit is not acknowledged, and the journal stops |
//!
//! A write that was cut short leaves a torn entry at the end. The next start cuts the torn entry off, because none of
//! its changes was acknowledged. Any other damage is an error with file and offset: entries after the damage may hold
//! acknowledged records, so only the user can decide.

mod directory;
mod entry;
mod error;
mod file;
mod replay;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use grete_sys::NotInherited;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use error::JournalError;

use directory::DataDirectory;
use entry::{EntryBuffer, FILE_HEADER};
use file::JournalFile;
use replay::replay;

/// Journals below this size are not compacted, in bytes.
const MIN_COMPACTED_BYTES: u64 = 1 << 20;

/// Size of an entry of a snapshot, in bytes: a snapshot has no steps.
const SNAPSHOT_ENTRY_BYTES: usize = 1 << 20;

/// Whether an acknowledged change survives the failure of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncPolicy {
    /// The kernel writes back when it sees fit: changes survive the process, not a power loss.
    #[default]
    Never,
    /// fdatasync(2) after each step that changes something. Costs the latency of the disk for each such step.
    EachStep,
}

/// Location of a journal, and when it is synced.
#[derive(Debug, Clone)]
pub struct JournalConfig {
    /// Directory of the journal and its lock. Created if missing.
    pub directory: PathBuf,
    /// Whether changes survive a power loss.
    pub sync: SyncPolicy,
}

/// Result of reading a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Number of changes that were restored.
    pub changes: u64,
    /// Torn entry at the end that was cut off: its offset in the file, and its bytes. `None`: the journal ended well.
    pub cut: Option<(u64, u64)>,
}

/// Open journal. The lock of its directory is held until the drop.
#[derive(Debug)]
pub struct Journal {
    directory: DataDirectory,
    sync: SyncPolicy,
    file: Box<dyn JournalFile>,
    /// Bytes of the file: all whole entries.
    len: u64,
    /// Size at which the next compaction is tried, in bytes.
    compact_at: u64,
    buffer: EntryBuffer,
    /// A write has failed: nothing more is stored.
    failed: bool,
}

impl Journal {
    /// Locks the directory, passes all stored changes to `restore` in order, and cuts off a torn entry at the end.
    ///
    /// # Errors
    /// The directory is in use by another process, the file cannot be read, or the file is damaged elsewhere than at
    /// its end. `restore` may have been called before the damage was found.
    pub fn open<C: DeserializeOwned>(
        config: &JournalConfig,
        restore: impl FnMut(C),
    ) -> Result<(Self, Replayed), JournalError> {
        let directory = DataDirectory::lock(&config.directory)?;
        let path = directory.journal();
        let file = match directory.open_journal()? {
            Some(file) => file,
            None => directory.replace_journal(|file| file.write_all(&FILE_HEADER))?,
        };
        let (len, replayed) = replay(&path, &file, restore)?;
        if replayed.cut.is_some() {
            file.set_len(len).map_err(|source| JournalError::io(&path, "cut", source))?;
        }
        let journal = Self {
            directory,
            sync: config.sync,
            file: Box::new(file),
            len,
            compact_at: MIN_COMPACTED_BYTES,
            buffer: EntryBuffer::default(),
            failed: false,
        };
        Ok((journal, replayed))
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.journal()
    }

    /// Returns the size of the file in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len <= FILE_HEADER.len() as u64
    }

    /// Stores the changes of a step in one write. An empty step writes nothing.
    ///
    /// # Errors
    /// The changes are not stored, for example because the disk is full. The journal then refuses all further changes:
    /// the state in memory is ahead of the file.
    pub fn append<'a, C: Serialize + 'a>(
        &mut self,
        changes: impl IntoIterator<Item = &'a C>,
    ) -> Result<(), JournalError> {
        let path = self.path();
        if self.failed {
            return Err(JournalError::Failed { path });
        }
        let Some(entry) = self.buffer.encode(changes).map_err(|reason| JournalError::Encode { path, reason })? else {
            return Ok(());
        };
        let written = self.file.append(entry).and_then(|()| match self.sync {
            SyncPolicy::Never => Ok(()),
            SyncPolicy::EachStep => self.file.sync(),
        });
        if let Err(source) = written {
            self.failed = true;
            // A part of the entry may be there. If the cut fails too, the next start cuts the torn entry off.
            let _ = self.file.truncate(self.len);
            return Err(JournalError::io(&self.path(), "write", source));
        }
        self.len += entry.len() as u64;
        self.buffer.shrink();
        Ok(())
    }

    /// Returns whether the journal has grown enough for [`compact`](Self::compact) to be worth a snapshot.
    #[must_use]
    pub fn wants_compaction(&self) -> bool {
        self.len >= self.compact_at && !self.failed
    }

    /// Replaces the file by `snapshot`, if less than half of the file would remain. The new file is written and synced
    /// beside the old one, then renamed. Returns whether the file was replaced.
    ///
    /// # Errors
    /// The new file cannot be written. The old file is unchanged and in use.
    pub fn compact<C: Serialize>(&mut self, snapshot: &[C]) -> Result<bool, JournalError> {
        let path = self.path();
        self.compact_at = MIN_COMPACTED_BYTES.max(self.len.saturating_mul(2));
        let size = snapshot.iter().try_fold(FILE_HEADER.len() as u64, |size, change| {
            postcard::experimental::serialized_size(change).map(|bytes| size + bytes as u64)
        });
        let size = size.map_err(|reason| JournalError::Encode { path: path.clone(), reason })?;
        if size.saturating_mul(2) > self.len {
            return Ok(false);
        }
        let file = self.directory.replace_journal(|file| write_snapshot(file, snapshot))?;
        self.len = file.metadata().map_err(|source| JournalError::io(&path, "read the size of", source))?.len();
        self.compact_at = MIN_COMPACTED_BYTES.max(self.len.saturating_mul(2));
        self.file = Box::new(file);
        Ok(true)
    }
}

fn write_snapshot<C: Serialize>(file: &mut File, snapshot: &[C]) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(SNAPSHOT_ENTRY_BYTES, file);
    let mut buffer = EntryBuffer::default();
    out.write_all(&FILE_HEADER)?;
    for change in snapshot {
        buffer.push(change).map_err(std::io::Error::other)?;
        if buffer.payload_len() >= SNAPSHOT_ENTRY_BYTES {
            out.write_all(buffer.finish().map_err(std::io::Error::other)?.unwrap_or_default())?;
            buffer.clear();
        }
    }
    out.write_all(buffer.finish().map_err(std::io::Error::other)?.unwrap_or_default())?;
    out.flush()
}

/// Journal file that forked children do not inherit.
type OwnFile = NotInherited<File>;

/// Opens a file for reading and appending, closed on exec and in forked children.
fn open_file(path: &Path, create: bool) -> std::io::Result<OwnFile> {
    NotInherited::create(|| File::options().read(true).append(true).create(create).open(path))
}

#[cfg(test)]
mod tests;
