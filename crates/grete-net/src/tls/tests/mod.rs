//! Tests of TLS against a rustls server in memory.

mod failures;
mod files;
mod peer;
mod streams;
