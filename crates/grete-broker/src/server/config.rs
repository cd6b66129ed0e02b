//! Settings of a server.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use super::tls::TlsConfig;
use crate::ids::BrokerId;
use crate::journal::JournalConfig;

/// Log lines that are kept for inspection.
const KEPT_LINES: usize = 1000;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Address that all brokers listen on.
    pub host: IpAddr,
    /// Brokers and their ports. 0: a free port.
    pub ports: Vec<(BrokerId, u16)>,
    /// Location of durable changes; `None`: everything is lost when the server ends.
    pub journal: Option<JournalConfig>,
    /// Limits against clients that use too much.
    pub limits: Limits,
    /// Destination of log lines.
    pub log: LogLines,
    /// TLS of all listeners; `None`: connections are not encrypted.
    pub tls: Option<TlsConfig>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            ports: vec![(1, 0)],
            journal: None,
            limits: Limits::default(),
            log: LogLines::default(),
            tls: None,
        }
    }
}

/// Limits against clients that use too much.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open connections to all brokers. Default 2,000: half of the descriptors that forked children close.
    pub connections: usize,
    /// Size of a request in bytes, `socket.request.max.bytes`. Default 100 MiB.
    pub request_bytes: usize,
    /// Unwritten bytes of responses from which on no more requests are read. Default 1 MiB.
    pub pause_reading_bytes: usize,
    /// Unwritten bytes of responses beyond which the next response closes the connection. Default 256 MiB. A single
    /// larger response is possible.
    pub unwritten_bytes: usize,
    /// Bytes in memory of unfinished requests and unread responses of all connections. Beyond it, the connection with
    /// the most is closed. Default 512 MiB.
    pub held_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2000,
            request_bytes: 100 << 20,
            pause_reading_bytes: 1 << 20,
            unwritten_bytes: 256 << 20,
            held_bytes: 512 << 20,
        }
    }
}

/// Log of a server: the last 1,000 lines, and standard error if requested. Clones share the lines.
#[derive(Debug, Clone, Default)]
pub struct LogLines {
    lines: Arc<Mutex<VecDeque<String>>>,
    to_stderr: bool,
}

impl LogLines {
    /// Creates a log. `to_stderr`: lines are also written to standard error.
    #[must_use]
    pub fn new(to_stderr: bool) -> Self {
        Self { lines: Arc::default(), to_stderr }
    }

    /// Adds a line.
    pub fn write(&self, line: &str) {
        if self.to_stderr {
            // A closed standard error is no reason to end.
            let _ = writeln!(std::io::stderr(), "grete broker: {line}");
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line.into());
    }

    /// Returns the kept lines, the oldest first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
