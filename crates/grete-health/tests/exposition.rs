//! What a scrape gets, read back as strictly as the format is defined.

use std::collections::{BTreeMap, BTreeSet};

use grete_health::metrics::{
    Client, Group, Handler, Histogram, Lane, MAX_GROUPS, MAX_HANDLERS, MAX_LANES, Process, Producer, catalogue,
};
use grete_health::{Gathering, LaneCounts, Metrics, exposition};
use proptest::prelude::*;

type Labels = Vec<(String, String)>;

/// What was read: each series with its value, families in order.
#[derive(Debug, Default)]
struct Scrape {
    families: Vec<(String, String)>,
    series: BTreeMap<(String, Labels), f64>,
}

impl Scrape {
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect();
        self.series.get(&(name.to_string(), labels)).copied()
    }

    fn named(&self, name: &str) -> impl Iterator<Item = (&Labels, f64)> {
        self.series.iter().filter(move |((series, _), _)| series == name).map(|((_, labels), value)| (labels, *value))
    }
}

/// Panics on everything that a strict reader would refuse.
fn read(text: &str) -> Scrape {
    let mut scrape = Scrape::default();
    let mut helped = None;
    assert!(text.ends_with('\n'));
    for line in text.strip_suffix('\n').expect("checked").split('\n') {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = Some(help.split_once(' ').expect("a text").0.to_string());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a kind");
            assert_eq!(helped.take().as_deref(), Some(name));
            assert!(!scrape.families.iter().any(|(known, _)| known == name), "{name} comes twice");
            scrape.families.push((name.to_string(), kind.to_string()));
        } else {
            let (family, kind) = scrape.families.last().expect("a family comes first");
            let end = line.find(['{', ' ']).expect("a value");
            let (name, rest) = line.split_at(end);
            let suffix = name.strip_prefix(family.as_str()).expect("samples of one family stand together");
            let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.contains(&suffix), "{line}");
            let (labels, value) = labels(rest);
            let value: f64 = value.strip_prefix(' ').expect("a space").parse().expect(line);
            let old = scrape.series.insert((name.to_string(), labels), value);
            assert_eq!(old, None, "{line} comes twice");
        }
    }
    scrape
}

fn labels(text: &str) -> (Labels, &str) {
    let Some(mut rest) = text.strip_prefix('{') else { return (Labels::new(), text) };
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"").expect("a value");
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next().expect("an end") {
                (at, '"') => break at,
                (_, '\\') => value.push(match characters.next().expect("escaped").1 {
                    'n' => '\n',
                    one @ ('"' | '\\') => one,
                    other => panic!("\\{other} is no escape"),
                }),
                (_, one) => value.push(one),
            }
        };
        labels.push((name.to_string(), value));
        rest = &after[end + 1..];
        match rest.as_bytes().first() {
            Some(b',') => rest = &rest[1..],
            Some(b'}') => return (labels, &rest[1..]),
            other => panic!("{other:?} after a label"),
        }
    }
}

fn scrape(metrics: Metrics) -> Scrape {
    let text = exposition::write(metrics, b"old".to_vec());
    let scrape = read(str::from_utf8(&text).expect("UTF-8"));
    // The supervisor of a swarm takes all of it, and adds nothing but the node.
    let mut gathering = Gathering::new();
    gathering.add(3, &text).expect("as Grete writes it");
    let gathered = read(&gathering.finish());
    assert_eq!(gathered.families, scrape.families);
    let node = ("node".to_string(), "3".to_string());
    let expected = scrape.series.iter().map(|((name, labels), value)| {
        let labels: Labels = std::iter::once(node.clone()).chain(labels.iter().cloned()).collect();
        ((name.clone(), labels), value.to_bits())
    });
    assert!(gathered.series.into_iter().map(|(series, value)| (series, value.to_bits())).eq(expected));
    scrape
}

