//! Brokers from plain settings, with data that outlives them.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::server::DevCertificates;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Data directory of one test.
struct Data(PathBuf);

impl Data {
    fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("grete-embedded-{}-{number}", std::process::id())))
    }

    fn config(&self, topics: &[(&str, i32)]) -> EmbeddedConfig {
        let topics = topics.iter().map(|&(name, partitions)| (name.into(), partitions)).collect();
        EmbeddedConfig { data: Some(self.0.clone()), topics, ..EmbeddedConfig::default() }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns names, ids and numbers of partitions of all topics.
fn topics(broker: &EmbeddedBroker) -> Vec<(String, u128, usize)> {
    let list = |cluster: &mut Cluster| {
        cluster.topics().iter().map(|topic| (topic.name.to_string(), topic.id, topic.partitions.len())).collect()
    };
    broker.call(move |cluster, _, _| list(cluster)).unwrap()
}

#[test]
fn topics_survive_a_restart_and_new_ones_get_other_ids() {
    let data = Data::new();
    let broker = start(data.config(&[("orders", 8)])).unwrap();
    let before = topics(&broker);
    assert_eq!((before.len(), &*before[0].0, before[0].2), (1, "orders", 8));
    broker.call(|cluster, _, _| cluster.create_topic("called", 2, &[])).unwrap().unwrap();
    drop(broker);
    // A topic that exists keeps its partitions, whatever the settings say.
    let broker = start(data.config(&[("orders", 3), ("bills", 1)])).unwrap();
    let after = topics(&broker);
    let names: Vec<_> = after.iter().map(|(name, _, partitions)| (&**name, *partitions)).collect();
    assert_eq!(names, [("bills", 1), ("called", 2), ("orders", 8)]);
    assert!(after.contains(&before[0]));
    let mut ids: Vec<u128> = after.iter().map(|topic| topic.1).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn the_id_of_a_cluster_stays_with_its_data() {
    let data = Data::new();
    let id = || {
        let broker = start(data.config(&[])).unwrap();
        broker.call(|cluster, _, _| cluster.config().cluster_id.clone()).unwrap().unwrap()
    };
    let first = id();
    assert_eq!((first.len(), id()), (22, first.clone()));
    let other = Data::new();
    let broker = start(other.config(&[])).unwrap();
    assert_ne!(broker.call(|cluster, _, _| cluster.config().cluster_id.clone()).unwrap().unwrap(), first);
}

#[test]
fn two_clusters_do_not_share_a_directory() {
    let data = Data::new();
    let _first = start(data.config(&[])).unwrap();
    let error = start(data.config(&[])).unwrap_err().to_string();
    assert!(error.contains("is in use by process"), "{error}");
}

#[test]
fn invalid_settings_are_refused() {
    let refused = |config| start(config).unwrap_err().to_string();
    let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let error = refused(EmbeddedConfig { host: unspecified, ..EmbeddedConfig::default() });
    assert!(error.contains("everyone who can reach the port"), "{error}");
    let error = refused(EmbeddedConfig { host: unspecified, allow_anyone: true, ..EmbeddedConfig::default() });
    assert!(error.contains("--advertised-host"), "{error}");
    let error = refused(EmbeddedConfig { ports: vec![], ..EmbeddedConfig::default() });
    assert!(error.contains("no brokers"), "{error}");
    for topic in [("orders", 0), ("no spaces", 1), ("", 1), ("orders", i32::MAX)] {
        let error = refused(EmbeddedConfig { topics: vec![(topic.0.into(), topic.1)], ..EmbeddedConfig::default() });
        assert!(error.starts_with(&format!("topic {:?} cannot be created", topic.0)), "{error}");
    }
}

#[test]
fn an_address_that_others_reach_needs_logins_over_tls() {
    let certificates = DevCertificates::generate(vec!["localhost".into()]).unwrap();
    let mut users = Users::default();
    users.set("alice", "secret", random());
    let with_users = EmbeddedConfig {
        host: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        advertised_host: Some("localhost".into()),
        users,
        ..EmbeddedConfig::default()
    };
    let error = start(with_users.clone()).unwrap_err().to_string();
    assert!(error.contains("passwords and records go over the network in plain text"), "{error}");
    assert!(!error.contains("everyone"), "{error}");
    let tls = TlsConfig::new(&certificates.broker, &certificates.broker_key, None).unwrap();
    let encrypted = EmbeddedConfig { tls: Some(tls), ..with_users.clone() };
    let error = start(EmbeddedConfig { users: Users::default(), ..encrypted.clone() }).unwrap_err().to_string();
    assert!(error.contains("clients do not log in: everyone"), "{error}");
    let mechanisms = |config| {
        let broker = start(config).unwrap();
        broker.call(|cluster, _, _| cluster.config().sasl.as_ref().unwrap().mechanisms.clone()).unwrap()
    };
    // Everyone can make an unsecured token, so that logins with one prove nothing.
    assert_eq!(mechanisms(encrypted.clone()), ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]);
    let settings = vec![("sasl.enabled.mechanisms".to_owned(), "PLAIN,OAUTHBEARER".to_owned())];
    let error = start(EmbeddedConfig { settings: settings.clone(), ..encrypted.clone() }).unwrap_err().to_string();
    assert!(error.contains("OAUTHBEARER, whose unsecured tokens everyone can make"), "{error}");
    let allowed = EmbeddedConfig { allow_anyone: true, settings, ..encrypted };
    assert_eq!(mechanisms(allowed), ["PLAIN", "OAUTHBEARER"]);
    assert_eq!(mechanisms(EmbeddedConfig { allow_anyone: true, ..with_users }).len(), 4);
}

#[test]
fn settings_and_advertised_ports_reach_the_cluster() {
    let settings = vec![("broker.session.timeout.ms".into(), "3000".into())];
    let config = EmbeddedConfig { advertised_ports: vec![9999], settings, ..EmbeddedConfig::default() };
    let broker = start(config).unwrap();
    let found = broker.call(|cluster, _, _| {
        let config = cluster.config();
        (config.broker_session_timeout_ms, config.brokers.iter().map(|broker| broker.port).collect::<Vec<_>>())
    });
    assert_eq!(found.unwrap(), (3000, vec![9999]));
    let settings = vec![("log.dirs".into(), "/tmp".into())];
    let error = start(EmbeddedConfig { settings, ..EmbeddedConfig::default() }).err().unwrap();
    assert!(error.to_string().contains("log.dirs"));
}

#[test]
fn each_broker_has_an_address_of_its_own() {
    let broker = start(EmbeddedConfig { ports: vec![0; 3], ..EmbeddedConfig::default() }).unwrap();
    let ids: Vec<BrokerId> = broker.addresses().iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [1, 2, 3]);
}

#[test]
fn the_table_of_features_names_each_api_once() {
    let table = features(Release::LATEST);
    let mut names: Vec<_> = table.iter().map(|feature| feature.api).collect();
    assert!(names.is_sorted());
    names.dedup();
    assert_eq!(names.len(), table.len());
    let versions = |name| table.iter().find(|feature| feature.api == name).unwrap().versions.clone();
    assert!(versions("Produce").is_some() && versions("JoinGroup").is_some());
    assert_eq!((versions("ShareGroupHeartbeat"), versions("CreateDelegationToken")), (Some(1..=1), None));
}
