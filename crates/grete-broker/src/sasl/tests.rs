use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use grete_wire::{ApiKey, ErrorCode};
use ring::{digest, hmac, pbkdf2};

use super::session::{Answer, SaslSession};
use super::{SaslConfig, Users};
use crate::ids::Millis;

const NOW: Millis = 1_700_000_000_000;

fn config() -> SaslConfig {
    let mut users = Users::default();
    users.set("alice", "secret", 1);
    users.set("b=o,b", "pass\0word", 2);
    SaslConfig::new(users)
}

fn begun(config: &SaslConfig, mechanism: &str) -> SaslSession {
    let mut session = SaslSession::default();
    session.handshake(config, NOW, mechanism).expect("a mechanism");
    session
}

fn refused(answer: Answer) -> String {
    match answer {
        Answer::Failed(ErrorCode::SASL_AUTHENTICATION_FAILED, message) => message,
        other => panic!("{other:?}"),
    }
}

fn logged_in(answer: Answer) -> (Vec<u8>, Millis) {
    match answer {
        Answer::LoggedIn { bytes, lifetime_ms } => (bytes, lifetime_ms),
        other => panic!("{other:?}"),
    }
}

/// The client's last message for SCRAM-SHA-256, calculated apart from the server's code, and the signature to expect.
fn proof(password: &str, client_first_bare: &str, server_first: &str) -> (String, String) {
    let part = |name: &str| server_first.split(',').find_map(|part| part.strip_prefix(name)).unwrap().to_owned();
    let (nonce, salt) = (part("r="), STANDARD.decode(part("s=")).unwrap());
    let iterations = part("i=").parse().unwrap();
    let mut salted = [0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password.as_bytes(), &mut salted);
    let sign = |key: &[u8], message: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    let without_proof = format!("c=biws,r={nonce}");
    let message = format!("{client_first_bare},{server_first},{without_proof}");
    let client_key = sign(&salted, b"Client Key");
    let signature = sign(digest::digest(&digest::SHA256, client_key.as_ref()).as_ref(), message.as_bytes());
    let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
    let expected = sign(sign(&salted, b"Server Key").as_ref(), message.as_bytes());
    (format!("{without_proof},p={}", STANDARD.encode(proof)), format!("v={}", STANDARD.encode(expected)))
}

fn scram(name: &str, password: &str, tamper: impl FnOnce(String) -> String) -> Answer {
    let config = config();
    let mut session = begun(&config, "SCRAM-SHA-256");
    let bare = format!("n={name},r=clientnonce");
    let first = session.authenticate(&config, NOW, "servernonce", format!("n,,{bare}").as_bytes());
    let server_first = match first {
        Answer::Challenge(bytes) => String::from_utf8(bytes).unwrap(),
        other => return other,
    };
    assert!(server_first.starts_with("r=clientnonceservernonce,s="), "{server_first}");
    let (last, signature) = proof(password, &bare, &server_first);
    let answer = session.authenticate(&config, NOW, "unused", tamper(last).as_bytes());
    if let Answer::LoggedIn { bytes, .. } = &answer {
        assert_eq!(String::from_utf8_lossy(bytes), signature);
    }
    answer
}

#[test]
fn plain_takes_the_right_password_only() {
    let config = config();
    let plain = |bytes: &[u8]| begun(&config, "PLAIN").authenticate(&config, NOW, "n", bytes);
    assert_eq!(logged_in(plain(b"\0alice\0secret")), (vec![], 0));
    assert_eq!(logged_in(plain(b"alice\0alice\0secret")), (vec![], 0));
    for wrong in
        [&b"\0alice\0Secret"[..], b"\0bob\0secret", b"bob\0alice\0secret", b"", b"\0alice", b"\0alice\0secret\0"]
    {
        assert!(refused(plain(wrong)).contains("Invalid username or password"));
    }
}

#[test]
fn scram_proves_both_sides_and_refuses_every_change() {
    logged_in(scram("alice", "secret", |last| last));
    logged_in(scram("b=3Do=2Cb", "pass\0word", |last| last));
    refused(scram("alice", "wrong", |last| last));
    refused(scram("nobody", "secret", |last| last));
    refused(scram("b=3Xob", "secret", |last| last));
    refused(scram("alice", "secret", |last| last.replace("servernonce", "servernoncf")));
    refused(scram("alice", "secret", |last| last.replace("c=biws", "c=eSws")));
    refused(scram("alice", "secret", |last| last.replace(",p=", ",p=AAAA")));
    refused(scram("alice", "secret", |_| String::new()));
}

