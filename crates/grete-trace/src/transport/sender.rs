//! Sender's thread: takes chunks from the queue, and completes each of them as sent or dropped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use crate::chunk::Chunk;
use crate::config::Format;
use crate::counters::SpanDropReason;
use crate::encode::otlp;
use crate::encode::payload::Payload;
use crate::process_state::ProcessState;
use crate::transport::backoff::Backoff;
use crate::transport::connection::Connection;
use crate::transport::http_response::Response;

/// Maximum number of attempts before a request's spans are dropped.
const MAX_ATTEMPTS: u32 = 5;
/// Minimum of `payload_limit`: a 413 for less than this does not lower it further.
const MIN_PAYLOAD_LIMIT: usize = 64 << 10;

pub(crate) fn start(core: &Arc<ProcessState>) -> std::io::Result<()> {
    let core = Arc::clone(core);
    let run = move || {
        let mut sender = Sender {
            payload: Payload::new(&core.config),
            connection: Connection::new(core.config.agent.clone()),
            backoff: Backoff::default(),
            payload_limit: core.config.max_payload,
            backoff_until: None,
            core,
        };
        while let Some(chunks) = sender.core.queue.wait_due() {
            sender.deliver(chunks);
        }
        sender.core.queue.on_sender_exit();
    };
    thread::Builder::new().name("grete-trace".into()).spawn(run).map(drop)
}

struct Sender {
    core: Arc<ProcessState>,
    payload: Payload,
    connection: Connection,
    backoff: Backoff,
    /// Maximum bytes of a request's body; lowered after a 413.
    payload_limit: usize,
    /// No attempt before this time.
    backoff_until: Option<Instant>,
}

/// Outcome of a request.
enum RequestOutcome {
    /// All spans were accepted, except `rejected` of them.
    Sent {
        rejected: usize,
    },
    /// Repeat with fewer chunks.
    SplitAndRetry,
    Dropped(SpanDropReason),
}

impl Sender {
    fn deliver(&mut self, mut chunks: VecDeque<Chunk>) {
        while !chunks.is_empty() {
            let Some(count) = self.payload.fill(&chunks, self.payload_limit) else {
                self.complete(&mut chunks, 1, Err(SpanDropReason::TooLarge));
                continue;
            };
            match self.send(count) {
                RequestOutcome::Sent { rejected } => self.complete(&mut chunks, count, Ok(rejected)),
                RequestOutcome::Dropped(reason) => self.complete(&mut chunks, count, Err(reason)),
                RequestOutcome::SplitAndRetry => {
                    self.payload_limit =
                        (self.payload.body.len() / 2).max(MIN_PAYLOAD_LIMIT.min(self.payload_limit / 2))
                }
            }
        }
    }

    /// Completes chunks. `sent`: number of rejected spans, or the reason why all were dropped.
    fn complete(&self, chunks: &mut VecDeque<Chunk>, count: usize, sent: Result<usize, SpanDropReason>) {
        let count = count.min(chunks.len());
        let sizes = chunks.iter().take(count).map(|chunk| (chunk.spans.len(), chunk.bytes()));
        let (spans, bytes) = sizes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        let counters = &self.core.counters;
        match sent {
            Err(reason) => counters.count_dropped(reason, spans),
            Ok(rejected) => {
                let rejected = rejected.min(spans);
                counters.count_dropped(SpanDropReason::Rejected, rejected);
                counters.sent.fetch_add((spans - rejected) as u64, Relaxed);
                counters.payloads.fetch_add(1, Relaxed);
                counters.bytes.fetch_add(self.payload.body.len() as u64, Relaxed);
            }
        }
        self.core.queue.complete(count, spans, bytes);
        // Freed after the waiting threads were notified and, on a single core, have run: a thousand spans are thousands
        // of memory blocks.
        thread::yield_now();
        chunks.drain(..count);
    }

    /// Sends the payload, repeatedly if that may help.
    fn send(&mut self, count: usize) -> RequestOutcome {
        let mut attempts = 0;
        loop {
            if let Some(until) = self.backoff_until.take() {
                self.core.queue.backoff_wait(until.saturating_duration_since(Instant::now()));
            }
            let left = self.core.queue.time_left();
            if left.is_some_and(|left| left.is_zero()) {
                return RequestOutcome::Dropped(SpanDropReason::Closed);
            }
            let timeout = left.map_or(self.core.config.timeout, |left| left.min(self.core.config.timeout));
            let response = self.connection.send_request(self.payload.head.as_bytes(), &self.payload.body, timeout);
            let (reason, requested_delay) = match response {
                Ok(Response { body: None, .. }) => return RequestOutcome::Dropped(SpanDropReason::InvalidResponse),
                Ok(Response { body: Some(body), status, retry_after, .. }) => {
                    match classify_status(status, &self.core.config.format) {
                        Disposition::Accepted => {
                            self.backoff.reset();
                            return RequestOutcome::Sent { rejected: self.handle_response(&body) };
                        }
                        Disposition::TooLarge if count > 1 => return RequestOutcome::SplitAndRetry,
                        Disposition::TooLarge => return RequestOutcome::Dropped(SpanDropReason::TooLarge),
                        Disposition::Rejected(reason) => return RequestOutcome::Dropped(reason),
                        Disposition::Retriable(reason) => (reason, retry_after),
                    }
                }
                Err(reason) => (reason, None),
            };
            attempts += 1;
            let pause = self.backoff.next_delay();
            self.backoff_until = Instant::now().checked_add(requested_delay.unwrap_or(pause));
            // After a close, the closing thread must not wait for an agent that is unavailable.
            if attempts == MAX_ATTEMPTS || self.core.queue.time_left().is_some() {
                return RequestOutcome::Dropped(reason);
            }
            self.core.counters.retried.fetch_add(1, Relaxed);
        }
    }

    /// Handles a successful response. Returns the number of rejected spans.
    fn handle_response(&self, response: &[u8]) -> usize {
        match self.core.config.format {
            Format::Datadog => {
                self.core.sampler.update(response);
                0
            }
            Format::Otlp { .. } => usize::try_from(otlp::rejected_spans(response)).unwrap_or(usize::MAX),
        }
    }
}

/// Meaning of a response's status.
enum Disposition {
    Accepted,
    TooLarge,
    /// A repetition would fail, too.
    Rejected(SpanDropReason),
    /// A repetition may succeed.
    Retriable(SpanDropReason),
}

/// Classifies a status. OpenTelemetry specifies for each status whether to repeat the request; Datadog has no such
/// list.
fn classify_status(status: u16, format: &Format) -> Disposition {
    match (status, format) {
        (200..300, _) => Disposition::Accepted,
        (413, _) => Disposition::TooLarge,
        (429, _) | (408, Format::Datadog) => Disposition::Retriable(SpanDropReason::Throttled),
        (502..=504, _) | (500.., Format::Datadog) => Disposition::Retriable(SpanDropReason::ServerError),
        (500.., _) => Disposition::Rejected(SpanDropReason::ServerError),
        _ => Disposition::Rejected(SpanDropReason::Rejected),
    }
}
