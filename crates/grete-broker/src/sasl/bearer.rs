//! OAUTHBEARER with unsecured JSON web tokens (RFC 7515, appendix A.5), which Kafka accepts for development, too.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::ids::Millis;

/// Maximum bytes of a token that is read.
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// Token that was accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AcceptedToken {
    /// Claim `sub`.
    pub(super) principal: String,
    /// Claim `exp`.
    pub(super) expires_at: Millis,
}

/// Handles the only message of the client. The error is the JSON that the client gets.
pub(super) fn accept(message: &[u8], now: Millis) -> Result<AcceptedToken, String> {
    read(message, now).ok_or_else(|| r#"{"status":"invalid_token"}"#.to_owned())
}

fn read(message: &[u8], now: Millis) -> Option<AcceptedToken> {
    let text = std::str::from_utf8(message).ok().filter(|text| text.len() <= MAX_TOKEN_BYTES)?;
    let (header, fields) = text.split_once('\x01')?;
    if !header.starts_with("n,") {
        return None;
    }
    let token = fields.split('\x01').find_map(|field| field.strip_prefix("auth="))?;
    let (scheme, token) = token.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut parts = token.split('.');
    let header = json(parts.next()?)?;
    let claims = json(parts.next()?)?;
    let is_unsecured = header.get("alg")?.as_str()? == "none" && parts.next().is_none_or(str::is_empty);
    let principal = claims.get("sub")?.as_str().filter(|principal| !principal.is_empty())?;
    let expires_at = millis(claims.get("exp")?)?;
    let issued_at = claims.get("iat").map_or(Some(0), millis)?;
    (is_unsecured && parts.next().is_none() && expires_at > now && issued_at <= now && issued_at < expires_at)
        .then(|| AcceptedToken { principal: principal.to_owned(), expires_at })
}

fn json(part: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok()?).ok()
}

/// Converts seconds since 1970, which may have a fraction.
fn millis(seconds: &Value) -> Option<Millis> {
    let millis = seconds.as_f64()? * 1000.0;
    (millis.is_finite() && (0.0..9e15).contains(&millis)).then_some(millis as Millis)
}
