//! Calls into libc.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// A duplicate of the descriptor, closed on exec, that never blocks (and neither does the original: they share that).
pub(crate) fn duplicate_nonblocking(fd: RawFd) -> io::Result<File> {
    // SAFETY: F_DUPFD_CLOEXEC takes and returns plain numbers.
    let copy = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: `copy` is open, new, and nobody else's.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    // SAFETY: F_GETFL takes and returns plain numbers.
    let flags = check(unsafe { libc::fcntl(copy.as_raw_fd(), libc::F_GETFL) })?;
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is open for reading only"));
    }
    // SAFETY: F_SETFL takes and returns plain numbers.
    check(unsafe { libc::fcntl(copy.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(File::from(copy))
}

/// What a descriptor stands for: a device and a file on it. Each pipe is one.
pub(crate) type Identity = (u64, u64);

/// Of an open descriptor.
pub(crate) fn identity(fd: BorrowedFd<'_>) -> io::Result<Identity> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` has room for what fstat writes.
    check(unsafe { libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) })?;
    // SAFETY: fstat has filled it in.
    let stat = unsafe { stat.assume_init() };
    Ok((stat.st_dev, stat.st_ino))
}

/// What came of a wait for two descriptors: the events of each; none when the time is up, or a signal came.
pub(crate) fn poll(
    watched: BorrowedFd<'_>,
    readable: BorrowedFd<'_>,
    timeout: Duration,
) -> io::Result<(libc::c_short, libc::c_short)> {
    // Hang-up and errors are told unasked.
    let mut fds = [watch(Some(watched), 0), watch(Some(readable), libc::POLLIN)];
    poll_all(&mut fds, timeout)?;
    Ok((fds[0].revents, fds[1].revents))
}

/// For [`poll_all`]. `None`: nothing will happen there.
pub(crate) fn watch(fd: Option<BorrowedFd<'_>>, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd: fd.map_or(-1, |fd| fd.as_raw_fd()), events, revents: 0 }
}

/// Fills in what has happened: nothing when the time is up, or a signal came.
pub(crate) fn poll_all(fds: &mut [libc::pollfd], timeout: Duration) -> io::Result<()> {
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()),
    };
    let count = libc::nfds_t::try_from(fds.len()).unwrap_or_default();
    // SAFETY: so many live pollfds and a live timespec; no signal mask. ppoll keeps neither.
    let result = unsafe { libc::ppoll(fds.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
    match check(result) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            fds.iter_mut().for_each(|fd| fd.revents = 0);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Closes it if it still is that file.
pub(crate) fn close_if(fd: RawFd, identity_then: Identity) {
    // SAFETY: borrowed for a question about what it is; nothing is read, written or closed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    if fd >= 0 && identity(borrowed).is_ok_and(|now| now == identity_then) {
        // SAFETY: takes a plain number. Whoever had opened it does not use it any more: that is the caller's to know.
        unsafe { libc::close(fd) };
    }
}

/// Nanoseconds of a clock that all processes of this machine share, and nobody sets.
pub(crate) fn monotonic_nanos() -> u64 {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `now` has room for what is written, and that is all of it when the call succeeds.
    let now = match check(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr()) }) {
        // SAFETY: see above.
        Ok(_) => unsafe { now.assume_init() },
        Err(_) => return 0,
    };
    let nanos =
        Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0)).as_nanos();
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// Zeros that a process and its children share.
///
/// A child that is forked has the pages, too, unless [`Shared::keep`] was called before. Then it has the addresses only: it must
/// not touch them, and must not unmap them either, as they may be something else's by then. Whether they are its own, the
/// fields beside say, of which each process has its own copy.
#[derive(Debug)]
pub(crate) struct Shared {
    at: NonNull<AtomicU64>,
    words: usize,
    /// The process that has it for itself.
    keeper: AtomicU32,
    /// Only the keeper has it.
    kept: AtomicBool,
}

// SAFETY: all access to what `at` points to is atomic.
unsafe impl Send for Shared {}
// SAFETY: the same.
unsafe impl Sync for Shared {}

impl Shared {
    pub(crate) fn new(words: usize) -> io::Result<Self> {
        let bytes = words * size_of::<AtomicU64>();
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        let at = if at == libc::MAP_FAILED { None } else { NonNull::new(at.cast::<AtomicU64>()) };
        let at = at.ok_or_else(io::Error::last_os_error)?;
        Ok(Self { at, words, keeper: AtomicU32::new(std::process::id()), kept: AtomicBool::new(false) })
    }

    /// From now on it is this process's (and that child's which has it by now): whom it forks does not get it.
    pub(crate) fn keep(&self) {
        if !self.is_ours() {
            return;
        }
        // First the fields: a child that some thread forks in between has the pages and leaves them alone. If the kernel
        // refuses, so have all children.
        self.keeper.store(std::process::id(), Ordering::Relaxed);
        self.kept.store(true, Ordering::Relaxed);
        // SAFETY: the range is the mapping that `new` has made, which is there until the drop.
        unsafe { libc::madvise(self.at.as_ptr().cast(), self.bytes(), libc::MADV_DONTFORK) };
    }

    /// `None`: this process does not have them.
    pub(crate) fn words(&self) -> Option<&[AtomicU64]> {
        // SAFETY: the mapping is that long, aligned to pages, all zeros at first (which are valid), there until the drop, and
        // touched by atomic access only, by each process that has it. That this one has it, `is_ours` says.
        self.is_ours().then(|| unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.words) })
    }

    fn is_ours(&self) -> bool {
        !self.kept.load(Ordering::Relaxed) || self.keeper.load(Ordering::Relaxed) == std::process::id()
    }

    fn bytes(&self) -> usize {
        self.words * size_of::<AtomicU64>()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: the mapping that `new` has made, and nobody refers to it any more.
            unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes()) };
        }
    }
}

/// Bytes in a page.
pub(crate) fn page_size() -> u64 {
    // SAFETY: takes and returns plain numbers.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// CPU time of all threads of the process.
pub(crate) fn cpu_time() -> Option<Duration> {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Since the system was started, the time it slept included.
pub(crate) fn since_boot() -> Option<Duration> {
    clock(libc::CLOCK_BOOTTIME)
}

/// What the times in `/proc` are counted in.
pub(crate) fn ticks_per_second() -> f64 {
    // SAFETY: takes and returns plain numbers.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u32::try_from(ticks).map_or(100.0, f64::from).max(1.0)
}

fn clock(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live and written by clock_gettime.
    check(unsafe { libc::clock_gettime(clock, &raw mut time) }).ok()?;
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// Leaves at once: no exit handlers, no destructors.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) takes no pointers and does not return.
    unsafe { libc::_exit(status) }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
