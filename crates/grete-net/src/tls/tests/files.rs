//! Files of certificates and keys: kinds, errors, and changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use grete_proto::secret::Secret;
use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, LocalKeyId, PrivateKey, PrivateKeyChain};
use pkcs8::{LineEnding, PrivateKeyInfoRef, SecretDocument};
use rustls::version::TLS13;

use super::super::{CertificateSource, IdentitySource, KeySource, TlsContext, TlsSettings, TlsSetupError};
use super::peer::{Leaf, Pair, authority, context, leaf, params, server_config, trusting};

/// Folder that is removed at the drop.
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

pub(super) fn tempfile() -> Folder {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("grete-tls-{}-{number}", std::process::id()));
    fs::create_dir(&path).expect("a folder");
    Folder { path }
}

impl Folder {
    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.join(name);
        fs::write(&path, content).expect("a file");
        path
    }
}

fn at(path: &Path) -> TlsSettings {
    let roots = vec![CertificateSource::Location { setting: "ssl.ca.location", path: path.to_owned() }];
    TlsSettings { roots, ..TlsSettings::default() }
}

fn refused(settings: TlsSettings) -> TlsSetupError {
    TlsContext::new(Arc::new(settings), Box::new(|_| {})).expect_err("refused")
}

fn pair_of(chain: &str, key: &str, password: Option<&str>) -> TlsSettings {
    let identity = IdentitySource::Pair {
        chain: CertificateSource::Pem { setting: "ssl.certificate.pem", text: chain.to_owned() },
        key: KeySource::Pem(Secret::from(key)),
        key_password: password.map(Secret::from),
    };
    TlsSettings { identity: Some(identity), ..trusting(chain) }
}

fn encrypted(leaf: &Leaf, password: &str) -> String {
    let der = leaf.key.serialize_der();
    let info = PrivateKeyInfoRef::try_from(der.as_slice()).expect("PKCS#8");
    let scheme =
        pkcs8::pkcs5::pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(1000, b"salt-salt", [7; 16]).expect("fits");
    let document: SecretDocument = info.encrypt_with_params(scheme, password).expect("encrypted");
    document.to_pem("ENCRYPTED PRIVATE KEY", LineEnding::LF).expect("PEM").to_string()
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let folder = tempfile();
    for (path, says) in [
        (folder.path.join("none.pem"), "the file does not exist"),
        (folder.write("text.pem", "hello"), "neither PEM nor PKCS#12"),
        (folder.write("store.jks", [0xFE, 0xED, 0xFE, 0xED, 0, 0, 0, 2]), "keytool -importkeystore -srckeystore"),
        (folder.write("store.p12", [0x30, 0x82, 1, 0, 2]), "not readable as PKCS#12"),
        (
            folder.write("key.pem", leaf(params(&["a"]), &authority("CA")).key.serialize_pem()),
            "there is no certificate",
        ),
    ] {
        let error = refused(at(&path));
        assert_eq!(error.setting, "ssl.ca.location");
        assert!(error.message.contains(says) && error.message.contains(&*path.to_string_lossy()), "{error}");
    }
    let error = refused(at(Path::new("ca.pem")));
    let here = std::env::current_dir().expect("a folder");
    assert!(error.message.contains(&format!("does not exist in {}", here.display())), "{error}");
    let error = refused(TlsSettings {
        revoked: Some(folder.write("crl.pem", authority("CA").pem())),
        ..trusting(&authority("CA").pem())
    });
    assert!(error.setting == "ssl.crl.location" && error.message.contains("X509 CRL"), "{error}");
}

#[test]
fn a_folder_is_read_whole() {
    let (folder, issuer) = (tempfile(), authority("CA"));
    folder.write("a.pem", authority("Other CA").pem());
    folder.write("b.crt", issuer.pem());
    folder.write("README", "hello");
    let server = server_config(&leaf(params(&["localhost"]), &issuer), None, &TLS13);
    Pair::new(&mut context(at(&folder.path)), "localhost", &server).run().expect("trusted");
}

