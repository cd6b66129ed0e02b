//! Log events of threads that cannot log themselves, queued for a thread that can.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use grete_sys::EventFd;
use grete_wire::one_line;

/// Severity of a log event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// A condition that may need attention.
    Warning,
    /// A condition that needs action.
    Error,
}

/// One line of the log.
#[derive(Debug, Clone)]
pub struct LogEvent {
    /// Severity.
    pub level: Level,
    /// Dotted name of the event, in Kafka's terms: `broker.disconnected`.
    pub name: &'static str,
    /// Text for people.
    pub message: String,
    /// Key-value data for machines.
    pub fields: Vec<(&'static str, String)>,
}

/// Log event with the time at which it happened, because its line may be written later.
#[derive(Debug, Clone)]
pub struct TimestampedLogEvent {
    /// Time of the event.
    pub at: SystemTime,
    /// Event to log.
    pub event: LogEvent,
}

/// Callback that writes events to the log, on a thread that waits for something else and holds none of the client's
/// locks. Returns true if an exception (for example of a signal handler) must end the wait.
pub type LogSink = Box<dyn Fn(Vec<TimestampedLogEvent>) -> bool + Send + Sync>;

/// Maximum number of queued events; beyond it the oldest events are dropped.
const MAX_QUEUED: usize = 10_000;

/// Bounded queue of log events with a descriptor that is readable while an event waits.
pub struct LogEventQueue {
    queue: Mutex<VecDeque<TimestampedLogEvent>>,
    /// Whether the descriptor is readable. Checking an empty queue thus costs no system call.
    signalled: AtomicBool,
    event_fd: EventFd,
    /// `None`: another thread watches the descriptor and logs the events.
    sink: Option<LogSink>,
}

impl LogEventQueue {
    pub(crate) fn new(event: EventFd, log: Option<LogSink>) -> Self {
        Self { queue: Mutex::default(), signalled: AtomicBool::new(false), event_fd: event, sink: log }
    }

    /// Queues the events with the current time.
    pub(crate) fn push(&self, events: impl IntoIterator<Item = LogEvent>) {
        let at = SystemTime::now();
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        for mut event in events {
            // The only way of a network thread's texts to the log: see `one_line`.
            make_line(&mut event.message);
            event.fields.iter_mut().for_each(|(_, value)| make_line(value));
            if queue.len() == MAX_QUEUED {
                queue.pop_front();
            }
            queue.push_back(TimestampedLogEvent { at, event });
        }
        self.signal_locked();
    }

    /// Returns whether [`LogEventQueue::write_pending`] has events to write.
    pub(crate) fn has_pending(&self) -> bool {
        self.sink.is_some() && self.signalled.load(Ordering::Acquire)
    }

    /// Logs the queued events. A thread calls this before each sleep in a call; it costs one load if the queue is
    /// empty. Returns true if the call must end.
    pub fn write_pending(&self) -> bool {
        let Some(log) = self.sink.as_ref().filter(|_| self.has_pending()) else { return false };
        let events = self.drain();
        !events.is_empty() && log(events)
    }

    /// Makes the descriptor readable, if it is not, even if no event waits (for a fatal error).
    pub(crate) fn signal(&self) {
        let _queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.signal_locked();
    }

    /// Sets the flag and the descriptor; the caller holds the lock of the queue. Without the lock a `drain` between the
    /// two would clear the flag alone: the descriptor would stay readable, and a selector would return at once each time.
    fn signal_locked(&self) {
        if !self.signalled.swap(true, Ordering::AcqRel) {
            self.event_fd.signal();
        }
    }

    /// Takes the queued events. Signals are set and cleared under the lock of the queue, so the event behind a signal
    /// that is cleared here is taken here. A failure is stored before its signal, so a caller that checks for failures
    /// after draining finds it.
    #[must_use]
    pub fn drain(&self) -> Vec<TimestampedLogEvent> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if self.signalled.load(Ordering::Acquire) {
            self.event_fd.clear();
            self.signalled.store(false, Ordering::Release);
        }
        queue.drain(..).collect()
    }

    /// Returns a descriptor that is readable while log events wait, or after a signal without an event.
    pub fn event_fd(&self) -> RawFd {
        self.event_fd.as_raw_fd()
    }
}

fn make_line(text: &mut String) {
    if let Cow::Owned(line) = one_line(text) {
        *text = line;
    }
}

impl fmt::Debug for LogEventQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogEventQueue").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn log_event(name: &'static str) -> LogEvent {
        LogEvent { level: Level::Info, name, message: name.to_owned(), fields: Vec::new() }
    }

    #[test]
    fn a_log_event_keeps_its_time() {
        let notices = LogEventQueue::new(EventFd::new().expect("a descriptor"), None);
        let before = SystemTime::now();
        notices.push([log_event("a")]);
        let after = SystemTime::now();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let [dated] = &notices.drain()[..] else { panic!("one notice") };
        assert!(before <= dated.at && dated.at <= after);
    }

    #[test]
    fn a_text_of_a_broker_forges_no_line() {
        let notices = LogEventQueue::new(EventFd::new().expect("a descriptor"), None);
        let forged = "no\n2026-01-01 INFO all is well\u{1b}[1A";
        let fields = vec![("reason", forged.to_owned())];
        notices.push([LogEvent { message: forged.to_owned(), fields, ..log_event("a") }]);
        let [dated] = &notices.drain()[..] else { panic!("one notice") };
        let line = "no\\x0a2026-01-01 INFO all is well\\x1b[1A";
        assert_eq!((dated.event.message.as_str(), dated.event.fields[0].1.as_str()), (line, line));
    }

    #[test]
    fn the_sink_is_called_only_when_events_are_pending() {
        let (sender, receiver) = mpsc::channel();
        let sender = Mutex::new(sender);
        let log: LogSink = Box::new(move |notices| {
            let names: Vec<_> = notices.iter().map(|dated| dated.event.name).collect();
            sender.lock().expect("whole").send(names).is_err()
        });
        let notices = LogEventQueue::new(EventFd::new().expect("a descriptor"), Some(log));
        assert!(!notices.write_pending());
        notices.push([log_event("a"), log_event("b")]);
        assert!(!notices.write_pending() && !notices.write_pending());
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [["a", "b"]]);
        drop(receiver);
        notices.push([log_event("c")]);
        assert!(notices.write_pending(), "the caller is to end its wait");
    }
}