/// Everything is known.
fn full() -> Metrics {
    let duration = Histogram { bounds: &[0.001, 1.0], counts: vec![1, 2, 4], sum: 10.5 };
    Metrics {
        handlers: vec![Handler {
            handler: "Orders".into(),
            jobs: Some(1),
            records: Some(2),
            failures: Some(3),
            retries: Some(4),
            dead_letters: Some(5),
            expired: Some(6),
            skipped: Some(7),
            stalls: Some(8),
            timeouts: Some(9),
            duration: Some(duration),
            running: Some(10),
            oldest: Some(11.25),
        }],
        lanes: vec![Lane {
            handler: "Orders".into(),
            topic: "orders".into(),
            partition: 3,
            lag: Some(u64::MAX),
            lag_seconds: Some(0.1),
            last_progress: Some(1_700_000_000.123),
            queued_bytes: Some(12),
        }],
        lane_states: Some(LaneCounts { idle: 1, ready: 2, running: 3, paused: 4, leaving: 5 }),
        groups: vec![Group {
            group: "".into(),
            partitions: Some(1),
            steady: Some(true),
            rebalances: Some(2),
            lost_partitions: Some(3),
            commits: Some(4),
            commit_failures: Some(5),
        }],
        clients: vec![Client {
            client: "c".into(),
            fetched_bytes: Some(1),
            fetched_records: Some(2),
            buffer_bytes: Some(3),
            connections: Some(4),
            reconnects: Some(5),
        }],
        producers: vec![Producer {
            client: "p".into(),
            records: Some(1),
            bytes: Some(2),
            failures: Some(3),
            retries: Some(4),
            buffer_bytes: Some(5),
            pending_records: Some(6),
        }],
        process: Process {
            workers: Some(5),
            busy_workers: Some(1),
            gil_wait: Some(0.0),
            resident_bytes: Some(1 << 30),
            cpu: Some(1e-9),
            open_fds: Some(9),
            start_time: Some(1_700_000_000.25),
            live: Some(true),
            ready: Some(false),
        },
    }
}

#[test]
fn everything_in_the_catalogue_is_told_in_its_order() {
    let families = scrape(full()).families;
    let told: Vec<_> = families.iter().map(|(name, kind)| (name.as_str(), kind.as_str())).collect();
    let own = catalogue::ALL.iter().filter(|entry| !entry.name.starts_with("grete_swarm_"));
    let expected: Vec<_> = own.map(|entry| (entry.name, entry.kind.name())).collect();
    assert_eq!(told, expected);
}

#[test]
fn numbers_are_told_as_they_are() {
    let scrape = scrape(full());
    let lane = [("handler", "Orders"), ("topic", "orders"), ("partition", "3")];
    assert_eq!(scrape.value("grete_lag_seconds", &lane), Some(0.1));
    assert_eq!(scrape.value("grete_last_progress_timestamp_seconds", &lane), Some(1_700_000_000.123));
    assert_eq!(scrape.value("grete_group_steady", &[("group", "")]), Some(1.0));
    assert_eq!(scrape.value("grete_live", &[]), Some(1.0));
    assert_eq!(scrape.value("grete_ready", &[]), Some(0.0));
    assert_eq!(scrape.value("grete_lanes", &[("state", "paused")]), Some(4.0));
    assert_eq!(scrape.value("grete_process_cpu_seconds_total", &[]), Some(1e-9));
    let text = exposition::write(full(), Vec::new());
    let text = str::from_utf8(&text).expect("UTF-8");
    assert!(
        text.contains("grete_lag_records{handler=\"Orders\",topic=\"orders\",partition=\"3\"} 18446744073709551615\n")
    );
}

#[test]
fn buckets_add_up() {
    let scrape = scrape(full());
    let bucket = |le| scrape.value("grete_handler_duration_seconds_bucket", &[("handler", "Orders"), ("le", le)]);
    assert_eq!((bucket("0.001"), bucket("1"), bucket("+Inf")), (Some(1.0), Some(3.0), Some(7.0)));
    assert_eq!(scrape.value("grete_handler_duration_seconds_sum", &[("handler", "Orders")]), Some(10.5));
    assert_eq!(scrape.value("grete_handler_duration_seconds_count", &[("handler", "Orders")]), Some(7.0));
}

#[test]
fn what_is_not_known_is_left_out() {
    let process = Process { cpu: Some(f64::NAN), gil_wait: Some(f64::INFINITY), ..Process::default() };
    let lanes = vec![Lane { topic: "t".into(), ..Lane::default() }];
    let told = scrape(Metrics { process, lanes, ..Metrics::default() });
    let names: BTreeSet<_> = told.families.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["grete_info", "grete_unlisted_lanes"]));
    assert_eq!(told.value("grete_info", &[("version", env!("CARGO_PKG_VERSION"))]), Some(1.0));
}

