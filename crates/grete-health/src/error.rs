//! Errors of this crate.

use std::io;
use std::os::fd::RawFd;

/// Error that prevents reports or probes from starting.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// The descriptor cannot be written to.
    #[error("health reports cannot go to descriptor {fd}: {error}; give the write end of an open pipe")]
    Descriptor {
        /// Number of the descriptor.
        fd: RawFd,
        /// Cause.
        error: io::Error,
    },
    /// A system call failed, or a resource is exhausted.
    #[error("{what}: {error}")]
    Os {
        /// The operation that failed, as a participle: "opening a pipe".
        what: &'static str,
        /// Cause.
        error: io::Error,
    },
}
