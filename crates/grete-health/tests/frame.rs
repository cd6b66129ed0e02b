//! Frames hold JSON with the content of the report, for any names, and are never too long.

use std::sync::Arc;
use std::time::Duration;

use grete_health::json::{MAX_STRING_BYTES, MAX_TEXT_BYTES};
use grete_health::report::frame::{self, MAX_FRAME_BYTES, MAX_NAMED, ReporterInfo};
use grete_health::{
    EventLoop, FailedPartition, GroupStatus, LaneCounts, MissingTopic, Report, RunningJob, UnmovedLane,
};
use parse::Value;
use proptest::prelude::*;

mod parse;

fn body(stamp: &ReporterInfo, report: &Report) -> Vec<u8> {
    let frame = frame::encode(stamp, report, vec![7; 10]);
    let (header, body) = frame.split_first_chunk().expect("four bytes");
    assert_eq!(u32::from_be_bytes(*header) as usize, body.len());
    assert!(body.len() <= MAX_FRAME_BYTES, "{}", body.len());
    body.to_vec()
}

fn read(report: &Report) -> Value {
    parse::parse(std::str::from_utf8(&body(&ReporterInfo::default(), report)).expect("UTF-8"))
}

fn job(handler: &str, topic: &str, elapsed: f64, limit: Option<f64>) -> RunningJob {
    RunningJob {
        handler: handler.into(),
        topic: topic.into(),
        partition: 3,
        elapsed: Duration::from_secs_f64(elapsed),
        limit: limit.map(Duration::from_secs_f64),
    }
}

fn group(name: &str) -> GroupStatus {
    GroupStatus {
        group: name.into(),
        state: "stable",
        state_age: Duration::from_millis(3200),
        ready: true,
        generation: Some(4),
        partitions: 3,
        group_instance_id: Some(name.into()),
        connections: None,
        login_failure: None,
        authorization_failure: None,
        transaction_stall: None,
    }
}

#[test]
fn a_report_in_full() {
    let report = Report {
        ready: true,
        rss: Some(12_345_678),
        groups: vec![GroupStatus { authorization_failure: Some("Read is needed".into()), ..group("shop") }],
        lanes: LaneCounts { idle: 3, running: 1, ..LaneCounts::default() },
        lag: Some(1200),
        running: vec![
            job("Orders.consume", "orders", 2.0, Some(10.0)),
            job("Orders.consume", "orders", 12.5, Some(10.0)),
        ],
        stalled: vec!["orders[3]".into()],
        unmoved: vec![UnmovedLane {
            handler: "Orders.consume".into(),
            topic: "orders".into(),
            partition: 5,
            waits_for: "open_transaction",
            text: "a transaction is open".into(),
            unmoved_for: Duration::from_secs(31),
            lag: None,
        }],
        missing: vec![MissingTopic { topic: "dlq".into(), text: "none".into() }],
        failed: vec![FailedPartition {
            handler: "Orders.consume".into(),
            topic: "orders".into(),
            partition: 4,
            reason: "no_offset",
            error: "it has none".into(),
            failed_for: Duration::from_secs(2),
        }],
        jobs: 1000,
        records: 100_000,
        workers: 5,
        event_loop: Some(EventLoop { wait: Duration::from_millis(250), ..EventLoop::default() }),
        ..Report::default()
    };
    let stamp =
        ReporterInfo { seq: 17, uptime: Duration::from_millis(12_300), gil_wait: Duration::from_micros(4), dropped: 1 };
    let text = String::from_utf8(body(&stamp, &report)).expect("UTF-8");
    let expected = concat!(
        r#"{"v":1,"seq":17,"uptime":12.300000,"ready":true,"quiet":false,"stopping":false,"gil_wait":0.000004,"#,
        r#""loop_wait":0.250000,"rss":12345678,"pss":null,"lanes":{"idle":3,"ready":0,"running":1,"paused":0,"failed":0,"leaving":0},"lag":1200,"#,
        r#""jobs":1000,"records":100000,"failures":0,"dead_letters":0,"workers":5,"dropped":1,"#,
        r#""oldest":{"handler":"Orders.consume","topic":"orders","partition":3,"seconds":12.500000,"overdue":true},"#,
        r#""overdue":[{"handler":"Orders.consume","topic":"orders","partition":3,"seconds":12.500000,"limit":10.000000}],"#,
        r#""groups":[{"group":"shop","state":"stable","since":3.200000,"ready":true,"generation":4,"partitions":3,"instance":"shop","connections":null,"login_failure":null,"authorization_failure":"Read is needed"}],"#,
        r#""stalled":["orders[3]"],"#,
        r#""unmoved":[{"handler":"Orders.consume","topic":"orders","partition":5,"waits_for":"open_transaction","wait":"a transaction is open","seconds":31.000000,"lag":null}],"#,
        r#""missing":[{"topic":"dlq","text":"none"}],"#,
        r#""failed":[{"handler":"Orders.consume","topic":"orders","partition":4,"failure":"no_offset","error":"it has none","seconds":2.000000}]}"#,
    );
    assert_eq!(text, expected);
}

