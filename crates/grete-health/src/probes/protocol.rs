//! HTTP/1.1 on the server's side of a connection, without its socket and its deadlines.
//!
//! Two drivers have the socket and the deadlines: [`Connection`](super::Connection) for the probes of a process, and the
//! Python event loop for the probes of a swarm. Python's driver also serves the control socket, which is not HTTP.

use super::request::{MAX_HEAD_BYTES, ParseOutcome, Request, parse};
use super::response::{Response, write_head};

/// State of HTTP/1.1 on one connection: received bytes in; requests and encoded responses out.
#[derive(Debug)]
pub struct HttpProtocol {
    received: Vec<u8>,
    /// The first `scanned` bytes of `received` hold no end of a request.
    scanned: usize,
    /// `received` holds bytes that were not parsed yet.
    has_unparsed: bool,
    /// The connection may take more than one request.
    persistent: bool,
    /// The request of the next response is a HEAD: the response has no body.
    head_only: bool,
    /// The connection stays open after the next response.
    keep_alive: bool,
}

impl HttpProtocol {
    /// Creates the state of a new connection. `persistent`: the connection stays open after a response, unless the peer
    /// wants otherwise.
    pub fn new(persistent: bool) -> Self {
        Self { received: Vec::new(), scanned: 0, has_unparsed: false, persistent, head_only: false, keep_alive: false }
    }

    /// Returns how many more bytes a request may have; at least 1.
    pub fn room(&self) -> usize {
        MAX_HEAD_BYTES.saturating_sub(self.received.len()).max(1)
    }

    /// Takes received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        self.has_unparsed = !self.received.is_empty();
    }

    /// Returns whether bytes wait for [`HttpProtocol::next_request`].
    pub fn has_unparsed(&self) -> bool {
        self.has_unparsed
    }

    /// Returns the next request, or the response that refuses it; `None`: the request is incomplete. The response is
    /// encoded before the next call.
    pub fn next_request(&mut self) -> Option<Result<Request, Response>> {
        self.has_unparsed = false;
        match parse(&self.received, self.scanned) {
            ParseOutcome::Incomplete => {
                self.scanned = self.received.len();
                None
            }
            ParseOutcome::Request(request, length) => {
                self.received.drain(..length);
                self.scanned = 0;
                self.has_unparsed = !self.received.is_empty();
                self.head_only = request.method == "HEAD";
                self.keep_alive = self.persistent && request.keep_alive;
                Some(Ok(request))
            }
            ParseOutcome::Invalid(refusal) => Some(Err(self.refuse(refusal))),
        }
    }

    /// Handles the end of the input. Returns the response to an incomplete request; `None`: no request has begun. Load
    /// balancers check in this way whether a port is open.
    pub fn on_eof(&mut self) -> Option<Response> {
        let begun = !self.received.is_empty();
        begun.then(|| self.refuse(Response::error(400, "the request ends in its middle")))
    }

    /// Handles the timeout of a request. Returns the response to an incomplete request; `None`: no request has begun.
    pub fn on_timeout(&mut self) -> Option<Response> {
        let begun = !self.received.is_empty();
        begun.then(|| self.refuse(Response::error(408, "the request was not complete in time")))
    }

    /// Appends the response to the last request to `out`. Returns whether the connection stays open; if not, the rest
    /// of the input is dropped.
    pub fn encode(&mut self, status: u16, content_type: &str, body: &[u8], out: &mut Vec<u8>) -> bool {
        write_head(out, status, content_type, body.len(), self.keep_alive);
        if !self.head_only {
            out.extend_from_slice(body);
        }
        if !self.keep_alive {
            self.received = Vec::new();
            self.has_unparsed = false;
        }
        self.keep_alive
    }

    /// Prepares for a response that ends the connection: the begin of the next request is unknown.
    fn refuse(&mut self, refusal: Response) -> Response {
        (self.head_only, self.keep_alive) = (false, false);
        refusal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respond(http: &mut HttpProtocol, request: &[u8]) -> (bool, String) {
        http.feed(request);
        let (status, body) = match http.next_request() {
            Some(Ok(_)) => (405, b"no".to_vec()),
            Some(Err(refusal)) => (refusal.status, refusal.body),
            None => panic!("incomplete"),
        };
        let mut out = Vec::new();
        let open = http.encode(status, "text/plain", &body, &mut out);
        (open, String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn a_response_to_head_has_the_length_of_the_body_and_no_body() {
        let mut http = HttpProtocol::new(true);
        let (open, whole) = respond(&mut http, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(open && whole.starts_with("HTTP/1.1 405 Method Not Allowed\r\n") && whole.ends_with("\r\n\r\nno"));
        assert!(whole.contains("\r\nAllow: GET, HEAD\r\n") && whole.contains("\r\nConnection: keep-alive\r\n"));
        let (open, head) = respond(&mut http, b"HEAD / HTTP/1.0\r\n\r\n");
        assert!(!open && head.ends_with("\r\nConnection: close\r\n\r\n"));
        assert!(head.contains("\r\nContent-Length: 2\r\n") && whole.contains("\r\nContent-Length: 2\r\n"));
    }

    #[test]
    fn a_connection_for_one_request_ends_after_it() {
        let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2);
        let mut http = HttpProtocol::new(false);
        let (open, response) = respond(&mut http, &get);
        assert!(!open && response.contains("\r\nConnection: close\r\n") && !http.has_unparsed());
        assert!(HttpProtocol::new(true).on_eof().is_none() && HttpProtocol::new(true).on_timeout().is_none());
    }

    #[test]
    fn a_refusal_after_a_head_has_a_body_and_ends_the_connection() {
        let mut http = HttpProtocol::new(true);
        assert!(respond(&mut http, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").0);
        let (open, refusal) = respond(&mut http, b"GET /\r\n\r\n");
        assert!(!open && refusal.starts_with("HTTP/1.1 400 ") && refusal.ends_with("}\n"), "{refusal}");
    }
}
