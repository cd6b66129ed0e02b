//! Floor 2: the only Kafka client I/O: one mio loop, DNS, timers, fork generation.
//!
//! The loop owns sockets and nothing else. What to connect to, what to write and what a frame means is said by a
//! [`Protocol`], a sans-IO machine that the loop steps. Other threads may step it, too: [`remote`] walks through the races.
#![deny(unsafe_code)]

pub mod clock;
pub mod event_fd;
pub mod event_loop;
pub mod fork;
pub mod futex;
pub mod process;
pub mod protocol;
pub mod remote;
mod resolver;
mod socket;
mod state;
mod unwritten;

pub use clock::Clock;
pub use event_fd::EventFd;
pub use event_loop::EventLoop;
pub use futex::{Futex, Waited};
pub use protocol::{NetAction, NetEvent, Protocol, Waker};
pub use remote::Remote;
