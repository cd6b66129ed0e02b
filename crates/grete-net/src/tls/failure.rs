//! Failures of TLS in words: what is wrong, and the cure.

use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use grete_proto::tls_failure::{TlsFailure, TlsFailureKind as Kind};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{AlertDescription as Alert, CertificateError, Error};
use x509_parser::prelude::{ASN1Time, FromDer, GeneralName, X509Certificate, X509Name};

use super::validity::Validity;

/// Maximum length of a name of a certificate in a message, in characters. Names come from the network.
const MAX_NAME_CHARS: usize = 200;

/// Circumstances of a handshake that fails.
#[derive(Debug)]
pub(super) struct Situation<'a> {
    /// Whether the client logs in by SASL after the handshake.
    pub(super) logs_in: bool,
    /// Dates of the certificate that the client shows; `None`: it shows none.
    pub(super) own: Option<Validity>,
    /// Issuers that the broker accepts certificates of clients from; `None`: the broker asked for no certificate.
    pub(super) accepted_issuers: Option<&'a [String]>,
}

pub(super) fn failure(kind: Kind, message: impl Into<String>) -> TlsFailure {
    TlsFailure { kind, message: message.into().into() }
}

/// Returns a text from the network on one line, and not too long.
fn shown(text: &str) -> String {
    grete_wire::one_line(text).chars().take(MAX_NAME_CHARS).collect()
}

/// Returns a name in DER as text.
pub(super) fn distinguished_name(der: &[u8]) -> String {
    X509Name::from_der(der)
        .map_or_else(|_| "a name that cannot be read".to_owned(), |(_, name)| shown(&name.to_string()))
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    match ASN1Time::from_timestamp(seconds) {
        Ok(time) => {
            let time = time.to_datetime();
            let (month, day) = (u8::from(time.month()), time.day());
            format!("{}-{month:02}-{day:02} {:02}:{:02} UTC", time.year(), time.hour(), time.minute())
        }
        Err(_) => format!("{seconds} s after 1970"),
    }
}

