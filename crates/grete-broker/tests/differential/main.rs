//! Grete's broker beside Apache Kafka: random sequences of requests go to both, and the responses must be equal.
//!
//! `python -m tests.kafka.differential --seeds 50` starts Kafka and runs the test with these environment variables:
//!
//! | variable | meaning |
//! |---|---|
//! | `KAFKA_BOOTSTRAP` | host:port of Apache Kafka, one node with id 1 |
//! | `GRETE_SEEDS` | number of seeds, 50 if unset |
//! | `GRETE_FIRST_SEED` | first seed, 0 if unset |
//! | `GRETE_AUTHORIZER` | if set, both brokers have an authorizer, and all clients are super users |
//! | `GRETE_ALL_FAILURES` | if set, prints one difference of each kind and goes on, also within a seed |
//!
//! [`normalize`] lists the rules by which responses are compared. A difference counts if it shows again in each of four
//! more runs of the same sequence: Kafka performs some effects after its response, and elects the next leader of a group
//! by the hashes of member ids, which it draws. The report has the shortest part of the sequence that still shows a
//! difference.

mod connection;
mod consumer_groups;
mod memory_groups;
mod message;
mod normalize;
mod pair;
mod side;
mod steps;
mod tree;
mod versions;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use grete_broker::acl::AclConfig;
use grete_broker::cluster::{BrokerAddress, Cluster, ClusterConfig};
use grete_broker::ids::BrokerId;
use grete_broker::server::{Server, ServerConfig};

use pair::{CONNECTIONS, Pair};
use steps::{Offered, Step};

/// Runs in which a difference must show again.
const REPEATS: usize = 4;

struct Brokers {
    grete: String,
    kafka: String,
    offered: Offered,
    runs: u64,
}

impl Brokers {
    /// Runs a sequence. The error has the difference and the transcript.
    fn run(&mut self, steps: &[Step], tolerated: Option<&mut Vec<String>>) -> Result<usize, (String, Vec<String>)> {
        self.runs += 1;
        let now = now();
        let run = format!("d{:x}-{}-", now, self.runs);
        let mut pair = Pair::new(&self.grete, &self.kafka, &run, now, &self.offered);
        if let Some(tolerated) = tolerated {
            pair.tolerate(tolerated);
        }
        let mut transcript = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            if let Err(difference) = pair.step(*step, index == 0, &mut transcript) {
                return Err((difference, transcript));
            }
        }
        Ok(transcript.len())
    }

    /// Returns the shortest part of a failing sequence that was found, with its outcome.
    fn shrink(&mut self, mut steps: Vec<Step>, mut outcome: (String, Vec<String>)) -> (String, Vec<String>) {
        let mut size = steps.len() / 2;
        while size > 0 {
            let mut at = 1;
            while at < steps.len() {
                let end = (at + size).min(steps.len());
                let shorter = [&steps[..at], &steps[end..]].concat();
                match self.run(&shorter, None) {
                    Err(failure) => (steps, outcome) = (shorter, failure),
                    Ok(_) => at = end,
                }
            }
            size /= 2;
        }
        outcome
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

/// Returns what two differences of the same kind have in common: API and fields, without indexes.
fn kind_of(difference: &str) -> String {
    let mut lines = difference.lines();
    let api =
        lines.next().unwrap_or_default().split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_uppercase()));
    let field = lines.next().unwrap_or_default();
    let field: String = field.chars().filter(|c| !c.is_ascii_digit()).collect();
    format!("{} {field}", api.unwrap_or_default())
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn start() -> Server<Cluster> {
    let cluster = |addresses: &[(BrokerId, SocketAddr)]| {
        let broker = |&(id, address): &(BrokerId, SocketAddr)| BrokerAddress {
            id,
            host: address.ip().to_string().into(),
            port: address.port(),
            rack: None,
        };
        let defaults = ClusterConfig::new(addresses.iter().map(broker).collect());
        let acls = std::env::var_os("GRETE_AUTHORIZER")
            .map(|_| AclConfig { super_users: BTreeSet::from(["User:ANONYMOUS".to_owned()]), ..AclConfig::default() });
        Cluster::new(ClusterConfig { auto_create_topics: false, acls, ..defaults })
    };
    Server::start(ServerConfig::default(), cluster, |_| Ok(())).expect("starts")
}

#[test]
#[ignore = "needs Apache Kafka: python -m tests.kafka.differential"]
fn responses_are_those_of_kafka() {
    let kafka = std::env::var("KAFKA_BOOTSTRAP").expect("KAFKA_BOOTSTRAP has the address of Apache Kafka");
    let server = start();
    let grete = server.addresses()[0].1.to_string();
    let offered = versions::compare(&grete, &kafka);
    versions::warm_up(&kafka);
    // Producer id 0 is also the default of fields without a value: a run must not get it.
    versions::warm_up(&grete);
    memory_groups::compare(&grete, &kafka, &format!("d{:x}-", now()));
    consumer_groups::compare(&grete, &kafka, &format!("d{:x}-", now()), now());
    let mut brokers = Brokers { grete, kafka, offered, runs: 0 };
    let (first, count) = (variable("GRETE_FIRST_SEED", 0), variable("GRETE_SEEDS", 50));
    let goes_on = std::env::var_os("GRETE_ALL_FAILURES").is_some();
    let mut kinds = BTreeSet::new();
    let (mut failures, mut unstable, mut lines) = (Vec::new(), Vec::new(), 0);
    for seed in first..first + count {
        let steps = steps::sequence(seed, CONNECTIONS);
        if goes_on {
            let mut differences = Vec::new();
            lines += brokers.run(&steps, Some(&mut differences)).unwrap_or_default();
            if !differences.is_empty() {
                failures.push(seed);
            }
            for difference in differences {
                if kinds.insert(kind_of(&difference)) {
                    println!("seed {seed} differs: {difference}");
                }
            }
            continue;
        }
        let outcome = match brokers.run(&steps, None) {
            Ok(count) => {
                lines += count;
                continue;
            }
            Err(outcome) => outcome,
        };
        if (0..REPEATS).any(|_| brokers.run(&steps, None).is_ok()) {
            println!("seed {seed}: a difference that did not always show again: {}", outcome.0);
            unstable.push(seed);
            continue;
        }
        println!("seed {seed} differs:\n{}", outcome.0);
        failures.push(seed);
        let (difference, transcript) = brokers.shrink(steps, outcome);
        println!("shortest sequence:\n{}\n{difference}", transcript.join("\n"));
        break;
    }
    println!("{count} seeds, {lines} lines of requests and responses, unstable {unstable:?}, failed {failures:?}");
    assert!(failures.is_empty(), "seeds {failures:?} differ from Kafka");
}
