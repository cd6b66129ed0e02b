//! Dates of certificates, for `grete doctor`.

use std::net::IpAddr;

use grete_client::{AdminConfig, SettingPairs, Validity};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::timeout_or_forever;
use crate::errors;

/// First and last second in which a certificate is valid, since 1970.
type Dates = Option<(i64, i64)>;

fn dates(validity: Option<Validity>) -> Dates {
    validity.map(|validity| (validity.not_before, validity.not_after))
}

/// Returns from when until when the certificate of a client with these settings is valid, in seconds since 1970; None:
/// it has none. Raises `ConfigError`.
#[pyfunction]
pub(crate) fn client_certificate_dates(py: Python<'_>, config: Vec<(String, String)>) -> PyResult<Dates> {
    let config = SettingPairs::from(config);
    let config = AdminConfig::from_pairs(&config).map_err(errors::config)?;
    py.detach(|| grete_client::client_validity(&config)).map(dates).map_err(errors::client)
}

/// Makes one handshake with the server of `host` at `address`, for up to `timeout` seconds. Returns from when until when
/// its certificate is valid, in seconds since 1970; None: it has shown none. Raises `ConfigError`.
#[pyfunction]
pub(crate) fn server_certificate_dates(
    py: Python<'_>,
    config: Vec<(String, String)>,
    host: &str,
    address: &str,
    port: u16,
    timeout: f64,
) -> PyResult<Dates> {
    let config = SettingPairs::from(config);
    let config = AdminConfig::from_pairs(&config).map_err(errors::config)?;
    let timeout = timeout_or_forever(Some(timeout))?;
    let address: IpAddr =
        address.parse().map_err(|_| PyValueError::new_err(format!("{address:?} is no address of a host")))?;
    let found = py.detach(|| grete_client::server_validity(&config, host, address, port, timeout));
    found.map(dates).map_err(errors::client)
}
