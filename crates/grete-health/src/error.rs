//! What keeps health from being told.

use std::io;
use std::os::fd::RawFd;

/// What keeps health from being told.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// Nothing can be written there.
    #[error("health reports cannot go to descriptor {fd}: {error}; give the write end of an open pipe")]
    Descriptor {
        /// Which one.
        fd: RawFd,
        /// Why.
        error: io::Error,
    },
    /// The system has none to give.
    #[error("{what}: {error}")]
    Os {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        error: io::Error,
    },
}
