//! Fork handling: the fork generation, and closing the parent's descriptors in a child.
//!
//! A forked child has one thread, and copies of the sockets of the parent's connections to the brokers. Each handle
//! therefore remembers the generation in which it was created. In a child the generation is newer, and the inherited
//! handles refuse to work. The child handler closes the descriptors that the parent's clients had open. A socket left
//! open in a child would keep the connection alive after the parent's death, and the broker would not see the
//! connection end.
//!
//! For a fork, opening a descriptor and registering it must be one step, and so must unregistering and closing. A fork
//! between the two would leave the child a copy that nothing closes. [`hold_off`] makes forks wait meanwhile:
//!
//! - A thread that opens or closes a descriptor increments `HOLDS`, then reads `FORKING`. If `FORKING` is zero, either
//!   no fork is running, or the fork has yet to read `HOLDS` and will wait. Otherwise the thread decrements `HOLDS` and
//!   waits until the fork has finished.
//! - The fork increments `FORKING` in its prepare handler, then waits until `HOLDS` is zero.
//!
//! Thread and fork both write first and read second, with sequential consistency, so at least one of the two sees the
//! other's write.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static REGISTER: Once = Once::new();
/// Size of the table of registered descriptors. Descriptors that do not fit are not registered, and a child keeps
/// copies.
const MAX_OPEN: usize = 4096;
static OPEN: [AtomicI32; MAX_OPEN] = [const { AtomicI32::new(-1) }; MAX_OPEN];
/// Number of threads that hold forks off.
static HOLDS: AtomicU32 = AtomicU32::new(0);
/// Number of forks that wait or run.
static FORKING: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Guards held by this thread. Only the outermost guard counts in `HOLDS`, so nested guards cannot deadlock with a
    /// fork.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Returns the number of forks between the process of the first client and this process. Costs one atomic load.
