//! Bearer token of a client, which a thread outside of the core keeps fresh.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::secret::Secret;

/// Maximum bytes of a token. Kafka takes SASL messages up to 512 KiB.
const MAX_TOKEN_BYTES: usize = 256 << 10;
const MAX_EXTENSIONS: usize = 64;
const MAX_EXTENSION_BYTES: usize = 4096;

/// Bearer token with the extensions of its login (RFC 7628, KIP-342).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    value: Secret,
    extensions: Vec<(String, String)>,
}

/// Reason why a token cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is empty or too long.
    #[error("the token has {0} bytes; a token has 1 to {MAX_TOKEN_BYTES}")]
    Length(usize),
    /// A character of the token is not allowed.
    #[error("the token has a character that bearer tokens do not have, at byte {0}: give the token alone")]
    Character(usize),
    /// The name of an extension is not allowed.
    #[error("the extension {0:?} cannot be sent: a name is made of letters, and is not \"auth\"")]
    ExtensionName(String),
    /// The value of an extension is not allowed.
    #[error("the value of the extension {0:?} cannot be sent: it is made of printable ASCII characters")]
    ExtensionValue(String),
    /// There are too many extensions.
    #[error("a login has {MAX_EXTENSIONS} extensions at most")]
    Extensions,
}

impl Token {
    /// Checks a token and its extensions: nothing in them may end the message early.
    ///
    /// # Errors
    /// A character, a name or a length is not allowed.
    pub fn new(value: Secret, extensions: Vec<(String, String)>) -> Result<Self, TokenError> {
        let bytes = value.expose().as_bytes();
        if bytes.is_empty() || bytes.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Length(bytes.len()));
        }
        let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        if let Some(at) = bytes.iter().position(|byte| !is_allowed(byte)) {
            return Err(TokenError::Character(at));
        }
        if extensions.len() > MAX_EXTENSIONS {
            return Err(TokenError::Extensions);
        }
        for (name, value) in &extensions {
            if name.is_empty() || name == "auth" || !name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
                return Err(TokenError::ExtensionName(name.chars().take(64).collect()));
            }
            let is_allowed = |byte: u8| matches!(byte, 0x20..=0x7e | b'\t');
            if value.is_empty() || value.len() > MAX_EXTENSION_BYTES || !value.bytes().all(is_allowed) {
                return Err(TokenError::ExtensionValue(name.clone()));
            }
        }
        Ok(Self { value, extensions })
    }

    /// Returns the claims of a JSON web token, as the text of a JSON object; `None`: the token is opaque.
    #[must_use]
    pub fn claims(value: &Secret) -> Option<String> {
        let mut parts = value.expose().split('.');
        let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
        String::from_utf8(URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?).ok()
    }

    pub(super) fn value(&self) -> &[u8] {
        self.value.expose().as_bytes()
    }

    pub(super) fn extensions(&self) -> &[(String, String)] {
        &self.extensions
    }
}

/// State of the store, as a login finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenState {
    /// No answer of the source yet: a login waits.
    Awaited,
    /// The token.
    Ready(Arc<Token>),
    /// The source has none: a login fails.
    Failed {
        /// Reason of the failure.
        reason: Arc<str>,
        /// Whether the source has failed several times in a row, or hangs, so that waiting probably does not help.
        lasts: bool,
    },
}

/// Place where the source of tokens puts them. One thread writes, the network threads read.
#[derive(Debug)]
pub struct TokenStore {
    state: Mutex<TokenState>,
}

impl Default for TokenStore {
    fn default() -> Self {
        Self { state: Mutex::new(TokenState::Awaited) }
    }
}

impl TokenStore {
    /// Replaces the token. Open connections use it when they renew their session.
    pub fn set(&self, token: Token) {
        *self.lock() = TokenState::Ready(Arc::new(token));
    }

    /// Removes the token: the last one has expired, or there was none, and the source fails. `lasts`: the source has
    /// failed several times in a row, or hangs.
    pub fn fail(&self, reason: &str, lasts: bool) {
        *self.lock() = TokenState::Failed { reason: super::error::printable(reason).into(), lasts };
    }

    /// Returns what a login finds now.
    #[must_use]
    pub fn state(&self) -> TokenState {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, TokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
