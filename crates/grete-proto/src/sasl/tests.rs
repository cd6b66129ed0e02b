use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{SaslAuthenticateResponse, SaslHandshakeResponse};
use ring::{digest, hmac, pbkdf2};

use super::authentication::{Authentication, AuthenticationAction, AuthenticationEvent};
use super::*;
use crate::secret::Secret;
use crate::time::{MILLI, SECOND};

fn with_password(mechanism: Mechanism, username: &str, password: &str) -> Arc<SaslConfig> {
    let credentials = Credentials::Password { username: username.into(), password: password.into() };
    Arc::new(SaslConfig::new(mechanism, credentials, [7; 32]))
}

fn with_tokens(store: &Arc<TokenStore>) -> Arc<SaslConfig> {
    Arc::new(SaslConfig::new(Mechanism::OAuthBearer, Credentials::Token(Arc::clone(store)), [7; 32]))
}

fn token(value: &str, extensions: &[(&str, &str)]) -> Token {
    let extensions = extensions.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Token::new(value.into(), extensions).unwrap()
}

/// An authentication and what it wants next.
struct Login {
    machine: Authentication,
}

impl Login {
    fn new(config: &Arc<SaslConfig>) -> Self {
        Self { machine: Authentication::new(Arc::clone(config), 0) }
    }

    fn step(&mut self, event: AuthenticationEvent<'_>) -> Option<AuthenticationAction> {
        let mut out = Vec::new();
        self.machine.step(0, event, &mut out);
        assert!(out.len() <= 1);
        out.pop()
    }