#[test]
fn a_cause_and_its_cure_are_whole_and_a_cut_is_shown() {
    let needed = format!("{}: grete acls create --topic orders", "the cause ".repeat(60));
    let of = |text: &str| {
        let group = GroupStatus { login_failure: Some(text.into()), ..group("shop") };
        let found = read(&Report { groups: vec![group], ..Report::default() });
        found.get("groups").items()[0].get("login_failure").clone()
    };
    assert_eq!(of(&needed), Value::Text(needed.clone()));
    let Value::Text(cut) = of(&"x".repeat(5000)) else { panic!("a text") };
    assert_eq!((cut.len(), cut.ends_with('…')), (MAX_TEXT_BYTES + '…'.len_utf8(), true));
}

#[test]
fn numbers_are_such_that_all_readers_take_them() {
    let report = Report {
        jobs: u64::MAX,
        running: vec![RunningJob { elapsed: Duration::MAX, limit: Some(Duration::MAX), ..job("", "", 0.0, None) }],
        ..Report::default()
    };
    let value = read(&report);
    assert_eq!(value.get("jobs"), &Value::Number(i64::MAX.to_string()));
    assert_eq!(value.get("oldest").get("seconds"), &Value::Number("1000000000.999999".into()));
}

#[test]
fn long_lists_are_cut_and_the_longest_jobs_are_named() {
    let report = Report {
        running: (0..500).map(|n| job(&format!("h{n}"), "t", f64::from(n), Some(1.0))).collect(),
        groups: (0..500).map(|n| group(&n.to_string())).collect(),
        ..Report::default()
    };
    let value = read(&report);
    let overdue = value.get("overdue").items();
    assert_eq!(overdue.len(), MAX_NAMED);
    assert_eq!(overdue[0].get("handler"), &Value::Text("h499".into()));
    assert_eq!(overdue[19].get("handler"), &Value::Text("h480".into()));
    assert_eq!(value.get("groups").items().len(), MAX_NAMED);
}

#[test]
fn a_frame_has_room_for_all_but_what_would_make_it_too_long() {
    let name = "\u{1}".repeat(1000);
    let report = Report {
        running: (0..30).map(|n| job(&name, &name, f64::from(n), Some(0.5))).collect(),
        groups: (0..30).map(|_| group(&name)).collect(),
        stalled: vec![name.clone(); 30],
        ..Report::default()
    };
    let text = body(&ReporterInfo::default(), &report);
    assert!(text.len() > MAX_FRAME_BYTES - 2 * 6 * MAX_STRING_BYTES - 200, "{}", text.len());
    let value = read(&report);
    assert!(value.get("overdue").items().len() > 10);
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_STRING_BYTES)]
}

/// Short strings, and long ones that repeat them, which are cheap to generate.
fn hostile() -> impl Strategy<Value = String> {
    let characters = prop_oneof![
        any::<char>(),
        proptest::sample::select(vec!['"', '\\', '/', '\0', '\n', '\u{1f}', '\u{7f}', '\u{2028}', '\u{1F600}']),
    ];
    (proptest::collection::vec(characters, 0..8), 0..80_usize)
        .prop_map(|(characters, times)| characters.iter().collect::<String>().repeat(times))
}

fn reports() -> impl Strategy<Value = Report> {
    let jobs = proptest::collection::vec((hostile(), hostile(), any::<u64>(), any::<u32>(), any::<u32>()), 0..30);
    let groups = proptest::collection::vec((hostile(), proptest::option::of(hostile()), any::<u64>()), 0..30);
    let lanes = proptest::collection::vec(hostile(), 0..30);
    (jobs, groups, lanes).prop_map(|(jobs, groups, stalled)| Report {
        running: jobs
            .into_iter()
            .map(|(handler, topic, partition, elapsed, limit)| RunningJob {
                handler: Arc::from(handler),
                topic: Arc::from(topic),
                partition,
                elapsed: Duration::from_millis(elapsed.into()),
                limit: Some(Duration::from_millis(limit.into())),
            })
            .collect(),
        groups: groups
            .into_iter()
            .map(|(group, instance, partitions)| GroupStatus {
                group,
                group_instance_id: instance,
                partitions,
                ..self::group("")
            })
            .collect(),
        stalled,
        ..Report::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn hostile_names_come_through_and_no_frame_is_too_long(report in reports()) {
        let value = read(&report);
        let mut running: Vec<&RunningJob> = report.running.iter().collect();
        running.sort_by_key(|job| std::cmp::Reverse(job.elapsed));
        if let Some(job) = running.first() {
            prop_assert_eq!(value.get("oldest").get("handler"), &Value::Text(cut(&job.handler).into()));
            prop_assert_eq!(value.get("oldest").get("topic"), &Value::Text(cut(&job.topic).into()));
        }
        running.retain(|job| job.is_overdue());
        for (named, job) in value.get("overdue").items().iter().zip(&running) {
            prop_assert_eq!(named.get("handler"), &Value::Text(cut(&job.handler).into()));
        }
        for (named, group) in value.get("groups").items().iter().zip(&report.groups) {
            prop_assert_eq!(named.get("group"), &Value::Text(cut(&group.group).into()));
            let instance = group.group_instance_id.as_deref().map_or(Value::Null, |name| Value::Text(cut(name).into()));
            prop_assert_eq!(named.get("instance"), &instance);
        }
        for (named, lane) in value.get("stalled").items().iter().zip(&report.stalled) {
            prop_assert_eq!(named, &Value::Text(cut(lane).into()));
        }
    }
}
