//! TLS of a client: the files of its settings are read, and what is unusual is logged.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use grete_net::tls::{TlsContext, TlsSettings, TlsSetupError, Validity};

use crate::config::{AdminConfig, ConfigError, ConfigErrorKind, Settings};
use crate::error::ClientError;
use crate::log_event::{Level, LogEvent};

impl From<TlsSetupError> for ClientError {
    fn from(error: TlsSetupError) -> Self {
        let TlsSetupError { setting, message } = error;
        ConfigError { setting: setting.to_owned(), message, kind: ConfigErrorKind::Invalid }.into()
    }
}

/// Reads the files of certificates and keys. `log` gets a warning now if checks are switched off, and later if changed
/// files cannot be used. `None`: connections are not encrypted.
pub(crate) fn tls_context(
    settings: &Settings,
    log: impl Fn(LogEvent) + Send + 'static,
) -> Result<Option<TlsContext>, ClientError> {
    let Some(tls) = &settings.security().tls else { return Ok(None) };
    if let Some(warning) = unverified(tls) {
        log(warning);
    }
    let on_reload_error = Box::new(move |error: &TlsSetupError| log(reload_failed(error)));
    Ok(Some(TlsContext::new(Arc::clone(tls), on_reload_error)?))
}

/// Returns the dates of the certificate that a client with these settings shows; `None`: it shows none.
///
/// # Errors
/// A file of the settings cannot be used.
pub fn client_validity(config: &AdminConfig) -> Result<Option<Validity>, ClientError> {
    Ok(tls_context(config, |_| {})?.and_then(|context| context.client_validity()))
}

/// Makes one handshake, for up to `timeout`, and returns the dates of the server's certificate; `None`: the settings do
/// not encrypt, or the server has shown no certificate.
///
/// # Errors
/// A file of the settings cannot be used.
pub fn server_validity(
    config: &AdminConfig,
    host: &str,
    address: IpAddr,
    port: u16,
    timeout: Duration,
) -> Result<Option<Validity>, ClientError> {
    let context = tls_context(config, |_| {})?;
    Ok(context.and_then(|mut context| context.server_validity(host, address, port, timeout)))
}

fn unverified(tls: &TlsSettings) -> Option<LogEvent> {
    let (setting, what) = if !tls.verify_certificate {
        ("enable.ssl.certificate.verification", "the certificates of brokers are not checked")
    } else if !tls.verify_host_name {
        (
            "ssl.endpoint.identification.algorithm",
            "the names of hosts are not compared with the certificates of brokers",
        )
    } else {
        return None;
    };
    Some(LogEvent {
        level: Level::Warning,
        name: "tls.unverified",
        message: format!(
            "{what}, because {setting} switches this off: an attacker between this client and a broker can read \
             and change everything"
        ),
        fields: vec![("setting", setting.to_owned())],
    })
}

fn reload_failed(error: &TlsSetupError) -> LogEvent {
    LogEvent {
        level: Level::Warning,
        name: "tls.reload_failed",
        message: format!("changed certificates were not taken: {error}; new connections use the former ones"),
        fields: vec![("setting", error.setting.to_owned())],
    }
}
