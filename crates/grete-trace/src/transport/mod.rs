//! Transport to the agent.
//!
//! - `sender`: the background thread, its retries, and the classification of responses.
//! - `connection`: persistent HTTP connection over TCP or a Unix socket.
//! - `http_response`: parser of responses.
//! - `backoff`, `retry_after`: delays between attempts.

pub(super) mod backoff;
pub(super) mod connection;
pub(super) mod http_response;
pub(super) mod retry_after;
pub(super) mod sender;
