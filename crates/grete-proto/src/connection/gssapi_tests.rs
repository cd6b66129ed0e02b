//! Logins of a connection by GSSAPI, whose library answers late or never, on a virtual clock.

use std::collections::BTreeMap;

use grete_wire::messages::{MetadataRequest, MetadataResponse, SaslAuthenticateResponse, SaslHandshakeResponse};

use super::*;
use crate::cluster::test_cluster::{ReceivedRequest, api_versions};
use crate::ids::ConnId;
use crate::request::RequestOwner;
use crate::sasl::{
    Credentials, GssAnswer, KerberosConfig, KerberosFailure, KerberosFailureKind, Mechanism, SaslConfig, SaslError,
};
use crate::time::MILLI;

const SETUP: Nanos = 10 * SECOND;
const SESSION_MS: i64 = 60_000;

/// A connection, with what it asked of the broker and of the library.
struct Line {
    conn: Connection,
    now: Nanos,
    asked: Vec<ReceivedRequest>,
    calls: Vec<GssCall>,
    replies: Vec<u32>,
    is_ready: bool,
    closed: Option<CloseReason>,
}

impl Line {
    fn new() -> Self {
        let kerberos = KerberosConfig { service: "kafka".into(), ..KerberosConfig::default() };
        let sasl = SaslConfig::new(Mechanism::Gssapi, Credentials::Kerberos(Arc::new(kerberos)), [3; 32]);
        let config = ConnConfig { sasl: Some(Arc::new(sasl)), ..ConnConfig::default() };
        let conn = Connection::new(Arc::new(config), 0, SETUP);
        let (asked, calls, replies) = (Vec::new(), Vec::new(), Vec::new());
        let mut line = Self { conn, now: 0, asked, calls, replies, is_ready: false, closed: None };
        line.act(|conn, now, out| conn.on_connected(now, out));
        let versions = api_versions(&BTreeMap::new());
        line.answer(ApiKey::ApiVersions, |version, out| versions.encode(version, out));
        line
    }

    fn act(&mut self, act: impl FnOnce(&mut Connection, Nanos, &mut Vec<ConnAction>)) {
        let mut out = Vec::new();
        act(&mut self.conn, self.now, &mut out);
        for action in out {
            match action {
                ConnAction::Write(bytes) => self.asked.push(ReceivedRequest::parse(ConnId(0), &bytes.to_vec())),
                ConnAction::Gss(call) => self.calls.push(call),
                ConnAction::Reply(token, result) => {
                    assert!(result.is_ok() || self.now > 0, "{result:?}");
                    self.replies.push(token.id);
                }
                ConnAction::Ready => self.is_ready = true,
                ConnAction::Throttled(_) => {}
                ConnAction::Close(reason) => self.closed = Some(reason),
            }
        }
    }

    fn answer(&mut self, api: ApiKey, body: impl FnOnce(i16, &mut Vec<u8>) -> Result<(), WireError>) {
        let asked = self.asked.remove(0);
        assert_eq!(asked.api, api);
        let frame = asked.encode_response(body);
        self.act(|conn, now, out| conn.on_frame(now, frame, out));
    }

    fn handshake(&mut self) {
        self.answer(ApiKey::SaslHandshake, |version, out| SaslHandshakeResponse::default().encode(version, out));
    }

    fn token(&mut self, bytes: &[u8]) {
        let auth_bytes = bytes.into();
        let session_lifetime_ms = SESSION_MS;
        let response = SaslAuthenticateResponse { auth_bytes, session_lifetime_ms, ..Default::default() };
        self.answer(ApiKey::SaslAuthenticate, |version, out| response.encode(version, out));
    }

    fn gss(&mut self, answer: GssAnswer) {
        assert_eq!(self.calls.len(), 1);
        self.calls.clear();
        self.act(|conn, now, out| conn.on_gss(now, Ok(answer), out));
    }

