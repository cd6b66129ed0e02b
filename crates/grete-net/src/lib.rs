//! Floor 2: the only I/O of the Kafka clients. One event loop on epoll(7) per client, with DNS, timers and wake-ups.
//!
//! The loop owns sockets and nothing else. A sans-IO [`Protocol`] decides where to connect, what to write, and what a
//! frame means. The three types to start with:
//!
//! - [`EventLoop`] runs on the network thread, steps the protocol and performs its [`TransportAction`]s.
//! - [`Protocol`] is the trait of the sans-IO machines that the loop drives.
//! - [`LoopHandle`] lets other threads step the protocol; the module [`handle`] walks through the races. A thread that
//!   waits for a response may lead the loop meanwhile, see [`CallerLoop`].
//!
//! ```
//! use grete_net::{Clock, EventLoop, NetEvent, Protocol, TransportAction};
//! use grete_proto::time::Nanos;
//! use grete_wire::buffer_pool::BufferPool;
//!
//! struct OneTick(bool);
//!
//! impl Protocol for OneTick {
//!     fn step(&mut self, _now: Nanos, event: NetEvent, _actions: &mut Vec<TransportAction>) {
//!         self.0 = matches!(event, NetEvent::Tick);
//!     }
//!
//!     fn deadline(&self) -> Option<Nanos> {
//!         None
//!     }
//!
//!     fn is_finished(&self) -> bool {
//!         self.0
//!     }
//! }
//!
//! let event_loop = EventLoop::new(Clock::new(), BufferPool::new(1 << 20), 1 << 20, |_waker| OneTick(false))?;
//! event_loop.run()?; // on this thread, until the protocol has finished
//! # Ok::<(), std::io::Error>(())
//! ```
#![deny(unsafe_code)]

pub mod clock;
pub mod event_loop;
pub mod handle;
mod kerberos;
mod leading;
mod loop_state;
pub mod process;
pub mod protocol;
mod resolver;
mod selectors;
mod socket;
pub mod tls;

pub use clock::Clock;
pub use event_loop::EventLoop;
pub use grete_proto::transport::TransportAction;
pub use handle::LoopHandle;
pub use leading::CallerLoop;
pub use protocol::{NetEvent, Protocol, Waker};
pub use selectors::GateUse;