#[test]
fn labels_do_not_explode() {
    let many = 20_000_u64;
    let name = |number: u64| format!("h{number}").into();
    let metrics = Metrics {
        handlers: (0..many).map(|one| Handler { handler: name(one), jobs: Some(1), ..Handler::default() }).collect(),
        lanes: (0..many)
            .map(|one| Lane {
                handler: "h".into(),
                topic: format!("t{}", one % 7).into(),
                partition: one,
                lag: Some(one),
                lag_seconds: Some(one as f64),
                ..Lane::default()
            })
            .collect(),
        groups: (0..many).map(|one| Group { group: name(one), commits: Some(1), ..Group::default() }).collect(),
        clients: (0..many).map(|one| Client { client: name(one), connections: Some(1), ..Client::default() }).collect(),
        producers: (0..many)
            .map(|one| Producer { client: name(one), records: Some(1), ..Producer::default() })
            .collect(),
        ..Metrics::default()
    };
    let text = exposition::write(metrics, Vec::new());
    assert!(text.len() < 200_000, "{}", text.len());
    let told = read(str::from_utf8(&text).expect("UTF-8"));
    for (metric, label, most) in [
        ("grete_jobs_total", "handler", MAX_HANDLERS),
        ("grete_commits_total", "group", MAX_GROUPS),
        ("grete_connections", "client", MAX_GROUPS),
        ("grete_produced_records_total", "client", MAX_GROUPS),
    ] {
        assert_eq!(told.named(metric).count(), most + 1, "{metric}");
        assert_eq!(told.named(metric).map(|(_, value)| value as u64).sum::<u64>(), many, "{metric}");
        assert_eq!(told.value(metric, &[(label, "other")]), Some((many - most as u64) as f64));
    }
    assert_eq!(told.named("grete_lag_records").count(), MAX_LANES + 1);
    assert_eq!(told.named("grete_lag_records").map(|(_, value)| value as u64).sum::<u64>(), (0..many).sum::<u64>());
    let others = [("handler", "h"), ("topic", "other"), ("partition", "other")];
    // Those that are told apart are behind most.
    assert_eq!(told.value("grete_lag_seconds", &others), Some((many - MAX_LANES as u64 - 1) as f64));
    assert_eq!(told.value("grete_unlisted_lanes", &[]), Some((many - MAX_LANES as u64) as f64));
}

fn count() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(any::<u64>())
}

fn number() -> impl Strategy<Value = Option<f64>> {
    proptest::option::of(any::<f64>())
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]", any::<String>(), "[\\\\\"\n{},=]{0,4}", "x{250,260}"]
}

proptest! {
    /// Whatever the names and numbers are: it is well-formed, and no series comes twice.
    #[test]
    fn it_is_always_well_formed(
        handlers in proptest::collection::vec((name(), count(), number(), any::<[u64; 3]>(), any::<f64>()), 0..6),
        lanes in proptest::collection::vec((name(), name(), 0_u64..3, count(), number(), number()), 0..9),
        groups in proptest::collection::vec((name(), count(), proptest::option::of(any::<bool>())), 0..4),
        clients in proptest::collection::vec((name(), count()), 0..4),
        process in (number(), number(), count()),
    ) {
        let metrics = Metrics {
            handlers: handlers.into_iter().map(|(name, jobs, oldest, counts, sum)| Handler {
                handler: name.into(),
                jobs,
                oldest,
                duration: Some(Histogram { bounds: &[0.5, 2.0], counts: counts.to_vec(), sum }),
                ..Handler::default()
            }).collect(),
            lanes: lanes.into_iter().map(|(handler, topic, partition, lag, lag_seconds, last_progress)| Lane {
                handler: handler.into(),
                topic: topic.into(),
                partition,
                lag,
                lag_seconds,
                last_progress,
                queued_bytes: lag,
            }).collect(),
            groups: groups.into_iter().map(|(name, commits, steady)| Group {
                group: name.into(), commits, steady, ..Group::default()
            }).collect(),
            clients: clients.iter().map(|(name, connections)| Client {
                client: name.as_str().into(), connections: *connections, ..Client::default()
            }).collect(),
            producers: clients.into_iter().map(|(name, records)| Producer {
                client: name.into(), records, ..Producer::default()
            }).collect(),
            process: Process { gil_wait: process.0, cpu: process.1, open_fds: process.2, ..Process::default() },
            lane_states: None,
        };
        scrape(metrics);
    }
}
