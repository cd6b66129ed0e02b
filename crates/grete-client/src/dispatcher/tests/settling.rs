//! Tests of threads that wait until all is processed.

use super::super::settling::{Condition, Settling};
use super::*;

#[test]
fn the_end_of_the_last_job_ends_the_wait() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let id = lane(&dispatcher, client, 0, 10);
    let ends = HashMap::from([(TopicPartition::new("orders", 0), 3)]);
    let condition = Condition::Settled { ends: &ends, end_backoffs: true };
    let wait = |timeout| dispatcher.wait_for(client, || Some(1), condition, Some(timeout)).expect("no failure");
    assert_eq!(wait(Duration::ZERO), Settling::TimedOut);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| wait(TEST_TIMEOUT));
        scope.spawn(|| {
            let mut failures = 2;
            work(&dispatcher, "worker", |_| {
                failures -= 1;
                if failures >= 0 { failed() } else { Outcome::Done }
            });
        });
        push(&dispatcher, id, 0, 0, 3);
        assert_eq!(waiter.join().expect("no panic"), Settling::Settled);
        dispatcher.stop();
    });
}

#[test]
fn the_end_of_the_dispatcher_ends_the_wait() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| dispatcher.wait_for(client, || None, Condition::Assigned, Some(TEST_TIMEOUT)));
        dispatcher.stop();
        assert!(matches!(waiter.join().expect("no panic"), Err(ClientError::Closed { .. })));
    });
    dispatcher.fail(ClientError::Revoked);
    let failed = dispatcher.wait_for(client, || None, Condition::Assigned, Some(TEST_TIMEOUT));
    assert!(matches!(failed, Err(ClientError::Revoked)));
}
