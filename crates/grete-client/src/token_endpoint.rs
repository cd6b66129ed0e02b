//! Secrets of a request to a token endpoint (OAuth 2.0 client credentials, RFC 6749). Their memory is overwritten at the
//! drop; the program that sends the bytes overwrites its own.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use grete_proto::sasl::secret_in_text;
use grete_proto::secret::Secret;
use serde_json::Value;
use zeroize::{Zeroize, Zeroizing};

const PREFIX: &[u8] = b"Basic ";

/// Characters that the form of RFC 6749, section 2.3.1, leaves as they are.
const UNQUOTED: &[u8] = b"-._~";

/// Token of an endpoint, and its life in seconds; `None`: the endpoint does not say.
#[derive(Debug)]
pub struct EndpointToken {
    /// The field `access_token`.
    pub token: Secret,
    /// The field `expires_in`.
    pub expires_in: Option<f64>,
}

/// Returns the value of the header `Authorization` for a client and its secret.
#[must_use]
pub fn basic_authorization(client_id: &str, secret: &Secret) -> Zeroizing<Vec<u8>> {
    // Room for all of it, since memory that is given back keeps its bytes.
    let mut pair = Zeroizing::new(Vec::with_capacity(3 * (client_id.len() + secret.expose().len()) + 1));
    quote(client_id, &mut pair);
    pair.push(b':');
    quote(secret.expose(), &mut pair);
    let mut header = Zeroizing::new(vec![0; PREFIX.len() + pair.len().div_ceil(3) * 4]);
    if let Some((prefix, encoded)) = header.split_at_mut_checked(PREFIX.len()) {
        prefix.copy_from_slice(PREFIX);
        let written = STANDARD.encode_slice(&*pair, encoded);
        debug_assert_eq!(written, Ok(encoded.len()));
    }
    header
}

/// Returns a text of the endpoint without the client's secret, in the forms in which the endpoint has the secret.
#[must_use]
pub fn without_secret(text: &str, client_id: &str, secret: &Secret) -> String {
    let mut quoted = Zeroizing::new(Vec::with_capacity(3 * secret.expose().len()));
    quote(secret.expose(), &mut quoted);
    let header = basic_authorization(client_id, secret);
    let header = header.strip_prefix(PREFIX).unwrap_or(&header);
    let mut shown = text.to_owned();
    for form in [header, secret.expose().as_bytes(), &quoted] {
        shown = secret_in_text(&shown, std::str::from_utf8(form).unwrap_or_default());
    }
    shown
}

fn quote(text: &str, out: &mut Vec<u8>) {
    for &byte in text.as_bytes() {
        match byte {
            b' ' => out.push(b'+'),
            byte if byte.is_ascii_alphanumeric() || UNQUOTED.contains(&byte) => out.push(byte),
            byte => {
                let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0').to_ascii_uppercase() as u8;
                out.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
}

/// Reads the endpoint's answer, a JSON object in the first `length` bytes. Overwrites `answer`.
///
/// # Errors
/// Says what is wrong with the answer, and repeats nothing of it.
pub fn endpoint_token(answer: Vec<u8>, length: usize) -> Result<EndpointToken, &'static str> {
    let answer = Zeroizing::new(answer);
    let answer = answer.get(..length).unwrap_or(&answer);
    let mut value: Value = serde_json::from_slice(answer).map_err(|_| "answers something that is no JSON")?;
    let found = token_in(&mut value);
    wipe(&mut value);
    found
}

fn token_in(value: &mut Value) -> Result<EndpointToken, &'static str> {
    const NO_TOKEN: &str = "has no access_token in its answer";
    let token = match value.get_mut("access_token").map(Value::take) {
        Some(Value::String(token)) if !token.is_empty() => Secret::new(token),
        Some(mut other) => {
            wipe(&mut other);
            return Err(NO_TOKEN);
        }
        None => return Err(NO_TOKEN),
    };
    let expires_in = match value.get("expires_in") {
        None | Some(Value::Null) => None,
        Some(Value::Number(seconds)) => seconds.as_f64(),
        Some(Value::String(text)) => Some(text.trim().parse().map_err(|_| "has no number as expires_in")?),
        Some(_) => return Err("has no number as expires_in"),
    };
    Ok(EndpointToken { token, expires_in })
}

/// Overwrites the texts of an answer: there are other tokens beside the one that is used.
fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(fields) => fields.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_that_of_the_rfc() {
        let header = basic_authorization("me:1", &Secret::from("s3 cret&\u{e9}"));
        // me%3A1:s3+cret%26%C3%A9
        assert_eq!(&**header, b"Basic bWUlM0ExOnMzK2NyZXQlMjYlQzMlQTk=");
    }

    #[test]
    fn an_answer_is_a_token_or_a_reason_without_its_content() {
        let token = |answer: &str| endpoint_token(answer.into(), answer.len());
        let found = token(r#"{"access_token": "a.b\/c", "expires_in": "60", "refresh_token": "r"}"#).expect("a token");
        assert_eq!((found.token.expose(), found.expires_in), ("a.b/c", Some(60.0)));
        assert_eq!(token(r#"{"access_token": "a"}"#).expect("a token").expires_in, None);
        assert_eq!(token(r#"{"access_token": "a", "expires_in": 60}"#).expect("a token").expires_in, Some(60.0));
        for (answer, reason) in [
            ("", "no JSON"),
            ("<html>", "no JSON"),
            ("{\"access_token\": \"a\"} x", "no JSON"),
            ("[]", "no access_token"),
            ("{}", "no access_token"),
            (r#"{"access_token": ""}"#, "no access_token"),
            (r#"{"access_token": ["secret"]}"#, "no access_token"),
            (r#"{"access_token": "secret", "expires_in": "soon"}"#, "expires_in"),
            (r#"{"access_token": "secret", "expires_in": []}"#, "expires_in"),
        ] {
            let error = token(answer).expect_err(answer);
            assert!(error.contains(reason) && !error.contains("secret"), "{answer}: {error}");
        }
        assert!(endpoint_token(b"[".repeat(100_000), 100_000).is_err());
        assert!(endpoint_token(b"\xff\xfe".to_vec(), 2).is_err());
    }

    #[test]
    fn a_text_of_the_endpoint_repeats_no_secret() {
        let secret = Secret::from("s3cret&");
        for text in ["no s3cret& here", "no s3cret%26 here", "Basic bWU6czNjcmV0JTI2 is wrong"] {
            let shown = without_secret(text, "me", &secret);
            assert!(shown.contains("********"), "{shown}");
        }
    }
}
