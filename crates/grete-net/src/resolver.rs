//! Host names to addresses. `getaddrinfo` blocks for as long as it likes, so each look-up gets a short-lived thread;
//! literal addresses need none.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

use grete_core::ids::ConnId;

use crate::protocol::Waker;

type Answer = (ConnId, io::Result<Vec<SocketAddr>>);

/// Look-ups under way and their answers.
pub(crate) struct Resolver {
    answers: Arc<Mutex<Vec<Answer>>>,
    waker: Waker,
}

impl Resolver {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { answers: Arc::default(), waker }
    }

    /// The addresses at once if `host` is a literal; otherwise they come through [`Resolver::take`].
    pub(crate) fn look_up(&self, conn: ConnId, host: &str, port: u16) -> Option<io::Result<Vec<SocketAddr>>> {
        let literal = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if let Ok(ip) = literal.parse::<IpAddr>() {
            return Some(Ok(vec![SocketAddr::new(ip, port)]));
        }
        let (answers, waker, host) = (Arc::clone(&self.answers), self.waker.clone(), host.to_owned());
        let spawned = std::thread::Builder::new().name("grete-dns".into()).spawn(move || {
            let answer = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            answers.lock().unwrap_or_else(PoisonError::into_inner).push((conn, answer));
            waker.wake();
        });
        spawned.err().map(Err)
    }

    pub(crate) fn take(&self) -> Vec<Answer> {
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
