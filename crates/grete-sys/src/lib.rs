//! Operating system calls that several crates need, so that each `unsafe` block exists once, and so that systems differ
//! in this crate alone.
//!
//! The types to start with:
//!
//! - [`NotInherited`] owns a descriptor that forked children do not inherit; [`fork::generation`] counts forks.
//! - [`EventFd`] is a descriptor that threads signal and that a selector can wait on.
//! - [`Futex`] is a counter that threads sleep on, until another thread or a Unix signal wakes them.
//! - [`fork::HoldOff`] makes forks wait while a thread opens or closes descriptors.
//!
//! The modules [`clock`], [`random`], [`poll`] and [`process_stats`] hold clocks, random numbers, waits for descriptors
//! and what the system counts of this process, [`malloc`] settings of the allocator; [`exit_now`] is an exit without cleanup, and [`IdHasher`] a hasher for
//! maps by number.
//!
//! What only Linux has is used on Linux alone. `RUSTFLAGS="--cfg grete_portable"` builds what other systems get, so that
//! Linux can test it.
//! ```
//! use grete_sys::{NotInherited, fork};
//! use std::net::UdpSocket;
//!
//! let socket = NotInherited::create(|| UdpSocket::bind("127.0.0.1:0")).expect("a socket");
//! assert!(socket.local_addr().is_ok()); // a forked child finds this descriptor closed
//! assert_eq!(fork::generation(), 0);
//! ```
#![deny(unsafe_code)]

pub mod clock;
pub mod event_fd;
pub mod fork;
pub mod futex;
mod id_hasher;
pub mod malloc;
pub mod poll;
pub mod process_stats;
pub mod random;

pub use event_fd::EventFd;
pub use fork::NotInherited;
pub use futex::{Futex, WakeReason};
pub use id_hasher::IdHasher;

/// Exits at once with `status`, without exit handlers and destructors.
#[allow(unsafe_code)]
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) takes no pointers and does not return.
    unsafe { libc::_exit(status) }
}
