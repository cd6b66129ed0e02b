//! The thread that sends: takes chunks out, and settles each of them, sent or dropped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use crate::backoff::Backoff;
use crate::chunk::Chunk;
use crate::config::Format;
use crate::connection::Connection;
use crate::counters::Reason;
use crate::http::Answer;
use crate::otlp;
use crate::payload::Payload;
use crate::tracer::Core;

/// A request is sent so often before its spans are dropped.
const ATTEMPTS: u32 = 5;
/// An agent that refuses less than this as too large is not believed.
const SMALLEST_LIMIT: usize = 64 << 10;

pub(crate) fn start(core: &Arc<Core>) -> std::io::Result<()> {
    let core = Arc::clone(core);
    let run = move || {
        let mut sender = Sender {
            payload: Payload::new(&core.config),
            connection: Connection::new(core.config.agent.clone()),
            backoff: Backoff::default(),
            limit: core.config.max_payload,
            rests_until: None,
            core,
        };
        while let Some(chunks) = sender.core.queue.take() {
            sender.deliver(chunks);
        }
        sender.core.queue.end();
    };
    thread::Builder::new().name("grete-trace".into()).spawn(run).map(drop)
}

struct Sender {
    core: Arc<Core>,
    payload: Payload,
    connection: Connection,
    backoff: Backoff,
    /// What the agent takes at once: less than was meant if it has answered 413.
    limit: usize,
    /// It is left alone until then.
    rests_until: Option<Instant>,
}

/// What became of a request.
enum Outcome {
    /// All but so many spans.
    Sent {
        rejected: usize,
    },
    /// Try again with less.
    Smaller,
    Dropped(Reason),
}

impl Sender {
    fn deliver(&mut self, mut chunks: VecDeque<Chunk>) {
        while !chunks.is_empty() {
            let Some(count) = self.payload.fill(&chunks, self.limit) else {
                self.settle(&mut chunks, 1, Err(Reason::TooLarge));
                continue;
            };
            match self.send(count) {
                Outcome::Sent { rejected } => self.settle(&mut chunks, count, Ok(rejected)),
                Outcome::Dropped(reason) => self.settle(&mut chunks, count, Err(reason)),
                Outcome::Smaller => self.limit = (self.payload.body.len() / 2).max(SMALLEST_LIMIT.min(self.limit / 2)),
            }
        }
    }

    /// `sent`: all of them but so many, or none, and why.
    fn settle(&self, chunks: &mut VecDeque<Chunk>, count: usize, sent: Result<usize, Reason>) {
        let count = count.min(chunks.len());
        let sizes = chunks.iter().take(count).map(|chunk| (chunk.spans.len(), chunk.bytes()));
        let (spans, bytes) = sizes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        let counters = &self.core.counters;
        match sent {
            Err(reason) => counters.drop_spans(reason, spans),
            Ok(rejected) => {
                let rejected = rejected.min(spans);
                counters.drop_spans(Reason::Refused, rejected);
                counters.sent.fetch_add((spans - rejected) as u64, Relaxed);
                counters.payloads.fetch_add(1, Relaxed);
                counters.bytes.fetch_add(self.payload.body.len() as u64, Relaxed);
            }
        }
        self.core.queue.settle(count, spans, bytes);
        // After whoever waits has been told, and on one core has had the core: a thousand spans are some thousand blocks of
        // memory.
        thread::yield_now();
        chunks.drain(..count);
    }

    /// Sends what the payload holds, again and again where that may help.
    fn send(&mut self, count: usize) -> Outcome {
        let mut attempts = 0;
        loop {
            if let Some(until) = self.rests_until.take() {
                self.core.queue.pause(until.saturating_duration_since(Instant::now()));
            }
            let left = self.core.queue.time_left();
            if left.is_some_and(|left| left.is_zero()) {
                return Outcome::Dropped(Reason::Closed);
            }
            let timeout = left.map_or(self.core.config.timeout, |left| left.min(self.core.config.timeout));
            let answer = self.connection.exchange(self.payload.head.as_bytes(), &self.payload.body, timeout);
            let (reason, asked) = match answer {
                Ok(Answer { body: None, .. }) => return Outcome::Dropped(Reason::Garbled),
                Ok(Answer { body: Some(body), status, retry_after, .. }) => {
                    match judge(status, &self.core.config.format) {
                        Verdict::Good => {
                            self.backoff.succeeded();
                            return Outcome::Sent { rejected: self.hear(&body) };
                        }
                        Verdict::TooLarge if count > 1 => return Outcome::Smaller,
                        Verdict::TooLarge => return Outcome::Dropped(Reason::TooLarge),
                        Verdict::Bad(reason) => return Outcome::Dropped(reason),
                        Verdict::NotNow(reason) => (reason, retry_after),
                    }
                }
                Err(reason) => (reason, None),
            };
            attempts += 1;
            let pause = self.backoff.failed();
            self.rests_until = Instant::now().checked_add(asked.unwrap_or(pause));
            // Closed: whoever waits for the end does not want to wait for an agent that is away.
            if attempts == ATTEMPTS || self.core.queue.time_left().is_some() {
                return Outcome::Dropped(reason);
            }
            self.core.counters.retried.fetch_add(1, Relaxed);
        }
    }

    /// What a good answer says. Returns how many spans were not taken all the same.
    fn hear(&self, answer: &[u8]) -> usize {
        match self.core.config.format {
            Format::Datadog => {
                self.core.sampler.update(answer);
                0
            }
            Format::Otlp { .. } => usize::try_from(otlp::rejected(answer)).unwrap_or(usize::MAX),
        }
    }
}

/// What an answer's status means.
enum Verdict {
    Good,
    TooLarge,
    /// It would not pass later, either.
    Bad(Reason),
    /// It may.
    NotNow(Reason),
}

/// OpenTelemetry says of each status whether the same request may be sent again; Datadog's agent has no such list.
fn judge(status: u16, format: &Format) -> Verdict {
    match (status, format) {
        (200..300, _) => Verdict::Good,
        (413, _) => Verdict::TooLarge,
        (429, _) | (408, Format::Datadog) => Verdict::NotNow(Reason::Busy),
        (502..=504, _) | (500.., Format::Datadog) => Verdict::NotNow(Reason::Failing),
        (500.., _) => Verdict::Bad(Reason::Failing),
        _ => Verdict::Bad(Reason::Refused),
    }
}
