//! OAUTHBEARER (RFC 7628): one message with the token; an error of the server comes as JSON and is confirmed.

use zeroize::Zeroizing;

use super::token::Token;

/// Answer to the server's error, after which the server ends the exchange.
pub(super) const CONFIRMATION: &[u8] = &[1];

/// Returns the first message: no channel binding, the token, and the extensions (KIP-342).
pub(super) fn message(token: &Token) -> Zeroizing<Vec<u8>> {
    let extensions: usize = token.extensions().iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    let mut bytes = Zeroizing::new(Vec::with_capacity(token.value().len() + extensions + 32));
    bytes.extend_from_slice(b"n,,\x01auth=Bearer ");
    bytes.extend_from_slice(token.value());
    bytes.push(1);
    for (name, value) in token.extensions() {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(1);
    }
    bytes.push(1);
    bytes
}
