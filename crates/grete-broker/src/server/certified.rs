//! Principal of a client's certificate.

use std::fmt::Write as _;

use rustls::ServerConnection;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

/// Attribute types that have a keyword in RFC 2253.
const KEYWORDS: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// Returns the principal of the certificate that the client has shown, as Kafka builds it by default: `User:` and the
/// subject in the form of RFC 2253. `None`: the client has shown no certificate.
pub(super) fn principal(connection: &ServerConnection) -> Option<String> {
    let certificate = connection.peer_certificates()?.first()?;
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(format!("User:{}", rfc_2253(certificate.subject())))
}

/// Returns a name in the form of RFC 2253: the most specific part first.
fn rfc_2253(name: &X509Name<'_>) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in name.iter_rdn() {
        let attribute = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            let oid = attribute.attr_type().to_id_string();
            let keyword = KEYWORDS.iter().find(|(known, _)| *known == oid);
            match (keyword, attribute.as_str()) {
                (Some((_, keyword)), Ok(value)) => format!("{keyword}={}", escaped(value)),
                _ => format!("{oid}=#{}", hex(attribute.attr_value().data)),
            }
        };
        parts.push(part.iter().map(attribute).collect::<Vec<_>>().join("+"));
    }
    parts.reverse();
    parts.join(",")
}

fn escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut text = String::with_capacity(value.len());
    for (place, letter) in value.chars().enumerate() {
        let is_edge = letter == ' ' && (place == 0 || place == last) || letter == '#' && place == 0;
        if is_edge || ",+\"\\<>;".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn a_subject_has_the_form_of_rfc_2253() {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example, Inc.");
        params.distinguished_name.push(DnType::OrganizationalUnitName, "#1 \u{fc}nit ");
        params.distinguished_name.push(DnType::CommonName, "billing");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
        assert_eq!(rfc_2253(parsed.subject()), "CN=billing,OU=\\#1 \u{fc}nit\\ ,O=Example\\, Inc.");
    }
}