fn bearer(claims: &str) -> Vec<u8> {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("n,,\x01auth=Bearer {}.{}.\x01\x01", encode(r#"{"alg":"none"}"#), encode(claims)).into_bytes()
}

#[test]
fn bearer_tokens_end_sessions_and_errors_are_confirmed_by_the_client() {
    let config = config();
    let mut session = begun(&config, "OAUTHBEARER");
    let valid = bearer(r#"{"sub":"alice","iat":1699999990,"exp":1700000060.5}"#);
    assert_eq!(logged_in(session.authenticate(&config, NOW, "n", &valid)), (vec![], 60_500));
    assert!(session.check(ApiKey::Metadata, NOW + 60_499).is_ok());
    assert!(session.check(ApiKey::Metadata, NOW + 60_500).unwrap_err().contains("session had ended"));
    for wrong in [
        &bearer(r#"{"sub":"alice","exp":1700000000}"#)[..],
        &bearer(r#"{"sub":"alice","iat":1700000001,"exp":1800000000}"#),
        &bearer(r#"{"sub":"","exp":1800000000}"#),
        &bearer(r#"{"exp":1800000000}"#),
        &bearer(r#"{"sub":"alice","exp":"soon"}"#),
        b"n,,\x01auth=Bearer x\x01\x01",
        b"\xff",
    ] {
        let mut session = begun(&config, "OAUTHBEARER");
        let Answer::Challenge(error) = session.authenticate(&config, NOW, "n", wrong) else { panic!("accepted") };
        assert_eq!(error, br#"{"status":"invalid_token"}"#);
        assert_eq!(refused(session.authenticate(&config, NOW, "n", b"\x01")), r#"{"status":"invalid_token"}"#);
    }
}

/// P34: nothing but SaslAuthenticate between SaslHandshake and the end of the login, before and during a session.
#[test]
fn requests_are_allowed_as_kafka_allows_them() {
    let mut config = config();
    config.max_reauth_ms = 10_000;
    let mut session = SaslSession::default();
    assert!(session.check(ApiKey::ApiVersions, NOW).is_ok());
    assert!(session.check(ApiKey::Metadata, NOW).unwrap_err().contains("expects SASL"));
    for start in [NOW, NOW + 1000, NOW + 2000] {
        session.handshake(&config, start, "PLAIN").unwrap();
        assert!(session.check(ApiKey::Metadata, start).unwrap_err().contains("between SaslHandshake"));
        assert!(session.check(ApiKey::SaslAuthenticate, start).is_ok());
        assert_eq!(logged_in(session.authenticate(&config, start, "n", b"\0alice\0secret")).1, 10_000);
        assert!(session.check(ApiKey::Fetch, start + 9_999).is_ok());
        assert!(session.check(ApiKey::Fetch, start + 10_000).is_err());
        assert!(session.check(ApiKey::SaslHandshake, start + 20_000).is_ok(), "a late login is still a login");
    }
    // Kafka's brokers take a new login once a second, but the first one at once. The session goes on.
    assert_eq!(session.handshake(&config, NOW + 2999, "PLAIN"), Err(ErrorCode::ILLEGAL_SASL_STATE));
    assert!(session.check(ApiKey::Fetch, NOW + 2999).is_ok());
    let again = session.authenticate(&config, NOW, "n", b"\0alice\0secret");
    assert!(matches!(again, Answer::Failed(ErrorCode::ILLEGAL_SASL_STATE, _)), "{again:?}");
}

#[test]
fn a_session_keeps_its_user_and_mechanism() {
    let mut config = config();
    config.max_reauth_ms = 10_000;
    config.users.set("carol", "secret", 3);
    let mut session = begun(&config, "PLAIN");
    logged_in(session.authenticate(&config, NOW, "n", b"\0alice\0secret"));
    session.handshake(&config, NOW, "PLAIN").unwrap();
    assert!(refused(session.authenticate(&config, NOW, "n", b"\0carol\0secret")).contains("change principals"));
    let mut session = begun(&config, "PLAIN");
    logged_in(session.authenticate(&config, NOW, "n", b"\0alice\0secret"));
    assert_eq!(session.handshake(&config, NOW, "SCRAM-SHA-256"), Err(ErrorCode::SASL_AUTHENTICATION_FAILED));
    config.max_reauth_ms = 0;
    let mut session = begun(&config, "PLAIN");
    logged_in(session.authenticate(&config, NOW, "n", b"\0alice\0secret"));
    let endless = session.handshake(&config, NOW, "PLAIN");
    assert_eq!(endless, Err(ErrorCode::ILLEGAL_SASL_STATE), "a session without an end is not renewed");
    config.mechanisms.retain(|name| *name != "PLAIN");
    assert_eq!(SaslSession::default().handshake(&config, NOW, "PLAIN"), Err(ErrorCode::UNSUPPORTED_SASL_MECHANISM));
}

#[test]
fn passwords_are_neither_kept_nor_printed() {
    let config = config();
    let text = format!("{config:?}");
    assert!(text.contains("alice") && !text.contains("secret") && !text.contains("115, 101, 99"), "{text}");
}
