//! The server's descriptors, for a forked child to close its copies.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::sys::{self, Identity};

/// Read in a child, where the thread that wrote it is gone: no locks.
#[derive(Debug)]
pub(super) struct Doors(Vec<Door>);

#[derive(Debug)]
struct Door {
    /// -1: nobody's.
    fd: AtomicI32,
    device: AtomicU64,
    file: AtomicU64,
}

impl Doors {
    pub(super) fn new(most: usize) -> Self {
        let door = || Door { fd: AtomicI32::new(-1), device: AtomicU64::new(0), file: AtomicU64::new(0) };
        Self((0..most).map(|_| door()).collect())
    }

    /// Of the server's thread, and before it begins.
    ///
    /// The descriptor comes last here, and goes first in `closes`. A child that is forked in between has a copy that it does not
    /// know of; it does not keep the peer waiting, because the server says goodbye before it closes.
    pub(super) fn opened(&self, socket: &impl AsFd) {
        let Some(door) = self.0.iter().find(|door| door.fd.load(Ordering::Relaxed) < 0) else { return };
        let Ok((device, file)) = sys::identity(socket.as_fd()) else { return };
        door.device.store(device, Ordering::Relaxed);
        door.file.store(file, Ordering::Relaxed);
        door.fd.store(socket.as_fd().as_raw_fd(), Ordering::Release);
    }

    /// It is about to be closed.
    pub(super) fn closes(&self, socket: &impl AsFd) {
        let fd = socket.as_fd().as_raw_fd();
        if let Some(door) = self.0.iter().find(|door| door.fd.load(Ordering::Relaxed) == fd) {
            door.fd.store(-1, Ordering::Release);
        }
    }

    /// In a forked child: closes what is still what it was.
    pub(super) fn abandon(&self) {
        for door in &self.0 {
            let fd = door.fd.swap(-1, Ordering::Acquire);
            let identity: Identity = (door.device.load(Ordering::Relaxed), door.file.load(Ordering::Relaxed));
            if fd >= 0 {
                sys::close_if(fd, identity);
            }
        }
    }
}
