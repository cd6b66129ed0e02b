//! Tests of retries, bisection and dead letters.

use super::*;

fn dead_letters() -> RouteConfig {
    let retry = RetryPolicy { attempts: Some(2), backoff: SECOND, max_backoff: SECOND, jitter_percent: 0 };
    RouteConfig { dead_letter: true, retry, ..RouteConfig::default() }
}

#[test]
fn a_known_failed_record_is_dead_lettered_alone_and_the_rest_continues() {
    let mut world = Harness::new();
    let lane = world.lane_with(dead_letters());
    world.push(lane, 0, 5);
    for attempt in 1..=2 {
        let lease = world.take(world.now).expect("a job");
        assert_eq!((offsets(&lease), lease.attempt), (vec![0, 1, 2, 3, 4], attempt));
        let decision = world.end(lease, failed_with(FailureKind::Retriable, Some(2)));
        if attempt == 1 {
            assert_eq!(decision, Some(Decision::Retry { wait: SECOND, attempt: 2, rows: 5 }));
            assert_eq!(world.status(lane).state, LaneState::Paused);
            world.advance_to_deadline();
        } else {
            assert_eq!(decision, Some(Decision::DeadLetter { offset: 2 }));
        }
    }
    let letter = world.take(world.now).expect("at once");
    assert_eq!((letter.kind, offsets(&letter)), (JobKind::DeadLetter, vec![2]));
    let trouble = letter.failure_history.clone().expect("what to say");
    assert_eq!((trouble.attempts, &*trouble.class), (2, "ValueError"));
    assert!(world.take(world.now).is_none(), "the rest waits for it: order");
    world.done(letter);
    assert_eq!(world.committable(), [0]);
    let rest: Vec<_> = world.run().concat();
    assert_eq!(rest, [0, 1, 3, 4]);
    assert_eq!(world.committable(), [5]);
    world.assert_empty();
}

#[test]
fn a_dead_letter_that_cannot_be_sent_is_tried_again_and_holds_the_offset() {
    let mut world = Harness::new();
    let lane = world.lane_with(dead_letters());
    world.push(lane, 0, 2);
    let lease = world.take(0).expect("a job");
    world.end(lease, failed_with(FailureKind::Rejected, Some(0)));
    for _ in 0..7 {
        let letter = world.take(world.now).expect("the letter");
        assert_eq!((letter.kind, offsets(&letter)), (JobKind::DeadLetter, vec![0]));
        let decision = world.end(letter, failed());
        assert!(matches!(decision, Some(Decision::Retry { rows: 1, .. })), "{decision:?}");
        assert!(world.take(world.now).is_none());
        world.advance_to_deadline();
    }
    assert_eq!(world.committable(), [0]);
    let letter = world.take(world.now).expect("the letter");
    world.done(letter);
    assert_eq!(world.run(), [[1]]);
    assert_eq!(world.committable(), [2]);
    world.assert_empty();
}

#[test]
fn bisection_finds_the_failing_record() {
    for bad in 0..9 {
        let mut world = Harness::new();
        let lane = world.lane_with(dead_letters());
        world.push(lane, 0, 9);
        let (mut letters, mut done, mut runs) = (Vec::new(), Vec::new(), 0);
        while done.len() + letters.len() < 9 {
            let lease = world.take(world.now).or_else(|| {
                let now = world.advance_to_deadline();
                world.take(now)
            });
            let lease = lease.expect("a job");
            runs += 1;
            assert!(runs < 20, "{bad}");
            let rows = offsets(&lease);
            if lease.kind == JobKind::DeadLetter {
                letters.extend(rows);
                world.done(lease);
            } else if rows.contains(&bad) {
                world.end(lease, failed());
            } else {
                done.extend(rows);
                world.done(lease);
            }
        }
        assert_eq!(letters, [bad]);
        assert!(done.is_sorted(), "order holds: {done:?}");
        assert_eq!(world.committable(), [9]);
        world.assert_empty();
    }
}

#[test]
fn without_a_dead_letter_topic_nothing_is_skipped() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { dead_letter: false, ..dead_letters() });
    world.push(lane, 0, 1);
    for attempt in 1..30 {
        let lease = world.take(world.now).expect("again");
        assert_eq!(lease.attempt, attempt);
        world.end(
            lease,
            failed_with(if attempt == 9 { FailureKind::Rejected } else { FailureKind::Retriable }, Some(0)),
        );
        world.advance_to_deadline();
    }
    assert_eq!(world.committable(), [0]);
}