/// Describes why the certificate of a broker is not accepted.
pub(super) fn certificate_failure(
    error: &Error,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    server_name: &ServerName<'_>,
    roots_setting: Option<&str>,
) -> TlsFailure {
    let host = shown(&server_name.to_str());
    let names = |der: &CertificateDer<'_>| {
        let parsed = X509Certificate::from_der(der).ok()?.1;
        Some((shown(&parsed.subject().to_string()), shown(&parsed.issuer().to_string())))
    };
    let unreadable = || ("without a name".to_owned(), "an unnamed issuer".to_owned());
    let (subject, issuer) = names(end_entity).unwrap_or_else(unreadable);
    // The issuer at the end of the chain that the broker shows.
    let authority = || intermediates.last().and_then(names).map_or_else(|| issuer.clone(), |(_, end)| end);
    let place = roots_setting.unwrap_or("the system's trusted certificates");
    let Error::InvalidCertificate(error) = error else {
        return failure(Kind::BadCertificate, format!("the certificate of the broker ({subject}) is refused: {error}"));
    };
    match error {
        CertificateError::ExpiredContext { time, not_after } => failure(
            Kind::Expired,
            format!(
                "the certificate of the broker ({subject}) or of one of its issuers expired on {}, and this machine's \
                 clock says {}; renew the certificate, or set the clock right",
                date(*not_after),
                date(*time)
            ),
        ),
        CertificateError::NotValidYetContext { time, not_before } => failure(
            Kind::NotYetValid,
            format!(
                "the certificate of the broker ({subject}) or of one of its issuers is valid from {}, and this \
                 machine's clock says {}; set the clock right, or wait",
                date(*not_before),
                date(*time)
            ),
        ),
        CertificateError::Revoked => failure(
            Kind::Revoked,
            format!(
                "the certificate of the broker ({subject}) is revoked in ssl.crl.location; give the broker a new one"
            ),
        ),
        CertificateError::UnknownRevocationStatus | CertificateError::ExpiredRevocationListContext { .. } => failure(
            Kind::Revoked,
            format!(
                "ssl.crl.location has no present list of {issuer}, which signed the certificate of the broker \
                 ({subject}); add the list of this issuer, or fetch it anew"
            ),
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            let names = host_names(end_entity);
            let has = if names.is_empty() {
                format!("has no names of hosts (subjectAltName), only the subject {subject}, which is not compared")
            } else {
                format!("is for {}", names.join(", "))
            };
            failure(
                Kind::WrongName,
                format!(
                    "the certificate of the broker {has}, and not for {host}; connect by a name that the certificate \
                     has (bootstrap.servers, and advertised.listeners of the broker), or give the broker a certificate \
                     with this name"
                ),
            )
        }
        CertificateError::UnknownIssuer => {
            let message = if subject == issuer {
                format!(
                    "the certificate of the broker ({subject}) is signed by itself and is not in {place}; \
                     give it with ssl.ca.location (Java: ssl.truststore.location)"
                )
            } else {
                format!(
                    "the certificate of the broker ({subject}) is signed by {}, which is not in {place}; give the \
                     certificate of this issuer with ssl.ca.location (Java: ssl.truststore.location)",
                    authority()
                )
            };
            failure(Kind::UnknownCa, message)
        }
        // Only a chain up to the name of a trusted authority is checked with a key at all.
        CertificateError::BadSignature | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            failure(
                Kind::UnknownCa,
                format!(
                    "the certificate of the broker ({subject}) is signed by {}, and the certificate of this name in \
                     {place} has another key: the authority was probably made anew; give its certificate that belongs \
                     to this broker with ssl.ca.location (Java: ssl.truststore.location)",
                    authority()
                ),
            )
        }
        error => {
            failure(Kind::BadCertificate, format!("the certificate of the broker ({subject}) is refused: {error}"))
        }
    }
}

/// Returns the names and addresses that a certificate is for, 10 at most.
fn host_names(der: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(der) else { return Vec::new() };
    let Ok(Some(names)) = parsed.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(shown(name)),
        GeneralName::IPAddress(octets) => {
            let v4 = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
            v4.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from)).ok().map(|address| address.to_string())
        }
        _ => None,
    };
    names.value.general_names.iter().filter_map(name).take(10).collect()
}

/// Describes an error that is not about the broker's certificate. `beginning`: first bytes of the peer.
pub(super) fn protocol_failure(error: &Error, beginning: &[u8], situation: &Situation<'_>) -> TlsFailure {
    if let Some(failure) = not_tls(beginning, situation) {
        return failure;
    }
    match error {
        Error::AlertReceived(alert) => alert_failure(*alert, situation),
        Error::PeerIncompatible(reason) => failure(
            Kind::NothingInCommon,
            format!(
                "the broker and this client have no way of TLS in common ({reason:?}); the broker needs TLS 1.2 or 1.3"
            ),
        ),
        error => failure(Kind::Protocol, format!("TLS failed: {error}")),
    }
}

/// Returns the failure if the first bytes of a peer are not a TLS record.
fn not_tls(beginning: &[u8], situation: &Situation<'_>) -> Option<TlsFailure> {
    match beginning {
        [] | [0x14..=0x18, 0x03, ..] | [0x14..=0x18] => None,
        [b'H', b'T', b'T', b'P', ..] => {
            Some(failure(Kind::NotTls, "answers like an HTTP server; bootstrap.servers needs the port of a broker"))
        }
        _ => Some(failure(
            Kind::NotTls,
            format!("answers, and not in TLS: a plain-text listener; {}", plain_cure(situation)),
        )),
    }
}

