//! Calls into libc.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

static GENERATION: AtomicU32 = AtomicU32::new(0);
static REGISTER: Once = Once::new();
/// More connections than this at once, and a child keeps copies of the rest open.
const TABLE: usize = 64;
static OPEN: [AtomicI32; TABLE] = [const { AtomicI32::new(-1) }; TABLE];

/// Counts the forks between the first tracer's process and this one. One atomic load.
///
/// A child has no sender's thread, and may have inherited locks that nobody is left to release: whatever was made in
/// another generation must not be touched.
pub(crate) fn generation() -> u32 {
    REGISTER.call_once(|| {
        // SAFETY: pthread_atfork stores a function pointer; `in_child` is an extern "C" fn that only touches atomics
        // and close(2), both async-signal-safe, which is all that a child of a threaded process may do.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for entry in &OPEN {
        let fd = entry.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: close(2) on a descriptor that the parent registered and the child inherited; only the child's
            // copy goes, so that the agent sees the end of the connection when the parent ends it.
            unsafe { libc::close(fd) };
        }
    }
}

/// While it lives, a forked child closes its copy of this descriptor. Must be dropped before the descriptor is closed.
#[derive(Debug)]
pub(crate) struct CloseInChild {
    entry: Option<usize>,
    fd: RawFd,
}

impl CloseInChild {
    pub(crate) fn new(fd: &impl AsRawFd) -> Self {
        let fd = fd.as_raw_fd();
        let free = |entry: &AtomicI32| entry.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        Self { entry: OPEN.iter().position(free), fd }
    }
}

impl Drop for CloseInChild {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.and_then(|index| OPEN.get(index)) {
            let _ = entry.compare_exchange(self.fd, -1, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Eight random bytes from the system; from the clock and an address where it has none to give.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: `bytes` has room for the eight bytes that are asked for.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if usize::try_from(got) == Ok(bytes.len()) {
        return u64::from_ne_bytes(bytes);
    }
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let address = std::ptr::from_ref(&bytes) as u64;
    u64::from(std::process::id()).rotate_left(32) ^ address ^ (since.as_nanos() as u64)
}

/// A connection to a Unix socket, made within `timeout` even where the listener's queue is full (the standard library's
/// waits for ever).
pub(crate) fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    // SAFETY: all zeroes are a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is too long for a Unix socket"));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = from.cast_signed();
    }
    // SAFETY: takes and returns plain numbers.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: `fd` is open, new, and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let stream = UnixStream::from(fd);
    stream.set_write_timeout(Some(timeout))?; // connect(2) minds it, too
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: a live address of the length that is told, whose path ends in a zero.
    check(unsafe { libc::connect(stream.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(stream)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Runs `child` in a forked child and returns its exit status.
///
/// Whatever `child` touches must be safe after a fork of a process with threads; that is what these tests are about.
#[cfg(test)]
pub(crate) fn status_of_fork(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs `child` and leaves by _exit; memory that other threads held locked is not touched by it.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let good = child();
        // SAFETY: takes a number and does not return.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; `status` is a valid out pointer.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_differ() {
        assert_ne!(random(), random());
    }

    #[test]
    fn a_child_has_a_generation_of_its_own_and_no_connection_of_the_parents() {
        let before = generation();
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let guard = CloseInChild::new(&ours);
        let fd = ours.as_raw_fd();
        let status = status_of_fork(|| {
            // SAFETY: takes and returns plain numbers.
            let closed = unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1;
            closed && generation() == before + 1
        });
        assert_eq!((status, generation()), (0, before));
        drop(guard);
    }

    #[test]
    fn paths_that_no_socket_can_have_are_refused() {
        for path in ["/tmp/x".repeat(40), "/tmp/\0x".into()] {
            let refused = connect_unix(Path::new(&path), Duration::from_secs(1)).expect_err("no such path");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
