//! Tests of GSSAPI with a library that is made up: its context is complete after any number of tokens.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{SaslAuthenticateResponse, SaslHandshakeResponse};

use super::authentication::{Authentication, AuthenticationAction, AuthenticationEvent};
use super::*;

fn config() -> Arc<SaslConfig> {
    let kerberos = KerberosConfig { service: "kafka".into(), ..KerberosConfig::default() };
    Arc::new(SaslConfig::new(Mechanism::Gssapi, Credentials::Kerberos(Arc::new(kerberos)), [7; 32]))
}

/// A login, up to its first call of the library.
struct Login(Authentication);

impl Login {
    fn begin() -> (Self, GssCall) {
        let mut login = Self(Authentication::new(config(), 0));
        let handshake = login.step(AuthenticationEvent::Tick);
        assert!(matches!(handshake, AuthenticationAction::Handshake("GSSAPI")), "{handshake:?}");
        let call = login.call(AuthenticationEvent::Handshake(SaslHandshakeResponse::default()));
        (login, call)
    }

    fn step(&mut self, event: AuthenticationEvent<'_>) -> AuthenticationAction {
        let mut out = Vec::new();
        self.0.step(0, event, &mut out);
        assert_eq!(out.len(), 1, "{out:?}");
        out.remove(0)
    }

    fn call(&mut self, event: AuthenticationEvent<'_>) -> GssCall {
        match self.step(event) {
            AuthenticationAction::Call(call) => {
                assert!(self.0.awaits_library() && self.0.deadline().is_none());
                call
            }
            other => panic!("{other:?}"),
        }
    }

    fn sent(&mut self, answer: GssAnswer) -> Vec<u8> {
        match self.step(AuthenticationEvent::Gss(Ok(answer))) {
            AuthenticationAction::Authenticate(bytes) => {
                assert!(!self.0.awaits_library());
                bytes.to_vec()
            }
            other => panic!("{other:?}"),
        }
    }

    fn failed(&mut self, event: AuthenticationEvent<'_>) -> SaslError {
        match self.step(event) {
            AuthenticationAction::Failed(error) => error,
            other => panic!("{other:?}"),
        }
    }

    /// Goes on until the library reads the offer of layers.
    fn offered(&mut self) {
        assert_eq!(self.sent(token(b"", true)), b"");
        assert_eq!(self.call(response(b"sealed")), GssCall::Unwrap(b"sealed".to_vec()));
    }
}

fn token(bytes: &[u8], is_complete: bool) -> GssAnswer {
    GssAnswer::Token { token: bytes.to_vec(), is_complete }
}

fn response(bytes: &[u8]) -> AuthenticationEvent<'_> {
    let auth_bytes = bytes.into();
    AuthenticationEvent::Authenticate(SaslAuthenticateResponse {
        auth_bytes,
        session_lifetime_ms: 60_000,
        ..Default::default()
    })
}

/// The messages of RFC 4752, section 3.1, in their order.
#[test]
fn context_tokens_come_first_and_then_the_choice_of_no_layer() {
    let (mut login, call) = Login::begin();
    let GssCall::Begin(kerberos) = call else { panic!("{call:?}") };
    assert_eq!(kerberos.service, "kafka");
    assert_eq!(login.sent(token(b"ap-req", false)), b"ap-req");
    assert_eq!(login.call(response(b"ap-rep")), GssCall::Step(b"ap-rep".to_vec()));
    assert_eq!(login.sent(token(b"", true)), b"", "a complete context confirms without a token");
    assert_eq!(login.call(response(b"sealed")), GssCall::Unwrap(b"sealed".to_vec()));
    let offer = GssAnswer::Unwrapped(vec![7, 0, 16, 0]);
    assert_eq!(login.call(AuthenticationEvent::Gss(Ok(offer))), GssCall::Wrap(vec![1, 0, 0, 0]));
    assert_eq!(login.sent(GssAnswer::Wrapped(b"chosen".to_vec())), b"chosen");
    let done = login.step(response(b""));
    assert!(matches!(done, AuthenticationAction::Done { session_lifetime_ms: 60_000 }), "{done:?}");
}

#[test]
fn a_context_may_need_more_tokens_and_ends_with_one_of_the_client() {
    let (mut login, _) = Login::begin();
    for round in 0..3_u8 {
        assert_eq!(login.sent(token(&[round], false)), [round]);
        login.call(response(b"more"));
    }
    assert_eq!(login.sent(token(b"last", true)), b"last");
    assert_eq!(login.call(response(b"sealed")), GssCall::Unwrap(b"sealed".to_vec()));
}

