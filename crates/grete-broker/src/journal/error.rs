//! Errors of the journal.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Reason why a journal cannot be read or written.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Another process uses the directory.
    #[error("{path} is in use by {}: stop that process, or choose another directory", owner(*.pid))]
    InUse {
        /// Directory.
        path: PathBuf,
        /// Process that holds the lock; `None`: unknown.
        pid: Option<u32>,
    },
    /// A system call failed.
    #[error("cannot {doing} {path}: {source}{}", cure(.source))]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Attempted action, as a verb.
        doing: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
    /// The file does not begin like a journal.
    #[error("{path} is no journal of Grete: choose another directory, or delete the file to start with nothing")]
    NotAJournal {
        /// File.
        path: PathBuf,
    },
    /// The file has the format of another version.
    #[error(
        "{path} has format {found}, and this version of Grete reads format {supported}: use the version that wrote \
         the file, or delete the file to start with nothing"
    )]
    Format {
        /// File.
        path: PathBuf,
        /// Format of the file.
        found: u32,
        /// Format that this version reads and writes.
        supported: u32,
    },
    /// An entry is damaged, and the damage is no torn write at the end of the file.
    #[error(
        "{path} is damaged at offset {offset} ({reason}): restore a copy, or keep what was stored before with \
         `truncate -s {offset} {path}`"
    )]
    Corrupt {
        /// File.
        path: PathBuf,
        /// Start of the damaged entry in the file, in bytes.
        offset: u64,
        /// Kind of damage.
        reason: &'static str,
    },
    /// An entry is whole, but its changes cannot be decoded: another version wrote the entry.
    #[error(
        "{path} has changes at offset {offset} that this version of Grete does not read ({reason}): use the version \
         that wrote the file, or delete the file to start with nothing"
    )]
    Decode {
        /// File.
        path: PathBuf,
        /// Start of the entry in the file, in bytes.
        offset: u64,
        /// Error of the decoder.
        reason: postcard::Error,
    },
    /// A change has no encoding: a defect of Grete.
    #[error("a change cannot be encoded for {path} ({reason}): report this defect of Grete")]
    Encode {
        /// File.
        path: PathBuf,
        /// Error of the encoder.
        reason: postcard::Error,
    },
    /// An earlier write has failed.
    #[error("{path} takes no more changes, because an earlier write has failed: start again")]
    Failed {
        /// File.
        path: PathBuf,
    },
}

impl JournalError {
    pub(super) fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.into(), doing, source }
    }
}

fn owner(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".into(), |pid| format!("process {pid}"))
}

/// Returns the cure of errors that have one, after the error's own text.
fn cure(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room, then start again",
        io::ErrorKind::FileTooLarge => "; raise the limit of file sizes (ulimit -f), then start again",
        io::ErrorKind::PermissionDenied => "; choose a directory that this user may write",
        io::ErrorKind::ReadOnlyFilesystem => "; choose a directory on another file system",
        _ => "",
    }
}
