//! TCP server: the only part of the crate with sockets, a clock and a thread.
//!
//! One thread waits for sockets, commands and the machine's deadline, steps the machine and performs its actions. What
//! the machine is asked to store is in the journal before a response of the same step is sent.
//!
//! | limit | what happens beyond it |
//! |---|---|
//! | [`Limits::connections`] | a new connection is closed at once |
//! | [`Limits::request_bytes`] | the connection is closed, as by `socket.request.max.bytes` |
//! | [`Limits::pause_reading_bytes`] | no more requests are read from the connection until the client has read responses |
//! | [`Limits::unwritten_bytes`] | the connection is closed |
//! | descriptors of the process | no connection is accepted for 100 ms, then the server tries again |
//!
//! If the journal cannot be written, the server ends: what is in memory is ahead of what is stored, and no client may
//! see it.

mod certified;
mod commands;
mod config;
mod connection;
mod event_loop;
mod listeners;
mod machine;
mod tls;
mod wall_clock;

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use grete_sys::fork;
use grete_wire::{counted, plural};
use thiserror::Error;

pub use config::{Limits, LogLines, ServerConfig};
pub use machine::Machine;
pub use tls::{DevCertificates, TlsConfig};

use crate::effects::Change;
use crate::ids::{BrokerId, Millis};
use crate::journal::{Journal, JournalError};
use commands::Shared;
use event_loop::EventLoop;
use listeners::Listeners;

/// Reason why a server does not start, or has ended.
#[derive(Debug, Error)]
pub enum ServerError {
    /// A listener cannot be opened.
    #[error("broker {broker} cannot listen on {address}: {source}; choose another port, or stop what uses this one")]
    Listen {
        /// Broker of the listener.
        broker: BrokerId,
        /// Address to listen on.
        address: SocketAddr,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// A descriptor or a thread cannot be created.
    #[error("the broker cannot start: {0}")]
    System(#[from] std::io::Error),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The server cannot serve as requested.
    #[error("{0}")]
    Prepare(String),
    /// The server has been stopped, or has ended with an error.
    #[error("the broker has ended: {0}")]
    Ended(String),
}

/// Running server. Stops at the drop.
#[derive(Debug)]
pub struct Server<M> {
    addresses: Vec<(BrokerId, SocketAddr)>,
    shared: Arc<Shared<M>>,
    /// `None` after a stop.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Fork generation of the process that has the thread.
    generation: u32,
}

impl<M: Machine> Server<M> {
    /// Opens the listeners, restores the machine from the journal, and starts the thread. `machine` gets the address of
    /// each broker. `prepare` runs on the restored machine before the first client is served. Clients may connect as
    /// soon as this function returns.
    ///
    /// # Errors
    /// A port is in use, the journal is in use or damaged, or `prepare` fails.
    pub fn start(
        config: ServerConfig,
        machine: impl FnOnce(&[(BrokerId, SocketAddr)]) -> M,
        prepare: impl FnOnce(&mut M) -> Result<(), String>,
    ) -> Result<Self, ServerError> {
        let listeners = Listeners::bind(config.host, &config.ports)?;
        let addresses = listeners.addresses();
        let mut machine = machine(&addresses);
        let journal = match &config.journal {
            Some(journal) => Some(open_journal(journal, &mut machine, &config.log)?),
            None => None,
        };
        let shared = Arc::new(Shared::new(config.log.clone())?);
        let mut event_loop = EventLoop::new(config, listeners, journal, machine, Arc::clone(&shared))?;
        event_loop.prepare(prepare).map_err(ServerError::Prepare)?;
        let thread = thread::Builder::new().name("grete-broker".into()).spawn(move || event_loop.run())?;
        Ok(Self { addresses, shared, thread: Mutex::new(Some(thread)), generation: fork::generation() })
    }

    /// Returns the addresses of the brokers.
    #[must_use]
    pub fn addresses(&self) -> &[(BrokerId, SocketAddr)] {
        &self.addresses
    }

    /// Calls `command` on the server's thread and returns its result, after its actions have been performed and its
    /// changes have been stored.
    ///
    /// # Errors
    /// The server has ended, or ends before the command was done.
    pub fn call<R: Send + 'static>(
        &self,
        command: impl FnOnce(&mut M, Millis, &mut Vec<crate::cluster::Action>) -> R + Send + 'static,
    ) -> Result<R, ServerError> {
        self.shared.call(command)
    }

    /// Stops the server and waits for the end of its thread. Written responses are flushed as far as the kernel takes
    /// them at once. A second call has no effect.
    pub fn stop(&self) {
        self.shared.stop(&self.thread, self.generation);
    }

    /// Returns the reason why the server ended by itself; `None`: the server runs, or was stopped.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.shared.failure()
    }

    /// Waits until the server has ended, for at most `timeout`. Returns whether it has.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        self.shared.wait(timeout)
    }

    /// Returns the log of the server.
    #[must_use]
    pub fn log(&self) -> &LogLines {
        self.shared.log()
    }

    /// Returns a descriptor that becomes readable when the server ends. Open as long as the server value.
    #[must_use]
    pub fn end_fd(&self) -> RawFd {
        self.shared.ended_event().as_raw_fd()
    }
}

impl<M> Drop for Server<M> {
    fn drop(&mut self) {
        self.shared.stop(&self.thread, self.generation);
    }
}

fn open_journal(
    config: &crate::journal::JournalConfig,
    machine: &mut impl Machine,
    log: &LogLines,
) -> Result<Journal, ServerError> {
    let (mut journal, replayed) = Journal::open(config, |change: Change| machine.restore(&change))?;
    let path = journal.path().display().to_string();
    if let Some((offset, bytes)) = replayed.cut {
        let (cut, were) = (counted(bytes, "byte"), plural(bytes, "was", "were"));
        log.write(&format!(
            "{path}: {cut} of an unfinished write {were} cut off at offset {offset}; none of them was acknowledged"
        ));
    }
    compact(&mut journal, machine, log);
    Ok(journal)
}

/// Compacts a journal that has grown enough. An error is logged: the journal remains usable.
fn compact(journal: &mut Journal, machine: &impl Machine, log: &LogLines) {
    if !journal.wants_compaction() {
        return;
    }
    let before = journal.len();
    match journal.compact(&machine.snapshot()) {
        Ok(true) => {
            log.write(&format!("{}: compacted from {before} to {} bytes", journal.path().display(), journal.len()));
        }
        Ok(false) => {}
        Err(error) => log.write(&format!("the journal was not compacted: {error}")),
    }
}

#[cfg(test)]
mod tests;
