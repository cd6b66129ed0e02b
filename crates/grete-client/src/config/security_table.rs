//! Table of the settings of encryption and authentication, in Java's and librdkafka's spellings.

use super::setting::{Kind, Setting, supported, unsupported};

const PROTOCOL: &[(&str, &str)] =
    &[("PLAINTEXT", "PLAINTEXT"), ("SSL", "SSL"), ("SASL_PLAINTEXT", "SASL_PLAINTEXT"), ("SASL_SSL", "SASL_SSL")];
const STORE: &[(&str, &str)] = &[("PEM", "PEM"), ("PKCS12", "PKCS12"), ("JKS", "JKS"), ("", "")];
/// Java switches the check off with an empty text, librdkafka with `none`.
const IDENTIFICATION: &[(&str, &str)] = &[("https", "https"), ("none", "none"), ("", "none")];
const VERSIONS_HINT: &str = "leave it out: TLS 1.2 and 1.3 are spoken, the newer one where both sides have it";
const CIPHERS_HINT: &str = "leave it out: only the safe cipher suites of TLS 1.2 and 1.3 are spoken";
const ENGINE_HINT: &str = "leave it out: TLS is part of Grete";
const SYSTEM_STORE_HINT: &str = "leave it out: without ssl.ca.location the system's certificates are trusted";

/// Settings of encryption and authentication, for every client.
pub(super) static SECURITY: &[Setting] = &[
    supported("security.protocol", &[], "PLAINTEXT", Kind::Choice(PROTOCOL)),
    supported("ssl.ca.location", &["ssl.truststore.location"], "", Kind::Text),
    supported("ssl.ca.pem", &["ssl.truststore.certificates"], "", Kind::Text),
    supported("ssl.truststore.type", &[], "", Kind::Choice(STORE)),
    supported("ssl.truststore.password", &[], "", Kind::Secret),
    supported("ssl.truststore.password.file", &[], "", Kind::Text),
    supported("ssl.certificate.location", &[], "", Kind::Text),
    supported("ssl.certificate.pem", &["ssl.keystore.certificate.chain"], "", Kind::Text),
    supported("ssl.key.location", &[], "", Kind::Text),
    supported("ssl.key.pem", &["ssl.keystore.key"], "", Kind::Secret),
    supported("ssl.key.password", &[], "", Kind::Secret),
    supported("ssl.key.password.file", &[], "", Kind::Text),
    supported("ssl.keystore.location", &[], "", Kind::Text),
    supported("ssl.keystore.type", &[], "", Kind::Choice(STORE)),
    supported("ssl.keystore.password", &[], "", Kind::Secret),
    supported("ssl.keystore.password.file", &[], "", Kind::Text),
    supported("ssl.crl.location", &[], "", Kind::Text),
    supported("enable.ssl.certificate.verification", &[], "true", Kind::Flag),
    supported("ssl.endpoint.identification.algorithm", &[], "https", Kind::Choice(IDENTIFICATION)),
    unsupported("ssl.protocol", &["TLSv1.3", "TLSv1.2", "TLS"], VERSIONS_HINT),
    unsupported("ssl.enabled.protocols", &["TLSv1.2,TLSv1.3", "TLSv1.3,TLSv1.2", "TLSv1.2, TLSv1.3"], VERSIONS_HINT),
    unsupported("ssl.cipher.suites", &[""], CIPHERS_HINT),
    unsupported("ssl.curves.list", &[""], CIPHERS_HINT),
    unsupported("ssl.sigalgs.list", &[""], CIPHERS_HINT),
    unsupported("ssl.provider", &[""], ENGINE_HINT),
    unsupported("ssl.providers", &[""], ENGINE_HINT),
    unsupported("ssl.engine.factory.class", &[""], ENGINE_HINT),
    unsupported("ssl.engine.location", &[""], ENGINE_HINT),
    unsupported("ssl.keymanager.algorithm", &["SunX509", "PKIX"], ENGINE_HINT),
    unsupported("ssl.trustmanager.algorithm", &["PKIX"], ENGINE_HINT),
    unsupported("ssl.secure.random.implementation", &[""], ENGINE_HINT),
    unsupported("ssl.ca.certificate.stores", &[""], SYSTEM_STORE_HINT),
];
