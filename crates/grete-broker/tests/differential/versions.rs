//! ApiVersions of both brokers, and the first requests that make Kafka's coordinators ready.

use std::time::Duration;

use grete_broker::coordinator_partition::{COORDINATOR_PARTITIONS, coordinator_partition};
use grete_wire::ApiKey;
use grete_wire::messages::OffsetFetchRequestGroup;
use grete_wire::messages::{ApiVersionsRequest, FindCoordinatorRequest, InitProducerIdRequest, OffsetFetchRequest};

use crate::connection::{Answer, Connection};
use crate::message::{Ask, ask};
use crate::steps::Offered;
use crate::tree::Tree;

fn call(connection: &mut Connection, ask: &Ask) -> Tree {
    connection.send(ask);
    match connection.receive(ask, Duration::from_secs(30)) {
        Answer::Response(response) => response,
        answer => panic!("{} v{}: {answer:?}", ask.api, ask.version),
    }
}

fn offered(address: &str) -> Offered {
    let request = ApiVersionsRequest { client_software_name: "differ".into(), client_software_version: "1".into() };
    let response = call(&mut Connection::new(address), &ask(4, &request).expect("encodes"));
    let range = |api: &Tree| {
        let number = |name| api.number(name).expect("a number") as i16;
        (number("api_key"), number("min_version")..=number("max_version"))
    };
    println!("{address} features {}", response.get("finalized_features").expect("a field"));
    response.list("api_keys").iter().map(range).collect()
}

/// Version 2 of ListTransactions has patterns: Grete's broker has no regular expressions, and not this version.
const LIST_TRANSACTIONS: i16 = 66;

/// Returns the versions that both brokers offer, after a comparison: each API that Grete's broker has must have Kafka's
/// versions.
pub fn compare(grete: &str, kafka: &str) -> Offered {
    let (grete, kafka) = (offered(grete), offered(kafka));
    let missing: Vec<i16> = kafka.keys().filter(|api| !grete.contains_key(api)).copied().collect();
    println!("APIs of Kafka that Grete's broker does not have: {missing:?}");
    let mut both = Offered::new();
    for (key, versions) in &grete {
        if *key != LIST_TRANSACTIONS {
            assert_eq!(Some(versions), kafka.get(key), "versions of API {key}");
        }
        let valid = ApiKey::try_from(*key).expect("has messages").valid();
        both.insert(*key, (*versions.start().max(valid.start()))..=(*versions.end().min(valid.end())));
    }
    both
}

/// Waits until the coordinators of a broker are loaded.
pub fn warm_up(address: &str) {
    let mut connection = Connection::new(address);
    let mut until_ok = |request: Ask, code: fn(&Tree) -> Option<i128>| {
        while code(&call(&mut connection, &request)) != Some(0) {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    for partition in 0..COORDINATOR_PARTITIONS {
        let is_wanted = |key: &String| coordinator_partition(key) == partition;
        let key = (0..).map(|index| format!("warm-{index}")).find(is_wanted).expect("some name");
        for key_type in [0, 1] {
            let request = FindCoordinatorRequest { key: key.clone().into(), key_type, ..Default::default() };
            until_ok(ask(3, &request).expect("encodes"), |response| response.number("error_code"));
        }
        let group = OffsetFetchRequestGroup { group_id: key.clone().into(), topics: None, ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
        until_ok(ask(8, &request).expect("encodes"), |response| response.list("groups")[0].number("error_code"));
        let request = InitProducerIdRequest {
            transactional_id: Some(key.into()),
            transaction_timeout_ms: 1000,
            ..Default::default()
        };
        until_ok(ask(2, &request).expect("encodes"), |response| response.number("error_code"));
    }
}
