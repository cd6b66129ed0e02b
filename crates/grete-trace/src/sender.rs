//! The thread that sends: takes chunks out, and settles each of them, sent or dropped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use crate::backoff::Backoff;
use crate::chunk::Chunk;
use crate::connection::Connection;
use crate::counters::Reason;
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
}

/// What became of a request.
enum Outcome {
    Sent,
    /// Try again with less.
    Smaller,
    Dropped(Reason),
}

impl Sender {
    fn deliver(&mut self, mut chunks: VecDeque<Chunk>) {
        while !chunks.is_empty() {
            let Some(count) = self.payload.fill(&chunks, self.limit) else {
                self.settle(&mut chunks, 1, Some(Reason::TooLarge));
                continue;
            };
            match self.send(count) {
                Outcome::Sent => self.settle(&mut chunks, count, None),
                Outcome::Dropped(reason) => self.settle(&mut chunks, count, Some(reason)),
                Outcome::Smaller => self.limit = (self.payload.body.len() / 2).max(SMALLEST_LIMIT.min(self.limit / 2)),
            }
        }
    }

    fn settle(&self, chunks: &mut VecDeque<Chunk>, count: usize, dropped: Option<Reason>) {
        let count = count.min(chunks.len());
        let (mut spans, mut bytes) = (0, 0);
        for chunk in chunks.drain(..count) {
            spans += chunk.spans.len();
            bytes += chunk.bytes();
        }
        let counters = &self.core.counters;
        match dropped {
            Some(reason) => counters.drop_spans(reason, spans),
            None => {
                counters.sent.fetch_add(spans as u64, Relaxed);
                counters.payloads.fetch_add(1, Relaxed);
                counters.bytes.fetch_add(self.payload.body.len() as u64, Relaxed);
            }
        }
        self.core.queue.settle(count, spans, bytes);
    }

    /// Sends what the payload holds, again and again where that may help.
    fn send(&mut self, count: usize) -> Outcome {
        let mut attempts = 0;
        loop {
            let left = self.core.queue.time_left();
            if left.is_some_and(|left| left.is_zero()) {
                return Outcome::Dropped(Reason::Closed);
            }
            let timeout = left.map_or(self.core.config.timeout, |left| left.min(self.core.config.timeout));
            let answer = self.connection.exchange(self.payload.head.as_bytes(), &self.payload.body, timeout);
            let reason = match answer {
                Ok(answer) => match answer.status {
                    200..300 => {
                        self.backoff.succeeded();
                        self.core.sampler.update(&answer.body);
                        return Outcome::Sent;
                    }
                    413 if count > 1 => return Outcome::Smaller,
                    413 => return Outcome::Dropped(Reason::TooLarge),
                    408 | 429 => Reason::Busy,
                    500.. => Reason::Failing,
                    _ => return Outcome::Dropped(Reason::Refused),
                },
                Err(reason) => reason,
            };
            attempts += 1;
            let pause = self.backoff.failed();
            // Closed: whoever waits for the end does not want to wait for an agent that is away.
            if attempts == ATTEMPTS || self.core.queue.time_left().is_some() {
                return Outcome::Dropped(reason);
            }
            self.core.queue.pause(pause);
            self.core.counters.retried.fetch_add(1, Relaxed);
        }
    }
}
