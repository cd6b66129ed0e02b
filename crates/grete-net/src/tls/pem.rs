//! PEM: certificates, keys and lists of revoked certificates from text.
//!
//! Text from an environment variable or a secret store often has lost its line ends: they are `\r\n`, are written out as
//! `\n`, or are spaces. Base64 has none of these characters, so every section is put together anew before it is decoded.

use std::path::Path;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, pem};
use zeroize::Zeroizing;

use super::setup_error::TlsSetupError;

const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";

/// Sections of one PEM text.
#[derive(Default)]
pub(super) struct PemSections {
    pub(super) certificates: Vec<CertificateDer<'static>>,
    pub(super) revoked: Vec<CertificateRevocationListDer<'static>>,
    pub(super) keys: Vec<PemKey>,
}

/// Private key in DER.
pub(super) struct PemKey {
    pub(super) kind: KeyKind,
    pub(super) der: Zeroizing<Vec<u8>>,
}

/// Format of a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    Pkcs8,
    EncryptedPkcs8,
    Pkcs1,
    Sec1,
}

/// Place that certificates or keys come from, for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) setting: &'static str,
    /// Path of the file; `None`: the text is the setting's value.
    pub(super) path: Option<&'a Path>,
}

impl Origin<'_> {
    /// Returns an error that names the setting, and the file if there is one.
    pub(super) fn error(self, message: impl AsRef<str>) -> TlsSetupError {
        let place = self.path.map_or(String::new(), |path| format!(" = {}", path.display()));
        TlsSetupError::new(self.setting, format!("{}{place}: {}", self.setting, message.as_ref()))
    }
}

/// Reads all sections of known kinds. No part of the text is in an error, because the text may be a key.
pub(super) fn parse(text: &str, origin: Origin<'_>) -> Result<PemSections, TlsSetupError> {
    let mut sections = PemSections::default();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(BEGIN) {
        let label_and_rest = after.split_once(DASHES).filter(|(label, _)| is_label(label));
        let (label, after) = label_and_rest.ok_or_else(|| origin.error("a line with -----BEGIN is not valid PEM"))?;
        let end = format!("-----END {label}-----");
        let cut_off = || origin.error(format!("the section {label} has no line {end}; copy the text whole"));
        let (body, after) = after.split_once(&end).ok_or_else(cut_off)?;
        rest = after;
        if body.contains("DEK-Info:") {
            return Err(origin.error(
                "the private key is encrypted in an old format of OpenSSL; convert it: \
                 openssl pkcs8 -topk8 -in key.pem -out key8.pem",
            ));
        }
        let Some(der) = decode(label, body) else {
            return Err(origin.error(format!("the section {label} is damaged: it is not valid Base64")));
        };
        let mut key = |kind| sections.keys.push(PemKey { kind, der: der.clone() });
        match label {
            "CERTIFICATE" | "X509 CERTIFICATE" => sections.certificates.push(der.to_vec().into()),
            "X509 CRL" => sections.revoked.push(der.to_vec().into()),
            "PRIVATE KEY" => key(KeyKind::Pkcs8),
            "ENCRYPTED PRIVATE KEY" => key(KeyKind::EncryptedPkcs8),
            "RSA PRIVATE KEY" => key(KeyKind::Pkcs1),
            "EC PRIVATE KEY" => key(KeyKind::Sec1),
            _ => {} // parameters of a curve, public keys
        }
    }
    Ok(sections)
}

fn is_label(label: &str) -> bool {
    label.len() <= 64 && label.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == ' ')
}

/// Decodes the Base64 of a section. A key is decoded in constant time. `None`: not Base64.
fn decode(label: &str, body: &str) -> Option<Zeroizing<Vec<u8>>> {
    // The decoder knows some labels only, and treats keys with care: the label says which way to decode.
    let label = if label.ends_with("PRIVATE KEY") { "PRIVATE KEY" } else { "CERTIFICATE" };
    let mut section = Zeroizing::new(String::with_capacity(body.len() + 2 * label.len() + 40));
    section.extend([BEGIN, label, "-----\n"]);
    for line in body.split("\\n") {
        section.extend(line.split("\\r").flat_map(str::split_whitespace));
    }
    section.extend(["\n-----END ", label, "-----\n"]);
    match pem::from_buf(&mut section.as_bytes()) {
        Ok(Some((_, der))) => Some(Zeroizing::new(der)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin<'static> = Origin { setting: "ssl.ca.pem", path: None };

    fn certificate() -> String {
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate").cert.pem()
    }

    #[test]
    fn line_ends_may_be_lost() {
        let pem = certificate();
        let der = parse(&pem, ORIGIN).expect("PEM").certificates;
        assert_eq!(der.len(), 1);
        let written_out = pem.replace('\n', "\\n");
        let windows = pem.replace('\n', "\r\n");
        let one_line = pem.replace('\n', " ");
        let indented = pem.replace('\n', "\n    ");
        for text in [written_out, windows, one_line, indented, pem.replace('\n', "\\r\\n")] {
            assert_eq!(parse(&text, ORIGIN).expect("PEM").certificates, der, "{text}");
        }
        assert_eq!(parse(&format!("subject=x\n{pem}\n# and\n{pem}"), ORIGIN).expect("PEM").certificates.len(), 2);
    }

    #[test]
    fn damaged_text_is_named_and_not_shown() {
        for (text, says) in [
            ("-----BEGIN PRIVATE KEY-----\nhunter2", "no line -----END PRIVATE KEY-----"),
            ("-----BEGIN PRIVATE KEY-----\nhunter2!\n-----END PRIVATE KEY-----", "not valid Base64"),
            ("-----BEGIN hunter2", "not valid PEM"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\nhunter2\n\
                 -----END RSA PRIVATE KEY-----",
                "openssl pkcs8 -topk8",
            ),
        ] {
            let error = parse(text, ORIGIN).err().expect("refused").to_string();
            assert!(error.starts_with("ssl.ca.pem: ") && error.contains(says), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(parse("no section at all", ORIGIN).expect("nothing").certificates.is_empty());
    }
}
