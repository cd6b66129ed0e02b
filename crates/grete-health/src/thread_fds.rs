//! Descriptors of a thread, which a forked child uses to close its copies.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::sys::{self, FileId};

/// Table of a thread's descriptors. It is read in a forked child, where the thread that wrote it does not exist, so it
/// has no locks.
#[derive(Debug)]
pub(crate) struct ThreadFds(Vec<FdEntry>);

#[derive(Debug)]
struct FdEntry {
    /// -1: the entry is free.
    fd: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl ThreadFds {
    pub(crate) fn new(capacity: usize) -> Self {
        let entry = || FdEntry { fd: AtomicI32::new(-1), device: AtomicU64::new(0), inode: AtomicU64::new(0) };
        Self((0..capacity).map(|_| entry()).collect())
    }

    /// Registers a socket. The thread that uses the socket calls this before its first use.
    ///
    /// The descriptor is stored last here, and removed first in `unregister`. A child that is forked in between has a
    /// copy that it does not know of. That copy does not keep a peer waiting, because the server shuts the connection
    /// down before closing it.
    pub(crate) fn register(&self, socket: &impl AsFd) {
        let Some(entry) = self.0.iter().find(|door| door.fd.load(Ordering::Relaxed) < 0) else { return };
        let Ok((device, file)) = sys::file_id(socket.as_fd()) else { return };
        entry.device.store(device, Ordering::Relaxed);
        entry.inode.store(file, Ordering::Relaxed);
        entry.fd.store(socket.as_fd().as_raw_fd(), Ordering::Release);
    }

    /// Unregisters a socket that is about to be closed.
    pub(crate) fn unregister(&self, socket: &impl AsFd) {
        let fd = socket.as_fd().as_raw_fd();
        if let Some(door) = self.0.iter().find(|door| door.fd.load(Ordering::Relaxed) == fd) {
            door.fd.store(-1, Ordering::Release);
        }
    }

    /// Closes, in a forked child, all registered descriptors that still are the same file.
    pub(crate) fn close_in_child(&self) {
        for entry in &self.0 {
            let fd = entry.fd.swap(-1, Ordering::Acquire);
            let identity: FileId = (entry.device.load(Ordering::Relaxed), entry.inode.load(Ordering::Relaxed));
            if fd >= 0 {
                sys::close_if_same_file(fd, identity);
            }
        }
    }
}
