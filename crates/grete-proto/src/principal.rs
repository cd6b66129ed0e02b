//! Principal of a client, for the commands in errors of operations that brokers refuse.

use std::sync::Arc;

use grete_wire::access::with_user;

use crate::sasl::TokenStore;

/// Principal of a client, as far as the client knows. Rules of the brokers (`ssl.principal.mapping.rules`) may change it.
#[derive(Debug, Clone, Default)]
pub enum Principal {
    /// The client does not know its own name.
    #[default]
    Unknown,
    /// User of the login, or subject of the client's certificate; without `User:`.
    Known(Arc<str>),
    /// The present token names the user.
    Token(Arc<TokenStore>),
}

impl Principal {
    /// Returns the name without `User:`; `None`: it is unknown.
    #[must_use]
    pub fn user(&self) -> Option<Arc<str>> {
        match self {
            Self::Unknown => None,
            Self::Known(user) => Some(Arc::clone(user)),
            Self::Token(store) => store.subject(),
        }
    }

    /// Puts the name into an error's text of an ACL that the client needs.
    #[must_use]
    pub fn in_text(&self, text: &str) -> String {
        with_user(text, self.user().as_deref())
    }
}
