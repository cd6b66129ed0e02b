//! Planted misconfigurations: each has its kind, and a message with the cause.

use grete_proto::secret::Secret;
use grete_proto::tls_failure::{TlsFailure, TlsFailureKind as Kind};
use rcgen::{
    CertificateRevocationListParams, KeyIdMethod, RevocationReason, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::version::{TLS12, TLS13};

use super::super::{CertificateSource, IdentitySource, KeySource, TlsSettings};
use super::peer::{Leaf, Pair, authority, authority_with, context, leaf, params, server_config, trusting};

fn fails(settings: TlsSettings, host: &str, server: &std::sync::Arc<rustls::ServerConfig>) -> TlsFailure {
    let mut pair = Pair::new(&mut context(settings), host, server);
    match pair.run() {
        Err(failure) => failure,
        Ok(()) => pair.client.failure_at_end().expect("a failure"),
    }
}

fn check(failure: &TlsFailure, kind: Kind, says: &[&str]) {
    assert_eq!(failure.kind, kind, "{failure}");
    for part in says {
        assert!(failure.message.contains(part), "{part:?} is missing in: {failure}");
    }
}

fn identity(leaf: &Leaf) -> IdentitySource {
    IdentitySource::Pair {
        chain: CertificateSource::Pem { setting: "ssl.certificate.pem", text: leaf.cert.pem() },
        key: KeySource::Pem(Secret::new(leaf.key.serialize_pem())),
        key_password: None,
    }
}

#[test]
fn a_broker_of_another_authority() {
    let (issuer, other) = (authority("Kafka CA"), authority("Other CA"));
    let server = server_config(&leaf(params(&["localhost"]), &issuer), None, &TLS13);
    let failure = fails(trusting(&other.pem()), "localhost", &server);
    check(&failure, Kind::UnknownCa, &["CN=broker 1", "signed by CN=Kafka CA", "not in ssl.ca.pem", "ssl.ca.location"]);
}

#[test]
fn a_broker_of_an_authority_that_was_made_anew() {
    let (issuer, former) = (authority("Kafka CA"), authority("Kafka CA"));
    let server = server_config(&leaf(params(&["localhost"]), &issuer), None, &TLS13);
    let says = ["CN=broker 1", "signed by CN=Kafka CA", "this name in ssl.ca.pem has another key", "ssl.ca.location"];
    check(&fails(trusting(&former.pem()), "localhost", &server), Kind::UnknownCa, &says);
    // A key of another kind cannot have made the signature.
    let former = authority_with("Kafka CA", &rcgen::PKCS_ED25519);
    check(&fails(trusting(&former.pem()), "localhost", &server), Kind::UnknownCa, &says);
    // With both, as while a CA is replaced, the broker is trusted.
    let both = trusting(&format!("{}{}", former.pem(), issuer.pem()));
    Pair::new(&mut context(both), "localhost", &server).run().expect("trusted");
}

#[test]
fn a_broker_that_signs_itself() {
    let issuer = authority("self");
    let key = rcgen::KeyPair::generate().expect("a key");
    let own = Leaf { cert: params(&["localhost"]).self_signed(&key).expect("a certificate"), key };
    let server = server_config(&own, None, &TLS13);
    let failure = fails(trusting(&issuer.pem()), "localhost", &server);
    check(&failure, Kind::UnknownCa, &["signed by itself", "give it with ssl.ca.location"]);
    // Given as it is, it is trusted, with its name and dates.
    let mut pair = Pair::new(&mut context(trusting(&own.cert.pem())), "localhost", &server);
    pair.run().expect("trusted");
    check(&fails(trusting(&own.cert.pem()), "other", &server), Kind::WrongName, &["is for localhost", "not for other"]);
}

#[test]
fn an_authority_as_the_certificate_of_a_broker() {
    // What `openssl req -x509` makes: a certificate that signs itself and is marked as an authority.
    let mut own = params(&["localhost"]);
    own.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().expect("a key");
    let own = Leaf { cert: own.self_signed(&key).expect("a certificate"), key };
    let server = server_config(&own, None, &TLS13);
    Pair::new(&mut context(trusting(&own.cert.pem())), "localhost", &server).run().expect("trusted");
}

#[test]
fn a_broker_of_another_name() {
    let issuer = authority("CA");
    let server = server_config(&leaf(params(&["kafka.internal", "10.0.0.7"]), &issuer), None, &TLS13);
    let failure = fails(trusting(&issuer.pem()), "localhost", &server);
    check(&failure, Kind::WrongName, &["kafka.internal, 10.0.0.7", "not for localhost", "advertised.listeners"]);
    let unchecked = TlsSettings { verify_host_name: false, ..trusting(&issuer.pem()) };
    Pair::new(&mut context(unchecked), "localhost", &server).run().expect("the name is not compared");
    let none = server_config(&leaf(params(&[]), &issuer), None, &TLS13);
    check(&fails(trusting(&issuer.pem()), "localhost", &none), Kind::WrongName, &["has no names", "CN=broker 1"]);
}

#[test]
fn names_alone_are_left_out_not_the_issuer() {
    let (issuer, other) = (authority("CA"), authority("Other CA"));
    let server = server_config(&leaf(params(&["kafka.internal"]), &issuer), None, &TLS13);
    let unchecked = TlsSettings { verify_host_name: false, ..trusting(&other.pem()) };
    check(&fails(unchecked, "localhost", &server), Kind::UnknownCa, &[]);
    let nothing = TlsSettings { verify_certificate: false, ..TlsSettings::default() };
    Pair::new(&mut context(nothing), "localhost", &server).run().expect("nothing is checked");
}

#[test]
fn dates_of_certificates() {
    let issuer = authority("CA");
    let mut old = params(&["localhost"]);
    (old.not_before, old.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 3, 4));
    let server = server_config(&leaf(old, &issuer), None, &TLS13);
    let failure = fails(trusting(&issuer.pem()), "localhost", &server);
    check(&failure, Kind::Expired, &["expired on 2002-03-04 00:00 UTC", "clock says 20"]);
    let mut new = params(&["localhost"]);
    (new.not_before, new.not_after) = (date_time_ymd(2090, 1, 1), date_time_ymd(2091, 1, 1));
    let server = server_config(&leaf(new, &issuer), None, &TLS13);
    let failure = fails(trusting(&issuer.pem()), "localhost", &server);
    check(&failure, Kind::NotYetValid, &["valid from 2090-01-01 00:00 UTC", "clock says 20"]);
    let mut own = params(&["localhost"]);
    (own.not_before, own.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 3, 4));
    let key = rcgen::KeyPair::generate().expect("a key");
    let own = Leaf { cert: own.self_signed(&key).expect("a certificate"), key };
    let server = server_config(&own, None, &TLS13);
    check(&fails(trusting(&own.cert.pem()), "localhost", &server), Kind::Expired, &["2002-03-04"]);
}

