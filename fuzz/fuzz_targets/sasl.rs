//! A login survives each answer of a broker: no panic, bounded memory, and at the end one typed result without secrets.
#![no_main]

use std::sync::Arc;

use grete_fuzz::counting::bounded;
use grete_proto::sasl::authentication::{Authentication, AuthenticationAction, AuthenticationEvent};
use grete_proto::sasl::{Credentials, Mechanism, SaslConfig, Token, TokenStore};
use grete_wire::messages::{SaslAuthenticateResponse, SaslHandshakeResponse};
use libfuzzer_sys::fuzz_target;

/// Its first character is no hexadecimal digit: the escape of a control character before the others would complete it.
const SECRET: &str = "zecret-7261-of-alice";
const FACTOR: usize = 16;
const CAP: usize = 64 * 1024;

fuzz_target!(|data: &[u8]| {
    let Some((&[mechanism, code, lifetime], data)) = data.split_first_chunk::<3>() else { return };
    let config = config(mechanism);
    // Outside of the bound: what the decoder takes is checked by the target `messages`.
    let offer = handshake(code, data);
    bounded(data.len(), FACTOR, CAP, || {
        let mut login = Authentication::new(Arc::clone(&config));
        let mut out = Vec::new();
        login.step(0, AuthenticationEvent::Tick, &mut out);
        login.step(1, AuthenticationEvent::Handshake(offer), &mut out);
        let mut first = first_message(&out);
        // A zero byte ends each answer.
        for bytes in data.split(|byte| *byte == 0) {
            // The connection is closed now, or it is used for other requests.
            if out.iter().any(is_end) {
                break;
            }
            let answer = echoed(bytes, &first);
            let response = SaslAuthenticateResponse {
                auth_bytes: answer.as_slice().into(),
                session_lifetime_ms: i64::from(lifetime as i8) << 40,
                ..SaslAuthenticateResponse::default()
            };
            login.step(2, AuthenticationEvent::Authenticate(response), &mut out);
            first.clear();
        }
        assert!(out.iter().filter(|action| is_end(action)).count() <= 1);
        for action in &out {
            if let AuthenticationAction::Failed(error) = action {
                let text = error.to_string();
                assert!(!text.contains(SECRET), "{text}");
                assert!(!text.chars().any(char::is_control), "{text:?}");
            }
        }
    });
});

fn config(mechanism: u8) -> Arc<SaslConfig> {
    let password = || Credentials::Password { username: "alice".into(), password: SECRET.into() };
    let (mechanism, credentials) = match mechanism % 4 {
        0 => (Mechanism::Plain, password()),
        1 => (Mechanism::ScramSha256, password()),
        2 => (Mechanism::ScramSha512, password()),
        _ => {
            let store = Arc::new(TokenStore::default());
            store.set(Token::new(SECRET.into(), Vec::new()).expect("a token of plain characters"));
            (Mechanism::OAuthBearer, Credentials::Token(store))
        }
    };
    Arc::new(SaslConfig::new(mechanism, credentials, [7; 32]))
}

/// Half of the inputs are refused at once, with an error code of their own and a list of mechanisms.
fn handshake(code: u8, data: &[u8]) -> SaslHandshakeResponse<'_> {
    if code & 1 == 0 {
        return SaslHandshakeResponse::default();
    }
    let names = data.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    SaslHandshakeResponse {
        error_code: i16::from(code),
        mechanisms: names.map(Into::into).collect(),
        ..SaslHandshakeResponse::default()
    }
}

fn first_message(out: &[AuthenticationAction]) -> Vec<u8> {
    out.iter()
        .find_map(|action| match action {
            AuthenticationAction::Authenticate(bytes) => Some(bytes.to_vec()),
            _ => None,
        })
        .unwrap_or_default()
}

/// Replaces `%` in an answer by the nonce of the client, without which SCRAM would check nothing else.
fn echoed(bytes: &[u8], first: &[u8]) -> Vec<u8> {
    let nonce = first.windows(2).position(|two| two == b"r=").map_or(&[][..], |at| &first[at + 2..]);
    let mut out = Vec::with_capacity(bytes.len() + nonce.len());
    for (number, part) in bytes.splitn(2, |byte| *byte == b'%').enumerate() {
        if number > 0 {
            out.extend_from_slice(nonce);
        }
        out.extend_from_slice(part);
    }
    out
}

fn is_end(action: &AuthenticationAction) -> bool {
    matches!(action, AuthenticationAction::Done { .. } | AuthenticationAction::Failed(_))
}
