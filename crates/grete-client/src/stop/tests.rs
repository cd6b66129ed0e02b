//! A stop without an interpreter: what it does to the dispatcher, to clients, and when.

use std::io::Write;
use std::os::unix::net::UnixStream;

use super::*;
use crate::config::{ConsumerConfig, ProducerConfig};
use crate::dispatcher::{Next, Wait};
use crate::worker::Worker;

const HOUR: Duration = Duration::from_secs(3600);
const NUMBERS: SignalNumbers = SignalNumbers { stop: [2, 15], quiet: 20, dump: 21 };

fn dispatcher() -> Dispatcher {
    Dispatcher::new(Wait::Parked).expect("descriptors")
}

fn stop(dispatcher: &Dispatcher, patience: Duration) -> Stop {
    Stop::new(dispatcher, patience).expect("descriptors")
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
    Producer::start(&ProducerConfig::from_pairs(&pairs(&[])).expect("settings")).expect("a thread")
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

fn is_stopped(dispatcher: &Dispatcher) -> bool {
    let next = dispatcher.next(&mut Worker::new("test", dispatcher, 0), None, Some(Duration::ZERO));
    matches!(next, Ok(Next::Stopped))
}

#[test]
fn signals_are_heard_in_order_and_begin_a_stop() {
    let dispatcher = dispatcher();
    let stop = stop(&dispatcher, HOUR);
    let watch = SignalWatch::start(stop.clone(), NUMBERS).expect("a thread");
    assert_eq!(stop.take_signals(), Vec::<i32>::new());
    (&watch.wakeup).write_all(&[21, 20]).expect("room");
    let mut heard = Vec::new();
    eventually("two signals", || {
        heard.extend(stop.take_signals());
        heard.len() == 2
    });
    assert_eq!(heard, [21, 20]);
    assert!(stop.stages().is_none() && !is_stopped(&dispatcher), "neither of them is a word to stop");
    (&watch.wakeup).write_all(&[15]).expect("room");
    eventually("the beginning", || stop.take_signals() == [15]);
    eventually("the stop", || stop.stages().is_some());
    assert!(is_stopped(&dispatcher));
    stop.over();
}

#[test]
fn a_second_interrupt_hurries_and_a_second_termination_does_not() {
    for (numbers, hurried) in [([2_u8, 2], true), ([15, 2], true), ([15, 15], false), ([2, 15], false)] {
        let dispatcher = dispatcher();
        let stop = stop(&dispatcher, HOUR);
        let (source, mut wakeup) = UnixStream::pair().expect("a pair");
        wakeup.write_all(&numbers).expect("room");
        drop(wakeup);
        signals::watch(source, &stop, NUMBERS);
        let end = stop.stages().expect("begun").end;
        assert_eq!(left(end) < Duration::from_secs(10), hurried, "{numbers:?}");
        stop.over();
    }
}

#[test]
fn of_several_beginnings_the_earliest_end_counts() {
    let stop = stop(&dispatcher(), HOUR);
    stop.begin(None);
    let first = stop.stages().expect("begun");
    stop.begin(Some(HOUR * 2));
    assert_eq!(stop.stages(), Some(first));
    stop.begin(Some(HOUR / 2));
    assert!(stop.stages().expect("begun").end < first.end);
    stop.over();
}

#[test]
fn a_farewell_is_said_once_and_everybody_hears_what_it_came_to() {
    let dispatcher = dispatcher();
    let stop = stop(&dispatcher, HOUR);
    let (client, late) = (client(&dispatcher), self::client(&dispatcher));
    assert!(stop.add_client(&client));
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| stop.say_farewell().expect("in time"));
        let other = scope.spawn(|| stop.say_farewell().expect("in time"));
        (one.join().expect("no panic"), other.join().expect("no panic"))
    });
    assert!(Arc::ptr_eq(&one, &other));
    assert!(one.committed() && one.not_left.is_empty());
    assert!(client.subscribe(vec!["orders".into()]).is_err(), "it is closed");
    assert!(!stop.add_client(&late) && !stop.add_producer(&producer()), "nobody would close them");
    stop.over();
}

#[test]
fn nobody_has_to_say_the_farewell() {
    let dispatcher = dispatcher();
    let stop = stop(&dispatcher, HOUR);
    let client = client(&dispatcher);
    assert!(stop.add_client(&client));
    stop.begin(Some(Duration::from_millis(200)));
    eventually("the takeover", || client.subscribe(vec!["orders".into()]).is_err());
    stop.over();
}

#[test]
fn what_is_over_in_time_is_not_taken_over() {
    let dispatcher = dispatcher();
    let stop = stop(&dispatcher, HOUR);
    let client = client(&dispatcher);
    assert!(stop.add_client(&client));
    stop.begin(Some(Duration::from_secs(1)));
    let deadline = stop.stages().expect("begun").end;
    stop.over();
    // The length of the time is what this is about.
    std::thread::sleep(left(deadline));
    assert!(client.subscribe(vec!["orders".into()]).is_ok());
    client.close(Duration::ZERO).ok();
}
