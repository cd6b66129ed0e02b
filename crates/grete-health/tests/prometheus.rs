//! Reads the response to a scrape back, as strictly as the format is defined.

use std::collections::{BTreeMap, BTreeSet};

use grete_health::metrics::{
    ClientMetrics, GroupMetrics, HandlerMetrics, Histogram, LaneMetrics, MAX_GROUPS, MAX_HANDLERS, MAX_LANES,
    ProcessMetrics, ProducerMetrics, descriptors, prometheus,
};
use grete_health::{LaneCounts, Metrics, MetricsAggregator};
use proptest::prelude::*;

type Labels = Vec<(String, String)>;

/// Parsed response: each series with its value; families in order.
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

/// Parses a text. Panics on everything that a strict parser would refuse.
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
    let text = prometheus::write(metrics, b"old".to_vec());
    let scrape = read(str::from_utf8(&text).expect("UTF-8"));
    // The supervisor of a swarm takes all samples, and adds only the label `node`.
    let mut gathering = MetricsAggregator::new();
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

/// Returns metrics of which every field is known.
fn full() -> Metrics {
    let duration = Histogram { bounds: &[0.001, 1.0], counts: vec![1, 2, 4], sum: 10.5 };
    Metrics {
        handlers: vec![HandlerMetrics {
            handler: "Orders".into(),
            jobs: Some(1),
            records: Some(2),
            failures: Some(3),
            retries: Some(4),
            dead_letters: Some(5),
            expired: Some(6),
            duplicates: Some(61),
            forgotten_ids: Some(62),
            skipped: Some(7),
            stalls: Some(8),
            timeouts: Some(9),
            duration: Some(duration),
            running: Some(10),
            oldest_job_seconds: Some(11.25),
        }],
        lanes: vec![LaneMetrics {
            handler: "Orders".into(),
            topic: "orders".into(),
            partition: 3,
            lag: Some(u64::MAX),
            lag_seconds: Some(0.1),
            last_progress: Some(1_700_000_000.123),
            queued_bytes: Some(12),
            failed: Some(1),
        }],
        lane_states: Some(LaneCounts { idle: 1, ready: 2, running: 3, paused: 4, failed: 6, leaving: 5 }),
        stalled_lanes: vec![("retry", 2), ("memory", 0)],
        groups: vec![GroupMetrics {
            group: "".into(),
            partitions: Some(1),
            ready: Some(true),
            rebalances: Some(2),
            lost_partitions: Some(3),
            commits: Some(4),
            commit_failures: Some(5),
            transactions: Some(7),
            aborted_transactions: Some(1),
        }],
        clients: vec![ClientMetrics {
            client: "c".into(),
            fetched_bytes: Some(1),
            fetched_records: Some(2),
            buffer_bytes: Some(3),
            connections: Some(4),
            reconnects: Some(5),
        }],
        producers: vec![ProducerMetrics {
            client: "p".into(),
            records: Some(1),
            bytes: Some(2),
            failures: Some(3),
            retries: Some(4),
            buffer_bytes: Some(5),
            pending_records: Some(6),
        }],
        process: ProcessMetrics {
            workers: Some(5),
            busy_workers: Some(1),
            gil_wait: Some(0.0),
            loop_wait: Some(0.25),
            loop_blocked: Some(2),
            resident_bytes: Some(1 << 30),
            cpu_seconds: Some(1e-9),
            open_fds: Some(9),
            start_time: Some(1_700_000_000.25),
            live: Some(true),
            ready: Some(false),
        },
    }
}

#[test]
fn all_descriptors_are_exported_in_order() {
    let families = scrape(full()).families;
    let exported: Vec<_> = families.iter().map(|(name, kind)| (name.as_str(), kind.as_str())).collect();
    let own = descriptors::ALL.iter().filter(|entry| !entry.name.starts_with("grete_swarm_"));
    let expected: Vec<_> = own.map(|entry| (entry.name, entry.kind.name())).collect();
    assert_eq!(exported, expected);
}

#[test]
fn numbers_are_exported_exactly() {
    let scrape = scrape(full());
    let lane = [("handler", "Orders"), ("topic", "orders"), ("partition", "3")];
    assert_eq!(scrape.value("grete_lag_seconds", &lane), Some(0.1));
    assert_eq!(scrape.value("grete_last_progress_timestamp_seconds", &lane), Some(1_700_000_000.123));
    assert_eq!(scrape.value("grete_group_ready", &[("group", "")]), Some(1.0));
    assert_eq!(scrape.value("grete_live", &[]), Some(1.0));
    assert_eq!(scrape.value("grete_ready", &[]), Some(0.0));
    assert_eq!(scrape.value("grete_lanes", &[("state", "paused")]), Some(4.0));
    assert_eq!(scrape.value("grete_stalled_lanes", &[("reason", "retry")]), Some(2.0));
    assert_eq!(scrape.value("grete_stalled_lanes", &[("reason", "memory")]), Some(0.0));
    assert_eq!(scrape.value("grete_process_cpu_seconds_total", &[]), Some(1e-9));
    let text = prometheus::write(full(), Vec::new());
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
    let process =
        ProcessMetrics { cpu_seconds: Some(f64::NAN), gil_wait: Some(f64::INFINITY), ..ProcessMetrics::default() };
    let lanes = vec![LaneMetrics { topic: "t".into(), ..LaneMetrics::default() }];
    let exported = scrape(Metrics { process, lanes, ..Metrics::default() });
    let names: BTreeSet<_> = exported.families.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["grete_info", "grete_aggregated_lanes"]));
    assert_eq!(exported.value("grete_info", &[("version", env!("CARGO_PKG_VERSION"))]), Some(1.0));
}

