//! A descriptor that may be pulled away: there is code that closes all descriptors of a process, whoever they belong to.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};

use crate::sys::{self, Identity};

/// An open file or socket that knows whether its descriptor is still its own. What somebody else has opened under the same number
/// is neither written to nor closed.
#[derive(Debug)]
pub(crate) struct Held<T: AsFd + IntoRawFd = File> {
    /// There until the drop.
    file: Option<T>,
    identity: Identity,
}

impl<T: AsFd + IntoRawFd> Held<T> {
    pub(crate) fn new(file: T) -> io::Result<Self> {
        let identity = sys::identity(file.as_fd())?;
        Ok(Self { file: Some(file), identity })
    }

    /// `None`: its descriptor is closed, or stands for something else.
    pub(crate) fn get(&self) -> Option<&T> {
        self.file.as_ref().filter(|file| sys::identity(file.as_fd()).is_ok_and(|identity| identity == self.identity))
    }

    /// Only to be waited for: it may stand for something else.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(T::as_fd)
    }
}

impl<T: AsFd + IntoRawFd> Drop for Held<T> {
    fn drop(&mut self) {
        if self.get().is_none()
            && let Some(lost) = self.file.take()
        {
            let _ = lost.into_raw_fd(); // is not closed so
        }
    }
}
