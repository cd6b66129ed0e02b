//! TLS of one client: its configuration, made from files, and made anew when the files change.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use grete_proto::tls_failure::{TlsFailure, TlsFailureKind};
use rustls::client::{Resumption, UnbufferedClientConnection, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

use super::failure::failure;
use super::files::ReadFiles;
use super::identity;
use super::pem::Origin;
use super::settings::{CertificateSource, TlsSettings};
use super::setup_error::TlsSetupError;
use super::stream::TlsStream;
use super::validity::Validity;
use super::verifier::{BrokerVerifier, ClientCertificate, Observations};

/// Sessions that are kept to be resumed: a few for each broker of a large cluster.
const KEPT_SESSIONS: usize = 256;

/// Function that reports why changed files were not taken.
pub type OnReloadError = Box<dyn Fn(&TlsSetupError) + Send>;

/// TLS of one client. All its connections share one configuration, so that they resume each other's sessions.
pub struct TlsContext {
    settings: Arc<TlsSettings>,
    loaded: Loaded,
    /// Files of an attempt to load that failed: the next attempt waits until they have changed again.
    failed: Option<ReadFiles>,
    on_reload_error: OnReloadError,
}

/// Configuration, what its handshakes observe, and the dates of the client's certificate.
type Configured = (Arc<ClientConfig>, Arc<Observations>, Option<Validity>);

struct Loaded {
    config: Arc<ClientConfig>,
    observations: Arc<Observations>,
    /// Dates of the client's certificate; `None`: it has none.
    own: Option<Validity>,
    files: ReadFiles,
}

impl TlsContext {
    /// Reads the files that the settings name. `on_reload_error` is called when changed files cannot be used later;
    /// connections use the former ones then.
    ///
    /// # Errors
    /// A file is missing, is not of a known kind, or needs another password; or key and certificate differ.
    pub fn new(settings: Arc<TlsSettings>, on_reload_error: OnReloadError) -> Result<Self, TlsSetupError> {
        let mut files = ReadFiles::default();
        let (config, observations, own) = load(&settings, &mut files)?;
        let loaded = Loaded { config, observations, own, files };
        Ok(Self { settings, loaded, failed: None, on_reload_error })
    }

    /// Starts a connection to `host`, which is a name or an address. Looks first whether files have changed: the
    /// broker's issuer, or the client's certificate, may have been renewed.
    pub(crate) fn connect(&mut self, host: &str) -> Result<TlsStream, TlsFailure> {
        self.reload_changed();
        let broken = |message: String| failure(TlsFailureKind::Protocol, message);
        let name = server_name(host)
            .ok_or_else(|| broken(format!("{host:?} is no name that a certificate can have; use another name")))?;
        let config = Arc::clone(&self.loaded.config);
        let connection = UnbufferedClientConnection::new(config, name)
            .map_err(|error| broken(format!("TLS cannot be started: {error}")))?;
        let observations = Arc::clone(&self.loaded.observations);
        Ok(TlsStream::new(connection, observations, self.loaded.own, self.settings.logs_in))
    }

    /// Returns the dates of the client's certificate; `None`: it has none.
    #[must_use]
    pub fn client_validity(&self) -> Option<Validity> {
        self.loaded.own
    }

    fn reload_changed(&mut self) {
        let tried = self.failed.as_ref().unwrap_or(&self.loaded.files);
        if !tried.have_changed() {
            return;
        }
        let mut files = ReadFiles::default();
        match load(&self.settings, &mut files) {
            Ok((config, observations, own)) => {
                self.loaded = Loaded { config, observations, own, files };
                self.failed = None;
            }
            Err(error) => {
                (self.on_reload_error)(&error);
                self.failed = Some(files);
            }
        }
    }
}

impl fmt::Debug for TlsContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsContext").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Returns the name to compare with the certificate. The dot at the end of an absolute name is not part of it.
fn server_name(host: &str) -> Option<ServerName<'static>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(address.into());
    }
    ServerName::try_from(host.strip_suffix('.').unwrap_or(host).to_owned()).ok()
}

fn load(settings: &TlsSettings, files: &mut ReadFiles) -> Result<Configured, TlsSetupError> {
    let provider = Arc::new(ring::default_provider());
    let observations = Arc::new(Observations::default());
    let verifier = verifier(settings, files, &provider, &observations)?;
    let certified = match &settings.identity {
        Some(source) => Some(Arc::new(identity::load(source, files)?)),
        None => None,
    };
    let own = certified.as_ref().and_then(|certified| Validity::of(certified.cert.first()?));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsSetupError::new("security.protocol", format!("TLS cannot be started: {error}")))?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(ClientCertificate { certified, observations: Arc::clone(&observations) }));
    config.resumption = Resumption::in_memory_sessions(KEPT_SESSIONS);
    Ok((Arc::new(config), observations, own))
}

fn verifier(
    settings: &TlsSettings,
    files: &mut ReadFiles,
    provider: &Arc<CryptoProvider>,
    observations: &Arc<Observations>,
) -> Result<BrokerVerifier, TlsSetupError> {
    let mut verifier = BrokerVerifier {
        chain: None,
        trusted: Vec::new(),
        roots_setting: None,
        verify_host_name: settings.verify_host_name,
        provider: Arc::clone(provider),
        observations: Arc::clone(observations),
    };
    if !settings.verify_certificate {
        return Ok(verifier);
    }
    let mut roots = if settings.roots.is_empty() { system_roots()? } else { RootCertStore::empty() };
    for source in &settings.roots {
        let (certificates, origin) = identity::read_certificates(source, settings.root_password.as_ref(), files)?;
        if certificates.is_empty() {
            return Err(origin.error("there is no certificate; give the CA's that signed the broker's certificate"));
        }
        verifier.roots_setting = verifier.roots_setting.or(Some(match source {
            CertificateSource::Location { setting, .. } | CertificateSource::Pem { setting, .. } => setting,
        }));
        let (added, _) = roots.add_parsable_certificates(certificates.iter().cloned());
        if added == 0 {
            return Err(origin.error("no certificate can be read: X.509 version 3 is needed"));
        }
        verifier.trusted.extend(certificates);
    }
    let mut builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let origin = Origin { setting: "ssl.crl.location", path: settings.revoked.as_deref() };
    if origin.path.is_some() {
        let revoked = files.read(origin, None, "ssl.crl.location")?.revoked;
        if revoked.is_empty() {
            return Err(origin.error("there is no list of revoked certificates in PEM (-----BEGIN X509 CRL-----)"));
        }
        // As librdkafka does: the broker's own certificate must be on a present list of its issuer's.
        builder = builder.with_crls(revoked).only_check_end_entity_revocation().enforce_revocation_expiration();
    }
    let chain = builder.build().map_err(|error| origin.error(format!("a list cannot be read: {error}")))?;
    verifier.chain = Some(chain);
    Ok(verifier)
}

/// Returns the certificates that the system trusts. They are read once for all clients of the process: several hundred
/// files take tens of milliseconds.
fn system_roots() -> Result<RootCertStore, TlsSetupError> {
    static SYSTEM: OnceLock<RootCertStore> = OnceLock::new();
    if let Some(roots) = SYSTEM.get() {
        return Ok(roots.clone());
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why: String = found.errors.iter().map(|error| format!(" ({error})")).collect();
        return Err(TlsSetupError::new(
            "ssl.ca.location",
            format!(
                "ssl.ca.location is not set, and the system has no trusted certificates{why}; install them (the package \
                 ca-certificates), or set ssl.ca.location to the file of the broker's CA"
            ),
        ));
    }
    Ok(SYSTEM.get_or_init(|| roots).clone())
}
