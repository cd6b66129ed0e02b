//! DNS resolver. `getaddrinfo` blocks without a limit, so each lookup gets a short-lived thread. Literal addresses need
//! no thread.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

use grete_proto::ids::ConnId;

use crate::protocol::Waker;

type ResolveResult = (ConnId, io::Result<Vec<SocketAddr>>);

/// Running lookups and their results.
pub(crate) struct Resolver {
    results: Arc<Mutex<Vec<ResolveResult>>>,
    waker: Waker,
}

impl Resolver {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { results: Arc::default(), waker }
    }

    /// Returns the addresses at once if `host` is a literal; otherwise [`Resolver::drain`] returns them later.
    pub(crate) fn resolve(&self, conn: ConnId, host: &str, port: u16) -> Option<io::Result<Vec<SocketAddr>>> {
        let literal = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if let Ok(ip) = literal.parse::<IpAddr>() {
            return Some(Ok(vec![SocketAddr::new(ip, port)]));
        }
        let (results, waker, host) = (Arc::clone(&self.results), self.waker.clone(), host.to_owned());
        let spawned = std::thread::Builder::new().name("grete-dns".into()).spawn(move || {
            let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((conn, addresses));
            waker.wake();
        });
        spawned.err().map(Err)
    }

    pub(crate) fn drain(&self) -> Vec<ResolveResult> {
        std::mem::take(&mut *self.results.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
