//! Memory that a process shares with its children.
#![allow(unsafe_code)]

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Anonymous shared mapping, initially zero, that a process shares with its children.
///
/// A forked child inherits the pages, unless [`SharedMapping::exclude_from_later_forks`] was called before the fork.
/// Such a child has only the address. The child must neither touch nor unmap that range, because another mapping may
/// occupy it by then. The fields of this struct say whether a process has the pages; each process has its own copy of
/// the fields.
#[derive(Debug)]
pub(crate) struct SharedMapping {
    at: NonNull<AtomicU64>,
    words: usize,
    /// The process that has the pages if `is_exclusive` is set.
    owner_pid: AtomicU32,
    /// Only the process `owner_pid` has the pages.
    is_exclusive: AtomicBool,
}

// SAFETY: all access to what `at` points to is atomic.
unsafe impl Send for SharedMapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    pub(crate) fn new(words: usize) -> io::Result<Self> {
        let bytes = words * size_of::<AtomicU64>();
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        let at = if at == libc::MAP_FAILED { None } else { NonNull::new(at.cast::<AtomicU64>()) };
        let at = at.ok_or_else(io::Error::last_os_error)?;
        Ok(Self { at, words, owner_pid: AtomicU32::new(std::process::id()), is_exclusive: AtomicBool::new(false) })
    }

    /// Keeps the mapping to this process and the children it has forked so far; children forked later do not inherit
    /// it.
    pub(crate) fn exclude_from_later_forks(&self) {
        if !self.is_mapped() {
            return;
        }
        // The fields come first: a child that another thread forks in between has the pages and leaves them alone. If
        // the kernel refuses madvise, or the system is not Linux, all children are in that position.
        self.owner_pid.store(std::process::id(), Ordering::Relaxed);
        self.is_exclusive.store(true, Ordering::Relaxed);
        #[cfg(all(target_os = "linux", not(grete_portable)))]
        // SAFETY: the range is the mapping made by `new`, which exists until the drop.
        unsafe {
            libc::madvise(self.at.as_ptr().cast(), self.bytes(), libc::MADV_DONTFORK)
        };
    }

    /// Returns the words; `None`: this process does not have the pages.
    pub(crate) fn words(&self) -> Option<&[AtomicU64]> {
        // SAFETY: the mapping has that length, is aligned to pages, exists until the drop, and was all zeros (which are
        // valid) at first. Each process that has it accesses it by atomics only. `is_mapped` says that this process has
        // it.
        self.is_mapped().then(|| unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.words) })
    }

    fn is_mapped(&self) -> bool {
        !self.is_exclusive.load(Ordering::Relaxed) || self.owner_pid.load(Ordering::Relaxed) == std::process::id()
    }

    fn bytes(&self) -> usize {
        self.words * size_of::<AtomicU64>()
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        if self.is_mapped() {
            // SAFETY: the mapping made by `new`; nothing refers to it any more.
            unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes()) };
        }
    }
}