#[test]
fn keys_of_all_kinds_are_read() {
    let own = leaf(params(&["a"]), &authority("CA"));
    let chain = own.cert.pem();
    for (key, password) in [(own.key.serialize_pem(), None), (encrypted(&own, "hunter2"), Some("hunter2"))] {
        context(pair_of(&chain, &key, password));
        context(pair_of(&chain.replace('\n', "\\n"), &key.replace('\n', "\\n"), password));
    }
    let key = encrypted(&own, "hunter2");
    for (password, says) in
        [(None, "set ssl.key.password"), (Some("hunter3"), "is not the password of the private key")]
    {
        let error = refused(pair_of(&chain, &key, password));
        assert!(error.message.contains(says) && !error.message.contains("hunter"), "{error}");
    }
    let other = leaf(params(&["a"]), &authority("CA"));
    let error = refused(pair_of(&chain, &other.key.serialize_pem(), None));
    assert!(error.message.contains("does not belong to the client's certificate"), "{error}");
    assert!(refused(pair_of(&chain, &chain, None)).message.contains("there is no private key"));
}

#[test]
fn keystores_of_pkcs12_are_read() {
    let (folder, issuer) = (tempfile(), authority("CA"));
    let own = leaf(params(&["client"]), &issuer);
    let certs = [own.cert.der(), issuer.der()].map(|der| Certificate::from_der(der).expect("a certificate"));
    let chain = PrivateKeyChain::new(
        LocalKeyId(vec![1]),
        PrivateKey::from_der(&own.key.serialize_der()).expect("a key"),
        certs.clone(),
    );
    let mut store = KeyStore::new();
    store.add_entry("client", KeyStoreEntry::PrivateKeyChain(chain));
    let keystore = folder.write("client.p12", store.writer("hunter2").write().expect("PKCS#12"));
    let mut store = KeyStore::new();
    store.add_entry("ca", KeyStoreEntry::Certificate(certs[1].clone()));
    let truststore = folder.write("ca.p12", store.writer("hunter2").write().expect("PKCS#12"));
    let settings = |password: Option<&str>| TlsSettings {
        root_password: password.map(Secret::from),
        identity: Some(IdentitySource::Keystore {
            path: keystore.clone(),
            password: password.map(Secret::from),
            key_password: None,
        }),
        ..at(&truststore)
    };
    let server = server_config(&leaf(params(&["localhost"]), &issuer), Some(&issuer), &TLS13);
    let mut pair = Pair::new(&mut context(settings(Some("hunter2"))), "localhost", &server);
    pair.run().expect("accepted");
    assert!(pair.server.peer_certificates().is_some());
    for (password, says) in [(None, "set ssl.truststore.password"), (Some("hunter3"), "is not the password")] {
        let error = refused(settings(password));
        assert!(error.message.contains(says), "{error}");
    }
}

#[test]
fn changed_files_are_read_again() {
    let folder = tempfile();
    let issuers = [authority("first CA"), authority("second CA")];
    let servers = issuers.each_ref().map(|issuer| server_config(&leaf(params(&["localhost"]), issuer), None, &TLS13));
    let path = folder.write("ca.pem", issuers[0].pem());
    let said = Arc::new(Mutex::new(Vec::new()));
    let says = Arc::clone(&said);
    let log = Box::new(move |error: &TlsSetupError| says.lock().expect("whole").push(error.message.clone()));
    let mut context = TlsContext::new(Arc::new(at(&path)), log).expect("a CA");
    Pair::new(&mut context, "localhost", &servers[0]).run().expect("the first CA");
    // As rotation does: a new file takes the name of the old one.
    let replace = |content: &str| fs::rename(folder.write("new", content), &path).expect("replaced");
    replace(&issuers[1].pem());
    Pair::new(&mut context, "localhost", &servers[1]).run().expect("the second CA");
    replace("half written");
    for _ in 0..3 {
        Pair::new(&mut context, "localhost", &servers[1]).run().expect("the former file");
    }
    assert_eq!(said.lock().expect("whole").len(), 1, "one line, not a flood");
    replace(&issuers[0].pem());
    Pair::new(&mut context, "localhost", &servers[0]).run().expect("the first CA");
}
