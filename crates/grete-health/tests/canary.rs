//! How long a lock is waited for.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use grete_health::{Canary, Watch};

const LONG: Duration = Duration::from_secs(60);

/// A canary that waits for a message each time, and says before that it does.
fn waiting() -> (Canary, impl Fn(), Receiver<()>) {
    let (release, released) = channel::<()>();
    let (tell, told) = channel();
    let canary = Canary::start(move || {
        let _ = tell.send(());
        released.recv().is_ok()
    });
    (canary.expect("a thread"), move || release.send(()).expect("it waits"), told)
}

fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "it did not happen");
        std::thread::yield_now();
    }
}

/// Once the wait that began at `since` has been noted.
fn noted(watch: &Watch) -> Duration {
    // A wait that is over does not grow any more.
    until(|| watch.wait(Instant::now() + LONG) < LONG);
    watch.wait(Instant::now())
}

#[test]
fn a_wait_under_way_grows_and_stays_known_when_it_is_over() {
    let (canary, release, told) = waiting();
    let watch = canary.watch();
    let now = Instant::now();
    assert_eq!(watch.wait(now), Duration::ZERO);
    watch.ask(now);
    told.recv_timeout(LONG).expect("it waits");
    assert_eq!(watch.wait(now + Duration::from_secs(7)), Duration::from_secs(7));
    watch.ask(now + Duration::from_secs(8)); // changes nothing: it waits since then
    assert_eq!(watch.wait(now + Duration::from_secs(9)), Duration::from_secs(9));
    assert_eq!(watch.waiting(now + Duration::from_secs(9)), Duration::from_secs(9));
    release();
    let took = noted(&watch);
    assert!(took > Duration::ZERO && took <= now.elapsed(), "{took:?}");
    assert_eq!(watch.waiting(Instant::now()), Duration::ZERO);
    // The next one counts from its own beginning, and the last one is known meanwhile.
    let again = Instant::now();
    watch.ask(again);
    told.recv_timeout(LONG).expect("it waits");
    assert_eq!(watch.wait(again), took);
    release();
    drop(release);
    canary.close();
}

#[test]
fn what_the_whole_process_slept_through_was_no_wait() {
    let (canary, release, told) = waiting();
    let watch = canary.watch();
    let long_ago = Instant::now().checked_sub(Duration::from_secs(40)).expect("the machine has run so long");
    watch.ask(long_ago);
    told.recv_timeout(LONG).expect("it waits");
    let now = Instant::now();
    assert!(watch.wait(now) >= Duration::from_secs(40));
    watch.forgive(now);
    assert_eq!(watch.wait(now + Duration::from_secs(2)), Duration::from_secs(2));
    release();
    assert!(noted(&watch) < Duration::from_secs(39), "it counts from when it was forgiven");
    watch.forgive(Instant::now());
    assert_eq!(watch.wait(Instant::now()), Duration::ZERO);
    drop(release);
    canary.close();
}

#[test]
fn without_an_interpreter_it_ends_and_waits_for_nothing() {
    let canary = Canary::start(|| false).expect("a thread");
    let watch = canary.watch();
    watch.ask(Instant::now());
    noted(&watch);
    until(|| {
        watch.ask(Instant::now());
        watch.wait(Instant::now() + LONG) < LONG
    });
    canary.close();
    canary.close();
}
