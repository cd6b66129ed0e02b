//! Errors of the settings of TLS: files that are missing, unreadable or of another kind.

/// A setting of TLS that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TlsSetupError {
    /// Name of the setting.
    pub setting: &'static str,
    /// Message for the user: what is wrong, and the cure. Holds no secret.
    pub message: String,
}

impl TlsSetupError {
    pub(super) fn new(setting: &'static str, message: impl Into<String>) -> Self {
        Self { setting, message: message.into() }
    }
}