#[test]
fn a_failing_key_holds_up_its_slot_and_no_other() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { concurrency: Concurrency::Key, ..dead_letters() });
    world.push_keys(lane, 0, &["a", "b", "a", "b"]);
    let jobs = world.take_all();
    for lease in jobs {
        if offsets(&lease)[0] == 0 {
            world.end(lease, failed_with(FailureKind::Retriable, Some(0)));
        } else {
            world.done(lease);
        }
    }
    world.push_keys(lane, 4, &["a", "b"]);
    assert_eq!(world.run(), [[5]]);
    assert_eq!(world.committable(), [0]);
    world.advance_to_deadline();
    let again = world.take(world.now).expect("the retry");
    assert_eq!((offsets(&again), again.attempt), (vec![0, 2], 2), "the row behind is not mixed in");
    world.end(again, failed_with(FailureKind::Retriable, Some(0)));
    let letter = world.take(world.now).expect("the letter");
    assert_eq!((letter.kind, offsets(&letter)), (JobKind::DeadLetter, vec![0]));
    world.done(letter);
    assert_eq!(world.run().concat(), [2, 4]);
    assert_eq!(world.committable(), [6]);
    world.assert_empty();
}

#[test]
fn a_wait_that_was_asked_for_counts_no_attempt() {
    let mut world = Harness::new();
    let lane = world.lane_with(dead_letters());
    world.push(lane, 0, 2);
    for _ in 0..5 {
        let lease = world.take(world.now).expect("a job");
        assert_eq!(lease.attempt, 1);
        let decision = world.end(lease, failed_with(FailureKind::RetryLater(7 * SECOND), None));
        assert_eq!(decision, Some(Decision::RetryLater { wait: 7 * SECOND }));
        let from = world.now;
        assert_eq!(world.advance_to_deadline() - from, 7 * SECOND);
    }
    assert_eq!(world.run(), [[0, 1]]);
    world.assert_empty();
}

#[test]
fn a_fatal_failure_holds_the_unit_until_the_lane_leaves() {
    let mut world = Harness::new();
    let lane = world.lane_with(dead_letters());
    world.push(lane, 0, 2);
    let lease = world.take(0).expect("a job");
    assert_eq!(world.end(lease, failed_with(FailureKind::Fatal, None)), Some(Decision::Halt));
    world.push(lane, 2, 2);
    assert!(world.take(3600 * SECOND).is_none());
    assert!(world.status(lane).queued_bytes > 0, "its rows are still there, and counted");
    world.dispatch.revoke(lane, false);
    let hook = world.take(world.now).expect("the hook");
    world.done(hook);
    world.released();
    assert_eq!(world.drained[0].commit.as_ref().map(|commit| commit.offset), Some(0));
    world.assert_empty();
}

#[test]
fn what_progress_was_made_is_not_presented_again() {
    let mut world = Harness::new();
    let lane = world.lane_with(dead_letters());
    world.push(lane, 0, 5);
    let lease = world.take(0).expect("a job");
    lease.shared.set_completed_rows(3);
    assert_eq!(world.committable(), [3], "and is committed while the job runs");
    world.end(lease, failed_with(FailureKind::Retriable, Some(3)));
    world.advance_to_deadline();
    assert_eq!(world.run(), [[3, 4]]);
    world.assert_empty();
}

#[test]
fn at_most_once_a_failure_drops_the_rows_or_sends_them_away() {
    for dead_letter in [false, true] {
        let mut world = Harness::new();
        let policy = RouteConfig { offsets: OffsetPolicy::AtMostOnce, dead_letter, ..dead_letters() };
        let lane = world.lane_with(RouteConfig { max_messages: 4, ..policy });
        world.push(lane, 0, 6);
        let lease = world.take(0).expect("a job");
        assert_eq!(world.committable(), [4], "before they are handed out");
        lease.shared.set_completed_rows(1);
        let decision = world.end(lease, failed_with(FailureKind::Retriable, Some(2)));
        if dead_letter {
            assert_eq!(decision, Some(Decision::DeadLetter { offset: 2 }));
            for expected in [2, 3] {
                let letter = world.take(0).expect("the letters");
                assert_eq!((letter.kind, offsets(&letter)), (JobKind::DeadLetter, vec![expected]));
                world.done(letter);
            }
        } else {
            assert_eq!(decision, Some(Decision::Skipped));
        }
        assert_eq!(world.run(), [[4, 5]]);
        assert_eq!(world.committable(), [6]);
        world.assert_empty();
    }
}

#[test]
fn a_leaving_lane_neither_retries_nor_dead_letters() {
    let mut world = Harness::new();
    let lane = world.lane_with(dead_letters());
    world.push(lane, 0, 4);
    let lease = world.take(0).expect("a job");
    world.dispatch.revoke(lane, false);
    lease.shared.set_completed_rows(1);
    assert_eq!(world.end(lease, failed_with(FailureKind::Rejected, Some(1))), Some(Decision::Halt));
    let hook = world.take(0).expect("the hook");
    assert_eq!(hook.kind, JobKind::Revoked { lost: false });
    world.done(hook);
    world.released();
    assert_eq!(world.drained[0].commit.as_ref().map(|commit| commit.offset), Some(1));
    world.assert_empty();
}
