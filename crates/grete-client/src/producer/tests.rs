//! Sleepers, watches and the end of the network thread, without a broker: nothing listens where these producers look.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use grete_core::produce::PartitionId;

use super::ending::Ending;
use super::*;
use crate::config::ProducerConfig;

fn config(pairs: &[(&str, &str)]) -> ProducerConfig {
    // Port 1 of the discard address: connecting is refused at once, or never answered.
    let mut all = vec![("bootstrap.servers".to_owned(), "127.0.0.1:1".to_owned())];
    all.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    ProducerConfig::from_pairs(&all).expect("fits")
}

fn shared() -> Arc<Shared> {
    let config = config(&[]);
    Arc::new(Shared::new(&config, &config.to_core().produce, Rng::new(1)).expect("descriptors"))
}

fn receipt() -> Arc<Receipt> {
    Arc::new(Receipt::new("orders".into(), 0, PartitionId(0)))
}

/// The network thread ends on a fault while `sleep` sleeps.
fn after_a_panic(shared: &Arc<Shared>, sleep: impl FnOnce(&Shared) -> Slept + Send + 'static) -> Slept {
    let sleeping = Arc::clone(shared);
    let sleeper = thread::spawn(move || sleep(&sleeping));
    let ending = Ending { shared: Arc::clone(shared) };
    let network = thread::spawn(move || {
        let _ending = ending;
        panic!("as if a machine had a fault");
    });
    assert!(network.join().is_err());
    sleeper.join().expect("woken")
}

const LONG: Option<Nanos> = Some(600 * 1_000_000_000);

#[test]
fn a_fault_of_the_network_thread_wakes_who_waits_for_room() {
    let shared = shared();
    let slept = after_a_panic(&shared, move |shared| {
        let room = &shared.words().room;
        loop {
            match shared.sleep(room, room.load(std::sync::atomic::Ordering::SeqCst), LONG) {
                Slept::Woken => {}
                other => return other,
            }
        }
    });
    assert_eq!(slept, Slept::Ended);
    assert!(shared.check().expect_err("unusable").to_string().contains("a fault of Grete's own"));
    assert!(!shared.is_usable());
}

#[test]
fn a_fault_of_the_network_thread_wakes_who_waits_for_a_receipt() {
    let shared = shared();
    let receipt = receipt();
    let slept = after_a_panic(&shared, move |shared| {
        loop {
            match shared.sleep_on_receipt(&receipt, LONG, || false) {
                Slept::Woken => {}
                other => return other,
            }
        }
    });
    assert_eq!(slept, Slept::Ended);
    assert!(shared.sleepers.lock().expect("whole").is_empty());
}

#[test]
fn a_fault_of_the_network_thread_wakes_who_waits_for_callbacks() {
    let shared = shared();
    let slept = after_a_panic(&shared, |shared| {
        loop {
            match shared.await_attention(LONG) {
                Slept::Woken if !shared.has_ended() => {}
                other => return other,
            }
        }
    });
    assert!(matches!(slept, Slept::Woken | Slept::Ended), "{slept:?}");
}

#[test]
fn without_a_broker_a_topic_is_waited_for_and_closing_takes_no_longer_than_it_may() {
    let producer = Producer::start(&config(&[])).expect("started");
    let timeout = Duration::from_millis(100);
    let deadline = producer.deadline(timeout);
    let error = loop {
        match producer.partitions("orders", timeout, deadline) {
            Ok(Asked::Answer(count)) => panic!("{count} partitions of nothing"),
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("partitions of topic \"orders\" had no answer within 0.1 s"), "{error}");
    assert!(producer.now() >= deadline);
    let deadline = producer.close(Duration::ZERO).expect("closes");
    assert_eq!(producer.await_close(deadline), Closing::Done(Undelivered::default()));
    assert!(matches!(producer.check(), Err(ClientError::Closed { .. })));
}

#[test]
fn a_watch_hears_of_what_it_was_given_once_and_of_nothing_after_its_end() {
    let shared = shared();
    let watch = shared.watches.open(None);
    let other = shared.watches.open(None);
    let receipt = receipt();
    assert!(watch.add(&receipt));
    assert!(watch.add(&receipt), "twice is once");
    shared.watches.settled(&receipt);
    assert!(shared.attention.is_wanted());
    assert_eq!((watch.take().len(), watch.take().len(), other.take().len()), (1, 0, 0));
    drop(watch);
    shared.watches.settled(&receipt);
    assert_eq!(other.take().len(), 0);
}

#[test]
fn a_hungry_watch_is_called_once() {
    let shared = shared();
    let watch = shared.watches.open(Some(grete_net::EventFd::new().expect("descriptors")));
    shared.watches.stir();
    assert!(!watch.is_due());
    watch.hunger();
    shared.watches.stir();
    assert!(watch.is_due());
    assert!(watch.take().is_empty() && !watch.is_due());
    shared.watches.stir();
    assert!(!watch.is_due());
}
