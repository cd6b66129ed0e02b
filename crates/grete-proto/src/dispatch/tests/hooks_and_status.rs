//! Tests of the `eof` hook, ticks, stalls and status.

use super::*;

#[test]
fn eof_is_emitted_once_until_there_is_more_data() {
    for concurrency in [Concurrency::Partition, Concurrency::Key] {
        let mut world = Harness::new();
        let lane = world.lane_with(RouteConfig { eof: true, concurrency, ..RouteConfig::default() });
        assert!(world.take(0).is_none(), "the end offset is not known yet");
        assert!(world.dispatch.set_end_offsets(lane, 0, 0), "there is nothing at all");
        for base in 0..3 {
            let eof = world.take(0).expect("the end");
            assert_eq!(eof.kind, JobKind::Eof);
            world.push(lane, base, 1);
            assert!(world.take(0).is_none(), "it runs alone");
            world.done(eof);
            let lease = world.take(0).expect("then the data");
            assert_eq!(lease.kind, JobKind::Consume);
            world.done(lease);
        }
        let eof = world.take(0).expect("the end again");
        world.done(eof);
        assert!(!world.dispatch.set_end_offsets(lane, 3, 3));
        assert!(world.take(0).is_none(), "eof has run already");
        assert!(!world.dispatch.set_end_offsets(lane, 9, 9), "records that we are yet to see");
    }
}

#[test]
fn data_that_arrives_before_eof_is_emitted_delays_it() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { eof: true, ..RouteConfig::default() });
    world.dispatch.set_end_offsets(lane, 0, 0);
    world.push(lane, 0, 1);
    let kinds = std::iter::from_fn(|| {
        let lease = world.take(0)?;
        let kind = lease.kind;
        world.done(lease);
        Some(kind)
    });
    let kinds: Vec<_> = kinds.collect();
    assert_eq!(kinds, [JobKind::Consume, JobKind::Eof]);
}

#[test]
fn a_paused_lane_ticks_though_it_has_records() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { tick: Some(10 * SECOND), ..RouteConfig::default() });
    world.dispatch.pause(lane, None);
    world.push(lane, 0, 1);
    assert!(world.take(world.now).is_none());
    for _ in 0..3 {
        world.advance_to_deadline();
        let tick = world.take(world.now).expect("a tick");
        assert_eq!(tick.kind, JobKind::Tick);
        world.done(tick);
    }
    world.dispatch.resume(lane);
    let data = world.take(world.now).expect("the data");
    assert_eq!(data.kind, JobKind::Consume);
    world.done(data);
}

#[test]
fn a_lane_that_waits_for_marks_ticks() {
    let mut world = Harness::new();
    let policy = RouteConfig {
        offsets: OffsetPolicy::Manual,
        max_unmarked: 4,
        tick: Some(10 * SECOND),
        ..RouteConfig::default()
    };
    let lane = world.lane_with(policy);
    world.push(lane, 0, 20);
    while let Some(lease) = world.take(world.now) {
        assert_eq!(lease.kind, JobKind::Consume);
        world.done(lease);
    }
    world.push(lane, 20, 20);
    assert!(world.take(world.now).is_none(), "too many are open");
    world.advance_to_deadline();
    let tick = world.take(world.now).expect("a tick");
    assert_eq!(tick.kind, JobKind::Tick);
    assert_eq!(tick.shared.mark(0, 19).expect("a mark"), 20);
    world.done(tick);
    assert_eq!(world.take(world.now).expect("the data").kind, JobKind::Consume);
}

#[test]
fn an_idle_lane_ticks_and_a_busy_one_does_not() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { tick: Some(10 * SECOND), ..RouteConfig::default() });
    assert_eq!(world.advance_to_deadline(), 10 * SECOND);
    let tick = world.take(world.now).expect("a tick");
    assert_eq!(tick.kind, JobKind::Tick);
    world.push(lane, 0, 1);
    assert!(world.take(world.now).is_none(), "it runs alone");
    world.now = 12 * SECOND;
    world.done(tick);
    let busy = world.take(world.now).expect("the data");
    world.now = 30 * SECOND;
    assert!(world.take(world.now).is_none());
    world.now = 31 * SECOND;
    world.done(busy);
    let mut ticks = Vec::new();
    while world.now < 60 * SECOND {
        world.advance_to_deadline();
        if let Some(tick) = world.take(world.now) {
            ticks.push(world.now / SECOND);
            world.done(tick);
        }
    }
    assert_eq!(ticks, [41, 51, 61]);
    world.dispatch.stop();
    let hook = world.take(world.now).expect("the hook");
    world.done(hook);
    assert!(world.dispatch.is_stopped());
}

#[test]
fn a_long_job_is_reported_once_per_limit() {
    let mut world = Harness::new();
    let policy = RouteConfig {
        stall_after: Some(30 * SECOND),
        handler_timeout: Some(60 * SECOND),
        name: Arc::from("Orders"),
        ..by_key()
    };
    let lane = world.lane_with(policy);
    assert_eq!(world.dispatch.next_stall_check(world.client), None);
    world.push_keys(lane, 0, &["a", "a", "b"]);
    let jobs = world.take_all();
    assert!(
        !world.dispatch.take_pending_wake(world.client),
        "not for each job that begins: the driver looks in time anyway"
    );
    assert_eq!(world.dispatch.next_stall_check(world.client), Some(30 * SECOND));
    assert!(world.dispatch.take_stalled_jobs(29 * SECOND, world.client).is_empty());
    let stalls = world.dispatch.take_stalled_jobs(31 * SECOND, world.client);
    let mut reported: Vec<_> = stalls.iter().map(|stall| (stall.offsets, stall.overdue, &*stall.policy.name)).collect();
    reported.sort();
    assert_eq!(reported, [(Some((0, 1)), false, "Orders"), (Some((2, 2)), false, "Orders")]);
    assert!(world.status(lane).stalled);
    assert_eq!(world.status(lane).running_since, Some(0));
    assert_eq!(world.dispatch.next_stall_check(world.client), Some(60 * SECOND));
    let mut jobs = jobs.into_iter();
    let first = jobs.next().expect("two of them");
    world.done(first);
    let stalls = world.dispatch.take_stalled_jobs(60 * SECOND, world.client);
    assert_eq!(stalls.iter().map(|stall| stall.overdue).collect::<Vec<_>>(), [true]);
    assert_eq!(world.dispatch.next_stall_check(world.client), None);
    jobs.for_each(|lease| world.done(lease));
    assert!(!world.status(lane).stalled);
}

#[test]
fn decode_jobs_are_not_reported() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { stall_after: Some(SECOND), ..by_key() });
    world.push_keys(lane, 0, &["a"]);
    let decode = world.dispatch.take(0, "worker", Pool::Threads).expect("something to decode");
    assert_eq!(decode.kind, JobKind::Decode);
    assert!(world.dispatch.in_flight_jobs().is_empty());
    assert!(world.dispatch.take_stalled_jobs(10 * SECOND, world.client).is_empty());
}
