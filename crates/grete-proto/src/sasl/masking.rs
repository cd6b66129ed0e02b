//! Texts of a broker without the client's password or token, and the form of passwords that masking has to know.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use zeroize::Zeroizing;

use super::config::{Credentials, SaslConfig};
use super::plain;
use super::token::{Token, TokenState};

/// Replacement of a secret in a text.
const MASK: &str = "********";

/// Bytes of the shortest secret that is masked within a word. A shorter one is in many words, where the mask would show
/// it.
const MIN_MASKED_BYTES: usize = 4;

/// Returns a broker's text without the password or token, in the forms in which a broker has them: as they are, and in
/// base64, alone or in the message of PLAIN. `token`: the token of the login. The token of the store is masked, too, since
/// the broker may know it from another connection.
pub(super) fn without_secrets<'t>(config: &SaslConfig, text: &'t str, token: Option<&Token>) -> Cow<'t, str> {
    let mut secrets: Vec<Zeroizing<Vec<u8>>> = Vec::new();
    if let Credentials::Password { username, password } = config.credentials() {
        secrets.push(Zeroizing::new(password.expose().as_bytes().to_vec()));
        secrets.push(Zeroizing::new(prepare(password.expose(), true).into_owned().into_bytes()));
        secrets.push(plain::message(username, password));
    }
    if let Credentials::Token(store) = config.credentials()
        && let TokenState::Ready(current) = store.state()
    {
        secrets.push(Zeroizing::new(current.value().to_vec()));
    }
    secrets.extend(token.map(|token| Zeroizing::new(token.value().to_vec())));
    let mut shown = Cow::Borrowed(text);
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        let encoded = Zeroizing::new(STANDARD_NO_PAD.encode(&**secret));
        for form in [std::str::from_utf8(secret).unwrap_or_default(), &**encoded] {
            if !form.is_empty() && shown.contains(form) {
                shown = masked(&shown, form).into();
            }
        }
    }
    shown
}

/// Returns `text` with each occurrence of `secret` masked; a short one only where it is a word of its own.
#[must_use]
pub fn secret_in_text(text: &str, secret: &str) -> String {
    if secret.is_empty() { text.to_owned() } else { masked(text, secret) }
}

fn masked(text: &str, secret: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(secret) {
        shown.push_str(before);
        let touches = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let in_word = touches(shown.chars().next_back()) || touches(after.chars().next());
        shown.push_str(if secret.len() < MIN_MASKED_BYTES && in_word { secret } else { MASK });
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// Returns the text after SASLprep (RFC 4013) if `normalizes`; the text itself if it has forbidden characters.
pub(super) fn prepare(text: &str, normalizes: bool) -> Cow<'_, str> {
    match stringprep::saslprep(text) {
        Ok(prepared) if normalizes => prepared,
        _ => text.into(),
    }
}
