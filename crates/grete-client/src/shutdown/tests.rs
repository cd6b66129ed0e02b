//! Tests of a shutdown without an interpreter: its effect on the dispatcher and on clients, and its timing.

use std::io::Write;
use std::os::unix::net::UnixStream;

use super::*;
use crate::config::{ConsumerConfig, ProducerConfig};
use crate::dispatcher::{NextJob, WaitMode};

const HOUR: Duration = Duration::from_secs(3600);
const NUMBERS: SignalNumbers = SignalNumbers { stop: [2, 15], quiet: 20, dump: 21 };

fn dispatcher() -> Dispatcher {
    Dispatcher::new(WaitMode::Parked).expect("descriptors")
}

fn shutdown(dispatcher: &Dispatcher, patience: Duration) -> Shutdown {
    Shutdown::new(dispatcher, patience).expect("descriptors")
}

fn pairs(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let nowhere = [("bootstrap.servers", "127.0.0.1:1")];
    nowhere.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn client(dispatcher: &Dispatcher) -> Consumer {
    let config = ConsumerConfig::from_pairs(&pairs(&[("group.id", "billing")])).expect("settings");
    Consumer::start(config, dispatcher, Vec::new()).expect("a thread")
}

fn producer() -> Producer {
    Producer::start(&ProducerConfig::from_pairs(&pairs(&[])).expect("settings"), None).expect("a thread")
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

fn is_stopped(dispatcher: &Dispatcher) -> bool {
    let next = dispatcher.next(&mut dispatcher.worker_context("test", 0), None, Some(Duration::ZERO));
    matches!(next, Ok(NextJob::Stopped))
}

#[test]
fn signals_are_received_in_order_and_begin_a_shutdown() {
    let dispatcher = dispatcher();
    let stop = shutdown(&dispatcher, HOUR);
    let watch = SignalWatch::start(stop.clone(), NUMBERS).expect("a thread");
    assert_eq!(stop.take_signals(), Vec::<i32>::new());
    (&*watch.wakeup).write_all(&[21, 20]).expect("room");
    let mut received = Vec::new();
    eventually("two signals", || {
        received.extend(stop.take_signals());
        received.len() == 2
    });
    assert_eq!(received, [21, 20]);
    assert!(stop.deadlines().is_none() && !is_stopped(&dispatcher), "neither of them is a word to stop");
    (&*watch.wakeup).write_all(&[15]).expect("room");
    eventually("the beginning", || stop.take_signals() == [15]);
    eventually("the stop", || stop.deadlines().is_some());
    assert!(is_stopped(&dispatcher));
    stop.finish();
}

#[test]
fn a_second_sigint_expedites_and_a_second_sigterm_does_not() {
    for (numbers, hurried) in [([2_u8, 2], true), ([15, 2], true), ([15, 15], false), ([2, 15], false)] {
        let dispatcher = dispatcher();
        let stop = shutdown(&dispatcher, HOUR);
        let (source, mut wakeup) = UnixStream::pair().expect("a pair");
        wakeup.write_all(&numbers).expect("room");
        drop(wakeup);
        signals::watch(source, &stop, NUMBERS);
        let end = stop.deadlines().expect("begun").end;
        assert_eq!(remaining(end) < Duration::from_secs(10), hurried, "{numbers:?}");
        stop.finish();
    }
}

#[test]
fn of_several_beginnings_the_earliest_end_counts() {
    let stop = shutdown(&dispatcher(), HOUR);
    stop.begin(None);
    let first = stop.deadlines().expect("begun");
    stop.begin(Some(HOUR * 2));
    assert_eq!(stop.deadlines(), Some(first));
    stop.begin(Some(HOUR / 2));
    assert!(stop.deadlines().expect("begun").end < first.end);
    stop.finish();
}

#[test]
fn clients_are_closed_once_and_every_caller_gets_the_report() {
    let dispatcher = dispatcher();
    let stop = shutdown(&dispatcher, HOUR);
    let (client, late) = (client(&dispatcher), self::client(&dispatcher));
    assert!(stop.add_client(&client));
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| stop.close_clients().expect("in time"));
        let other = scope.spawn(|| stop.close_clients().expect("in time"));
        (one.join().expect("no panic"), other.join().expect("no panic"))
    });
    assert!(Arc::ptr_eq(&one, &other));
    assert!(one.is_delivered() && one.failed_to_leave.is_empty());
    assert!(client.subscribe(vec!["orders".into()]).is_err(), "it is closed");
    assert!(!stop.add_client(&late) && !stop.add_producer(&producer()), "the close would miss them");
    stop.finish();
}

#[test]
fn clients_are_closed_without_a_caller() {
    let dispatcher = dispatcher();
    let stop = shutdown(&dispatcher, HOUR);
    let client = client(&dispatcher);
    assert!(stop.add_client(&client));
    stop.begin(Some(Duration::from_millis(200)));
    eventually("the takeover", || client.subscribe(vec!["orders".into()]).is_err());
    stop.finish();
}

#[test]
fn a_shutdown_that_finishes_in_time_is_not_taken_over() {
    let dispatcher = dispatcher();
    let stop = shutdown(&dispatcher, HOUR);
    let client = client(&dispatcher);
    assert!(stop.add_client(&client));
    stop.begin(Some(Duration::from_secs(1)));
    let deadline = stop.deadlines().expect("begun").end;
    stop.finish();
    // The test is about this duration, so it sleeps for it.
    std::thread::sleep(remaining(deadline));
    assert!(client.subscribe(vec!["orders".into()]).is_ok());
    client.close(Duration::ZERO).ok();
}
