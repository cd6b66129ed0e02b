//! Bearer token of a client, which a thread outside of the core keeps fresh.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

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
    subject: Option<Arc<str>>,
    validity: Option<Arc<str>>,
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
        Ok(Self { value, extensions, subject: None, validity: None })
    }

    /// Sets the user that the token names, in errors of operations that brokers refuse.
    #[must_use]
    pub fn of_subject(self, subject: Option<&str>) -> Self {
        let subject = subject.map(|subject| super::error::printable(subject).into());
        Self { subject, ..self }
    }

    /// Sets when the token is valid, as a text for the error of a broker that refuses the token.
    #[must_use]
    pub fn of_validity(self, validity: Option<&str>) -> Self {
        Self { validity: validity.map(|text| super::error::printable(text).into()), ..self }
    }

    /// Returns a broker's text with the times of the token.
    pub(super) fn refusal(&self, text: &str) -> Arc<str> {
        match &self.validity {
            Some(validity) => format!("{text}; {validity}").into(),
            None => text.into(),
        }
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

/// Function that wakes the network thread of a client. It blocks on nothing.
pub type Wake = dyn Fn() + Send + Sync;

/// Place where the source of tokens puts them. One thread writes, the network threads read.
///
/// A login that waits for a token has no timer: [`Self::watch`] wakes its network thread, which compares
/// [`Self::version`]. The race of a login that finds no token with the source that gives one:
///
/// 1. The network thread has seen version 3, and the login finds no token.
/// 2. The source stores the token, increments the version to 4, and wakes.
/// 3. The wake-up may reach the network thread before its sleep, and ends that sleep at once. The version is another
///    one than the thread has seen, so the login looks again.
pub struct TokenStore {
    inner: Mutex<Inner>,
    version: AtomicU64,
}

struct Inner {
    state: TokenState,
    /// Whether a broker has refused the token of `state`.
    is_refused: bool,
    wakes: Vec<Weak<Wake>>,
}

impl Default for TokenStore {
    fn default() -> Self {
        let inner = Inner { state: TokenState::Awaited, is_refused: false, wakes: Vec::new() };
        Self { inner: Mutex::new(inner), version: AtomicU64::new(0) }
    }
}

impl fmt::Debug for TokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenStore").field(&self.state()).finish()
    }
}

impl TokenStore {
    /// Replaces the token. Open connections use it when they renew their session.
    pub fn set(&self, token: Token) {
        self.replace(TokenState::Ready(Arc::new(token)));
    }

    /// Removes the token: the last one has expired, or there was none, and the source fails. `lasts`: the source has
    /// failed several times in a row, or hangs.
    pub fn fail(&self, reason: &str, lasts: bool) {
        self.replace(TokenState::Failed { reason: super::error::printable(reason).into(), lasts });
    }

    fn replace(&self, state: TokenState) {
        let mut inner = self.lock();
        inner.state = state;
        inner.is_refused = false;
        self.version.fetch_add(1, Ordering::Release);
        inner.wakes.retain(|wake| wake.strong_count() > 0);
        let wakes = inner.wakes.clone();
        drop(inner);
        wakes.iter().filter_map(Weak::upgrade).for_each(|wake| wake());
    }

    /// Calls `wake` after each change, until the caller drops it.
    pub fn watch(&self, wake: &Arc<Wake>) {
        self.lock().wakes.push(Arc::downgrade(wake));
    }

    /// Returns a number that grows with each change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Marks that a broker has refused this token. A token that was replaced meanwhile changes nothing.
    pub(super) fn on_refused(&self, token: &Token) {
        let mut inner = self.lock();
        inner.is_refused |= matches!(&inner.state, TokenState::Ready(current) if **current == *token);
    }

    /// Returns whether a broker has refused the token that is here: its source may have a better one.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.lock().is_refused
    }

    /// Returns what a login finds now.
    #[must_use]
    pub fn state(&self) -> TokenState {
        self.lock().state.clone()
    }

    /// Returns the user that the present token names; `None`: it is unknown.
    #[must_use]
    pub fn subject(&self) -> Option<Arc<str>> {
        match &self.lock().state {
            TokenState::Ready(token) => token.subject.clone(),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
