//! Files of certificates and keys, and when they change.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use grete_proto::secret::Secret;
use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12ImportPolicy};
use zeroize::Zeroizing;

use super::pem::{self, KeyKind, Origin, PemKey, PemSections};
use super::setup_error::TlsSetupError;

/// Files of certificates are small: a larger one is a mistake.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Device, inode, size and time of change of a file. `None`: the file cannot be found.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

/// Files that were read, and their states before they were read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReadFiles(Vec<(PathBuf, Stamp)>);

impl ReadFiles {
    /// Returns whether a file is not what it was.
    pub(super) fn have_changed(&self) -> bool {
        self.0.iter().any(|(path, before)| stamp(path) != *before)
    }

    /// Reads a file or all files of a folder.
    pub(super) fn read(
        &mut self,
        origin: Origin<'_>,
        password: Option<&Secret>,
        password_setting: &str,
    ) -> Result<PemSections, TlsSetupError> {
        let Some(path) = origin.path else { return Ok(PemSections::default()) };
        if !path.is_dir() {
            return self.read_file(origin, path, password, password_setting);
        }
        self.0.push((path.to_owned(), stamp(path)));
        let unreadable = |error: std::io::Error| origin.error(format!("the folder cannot be read: {error}"));
        let mut files: Vec<PathBuf> =
            fs::read_dir(path).map_err(unreadable)?.flatten().map(|entry| entry.path()).collect();
        files.sort_unstable();
        let mut all = PemSections::default();
        for file in files.iter().filter(|file| file.is_file()) {
            // A folder of certificates may hold a README or a key: what is not PEM is skipped, as OpenSSL does.
            let origin = Origin { path: Some(file), ..origin };
            if let Ok(sections) = self.read_file(origin, file, None, password_setting) {
                all.certificates.extend(sections.certificates);
                all.revoked.extend(sections.revoked);
            }
        }
        Ok(all)
    }

    fn read_file(
        &mut self,
        origin: Origin<'_>,
        path: &Path,
        password: Option<&Secret>,
        password_setting: &str,
    ) -> Result<PemSections, TlsSetupError> {
        self.0.push((path.to_owned(), stamp(path)));
        let bytes = read_bytes(origin, path)?;
        match bytes.as_slice() {
            [0xFE, 0xED, 0xFE, 0xED, ..] => {
                let name = path.display();
                Err(origin.error(format!(
                    "the file is a Java keystore (JKS), which only Java reads; convert it: keytool -importkeystore \
                     -srckeystore {name} -destkeystore {}.p12 -deststoretype PKCS12",
                    path.with_extension("").display()
                )))
            }
            [0x30, 0x80..=0x84, ..] => parse_pkcs12(origin, &bytes, password, password_setting),
            bytes => match std::str::from_utf8(bytes) {
                Ok(text) if text.contains("-----BEGIN ") => pem::parse(text, origin),
                _ => Err(origin.error(
                    "the file is neither PEM nor PKCS#12; a file in PEM has lines like -----BEGIN CERTIFICATE-----",
                )),
            },
        }
    }
}

fn read_bytes(origin: Origin<'_>, path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsSetupError> {
    let failed = |error: std::io::Error| {
        origin.error(match error.kind() {
            ErrorKind::NotFound => match std::env::current_dir() {
                Ok(folder) if path.is_relative() => format!("the file does not exist in {}", folder.display()),
                _ => "the file does not exist".to_owned(),
            },
            ErrorKind::PermissionDenied => {
                "the file may not be read by the user of this process; change its owner or mode".to_owned()
            }
            _ => format!("the file cannot be read: {error}"),
        })
    };
    let found = fs::metadata(path).map_err(failed)?;
    // Opening a FIFO blocks the network thread, and a device has no end.
    if !found.is_file() {
        return Err(origin.error("it is no regular file"));
    }
    if found.len() > MAX_FILE_BYTES {
        return Err(origin.error(format!("the file has {} bytes, so it is no file of certificates", found.len())));
    }
    fs::read(path).map(Zeroizing::new).map_err(failed)
}

/// Reads a PKCS#12 file. Certificates come in the order from the key's own to its issuers'.
fn parse_pkcs12(
    origin: Origin<'_>,
    bytes: &[u8],
    password: Option<&Secret>,
    password_setting: &str,
) -> Result<PemSections, TlsSetupError> {
    let given = password.map_or("", Secret::expose);
    let store = KeyStore::from_pkcs12(bytes, given, Pkcs12ImportPolicy::Relaxed).map_err(|error| {
        origin.error(match (&error, password) {
            (p12_keystore::error::Error::MacError(_), None) => {
                format!("the PKCS#12 file has a password; set {password_setting}")
            }
            (p12_keystore::error::Error::MacError(_), Some(_)) => {
                format!("{password_setting} is not the password of the PKCS#12 file")
            }
            _ => format!("the file is not readable as PKCS#12 ({error}); PEM can be given as well"),
        })
    })?;
    let mut sections = PemSections::default();
    for (_, entry) in store.entries() {
        match entry {
            KeyStoreEntry::PrivateKeyChain(chain) => {
                let der = Zeroizing::new(chain.key().as_der().to_vec());
                sections.keys.push(PemKey { kind: KeyKind::Pkcs8, der });
                sections.certificates.extend(chain.certs().iter().map(|cert| cert.as_der().to_vec().into()));
            }
            KeyStoreEntry::Certificate(cert) => sections.certificates.push(cert.as_der().to_vec().into()),
            _ => {}
        }
    }
    Ok(sections)
}