/// Returns the cure for a client of TLS on a listener that is not encrypted.
fn plain_cure(situation: &Situation<'_>) -> &'static str {
    if situation.logs_in {
        "use the port of a SASL_SSL listener, or security.protocol=SASL_PLAINTEXT, which does not encrypt"
    } else {
        "use the port of an SSL listener, or another security.protocol"
    }
}

fn alert_failure(alert: Alert, situation: &Situation<'_>) -> TlsFailure {
    let refusal = matches!(
        alert,
        Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError
            | Alert::HandshakeFailure
            | Alert::CertificateRequired
    );
    match alert {
        Alert::CertificateRequired if situation.own.is_none() => certificate_required(situation),
        _ if refusal && situation.accepted_issuers.is_some() => {
            if situation.own.is_some() {
                certificate_refused(alert, situation)
            } else {
                certificate_required(situation)
            }
        }
        Alert::ProtocolVersion | Alert::HandshakeFailure | Alert::InsufficientSecurity => failure(
            Kind::NothingInCommon,
            format!(
                "the broker and this client have no version or cipher suite of TLS in common (alert {alert:?}); the \
                 broker needs TLS 1.2 or 1.3"
            ),
        ),
        _ => {
            failure(Kind::Protocol, format!("the broker ended TLS with the alert {alert:?}; the broker's log says why"))
        }
    }
}

fn accepted(situation: &Situation<'_>) -> String {
    let mut text = String::new();
    if let Some(issuers) = situation.accepted_issuers.filter(|issuers| !issuers.is_empty()) {
        let _ = write!(text, " (it accepts certificates signed by: {})", issuers.join("; "));
    }
    text
}

/// Describes a broker that requires a certificate of the client, which has none.
pub(super) fn certificate_required(situation: &Situation<'_>) -> TlsFailure {
    failure(
        Kind::CertificateRequired,
        format!(
            "the broker requires a certificate of the client{}; set ssl.certificate.location and ssl.key.location \
             (Java: ssl.keystore.location)",
            accepted(situation)
        ),
    )
}

fn certificate_refused(alert: Alert, situation: &Situation<'_>) -> TlsFailure {
    let now = UnixTime::now();
    let ended = situation.own.and_then(|own| u64::try_from(own.not_after).ok()).filter(|&end| end < now.as_secs());
    let why = match (alert, ended) {
        // Brokers on Java say that the certificate is unknown, whatever is wrong with it.
        (_, Some(end)) => format!("it expired on {}", date(UnixTime::since_unix_epoch(Duration::from_secs(end)))),
        (Alert::CertificateExpired, None) => "it has expired by the broker's clock".to_owned(),
        (Alert::CertificateRevoked, None) => "it is revoked".to_owned(),
        (Alert::UnknownCA, None) => "the broker does not trust its issuer".to_owned(),
        _ => "the broker's log says why; most often it does not trust the issuer".to_owned(),
    };
    failure(
        Kind::CertificateRefused,
        format!(
            "the broker refused the certificate of this client: {why}{} (alert {alert:?}); give another one with \
             ssl.certificate.location, or add its issuer to the broker's truststore",
            accepted(situation)
        ),
    )
}

/// Describes a peer that closed the connection within the handshake. `received`: the peer has sent something before.
pub(super) fn closed_in_handshake(received: bool, situation: &Situation<'_>) -> TlsFailure {
    if received && situation.accepted_issuers.is_some() {
        return if situation.own.is_some() {
            certificate_refused(Alert::CertificateUnknown, situation)
        } else {
            certificate_required(situation)
        };
    }
    if received {
        return failure(
            Kind::Protocol,
            "the broker closed the connection within the handshake of TLS; its log says why",
        );
    }
    failure(
        Kind::ClosedAtHello,
        format!(
            "the broker closed the connection at the first message of TLS, as a {} listener does; {}",
            if situation.logs_in { "SASL_PLAINTEXT" } else { "PLAINTEXT" },
            plain_cure(situation)
        ),
    )
}
