//! Tests of the GIL probe with a lock of the test.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use grete_health::{GilProbe, GilProbeHandle};

const LONG: Duration = Duration::from_secs(60);

/// Starts a probe that announces each wait and then waits for a message.
fn waiting() -> (GilProbe, impl Fn(), Receiver<()>) {
    let (release, released) = channel::<()>();
    let (report_start, started) = channel();
    let probe = GilProbe::start(move || {
        let _ = report_start.send(());
        released.recv().is_ok()
    });
    (probe.expect("a thread"), move || release.send(()).expect("it waits"), started)
}

fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "it did not happen");
        std::thread::yield_now();
    }
}

/// Returns the recorded wait that began at `since`, once it has ended.
fn recorded_wait(probe: &GilProbeHandle) -> Duration {
    // A wait that has ended does not grow any more.
    until(|| probe.max_wait(Instant::now() + LONG) < LONG);
    probe.max_wait(Instant::now())
}

#[test]
fn a_wait_under_way_grows_and_stays_known_when_it_is_over() {
    let (probe, release, wait_started) = waiting();
    let watch = probe.handle();
    let now = Instant::now();
    assert_eq!(watch.max_wait(now), Duration::ZERO);
    watch.sample(now);
    wait_started.recv_timeout(LONG).expect("it waits");
    assert_eq!(watch.max_wait(now + Duration::from_secs(7)), Duration::from_secs(7));
    watch.sample(now + Duration::from_secs(8)); // no effect: the probe waits since then
    assert_eq!(watch.max_wait(now + Duration::from_secs(9)), Duration::from_secs(9));
    assert_eq!(watch.current_wait(now + Duration::from_secs(9)), Duration::from_secs(9));
    release();
    let took = recorded_wait(&watch);
    assert!(took > Duration::ZERO && took <= now.elapsed(), "{took:?}");
    assert_eq!(watch.current_wait(Instant::now()), Duration::ZERO);
    // The next wait counts from its own beginning, and the last one is known meanwhile.
    let again = Instant::now();
    watch.sample(again);
    wait_started.recv_timeout(LONG).expect("it waits");
    assert_eq!(watch.max_wait(again), took);
    release();
    drop(release);
    probe.close();
}

#[test]
fn process_suspension_is_not_counted_as_gil_wait() {
    let (probe, release, wait_started) = waiting();
    let watch = probe.handle();
    let long_ago = Instant::now().checked_sub(Duration::from_secs(40)).expect("the machine has run so long");
    watch.sample(long_ago);
    wait_started.recv_timeout(LONG).expect("it waits");
    let now = Instant::now();
    assert!(watch.max_wait(now) >= Duration::from_secs(40));
    watch.discount(now);
    assert_eq!(watch.max_wait(now + Duration::from_secs(2)), Duration::from_secs(2));
    release();
    assert!(recorded_wait(&watch) < Duration::from_secs(39), "the wait counts from the discounted time");
    watch.discount(Instant::now());
    assert_eq!(watch.max_wait(Instant::now()), Duration::ZERO);
    drop(release);
    probe.close();
}

#[test]
fn without_an_interpreter_it_ends_and_waits_for_nothing() {
    let probe = GilProbe::start(|| false).expect("a thread");
    let watch = probe.handle();
    watch.sample(Instant::now());
    recorded_wait(&watch);
    until(|| {
        watch.sample(Instant::now());
        watch.max_wait(Instant::now() + LONG) < LONG
    });
    probe.close();
    probe.close();
}
