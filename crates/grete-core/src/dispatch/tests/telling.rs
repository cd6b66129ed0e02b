//! The end of a partition, ticks, stalls, status.

use super::*;

#[test]
fn the_end_is_told_once_until_there_is_more() {
    for concurrency in [Concurrency::Partition, Concurrency::Key] {
        let mut world = World::new();
        let lane = world.lane_with(RoutePolicy { eof: true, concurrency, ..RoutePolicy::default() });
        assert!(world.take(0).is_none(), "nobody knows yet where the end is");
        assert!(world.dispatch.set_end(lane, 0, 0), "there is nothing at all");
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
        assert!(!world.dispatch.set_end(lane, 3, 3));
        assert!(world.take(0).is_none(), "told already");
        assert!(!world.dispatch.set_end(lane, 9, 9), "records that we are yet to see");
    }
}

#[test]
fn data_that_comes_before_the_end_is_told_puts_it_off() {
    let mut world = World::new();
    let lane = world.lane_with(RoutePolicy { eof: true, ..RoutePolicy::default() });
    world.dispatch.set_end(lane, 0, 0);
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
    let mut world = World::new();
    let lane = world.lane_with(RoutePolicy { tick: Some(10 * SECOND), ..RoutePolicy::default() });
    world.dispatch.pause(lane, None);
    world.push(lane, 0, 1);
    assert!(world.take(world.now).is_none());
    for _ in 0..3 {
        world.pass();
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
    let mut world = World::new();
    let policy = RoutePolicy {
        offsets: OffsetPolicy::Manual,
        max_unmarked: 4,
        tick: Some(10 * SECOND),
        ..RoutePolicy::default()
    };
    let lane = world.lane_with(policy);
    world.push(lane, 0, 20);
    while let Some(lease) = world.take(world.now) {
        assert_eq!(lease.kind, JobKind::Consume);
        world.done(lease);
    }
    world.push(lane, 20, 20);
    assert!(world.take(world.now).is_none(), "too many are open");
    world.pass();
    let tick = world.take(world.now).expect("a tick");
    assert_eq!(tick.kind, JobKind::Tick);
    assert_eq!(tick.shared.mark(0, 19).expect("a mark"), 20);
    world.done(tick);
    assert_eq!(world.take(world.now).expect("the data").kind, JobKind::Consume);
}

#[test]
fn an_idle_lane_ticks_and_a_busy_one_does_not() {
    let mut world = World::new();
    let lane = world.lane_with(RoutePolicy { tick: Some(10 * SECOND), ..RoutePolicy::default() });
    assert_eq!(world.pass(), 10 * SECOND);
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
        world.pass();
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
fn a_job_that_takes_too_long_is_told_once_for_each_limit() {
    let mut world = World::new();
    let policy = RoutePolicy {
        stall_after: Some(30 * SECOND),
        handler_timeout: Some(60 * SECOND),
        name: Arc::from("Orders"),
        ..by_key()
    };
    let lane = world.lane_with(policy);
    assert_eq!(world.dispatch.stall_deadline(world.client), None);
    world.push_keys(lane, 0, &["a", "a", "b"]);
    let jobs = world.take_all();
    assert!(!world.dispatch.take_wake(world.client), "not for each job that begins: the driver looks in time anyway");
    assert_eq!(world.dispatch.stall_deadline(world.client), Some(30 * SECOND));
    assert!(world.dispatch.stalls(29 * SECOND, world.client).is_empty());
    let stalls = world.dispatch.stalls(31 * SECOND, world.client);
    let mut told: Vec<_> = stalls.iter().map(|stall| (stall.offsets, stall.overdue, &*stall.policy.name)).collect();
    told.sort();
    assert_eq!(told, [(Some((0, 1)), false, "Orders"), (Some((2, 2)), false, "Orders")]);
    assert!(world.status(lane).stalled);
    assert_eq!(world.status(lane).running_since, Some(0));
    assert_eq!(world.dispatch.stall_deadline(world.client), Some(60 * SECOND));
    let mut jobs = jobs.into_iter();
    let first = jobs.next().expect("two of them");
    world.done(first);
    let stalls = world.dispatch.stalls(60 * SECOND, world.client);
    assert_eq!(stalls.iter().map(|stall| stall.overdue).collect::<Vec<_>>(), [true]);
    assert_eq!(world.dispatch.stall_deadline(world.client), None);
    jobs.for_each(|lease| world.done(lease));
    assert!(!world.status(lane).stalled);
}

#[test]
fn decoding_is_nobodys_job_to_report() {
    let mut world = World::new();
    let lane = world.lane_with(RoutePolicy { stall_after: Some(SECOND), ..by_key() });
    world.push_keys(lane, 0, &["a"]);
    let decode = world.dispatch.take(0, "worker", Pool::Threads).expect("something to decode");
    assert_eq!(decode.kind, JobKind::Decode);
    assert!(world.dispatch.running().is_empty());
    assert!(world.dispatch.stalls(10 * SECOND, world.client).is_empty());
}