    /// Begins, passes SaslHandshake, and returns the first message.
    fn first(&mut self) -> String {
        assert!(matches!(self.step(AuthenticationEvent::Tick), Some(AuthenticationAction::Handshake(_))));
        match self.step(AuthenticationEvent::Handshake(SaslHandshakeResponse::default())) {
            Some(AuthenticationAction::Authenticate(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn challenge(&mut self, bytes: &[u8]) -> AuthenticationAction {
        let auth_bytes = bytes.into();
        let response = SaslAuthenticateResponse { auth_bytes, session_lifetime_ms: 60_000, ..Default::default() };
        self.step(AuthenticationEvent::Authenticate(response)).expect("an action")
    }

    fn sent(&mut self, challenge: &[u8]) -> String {
        match self.challenge(challenge) {
            AuthenticationAction::Authenticate(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn failed(&mut self, challenge: &[u8]) -> SaslError {
        match self.challenge(challenge) {
            AuthenticationAction::Failed(error) => error,
            other => panic!("{other:?}"),
        }
    }

    fn refused(&mut self, code: ErrorCode, message: &str) -> SaslError {
        let error_message = Some(message.into());
        let response = SaslAuthenticateResponse { error_code: code.0, error_message, ..Default::default() };
        match self.step(AuthenticationEvent::Authenticate(response)) {
            Some(AuthenticationAction::Failed(error)) => error,
            other => panic!("{other:?}"),
        }
    }
}

/// A server's side of SCRAM that knows the password itself.
struct Server {
    mechanism: Mechanism,
    password: Vec<u8>,
    nonce: String,
    server_first: String,
    client_first_bare: String,
}

impl Server {
    fn new(mechanism: Mechanism, password: &str) -> Self {
        let (server_first, client_first_bare) = (String::new(), String::new());
        let (password, nonce) = (password.as_bytes().to_vec(), "ServerPart".into());
        Self { mechanism, password, nonce, server_first, client_first_bare }
    }

    fn first(&mut self, client_first: &str) -> String {
        self.client_first_bare = client_first.strip_prefix("n,,").expect("no channel binding").to_owned();
        let client_nonce = self.client_first_bare.split_once(",r=").expect("a nonce").1;
        self.server_first = format!("r={client_nonce}{},s={},i=4096", self.nonce, STANDARD.encode("salt"));
        self.server_first.clone()
    }

    /// Checks the proof and returns the signature.
    fn last(&self, client_final: &str) -> String {
        let (hmac_algorithm, digest_algorithm, pbkdf2_algorithm) = match self.mechanism {
            Mechanism::ScramSha512 => (hmac::HMAC_SHA512, &digest::SHA512, pbkdf2::PBKDF2_HMAC_SHA512),
            _ => (hmac::HMAC_SHA256, &digest::SHA256, pbkdf2::PBKDF2_HMAC_SHA256),
        };
        let sign = |key: &[u8], message: &[u8]| hmac::sign(&hmac::Key::new(hmac_algorithm, key), message);
        let mut salted = vec![0; digest_algorithm.output_len()];
        let iterations = std::num::NonZeroU32::new(4096).unwrap();
        pbkdf2::derive(pbkdf2_algorithm, iterations, b"salt", &self.password, &mut salted);
        let (without_proof, proof) = client_final.split_once(",p=").expect("a proof");
        let message = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(digest_algorithm, client_key.as_ref());
        let signature = sign(stored_key.as_ref(), message.as_bytes());
        let proof = STANDARD.decode(proof).expect("base64");
        let recovered: Vec<u8> = proof.iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        assert_eq!(recovered, client_key.as_ref(), "the proof is wrong");
        format!("v={}", STANDARD.encode(sign(sign(&salted, b"Server Key").as_ref(), message.as_bytes())))
    }
}

#[test]
fn plain_sends_user_and_password_and_is_done_with_any_success() {
    let mut login = Login::new(&with_password(Mechanism::Plain, "alice", "s3cret"));
    assert_eq!(login.first(), "\0alice\0s3cret");
    let done = login.challenge(b"");
    assert!(matches!(done, AuthenticationAction::Done { session_lifetime_ms: 60_000 }), "{done:?}");
}

/// The example of RFC 7677, section 3, with its nonce.
#[test]
fn scram_sha_256_follows_the_example_of_its_rfc() {
    let config = with_password(Mechanism::ScramSha256, "user", "pencil");
    let mut exchange = scram::Scram::with_nonce(&config, "rOprNGfwEbeRWgbNEkqO");
    let server_first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    let proof = exchange.respond(&config, server_first.as_bytes()).unwrap().unwrap();
    assert_eq!(
        std::str::from_utf8(&proof).unwrap(),
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    );
    let last = exchange.respond(&config, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
    assert!(last.is_none());
}

/// P43: user names are quoted, and the combined nonce is sent once, as the server sent it.
#[test]
fn scram_quotes_user_names_and_sends_the_combined_nonce_once() {
    for mechanism in [Mechanism::ScramSha256, Mechanism::ScramSha512] {
        let mut login = Login::new(&with_password(mechanism, "a=b,c", "pass,word="));
        let mut server = Server::new(mechanism, "pass,word=");
        let first = login.first();
        assert!(first.starts_with("n,,n=a=3Db=2Cc,r="), "{first}");
        let nonce = first.rsplit("r=").next().unwrap().to_owned();
        let challenge = server.first(&first);
        let proof = login.sent(challenge.as_bytes());
        assert!(proof.starts_with(&format!("c=biws,r={nonce}ServerPart,p=")), "{proof}");
        let done = login.challenge(server.last(&proof).as_bytes());
        assert!(matches!(done, AuthenticationAction::Done { .. }), "{done:?}");
    }
}

#[test]
fn each_login_has_its_own_nonce() {
    let config = with_password(Mechanism::ScramSha256, "u", "p");
    let firsts: std::collections::BTreeSet<_> = (0..100).map(|_| Login::new(&config).first()).collect();
    assert_eq!(firsts.len(), 100);
    assert!(firsts.iter().all(|first| first.len() == "n,,n=u,r=".len() + 32));
}

#[test]
fn a_server_that_does_not_know_the_password_is_not_trusted() {
    let mut login = Login::new(&with_password(Mechanism::ScramSha256, "u", "p"));
    let mut server = Server::new(Mechanism::ScramSha256, "p");
    let challenge = server.first(&login.first());
    login.sent(challenge.as_bytes());
    let forged = format!("v={}", STANDARD.encode([9; 32]));
    assert_eq!(login.failed(forged.as_bytes()), SaslError::ServerSignature);
}

#[test]
fn what_a_hostile_server_sends_first_is_refused_before_any_hashing() {
    let long_salt = format!("r=NONCEx,s={},i=4096", STANDARD.encode(vec![1; 4000]));
    for (server_first, says) in [
        ("r=NONCE,s=c2FsdA==,i=4096", "continue"),
        ("r=other,s=c2FsdA==,i=4096", "continue"),
        ("r=NONCEx,s=c2FsdA==,i=4095", "fewer than 4096"),
        ("r=NONCEx,s=c2FsdA==,i=0", "fewer than 4096"),
        ("r=NONCEx,s=c2FsdA==,i=131073", "more than 131072"),
        ("r=NONCEx,s=c2FsdA==,i=99999999999", "number of iterations"),
        ("r=NONCEx,s=c2FsdA==,i=-1", "number of iterations"),
        ("r=NONCEx,s=,i=4096", "no salt"),
        ("r=NONCEx,s=%%%,i=4096", "no salt"),
        ("m=ext,r=NONCEx,s=c2FsdA==,i=4096", "begin with a nonce"),
        ("", "begin with a nonce"),
        (long_salt.as_str(), "longer than 4096"),
    ] {
        let mut login = Login::new(&with_password(Mechanism::ScramSha256, "u", "p"));
        let first = login.first();
        let nonce = first.rsplit("r=").next().unwrap();
        let error = login.failed(server_first.replace("NONCE", nonce).as_bytes());
        assert!(matches!(error, SaslError::Malformed { .. }), "{error:?}");
        assert!(error.to_string().contains(says), "{server_first}: {error}");
    }
    let mut login = Login::new(&with_password(Mechanism::ScramSha256, "u", "p"));
    login.first();
    assert!(login.failed(&[0xff, 0xfe]).to_string().contains("UTF-8"));
}

#[test]
fn scram_reports_the_error_of_a_server_final() {
    let mut login = Login::new(&with_password(Mechanism::ScramSha256, "u", "p"));
    let mut server = Server::new(Mechanism::ScramSha256, "p");
    let challenge = server.first(&login.first());
    login.sent(challenge.as_bytes());
    let error = login.failed(b"e=invalid-proof");
    assert!(matches!(&error, SaslError::Refused { message, .. } if &**message == "invalid-proof"), "{error:?}");
}

/// Kafka takes the bytes of a password as they are, RFC 5802 wants SASLprep: both are tried, one after the other.
#[test]
fn a_password_that_saslprep_changes_is_tried_in_both_forms() {
    let config = with_password(Mechanism::ScramSha256, "u", "\u{2168}"); // Roman numeral nine: "IX" after SASLprep
    for expected in ["\u{2168}", "IX", "\u{2168}"] {
        let mut login = Login::new(&config);
        let mut server = Server::new(Mechanism::ScramSha256, expected);
        let challenge = server.first(&login.first());
        let proof = login.sent(challenge.as_bytes());
        server.last(&proof);
        login.refused(ErrorCode::SASL_AUTHENTICATION_FAILED, "no");
    }
}

#[test]
fn oauthbearer_sends_the_token_with_its_extensions() {
    let store = Arc::new(TokenStore::default());
    store.set(token("abc.def-1", &[("logicalCluster", "lkc-1"), ("identityPoolId", "pool-2")]));
    let mut login = Login::new(&with_tokens(&store));
    let first = login.first();
    assert_eq!(first, "n,,\x01auth=Bearer abc.def-1\x01logicalCluster=lkc-1\x01identityPoolId=pool-2\x01\x01");
    assert!(matches!(login.challenge(b""), AuthenticationAction::Done { .. }));
}

#[test]
fn an_oauthbearer_error_is_confirmed_and_then_reported() {
    let store = Arc::new(TokenStore::default());
    store.set(token("expired", &[]));
    let mut login = Login::new(&with_tokens(&store));
    login.first();
    assert_eq!(login.sent(br#"{"status":"invalid_token"}"#), "\x01");
    let error = login.refused(ErrorCode::SASL_AUTHENTICATION_FAILED, "{\"status\":\"invalid_token\"}");
    let SaslError::Refused { mechanism: Mechanism::OAuthBearer, message } = &error else { panic!("{error:?}") };
    assert_eq!(&**message, r#"{"status":"invalid_token"}"#);
    assert!(error.to_string().contains("has expired"), "{error}");
    // The times of the token stand beside the broker's words.
    store.set(token("early", &[]).of_validity(Some("the token is not valid for another 60 s")));
    let mut login = Login::new(&with_tokens(&store));
    login.first();
    login.sent(b"{}");
    let error = login.refused(ErrorCode::SASL_AUTHENTICATION_FAILED, "").to_string();
    assert!(error.contains("({}; the token is not valid for another 60 s)"), "{error}");
    let mut login = Login::new(&with_tokens(&store));
    login.first();
    let error = login.refused(ErrorCode::SASL_AUTHENTICATION_FAILED, "Cannot change principals").to_string();
    assert!(error.contains("a connection keeps its user"), "{error}");
    // A server that goes on instead of ending is refused, too.
    let mut login = Login::new(&with_tokens(&store));
    login.first();
    login.sent(b"{}");
    assert!(matches!(login.failed(b"{}"), SaslError::Refused { .. }));
}

#[test]
fn a_login_waits_for_a_token_that_is_awaited_and_fails_without_one() {
    let store = Arc::new(TokenStore::default());
    let config = with_tokens(&store);
    let mut machine = Authentication::new(Arc::clone(&config), 0);
    let mut out = Vec::new();
    machine.step(SECOND, AuthenticationEvent::Tick, &mut out);
    assert!(out.is_empty());
    assert!(machine.deadline().is_none() && machine.awaits_token(), "the store wakes the network thread");
    store.set(token("t", &[]));
    machine.step(SECOND, AuthenticationEvent::Tick, &mut out);
    assert!(matches!(out.pop(), Some(AuthenticationAction::Handshake("OAUTHBEARER"))));
    assert_eq!(machine.deadline(), None);

    store.fail("the endpoint\nis down", false);
    let mut login = Login::new(&config);
    let Some(AuthenticationAction::Failed(error)) = login.step(AuthenticationEvent::Tick) else { panic!("no error") };
    assert_eq!(error, SaslError::NoToken { reason: "the endpoint\\x0ais down".into(), lasts: false });
}

#[test]
fn each_change_of_the_token_wakes_and_a_refusal_counts_for_the_present_token_alone() {
    let store = TokenStore::default();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let wake: Arc<Wake> = Arc::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    store.watch(&wake);
    let former = store.version();
    store.set(token("a", &[]));
    store.fail("down", false);
    assert_eq!((count.load(Ordering::Relaxed), store.version()), (2, former + 2));
    drop(wake);
    store.set(token("b", &[]));
    assert_eq!(count.load(Ordering::Relaxed), 2);
    store.on_refused(&token("a", &[]));
    assert!(!store.is_refused());
    store.on_refused(&token("b", &[]));
    assert!(store.is_refused());
    store.set(token("c", &[]));
    assert!(!store.is_refused());
}

/// The response to SaslHandshake may wait behind a JoinGroup: a token that was taken before could be expired.
#[test]
fn the_token_is_taken_when_the_handshake_is_answered() {
    let store = Arc::new(TokenStore::default());
    let config = with_tokens(&store);
    store.set(token("former", &[]));
    let mut login = Login::new(&config);
    assert!(matches!(login.step(AuthenticationEvent::Tick), Some(AuthenticationAction::Handshake(_))));
    store.set(token("renewed", &[]));
    let first = login.step(AuthenticationEvent::Handshake(SaslHandshakeResponse::default()));
    let Some(AuthenticationAction::Authenticate(bytes)) = first else { panic!("{first:?}") };
    assert_eq!(&bytes[..], b"n,,\x01auth=Bearer renewed\x01\x01");

    let mut login = Login::new(&config);
    login.step(AuthenticationEvent::Tick);
    store.fail("the last token has expired", false);
    let failed = login.step(AuthenticationEvent::Handshake(SaslHandshakeResponse::default()));
    let Some(AuthenticationAction::Failed(SaslError::NoToken { reason, .. })) = failed else { panic!("{failed:?}") };
    assert_eq!(&*reason, "the last token has expired");
}

#[test]
fn tokens_and_extensions_that_would_end_the_message_early_are_refused() {
    let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    assert_eq!(Token::new("".into(), vec![]), Err(TokenError::Length(0)));
    assert_eq!(Token::new("a\x01b".into(), vec![]), Err(TokenError::Character(1)));
    assert_eq!(Token::new("Bearer x".into(), vec![]), Err(TokenError::Character(6)));
    assert!(matches!(Token::new(Secret::new("a".repeat(300 << 10)), vec![]), Err(TokenError::Length(_))));
    assert!(matches!(Token::new("t".into(), pair("auth", "x")), Err(TokenError::ExtensionName(_))));
    assert!(matches!(Token::new("t".into(), pair("a=b", "x")), Err(TokenError::ExtensionName(_))));
    assert!(matches!(Token::new("t".into(), pair("a", "x\x01")), Err(TokenError::ExtensionValue(_))));
    assert_eq!(Token::new("t".into(), vec![("a".into(), "b".into()); 65]), Err(TokenError::Extensions));
}

#[test]
fn claims_are_read_from_json_web_tokens_alone() {
    let claims = |text: &str| Token::claims(&Secret::from(text));
    assert_eq!(claims("e30.eyJleHAiOjF9.c2ln").as_deref(), Some(r#"{"exp":1}"#));
    assert_eq!(claims("e30.eyJleHAiOjF9.").as_deref(), Some(r#"{"exp":1}"#));
    for other in ["", "opaque", "a.b", "a.b.c.d", "e30.!.x", "e30._w.x"] {
        assert_eq!(claims(other), None, "{other}");
    }
}

#[test]
fn errors_of_the_broker_are_told_apart() {
    let handshake = |error_code: i16, mechanisms: &[&'static str]| {
        let mut login = Login::new(&with_password(Mechanism::ScramSha512, "u", "p"));
        login.step(AuthenticationEvent::Tick);
        let mechanisms = mechanisms.iter().map(|&name| name.into()).collect();
        match login.step(AuthenticationEvent::Handshake(SaslHandshakeResponse { error_code, mechanisms })) {
            Some(AuthenticationAction::Failed(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let error = handshake(33, &["PLAIN", "OAUTH\nBEARER"]);
    assert!(error.to_string().contains("PLAIN, OAUTH\\x0aBEARER: set sasl.mechanism"), "{error}");
    assert!(error.is_permanent());
    assert_eq!(handshake(34, &[]), SaslError::IllegalState { request: "SaslHandshake" });
    assert!(!handshake(-1, &[]).is_permanent());

    let mut login = Login::new(&with_password(Mechanism::ScramSha512, "u", "p"));
    login.first();
    let error = login.refused(ErrorCode::SASL_AUTHENTICATION_FAILED, "Authentication failed.\nline two");
    let text = error.to_string();
    assert!(text.contains("(Authentication failed.\\x0aline two)") && text.contains("sasl.password"), "{text}");
    assert_eq!(error.kind(), "refused");
}

#[test]
fn an_answer_that_does_not_fit_ends_the_login() {
    let mut login = Login::new(&with_password(Mechanism::Plain, "u", "p"));
    let early = login.step(AuthenticationEvent::Authenticate(SaslAuthenticateResponse::default()));
    assert!(matches!(early, Some(AuthenticationAction::Failed(_))), "{early:?}");
    let late = login.step(AuthenticationEvent::Handshake(SaslHandshakeResponse::default()));
    assert!(matches!(late, Some(AuthenticationAction::Failed(_))), "{late:?}");
}

#[test]
fn sessions_are_renewed_between_85_and_95_percent_of_their_life() {
    let config = with_password(Mechanism::Plain, "u", "p");
    let mut renewals = std::collections::BTreeSet::new();
    for _ in 0..500 {
        let at = config.renewal(SECOND, 100_000).unwrap() - SECOND;
        assert!((85 * SECOND..=95 * SECOND).contains(&at), "{at}");
        renewals.insert(at / SECOND);
    }
    assert!(renewals.len() >= 10, "{renewals:?}");
    assert_eq!(config.renewal(SECOND, 0), None);
    assert_eq!(config.renewal(SECOND, -1), None);
    assert_eq!(config.renewal(0, 1), Some(10 * MILLI));
    assert!(config.renewal(SECOND, i64::MAX).unwrap() > SECOND);
}

/// A broker that repeats what it got, in any of its texts: no error has the password or the token.
#[test]
fn what_a_broker_repeats_of_a_secret_is_masked() {
    let password = "hunter2\u{2168}";
    let plain = STANDARD.encode(format!("\0alice\0{password}"));
    let long = format!("{}{password}", "x".repeat(295));
    for (mechanism, echo) in [
        (Mechanism::Plain, format!("bad password '{password}' for alice")),
        (Mechanism::Plain, format!("bad bytes \0alice\0{password}")),
        (Mechanism::Plain, format!("bad bytes {plain}")),
        (Mechanism::ScramSha256, "hunter2IX is not the password".to_owned()),
        (Mechanism::Plain, long),
    ] {
        for code in [ErrorCode::SASL_AUTHENTICATION_FAILED, ErrorCode::UNKNOWN_SERVER_ERROR] {
            let mut login = Login::new(&with_password(mechanism, "alice", password));
            login.first();
            let text = login.refused(code, &echo).to_string();
            assert!(
                text.contains('*') && !text.contains("hun") && !text.contains(plain.trim_end_matches('=')),
                "{text}"
            );
        }
    }
    let mut login = Login::new(&with_password(Mechanism::Plain, "alice", "abc"));
    login.first();
    let text = login.refused(ErrorCode::SASL_AUTHENTICATION_FAILED, "abc is wrong, abcd not").to_string();
    assert!(text.contains("(******** is wrong, abcd not)"), "{text}");

    let store = Arc::new(TokenStore::default());
    store.set(token("s3cret.token", &[]));
    let mut login = Login::new(&with_tokens(&store));
    login.first();
    store.set(token("another", &[])); // the token that was sent counts
    login.sent(br#"{"status":"invalid_token","token":"s3cret.token"}"#);
    let text = login.refused(ErrorCode::SASL_AUTHENTICATION_FAILED, "s3cret.token").to_string();
    assert!(text.contains("invalid_token") && !text.contains("s3cret"), "{text}");

    let mut login = Login::new(&with_password(Mechanism::ScramSha256, "u", "p4ssw0rd"));
    let mut server = Server::new(Mechanism::ScramSha256, "p4ssw0rd");
    let challenge = server.first(&login.first());
    login.sent(challenge.as_bytes());
    let text = login.failed(b"e=not p4ssw0rd").to_string();
    assert!(text.contains("not ****") && !text.contains("p4ss"), "{text}");
}

#[test]
fn no_secret_is_printed() {
    let store = Arc::new(TokenStore::default());
    store.set(token("s3cret", &[]));
    for config in [with_password(Mechanism::Plain, "alice", "s3cret"), with_tokens(&store)] {
        let mut login = Login::new(&config);
        login.first();
        let text = format!("{config:?} {:?}", login.machine);
        assert!(!text.contains("s3cret") && !text.contains("115, 51, 99"), "{text}");
    }
}

#[test]
fn a_token_is_masked_in_the_mechanisms_that_a_broker_lists() {
    let store = Arc::new(TokenStore::default());
    store.set(token("a-token-of-another-connection", &[]));
    let mut login = Login::new(&with_tokens(&store));
    assert!(matches!(login.step(AuthenticationEvent::Tick), Some(AuthenticationAction::Handshake(_))));
    let response = SaslHandshakeResponse {
        error_code: ErrorCode::UNSUPPORTED_SASL_MECHANISM.0,
        mechanisms: vec!["PLAIN".into(), "a-token-of-another-connection".into()],
    };
    let Some(AuthenticationAction::Failed(error)) = login.step(AuthenticationEvent::Handshake(response)) else {
        panic!("the mechanism is refused")
    };
    assert!(error.to_string().contains("PLAIN, ********"), "{error}");
}
