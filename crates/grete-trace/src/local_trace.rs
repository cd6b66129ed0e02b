//! Local part of a trace: the spans that this process adds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::chunk::Chunk;
use crate::clock::ClockAnchor;
use crate::config::Format;
use crate::context::SpanContext;
use crate::counters::SpanDropReason;
use crate::ids;
use crate::process_state::ProcessState;
use crate::sampling::sampler::Decision;
use crate::span::Span;
use crate::span_queue::PushOutcome;
use crate::transport::sender;

/// Maximum number of finished spans that wait for open spans of their trace.
const MAX_WAITING_SPANS: usize = 500;
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Trace with open and finished spans of this process.
#[derive(Debug)]
pub struct LocalTrace {
    core: Arc<ProcessState>,
    id: u128,
    clock: ClockAnchor,
    decision: Decision,
    origin: Box<str>,
    tags: Box<[(Box<str>, Box<str>)]>,
    tracestate: Box<str>,
    /// Id of the first span, which represents the trace; 0: none yet.
    root_span_id: AtomicU64,
    state: Mutex<OpenSpans>,
}

#[derive(Debug, Default)]
struct OpenSpans {
    open_count: usize,
    spans: Vec<Span>,
    bytes: usize,
}

impl LocalTrace {
    pub(crate) fn start(core: Arc<ProcessState>, service: Option<&str>, parent: Option<SpanContext>) -> Arc<Self> {
        let began = ClockAnchor::now();
        let id = match &parent {
            Some(parent) => parent.trace_id,
            None => ids::next_trace_id(began.anchor_nanos() / 1_000_000_000),
        };
        let config = &core.config;
        let parent_priority = parent.as_ref().and_then(|parent| parent.priority);
        let decision = match parent_priority {
            Some(priority) => Decision { priority, rate: None },
            None => core.sampler.decide(id, service.unwrap_or(&config.service), &config.env),
        };
        let (origin, tags, tracestate) = match parent {
            Some(parent) => (parent.origin, parent.tags, parent.tracestate),
            None => Default::default(),
        };
        let tags = match parent_priority {
            None if decision.priority > 0 => with_sampling_mechanism(tags, decision),
            _ => tags,
        };
        let state = Mutex::default();
        Arc::new(Self {
            id,
            clock: began,
            decision,
            origin,
            tags,
            tracestate,
            root_span_id: AtomicU64::new(0),
            state,
            core,
        })
    }

    pub(crate) fn belongs_to(&self, core: &Arc<ProcessState>) -> bool {
        Arc::ptr_eq(&self.core, core)
    }

    /// Returns the name of the service.
    pub fn service(&self) -> &Arc<str> {
        &self.core.service
    }

    /// Returns the trace id.
    pub fn id(&self) -> u128 {
        self.id
    }

    /// Returns the context of the span `span_id`, for propagation.
    pub fn context(&self, span_id: u64) -> SpanContext {
        SpanContext {
            trace_id: self.id,
            span_id,
            priority: Some(self.decision.priority),
            origin: self.origin.clone(),
            tags: self.tags.clone(),
            tracestate: self.tracestate.clone(),
        }
    }

    /// Starts a span now, and sets its ids.
    pub fn start_span(&self, span: &mut Span, parent_id: u64) {
        span.trace_id = self.id;
        span.span_id = ids::next_id();
        span.parent_id = parent_id;
        span.start = self.clock.now_nanos();
        let _ = self.root_span_id.compare_exchange(0, span.span_id, Relaxed, Relaxed);
        self.core.counters.started.fetch_add(1, Relaxed);
        self.lock().open_count += 1;
    }

    /// Finishes a span now. In a forked child of the process that started the span, this does nothing.
    pub fn finish_span(&self, mut span: Span) {
        if self.core.is_inherited() {
            return;
        }
        span.duration = self.clock.now_nanos().saturating_sub(span.start);
        let counters = &self.core.counters;
        counters.finished.fetch_add(1, Relaxed);
        if span.truncated() > 0 {
            counters.truncated.fetch_add(u64::from(span.truncated()), Relaxed);
        }
        let mut state = self.lock();
        state.bytes += span.bytes();
        if state.spans.capacity() == 0 {
            // Most traces are small, and a vector's first allocation would have room for four spans.
            let open = state.open_count.clamp(1, 16);
            state.spans.reserve_exact(open);
        }
        state.spans.push(span);
        self.flush_if_complete(state);
    }

    /// Discards an unfinished span that has no owner any more: the other spans do not wait for it.
    pub fn discard(&self) {
        if self.core.is_inherited() {
            return;
        }
        self.core.counters.abandoned.fetch_add(1, Relaxed);
        self.flush_if_complete(self.lock());
    }

    fn flush_if_complete(&self, mut state: MutexGuard<'_, OpenSpans>) {
        state.open_count = state.open_count.saturating_sub(1);
        let enough = state.spans.len() >= MAX_WAITING_SPANS || state.bytes >= MAX_WAITING_BYTES;
        if state.spans.is_empty() || !(state.open_count == 0 || enough) {
            return;
        }
        let spans = std::mem::take(&mut state.spans);
        let unused = (spans.capacity() - spans.len()) * size_of::<Span>();
        let span_bytes = std::mem::take(&mut state.bytes) + unused;
        drop(state);
        let root = self.root_span_id.load(Relaxed);
        let head = spans.iter().rposition(|span| span.span_id == root).unwrap_or(0);
        let Decision { priority, rate } = self.decision;
        let (origin, tracestate, tags) = (self.origin.clone(), self.tracestate.clone(), self.tags.clone());
        self.push(Chunk { spans, span_bytes, head, priority, rate, origin, tracestate, tags });
    }

    /// Queues finished spans, or drops and counts them.
    fn push(&self, chunk: Chunk) {
        let core = &self.core;
        let spans = chunk.spans.len();
        if chunk.priority <= 0 && core.config.format != Format::Datadog {
            core.counters.count_dropped(SpanDropReason::NotSampled, spans);
            return;
        }
        match core.queue.push(chunk) {
            PushOutcome::Accepted => {}
            PushOutcome::SenderNeeded if sender::start(core).is_ok() => {}
            // The system has no thread to give. The queue is bounded, and the next spans try again.
            PushOutcome::SenderNeeded => core.queue.on_sender_start_failed(),
            PushOutcome::Full => core.counters.count_dropped(SpanDropReason::QueueFull, spans),
            PushOutcome::Closed => core.counters.count_dropped(SpanDropReason::Closed, spans),
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenSpans> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the tag of the sampling mechanism: -1 if an agent's rate decided, -0 if no rate was known.
fn with_sampling_mechanism(tags: Box<[(Box<str>, Box<str>)]>, decision: Decision) -> Box<[(Box<str>, Box<str>)]> {
    let decider = if decision.rate.is_some() { "-1" } else { "-0" };
    let others = tags.into_iter().filter(|(key, _)| **key != *"_dd.p.dm");
    others.chain([("_dd.p.dm".into(), decider.into())]).collect()
}
