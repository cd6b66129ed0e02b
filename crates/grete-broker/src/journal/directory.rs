//! Data directory: the lock against a second process, and the atomic replacement of the journal.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use grete_sys::{NotInherited, fork};

use super::{JournalError, OwnFile, open_file};

const JOURNAL: &str = "journal";
const NEW_JOURNAL: &str = "journal.new";
const LOCK: &str = "lock";

/// Directory whose lock this process holds. The kernel releases the lock when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct DataDirectory {
    path: PathBuf,
    /// Locked with flock(2) until the drop. A forked child has no copy, so a child that outlives the process does not
    /// keep the lock.
    lock: OwnFile,
    /// Fork generation of the process that holds the lock.
    generation: u32,
}

impl Drop for DataDirectory {
    fn drop(&mut self) {
        // Closing is not enough: a child between fork(2) and its fork handler or exec(2) still has a copy, which would
        // keep the lock for a moment. In a child the descriptor may belong to another file by now.
        if self.generation == fork::generation() {
            let _ = self.lock.unlock();
        }
    }
}

impl DataDirectory {
    pub(super) fn lock(path: &Path) -> Result<Self, JournalError> {
        fs::create_dir_all(path).map_err(|source| JournalError::io(path, "create", source))?;
        let lock_path = path.join(LOCK);
        let io_error = |source| JournalError::io(&lock_path, "lock", source);
        let open = || File::options().read(true).write(true).create(true).truncate(false).open(&lock_path);
        let mut lock = NotInherited::create(open).map_err(io_error)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::InUse { path: path.into(), pid: read_pid(&mut lock) });
            }
            Err(TryLockError::Error(source)) => return Err(io_error(source)),
        }
        // Only for the message of another process. On a full disk the message lacks the process id.
        let _ = lock.set_len(0).and_then(|()| write!(*lock, "{}", std::process::id()));
        let directory = Self { path: path.into(), lock, generation: fork::generation() };
        // A compaction was interrupted before its rename: the journal is the old one, and whole.
        match fs::remove_file(directory.path.join(NEW_JOURNAL)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(JournalError::io(&directory.path.join(NEW_JOURNAL), "remove", source))
            }
            _ => Ok(directory),
        }
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    /// Opens the journal; `None`: there is none yet.
    pub(super) fn open_journal(&self) -> Result<Option<OwnFile>, JournalError> {
        match open_file(&self.journal(), false) {
            Ok(file) => Ok(Some(file)),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(JournalError::io(&self.journal(), "open", source)),
        }
    }

    /// Writes a new journal and renames it over the old one. The file is synced before the rename, and the directory
    /// after: a power loss leaves the old journal or the new one, whole.
    pub(super) fn replace_journal(
        &self,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<OwnFile, JournalError> {
        let new = self.path.join(NEW_JOURNAL);
        let written = open_file(&new, true).and_then(|mut file| {
            write(&mut file)?;
            file.sync_all()?;
            fs::rename(&new, self.journal())?;
            File::open(&self.path)?.sync_all()?;
            Ok(file)
        });
        written.map_err(|source| {
            let _ = fs::remove_file(&new); // makes room again; the next start removes it otherwise
            JournalError::io(&new, "write", source)
        })
    }
}

fn read_pid(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
