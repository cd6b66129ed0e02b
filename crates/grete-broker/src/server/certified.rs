//! Principal of a client's certificate.

use grete_wire::access::subject_attribute;
use rustls::ServerConnection;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

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
            subject_attribute(&oid, attribute.as_str().ok(), attribute.attr_value().data)
        };
        parts.push(part.iter().map(attribute).collect::<Vec<_>>().join("+"));
    }
    parts.reverse();
    parts.join(",")
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
