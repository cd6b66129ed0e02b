//! Kerberos by the GSSAPI library of the system, loaded at the first login.
//!
//! ```text
//! network thread --TransportAction::Gss--> worker: queue --> thread --> login: credentials, contexts --> library
//!                <------NetEvent::Gss-----         results <--
//! ```
//!
//! - `worker`: the thread, since the library blocks while it asks the KDC.
//! - `login`: the calls of each connection, in order, with one context each.
//! - `library`: the functions of the library, found by `dlopen`; the only unsafe code.
//! - `failure`: errors of the library in words, with their cures.
//!
//! Not obvious:
//! - Nothing is linked: a machine without Kerberos has no library, and clients that do not need it do not load it.
//! - The library reads its own settings: `/etc/krb5.conf`, KRB5_CONFIG, KRB5CCNAME, KRB5_TRACE.
//! - The library is never unloaded. A thread that waits for a KDC when its client is closed is left behind, and ends
//!   with its call.

mod failure;
mod library;
mod login;
mod worker;

use std::sync::Arc;

use crate::protocol::Waker;
pub(crate) use worker::Worker;

/// Returns the worker of a new client; its thread starts with the first login by Kerberos.
pub(crate) fn worker(waker: Waker) -> Worker {
    Worker::new(waker, Arc::new(|| Box::new(login::Logins::default())))
}
