//! Embedded brokers: a cluster behind a server, from plain settings.

mod cluster_id;
mod features;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use grete_sys::random::random;
use grete_wire::ErrorCode;
use thiserror::Error;

pub use features::{Feature, features};

use crate::cluster::{BrokerAddress, Cluster, ClusterConfig, Release};
use crate::ids::BrokerId;
use crate::journal::{JournalConfig, SyncPolicy};
use crate::sasl::{SaslConfig, Users};
use crate::server::{Limits, LogLines, Server, ServerConfig, ServerError, TlsConfig};

/// Mechanism whose tokens are not signed: everyone can make one.
const UNSECURED: &str = "OAUTHBEARER";

/// Running embedded brokers.
pub type EmbeddedBroker = Server<Cluster>;

/// Settings of embedded brokers.
#[derive(Debug, Clone)]
pub struct EmbeddedConfig {
    /// Address that all brokers listen on.
    pub host: IpAddr,
    /// Host name in Metadata, by which clients connect; `None`: `host`.
    pub advertised_host: Option<String>,
    /// Whether `host` may be other than a loopback address without `users` and `tls`.
    pub allow_anyone: bool,
    /// Port of each broker, one broker each. 0: a free port.
    pub ports: Vec<u16>,
    /// Port of each broker in Metadata, for proxies in front of the brokers. Empty: the brokers' own.
    pub advertised_ports: Vec<u16>,
    /// Settings by Kafka's names.
    pub settings: Vec<(String, String)>,
    /// Topics to create with their numbers of partitions. Topics that exist stay as they are.
    pub topics: Vec<(String, i32)>,
    /// Directory for records, topics and groups; `None`: everything is lost at the end.
    pub data: Option<PathBuf>,
    /// Whether stored changes survive a power loss.
    pub sync: SyncPolicy,
    /// Bytes of record batches in memory, beyond which records are refused; `None`: 1 GiB.
    pub max_bytes: Option<usize>,
    /// Release of Kafka whose API versions the brokers offer.
    pub release: Release,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// Users who may log in; empty: clients do not log in.
    pub users: Users,
    /// Whether log lines also go to standard error.
    pub log_to_stderr: bool,
    /// TLS of all listeners; `None`: connections are not encrypted.
    pub tls: Option<TlsConfig>,
}

impl Default for EmbeddedConfig {
    fn default() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            advertised_host: None,
            allow_anyone: false,
            ports: vec![0],
            advertised_ports: Vec::new(),
            settings: Vec::new(),
            topics: Vec::new(),
            data: None,
            sync: SyncPolicy::Never,
            max_bytes: None,
            release: Release::LATEST,
            auto_create_topics: true,
            users: Users::default(),
            log_to_stderr: false,
            tls: None,
        }
    }
}