#[test]
fn a_revoked_certificate() {
    let issuer = authority("CA");
    let mut revoked = params(&["localhost"]);
    revoked.serial_number = Some(SerialNumber::from(42));
    let server = server_config(&leaf(revoked, &issuer), None, &TLS13);
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(2090, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(42),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: Some(RevocationReason::KeyCompromise),
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let folder = tempfile();
    let path = folder.path.join("list.pem");
    std::fs::write(&path, list.signed_by(&issuer).expect("a list").pem().expect("PEM")).expect("a file");
    let settings = TlsSettings { revoked: Some(path), ..trusting(&issuer.pem()) };
    check(
        &fails(settings.clone(), "localhost", &server),
        Kind::Revoked,
        &["CN=broker 1", "is revoked in ssl.crl.location"],
    );
    let mut good = params(&["localhost"]);
    good.serial_number = Some(SerialNumber::from(43));
    let server = server_config(&leaf(good, &issuer), None, &TLS13);
    Pair::new(&mut context(settings), "localhost", &server).run().expect("not revoked");
}

use super::files::tempfile;

#[test]
fn a_broker_that_requires_a_certificate() {
    for version in [&TLS12, &TLS13] {
        let (issuer, clients) = (authority("CA"), authority("Clients' CA"));
        let server = server_config(&leaf(params(&["localhost"]), &issuer), Some(&clients), version);
        let failure = fails(trusting(&issuer.pem()), "localhost", &server);
        let says = ["requires a certificate of the client", "CN=Clients' CA", "ssl.certificate.location"];
        check(&failure, Kind::CertificateRequired, &says);
        let own = leaf(params(&["client"]), &clients);
        let mutual = TlsSettings { identity: Some(identity(&own)), ..trusting(&issuer.pem()) };
        let mut pair = Pair::new(&mut context(mutual), "localhost", &server);
        pair.run().expect("accepted");
        assert!(pair.server.peer_certificates().is_some());
        let other = leaf(params(&["client"]), &authority("Nobody's CA"));
        let wrong = TlsSettings { identity: Some(identity(&other)), ..trusting(&issuer.pem()) };
        let failure = fails(wrong, "localhost", &server);
        check(&failure, Kind::CertificateRefused, &["refused the certificate of this client", "CN=Clients' CA"]);
    }
}

#[test]
fn a_peer_that_does_not_speak_tls() {
    let issuer = authority("CA");
    for (answer, says) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "answers like an HTTP server"),
        (b"\0\0\0\x0a\0\0\0\0\0\0\0\0\0\0", "a plain-text listener"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not in TLS"),
    ] {
        let mut client = context(trusting(&issuer.pem())).connect("localhost").expect("a name");
        assert!(client.write_to(&mut Vec::new()).is_ok());
        match client.read(answer, &mut |_| {}) {
            Err(super::super::TlsEnd::Tls(failure)) => check(&failure, Kind::NotTls, &[says]),
            _ => panic!("{says}"),
        }
    }
    let client = context(trusting(&issuer.pem())).connect("localhost").expect("a name");
    let failure = client.failure_at_end().expect("no handshake");
    check(&failure, Kind::ClosedAtHello, &["as a PLAINTEXT listener does; use the port of an SSL listener"]);
}

#[test]
fn a_client_that_logs_in_and_a_peer_that_does_not_speak_tls() {
    let settings = TlsSettings { logs_in: true, ..trusting(&authority("CA").pem()) };
    let mut client = context(settings).connect("localhost").expect("a name");
    let cure = "use the port of a SASL_SSL listener, or security.protocol=SASL_PLAINTEXT";
    let failure = client.failure_at_end().expect("no handshake");
    check(&failure, Kind::ClosedAtHello, &["as a SASL_PLAINTEXT listener does", cure]);
    match client.read(&b"\0\0\0\x0a\0\0\0\0\0\0\0\0\0\0"[..], &mut |_| {}) {
        Err(super::super::TlsEnd::Tls(failure)) => check(&failure, Kind::NotTls, &["a plain-text listener", cure]),
        _ => panic!("no failure"),
    }
}
