//! Descriptor that may be closed by foreign code: some libraries close all descriptors of a process.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};

use crate::sys::{self, FileId};

/// Open file or socket that knows whether its descriptor number still refers to it. A file that other code has opened
/// under the same number is neither written to nor closed.
#[derive(Debug)]
pub(crate) struct CheckedFd<T: AsFd + IntoRawFd = File> {
    /// `Some` until the drop.
    file: Option<T>,
    file_id: FileId,
}

impl<T: AsFd + IntoRawFd> CheckedFd<T> {
    pub(crate) fn new(file: T) -> io::Result<Self> {
        let identity = sys::file_id(file.as_fd())?;
        Ok(Self { file: Some(file), file_id: identity })
    }

    /// Returns the file; `None`: its descriptor is closed or refers to another file.
    pub(crate) fn get(&self) -> Option<&T> {
        self.file.as_ref().filter(|file| sys::file_id(file.as_fd()).is_ok_and(|identity| identity == self.file_id))
    }

    /// Returns the descriptor for polling only. It may refer to another file.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(T::as_fd)
    }
}

impl<T: AsFd + IntoRawFd> Drop for CheckedFd<T> {
    fn drop(&mut self) {
        if self.get().is_none()
            && let Some(lost) = self.file.take()
        {
            let _ = lost.into_raw_fd(); // not closed: the descriptor belongs to other code
        }
    }
}