/// Reason why embedded brokers do not start.
#[derive(Debug, Error)]
pub enum EmbeddedError {
    /// The settings contradict each other.
    #[error("{0}")]
    Config(String),
    /// The id of the cluster cannot be stored.
    #[error("cannot store the cluster's id in {path}: {source}")]
    ClusterId {
        /// File.
        path: PathBuf,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// The server does not start.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// Starts brokers. Clients may connect as soon as this function returns.
///
/// # Errors
/// A port is in use, the stored data is in use or damaged, or a topic has an invalid name or number of partitions.
pub fn start(config: EmbeddedConfig) -> Result<EmbeddedBroker, EmbeddedError> {
    if config.ports.is_empty() {
        return Err(EmbeddedError::Config("a cluster has no brokers: give one port at least".into()));
    }
    let needs_logins = !config.host.is_loopback() && !config.allow_anyone;
    if needs_logins {
        check_logins(&config)?;
    }
    if config.host.is_unspecified() && config.advertised_host.is_none() {
        return Err(EmbeddedError::Config(format!(
            "clients cannot connect to {}: say by which name or address they reach this machine \
             (advertised_host, --advertised-host)",
            config.host
        )));
    }
    let mut cluster_config = ClusterConfig::new(Vec::new());
    cluster_config.auto_create_topics = config.auto_create_topics;
    cluster_config.sasl = (!config.users.is_empty()).then(|| SaslConfig::new(config.users.clone()));
    if needs_logins && let Some(sasl) = &mut cluster_config.sasl {
        sasl.mechanisms.retain(|name| *name != UNSECURED);
    }
    let mut racks = Vec::new();
    for (name, value) in &config.settings {
        if name == "broker.rack" {
            racks = split_racks(value, config.ports.len())?;
            continue;
        }
        cluster_config.set(name, value).map_err(EmbeddedError::Config)?;
    }
    cluster_config.consumer_groups.check().map_err(EmbeddedError::Config)?;
    cluster_config.share_groups.check().map_err(EmbeddedError::Config)?;
    if needs_logins && cluster_config.sasl.as_ref().is_some_and(|sasl| sasl.mechanisms.contains(&UNSECURED)) {
        return Err(EmbeddedError::Config(format!(
            "sasl.enabled.mechanisms has {UNSECURED}, whose unsecured tokens everyone can make who can reach {}; leave \
             the mechanism out, or allow that explicitly (allow_anyone, --allow-anyone)",
            config.host
        )));
    }
    let journal = config.data.map(|directory| JournalConfig { directory, sync: config.sync });
    let cluster_id = journal.as_ref().map(|journal| cluster_id::load_or_create(&journal.directory)).transpose()?;
    let server = ServerConfig {
        host: config.host,
        ports: (1..).zip(config.ports).collect(),
        journal,
        limits: Limits::default(),
        log: LogLines::new(config.log_to_stderr),
        tls: config.tls,
    };
    let advertised = config.advertised_host.unwrap_or_else(|| config.host.to_string());
    let (release, max_bytes, advertised_ports) = (config.release, config.max_bytes, config.advertised_ports);
    let new_cluster = |addresses: &[(BrokerId, std::net::SocketAddr)]| {
        let broker = |(index, &(id, address)): (usize, &(BrokerId, std::net::SocketAddr))| {
            let (host, rack) = (advertised.as_str().into(), racks.get(index).filter(|rack| !rack.is_empty()).cloned());
            let port = advertised_ports.get(index).copied().unwrap_or(address.port());
            BrokerAddress { id, host, port, rack }
        };
        let defaults = ClusterConfig { brokers: addresses.iter().enumerate().map(broker).collect(), ..cluster_config };
        // A seed of its own for each start: ids of topics must differ from those that are restored.
        let max_bytes = max_bytes.unwrap_or(defaults.max_bytes);
        Cluster::new(ClusterConfig {
            cluster_id: cluster_id.map(Into::into),
            seed: random(),
            release,
            max_bytes,
            ..defaults
        })
    };
    let topics = config.topics;
    Ok(Server::start(server, new_cluster, |cluster| create_topics(cluster, &topics))?)
}

/// Returns the rack of each broker, from `broker.rack` of one or of all brokers, separated by commas.
fn split_racks(value: &str, brokers: usize) -> Result<Vec<Arc<str>>, EmbeddedError> {
    let racks: Vec<Arc<str>> = value.split(',').map(|rack| Arc::from(rack.trim())).collect();
    match racks.as_slice() {
        [only] => Ok(vec![Arc::clone(only); brokers]),
        all if all.len() == brokers => Ok(racks),
        all => Err(EmbeddedError::Config(format!(
            "broker.rack names {} racks for {brokers} brokers: give one, or one for each broker, separated by commas",
            all.len()
        ))),
    }
}

/// Checks that clients log in over TLS, so that an address that others can reach lets in only the users.
fn check_logins(config: &EmbeddedConfig) -> Result<(), EmbeddedError> {
    let host = config.host;
    let message = match (config.users.is_empty(), config.tls.is_some()) {
        (false, true) => return Ok(()),
        (false, false) => format!(
            "{host} is no loopback address, and connections are not encrypted: passwords and records go over the \
             network in plain text; encrypt them (tls, --tls), or allow that explicitly (allow_anyone, --allow-anyone)"
        ),
        (true, _) => format!(
            "{host} is no loopback address, and clients do not log in: everyone who can reach the port can read, write \
             and delete everything; let users log in over TLS (sasl and tls, --sasl and --tls), or allow that \
             explicitly (allow_anyone, --allow-anyone)"
        ),
    };
    Err(EmbeddedError::Config(message))
}

fn create_topics(cluster: &mut Cluster, topics: &[(String, i32)]) -> Result<(), String> {
    for (name, partitions) in topics {
        match cluster.create_topic(name, *partitions, &[]) {
            Ok(()) | Err((ErrorCode::TOPIC_ALREADY_EXISTS, _)) => {}
            Err((_, message)) => return Err(format!("topic {name:?} cannot be created: {message}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
