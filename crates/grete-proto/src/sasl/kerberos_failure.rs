//! Failures of Kerberos: why the library or the KDC gives no way to log in.

use std::sync::Arc;

/// Failure of a login by Kerberos on the client's side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct KerberosFailure {
    /// Kind of the failure.
    pub kind: KerberosFailureKind,
    /// Message for the user: what is wrong, and the cure.
    pub message: Arc<str>,
}

/// Kind of a failure of Kerberos.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KerberosFailureKind {
    /// No GSSAPI library is installed, or it lacks a function that the settings need.
    Library,
    /// There is no ticket, and no keytab to get one with.
    NoTicket,
    /// The ticket has expired.
    Expired,
    /// The keytab cannot be used, or its keys are not those of the principal.
    Keytab,
    /// The KDC does not know the client's principal, or refuses it.
    Client,
    /// The KDC does not know the principal of the broker.
    Service,
    /// The clocks of the client and the KDC or the broker differ too much.
    ClockSkew,
    /// The KDC cannot be found or does not answer.
    KdcUnreachable,
    /// The broker did not prove its identity, or breaks the rules of the mechanism.
    Broker,
    /// Another error of the library.
    Other,
}

impl KerberosFailureKind {
    /// Returns the number of failures in a row after which trying again is not expected to help. A KDC may restart.
    pub(crate) fn is_certain_after(self) -> u32 {
        match self {
            Self::KdcUnreachable | Self::Other => 3,
            _ => 1,
        }
    }
}