    /// Answers all calls and requests of a login.
    fn log_in(&mut self) {
        self.handshake();
        self.gss(GssAnswer::Token { token: b"ap-req".to_vec(), is_complete: false });
        self.token(b"ap-rep");
        self.gss(GssAnswer::Token { token: Vec::new(), is_complete: true });
        self.token(b"sealed");
        self.gss(GssAnswer::Unwrapped(vec![1, 0, 0, 0]));
        self.gss(GssAnswer::Wrapped(b"chosen".to_vec()));
        self.token(b"");
    }

    fn tick_at(&mut self, now: Nanos) {
        self.now = now;
        self.act(|conn, now, out| conn.on_tick(now, out));
    }

    fn send(&mut self, id: u32) {
        let request = Request::Metadata(MetadataRequest { topics: Some(vec![]), ..Default::default() });
        let token = Token { owner: RequestOwner::Client, id };
        self.act(|conn, now, out| conn.send(now, request, token, 30 * SECOND, out));
    }
}

#[test]
fn requests_wait_for_the_login_and_for_each_new_one() {
    let mut line = Line::new();
    line.send(1);
    line.log_in();
    assert!(line.is_ready);
    line.answer(ApiKey::Metadata, |version, out| MetadataResponse::default().encode(version, out));
    assert_eq!(line.replies, [1]);

    for round in 2..5 {
        let renewal = line.conn.deadline().expect("the session ends");
        assert!(renewal > line.now + 50 * SECOND && renewal < line.now + 58 * SECOND);
        line.tick_at(renewal);
        line.handshake();
        assert!(matches!(line.calls[..], [GssCall::Begin(_)]), "{:?}", line.calls);
        line.send(round);
        line.tick_at(line.now + SECOND);
        assert!(line.asked.is_empty() && line.closed.is_none(), "nothing is sent while the library works");
        line.gss(GssAnswer::Token { token: b"ap-req".to_vec(), is_complete: true });
        line.token(b"sealed");
        line.gss(GssAnswer::Unwrapped(vec![1, 0, 0, 0]));
        line.gss(GssAnswer::Wrapped(b"chosen".to_vec()));
        line.token(b"");
        line.answer(ApiKey::Metadata, |version, out| MetadataResponse::default().encode(version, out));
    }
    assert_eq!(line.replies, [1, 2, 3, 4]);
}

/// A KDC that does not answer: the connection ends by its own deadline, at the first login and at a new one.
#[test]
fn a_library_that_does_not_answer_ends_the_connection_with_the_reason() {
    let named = |line: &Line| {
        let Some(CloseReason::Sasl(SaslError::Kerberos(failure))) = &line.closed else { panic!("{:?}", line.closed) };
        assert_eq!(failure.kind, KerberosFailureKind::KdcUnreachable);
        assert!(failure.message.contains("within 10000 ms") && failure.message.contains("KDC"), "{failure}");
    };
    let mut line = Line::new();
    line.handshake();
    assert_eq!(line.conn.deadline(), Some(SETUP));
    line.tick_at(SETUP - MILLI);
    assert!(line.closed.is_none());
    line.tick_at(SETUP);
    named(&line);
    // The answer that comes too late changes nothing.
    line.act(|conn, now, out| conn.on_gss(now, Ok(GssAnswer::Wrapped(Vec::new())), out));
    assert!(line.asked.is_empty());

    let mut line = Line::new();
    line.log_in();
    let renewal = line.conn.deadline().expect("the session ends");
    line.tick_at(renewal);
    line.handshake();
    assert_eq!(line.conn.deadline(), Some(renewal + SETUP));
    line.tick_at(renewal + SETUP);
    named(&line);
}

#[test]
fn a_failure_of_the_library_closes_the_connection() {
    let mut line = Line::new();
    line.handshake();
    let failure = KerberosFailure { kind: KerberosFailureKind::NoTicket, message: "no ticket: run kinit".into() };
    line.act(|conn, now, out| conn.on_gss(now, Err(failure.clone()), out));
    assert_eq!(line.closed, Some(CloseReason::Sasl(SaslError::Kerberos(failure))));
}
