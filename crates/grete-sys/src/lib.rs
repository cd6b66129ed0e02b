//! Operating system calls that several crates need, so that each `unsafe` block exists once.
//!
//! The three types to start with:
//!
//! - [`NotInherited`] owns a descriptor that forked children do not inherit; [`fork::generation`] counts forks.
//! - [`EventFd`] is a kernel counter that a selector can wait on.
//! - [`fork::HoldOff`] makes forks wait while a thread opens or closes descriptors.
//!
//! The modules [`clock`] and [`random`] hold clocks and random numbers; [`exit_now`] is an exit without cleanup, and
//! [`IdHasher`] a hasher for maps by number.
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
mod id_hasher;
pub mod random;

pub use event_fd::EventFd;
pub use fork::NotInherited;
pub use id_hasher::IdHasher;

/// Exits at once with `status`, without exit handlers and destructors.
#[allow(unsafe_code)]
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) takes no pointers and does not return.
    unsafe { libc::_exit(status) }
}