#[test]
fn a_context_that_does_not_end_fails() {
    let (mut login, _) = Login::begin();
    for _ in 0..7 {
        login.sent(token(b"t", false));
        login.call(response(b"more"));
    }
    login.sent(token(b"t", false));
    let error = login.failed(response(b"more"));
    assert!(error.to_string().contains("does not end"), "{error}");
}

/// A success before the broker has proved its identity is none: anyone could send it.
#[test]
fn a_broker_that_ends_early_is_not_trusted() {
    let (mut login, _) = Login::begin();
    login.sent(token(b"ap-req", false));
    let error = login.failed(response(b""));
    assert!(error.to_string().contains("before the broker has proved who it is"), "{error}");
    // An empty offer has no signature: the library refuses it.
    let (mut login, _) = Login::begin();
    login.sent(token(b"ap-req", true));
    assert_eq!(login.call(response(b"")), GssCall::Unwrap(Vec::new()));
}

#[test]
fn an_offer_of_layers_that_cannot_be_used_is_named() {
    for (offer, says) in [
        (&[][..], "4 bytes"),
        (&[1, 0, 0], "4 bytes"),
        (&[1, 0, 0, 0, 0], "4 bytes"),
        (&[6, 0, 16, 0], "sasl.qop"),
        (&[0, 0, 0, 0], "SASL_SSL"),
    ] {
        let (mut login, _) = Login::begin();
        login.offered();
        let error = login.failed(AuthenticationEvent::Gss(Ok(GssAnswer::Unwrapped(offer.to_vec()))));
        assert!(matches!(error, SaslError::Malformed { mechanism: Mechanism::Gssapi, .. }), "{error:?}");
        assert!(error.to_string().contains(says), "{offer:?}: {error}");
    }
}

#[test]
fn bytes_and_answers_that_do_not_fit_fail() {
    let long = vec![0; (512 << 10) + 1];
    let (mut login, _) = Login::begin();
    login.sent(token(b"ap-req", false));
    assert!(login.failed(response(&long)).to_string().contains("512 KiB"));

    let (mut login, _) = Login::begin();
    assert!(login.failed(response(b"early")).to_string().contains("not asked for"));

    for answer in [GssAnswer::Unwrapped(vec![1, 0, 0, 0]), GssAnswer::Wrapped(vec![1]), token(b"", false)] {
        let (mut login, _) = Login::begin();
        let error = login.failed(AuthenticationEvent::Gss(Ok(answer)));
        assert!(matches!(error, SaslError::Malformed { .. }), "{error:?}");
    }

    let plain = Credentials::Password { username: "u".into(), password: "p".into() };
    let plain = SaslConfig::new(Mechanism::Plain, plain, [7; 32]);
    let mut login = Login(Authentication::new(Arc::new(plain), 0));
    login.step(AuthenticationEvent::Tick);
    login.step(AuthenticationEvent::Handshake(SaslHandshakeResponse::default()));
    let error = login.failed(AuthenticationEvent::Gss(Ok(token(b"t", true))));
    assert!(matches!(error, SaslError::IllegalState { .. }), "{error:?}");
}

#[test]
fn a_failure_of_the_library_is_the_error_of_the_login() {
    let failure = KerberosFailure { kind: KerberosFailureKind::NoTicket, message: "no ticket: run kinit".into() };
    let (mut login, _) = Login::begin();
    let error = login.failed(AuthenticationEvent::Gss(Err(failure)));
    assert_eq!(error.to_string(), "no login by Kerberos: no ticket: run kinit");
    assert!(error.is_permanent() && error.kind() == "kerberos");
}

#[test]
fn a_refusal_of_the_broker_names_where_to_look() {
    let (mut login, _) = Login::begin();
    login.sent(token(b"ap-req", false));
    let error = login.failed(AuthenticationEvent::Authenticate(SaslAuthenticateResponse {
        error_code: ErrorCode::SASL_AUTHENTICATION_FAILED.0,
        error_message: Some("Authentication failed".into()),
        ..Default::default()
    }));
    let text = error.to_string();
    assert!(text.contains("GSSAPI (Authentication failed)") && text.contains("keytab"), "{text}");
}