#[must_use]
pub fn generation() -> u32 {
    REGISTER.call_once(|| {
        // SAFETY: pthread_atfork stores function pointers. `prepare` and `in_parent` only touch atomics and yield;
        // `in_child` only touches atomics and calls close(2). close(2) is async-signal-safe, as required in the child
        // of a process with threads.
        unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn prepare() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    // A thread that forks while it holds a guard itself would otherwise wait for itself.
    let own = u32::from(DEPTH.get() > 0);
    while HOLDS.load(Ordering::SeqCst) > own {
        std::thread::yield_now();
    }
}

extern "C" fn in_parent() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

extern "C" fn in_child() {
    FORKING.store(0, Ordering::SeqCst);
    HOLDS.store(u32::from(DEPTH.get() > 0), Ordering::SeqCst);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for entry in &OPEN {
        let fd = entry.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: close(2) on a descriptor that the parent registered and the child inherited closes the child's
            // copy only. epoll_ctl and shutdown would act on what the parent still uses, so neither is called.
            unsafe { libc::close(fd) };
        }
    }
}

/// Makes forks of this process wait until the guard is dropped. Use the guard only for opening and closing, which do
/// not block.
#[must_use]
pub fn hold_off() -> HoldOff {
    if DEPTH.get() == 0 {
        loop {
            HOLDS.fetch_add(1, Ordering::SeqCst);
            if FORKING.load(Ordering::SeqCst) == 0 {
                break;
            }
            HOLDS.fetch_sub(1, Ordering::SeqCst);
            while FORKING.load(Ordering::SeqCst) > 0 {
                std::thread::yield_now();
            }
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    HoldOff(std::marker::PhantomData)
}

/// Guard of [`hold_off`]. Stays on the thread that created it.
#[derive(Debug)]
pub struct HoldOff(std::marker::PhantomData<*const ()>);

impl Drop for HoldOff {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            HOLDS.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Owner of a value whose descriptor forked children do not inherit: the child's copy is closed before fork(2) returns
/// there. A child that drops the value closes nothing, because the descriptor number may belong to another file by
/// then.
#[derive(Debug)]
pub struct NotInherited<T: AsRawFd> {
    /// Index in the table; `None` if the table was full.
    entry: Option<usize>,
    fd: RawFd,
    generation: u32,
    value: ManuallyDrop<T>,
}

impl<T: AsRawFd> NotInherited<T> {
    /// Calls `open`, which must not block, and registers the descriptor. A fork sees both as one step.
    ///
    /// # Errors
    /// Returns the error of `open`.
    pub fn create(open: impl FnOnce() -> io::Result<T>) -> io::Result<Self> {
        let hold = hold_off();
        open().map(|value| Self::new(value, &hold))
    }

    /// Registers a descriptor that was opened while `_hold` was held. Beyond 4,096 open descriptors no more are
    /// registered.
    pub fn new(value: T, _hold: &HoldOff) -> Self {
        let generation = generation();
        let fd = value.as_raw_fd();
        let free = |entry: &AtomicI32| entry.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        Self { entry: OPEN.iter().position(free), fd, generation, value: ManuallyDrop::new(value) }
    }
}

impl<T: AsRawFd> Deref for NotInherited<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: AsRawFd> DerefMut for NotInherited<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: AsRawFd> Drop for NotInherited<T> {
    fn drop(&mut self) {
        let _hold = hold_off();
        if let Some(entry) = self.entry.and_then(|index| OPEN.get(index)) {
            if self.generation != generation() {
                return; // in a child, where the descriptor is already closed
            }
            let _ = entry.compare_exchange(self.fd, -1, Ordering::Relaxed, Ordering::Relaxed);
        }
        // SAFETY: the value is dropped only here and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.value) };
    }
}

/// Runs `child` in a forked child process and returns the exit status, which is 0 for `true`. For tests.
///
/// Everything that `child` uses must be safe after a fork of a process with threads.
#[doc(hidden)]
pub fn status_of_child(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs `child` and leaves by _exit; it touches no memory that another thread may have locked.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        crate::exit_now(i32::from(!child()));
    }
    let mut status = 0;
    // SAFETY: waits for the child forked above; `status` is a valid out pointer.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Held by every test that forks or counts descriptors, so that these tests run one at a time.
    static ALONE: Mutex<()> = Mutex::new(());

    fn is_open(fd: RawFd) -> bool {
        // SAFETY: F_GETFD takes and returns plain numbers.
        unsafe { libc::fcntl(fd, libc::F_GETFD) != -1 }
    }

    #[test]
    fn a_child_sees_a_new_generation_and_closed_descriptors() {
        let _alone = ALONE.lock();
        let before = generation();
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let ours = NotInherited::new(ours, &hold_off());
        let fd = ours.as_raw_fd();
        assert_eq!(status_of_child(|| !is_open(fd) && generation() == before + 1), 0);
        assert_eq!(generation(), before);
        assert!(is_open(fd));
        drop(ours);
        assert!(!is_open(fd));
    }

    #[test]
    fn a_child_that_drops_the_value_does_not_close_what_has_the_number_now() {
        let _alone = ALONE.lock();
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let ours = NotInherited::new(ours, &hold_off());
        let fd = ours.as_raw_fd();
        let status = status_of_child(|| {
            // SAFETY: duplicates a descriptor of this test; the target number is free, because the child's copy was
            // closed.
            let reused = unsafe { libc::dup2(theirs.as_raw_fd(), fd) } == fd;
            drop(ours);
            reused && is_open(fd)
        });
        assert_eq!(status, 0);
    }

    /// Forks while another thread keeps opening and closing descriptors: no child may have more descriptors than there
    /// were before.
    #[test]
    fn no_fork_comes_between_opening_and_registering_or_between_unregistering_and_closing() {
        let _alone = ALONE.lock();
        let _ = generation();
        let open = || (3..200).filter(|&fd| is_open(fd)).count();
        let before = open();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let hold = hold_off();
                    let pair = UnixStream::pair().expect("a pair");
                    let pair = (NotInherited::new(pair.0, &hold), NotInherited::new(pair.1, &hold));
                    drop(hold);
                    drop(pair);
                }
            });
            let statuses: Vec<_> = (0..500).map(|_| status_of_child(|| open() <= before)).collect();
            done.store(true, Ordering::Relaxed);
            assert_eq!(statuses.iter().filter(|&&status| status != 0).count(), 0);
        });
    }
}
