//! What survives a fork, and what must not.
//!
//! A forked child has one thread: no network thread, and sockets that belong to the parent's conversation with the
//! broker. So each handle remembers the generation it was made in; a child's handles see a newer one and refuse to
//! work. The child handler closes the descriptors that the parent's clients had open: a socket that stays open in a
//! child would keep the connection alive after the parent's death, and the broker would see no end of it.
#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static REGISTER: Once = Once::new();
const TABLE: usize = 4096;
static OPEN: [AtomicI32; TABLE] = [const { AtomicI32::new(-1) }; TABLE];

/// Counts the forks between the first client's process and this one. One atomic load.
#[must_use]
pub fn generation() -> u32 {
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
            // copy goes. No epoll_ctl, no shutdown: those would act on what the parent still uses.
            unsafe { libc::close(fd) };
        }
    }
}

/// While it lives, a forked child closes its copy of this descriptor. Must be dropped before the descriptor is closed.
#[derive(Debug)]
pub struct CloseInChild {
    entry: Option<usize>,
    fd: RawFd,
}

impl CloseInChild {
    /// Registers `fd`. With more than 4,096 at once the rest is not registered (a child then keeps copies open).
    #[must_use]
    pub fn new(fd: RawFd) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_sees_a_new_generation_and_closed_descriptors() {
        let before = generation();
        let mut pipe = [0; 2];
        // SAFETY: `pipe` has room for the two descriptors that pipe(2) writes.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        let guard = CloseInChild::new(pipe[1]);
        // SAFETY: the child calls only async-signal-safe functions before _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: fcntl and _exit are async-signal-safe.
            unsafe {
                let closed = libc::fcntl(pipe[1], libc::F_GETFD) == -1;
                libc::_exit(i32::from(!(closed && generation() == before + 1)));
            }
        }
        let mut status = 0;
        // SAFETY: waits for the child made above; `status` is a valid out pointer.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 0);
        assert_eq!(generation(), before);
        drop(guard);
        // SAFETY: both descriptors are open and owned by this test.
        unsafe { (libc::close(pipe[0]), libc::close(pipe[1])) };
    }
}