#[test]
fn labels_do_not_explode() {
    let many = 20_000_u64;
    let name = |number: u64| format!("h{number}").into();
    let metrics = Metrics {
        handlers: (0..many)
            .map(|one| HandlerMetrics { handler: name(one), jobs: Some(1), ..HandlerMetrics::default() })
            .collect(),
        lanes: (0..many)
            .map(|one| LaneMetrics {
                handler: "h".into(),
                topic: format!("t{}", one % 7).into(),
                partition: one,
                lag: Some(one),
                lag_seconds: Some(one as f64),
                ..LaneMetrics::default()
            })
            .collect(),
        groups: (0..many)
            .map(|one| GroupMetrics { group: name(one), commits: Some(1), ..GroupMetrics::default() })
            .collect(),
        clients: (0..many)
            .map(|one| ClientMetrics { client: name(one), connections: Some(1), ..ClientMetrics::default() })
            .collect(),
        producers: (0..many)
            .map(|one| ProducerMetrics { client: name(one), records: Some(1), ..ProducerMetrics::default() })
            .collect(),
        ..Metrics::default()
    };
    let text = prometheus::write(metrics, Vec::new());
    assert!(text.len() < 200_000, "{}", text.len());
    let exported = read(str::from_utf8(&text).expect("UTF-8"));
    for (metric, label, most) in [
        ("grete_jobs_total", "handler", MAX_HANDLERS),
        ("grete_commits_total", "group", MAX_GROUPS),
        ("grete_connections", "client", MAX_GROUPS),
        ("grete_produced_records_total", "client", MAX_GROUPS),
    ] {
        assert_eq!(exported.named(metric).count(), most + 1, "{metric}");
        assert_eq!(exported.named(metric).map(|(_, value)| value as u64).sum::<u64>(), many, "{metric}");
        assert_eq!(exported.value(metric, &[(label, "other")]), Some((many - most as u64) as f64));
    }
    assert_eq!(exported.named("grete_lag_records").count(), MAX_LANES + 1);
    assert_eq!(exported.named("grete_lag_records").map(|(_, value)| value as u64).sum::<u64>(), (0..many).sum::<u64>());
    let others = [("handler", "h"), ("topic", "other"), ("partition", "other")];
    // The lanes with series of their own are those furthest behind.
    assert_eq!(exported.value("grete_lag_seconds", &others), Some((many - MAX_LANES as u64 - 1) as f64));
    assert_eq!(exported.value("grete_aggregated_lanes", &[]), Some((many - MAX_LANES as u64) as f64));
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
    /// The text is well-formed and repeats no series, for any names and numbers.
    #[test]
    fn it_is_always_well_formed(
        handlers in proptest::collection::vec((name(), count(), number(), any::<[u64; 3]>(), any::<f64>()), 0..6),
        lanes in proptest::collection::vec((name(), name(), 0_u64..3, count(), number(), number()), 0..9),
        groups in proptest::collection::vec((name(), count(), proptest::option::of(any::<bool>())), 0..4),
        clients in proptest::collection::vec((name(), count()), 0..4),
        process in (number(), number(), count()),
    ) {
        let metrics = Metrics {
            handlers: handlers.into_iter().map(|(name, jobs, oldest, counts, sum)| HandlerMetrics {
                handler: name.into(),
                jobs,
                oldest_job_seconds: oldest,
                duration: Some(Histogram { bounds: &[0.5, 2.0], counts: counts.to_vec(), sum }),
                ..HandlerMetrics::default()
            }).collect(),
            lanes: lanes.into_iter().map(|(handler, topic, partition, lag, lag_seconds, last_progress)| LaneMetrics {
                handler: handler.into(),
                topic: topic.into(),
                partition,
                lag,
                lag_seconds,
                last_progress,
                queued_bytes: lag,
                failed: Some(0),
            }).collect(),
            groups: groups.into_iter().map(|(name, commits, steady)| GroupMetrics {
                group: name.into(), commits, ready: steady, ..GroupMetrics::default()
            }).collect(),
            clients: clients.iter().map(|(name, connections)| ClientMetrics {
                client: name.as_str().into(), connections: *connections, ..ClientMetrics::default()
            }).collect(),
            producers: clients.into_iter().map(|(name, records)| ProducerMetrics {
                client: name.into(), records, ..ProducerMetrics::default()
            }).collect(),
            process: ProcessMetrics { gil_wait: process.0, cpu_seconds: process.1, open_fds: process.2, ..ProcessMetrics::default() },
            lane_states: None,
            stalled_lanes: Vec::new(),
        };
        scrape(metrics);
    }
}
