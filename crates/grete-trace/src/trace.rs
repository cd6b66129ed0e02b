//! The part of a trace that this process adds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::chunk::Chunk;
use crate::clock::Anchor;
use crate::context::SpanContext;
use crate::ids;
use crate::sampler::Decision;
use crate::span::Span;
use crate::tracer::Core;

/// Finished spans wait for those of their trace that are open still, but not more of them than this, nor more bytes.
const MOST_SPANS: usize = 500;
const MOST_BYTES: usize = 1 << 20;

/// Spans of one trace, some of them open.
#[derive(Debug)]
pub struct Trace {
    core: Arc<Core>,
    id: u128,
    began: Anchor,
    decision: Decision,
    origin: Box<str>,
    tags: Box<[(Box<str>, Box<str>)]>,
    tracestate: Box<str>,
    /// The first span: it speaks for the others.
    root: AtomicU64,
    state: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    open: usize,
    spans: Vec<Span>,
    bytes: usize,
}

impl Trace {
    pub(crate) fn begin(core: Arc<Core>, service: Option<&str>, parent: Option<SpanContext>) -> Arc<Self> {
        let began = Anchor::now();
        let id = match &parent {
            Some(parent) => parent.trace_id,
            None => ids::next_trace(began.real() / 1_000_000_000),
        };
        let config = &core.config;
        let decided = parent.as_ref().and_then(|parent| parent.priority);
        let decision = match decided {
            Some(priority) => Decision { priority, rate: None },
            None => core.sampler.decide(id, service.unwrap_or(&config.service), &config.env),
        };
        let (origin, tags, tracestate) = match parent {
            Some(parent) => (parent.origin, parent.tags, parent.tracestate),
            None => Default::default(),
        };
        let tags = match decided {
            None if decision.priority > 0 => with_decider(tags, decision),
            _ => tags,
        };
        let state = Mutex::default();
        Arc::new(Self { id, began, decision, origin, tags, tracestate, root: AtomicU64::new(0), state, core })
    }

    pub(crate) fn is_of(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(&self.core, core)
    }

    /// The tracer's service.
    #[must_use]
    pub fn service(&self) -> &Arc<str> {
        &self.core.service
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> u128 {
        self.id
    }

    /// What others need to know of its span `span_id`.
    #[must_use]
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

    /// A span begins now.
    pub fn open(&self, span: &mut Span, parent_id: u64) {
        span.trace_id = self.id;
        span.span_id = ids::next();
        span.parent_id = parent_id;
        span.start = self.began.read();
        let _ = self.root.compare_exchange(0, span.span_id, Relaxed, Relaxed);
        self.core.counters.started.fetch_add(1, Relaxed);
        self.lock().open += 1;
    }

    /// A span ends now. In a child of the process that began it, nothing happens.
    pub fn finish(&self, mut span: Span) {
        if self.core.is_inherited() {
            return;
        }
        span.duration = self.began.read().saturating_sub(span.start);
        let counters = &self.core.counters;
        counters.finished.fetch_add(1, Relaxed);
        if span.cut() > 0 {
            counters.cut.fetch_add(u64::from(span.cut()), Relaxed);
        }
        let mut state = self.lock();
        state.bytes += span.bytes();
        if state.spans.capacity() == 0 {
            // Most traces are small, and a vector's own first step would be to four spans.
            let open = state.open.clamp(1, 16);
            state.spans.reserve_exact(open);
        }
        state.spans.push(span);
        self.leave(state);
    }

    /// Nobody holds a span any more that was not finished: the others do not wait for it.
    pub fn abandon(&self) {
        if self.core.is_inherited() {
            return;
        }
        self.core.counters.abandoned.fetch_add(1, Relaxed);
        self.leave(self.lock());
    }

    fn leave(&self, mut state: MutexGuard<'_, Open>) {
        state.open = state.open.saturating_sub(1);
        let enough = state.spans.len() >= MOST_SPANS || state.bytes >= MOST_BYTES;
        if state.spans.is_empty() || !(state.open == 0 || enough) {
            return;
        }
        let spans = std::mem::take(&mut state.spans);
        let unused = (spans.capacity() - spans.len()) * size_of::<Span>();
        let span_bytes = std::mem::take(&mut state.bytes) + unused;
        drop(state);
        let root = self.root.load(Relaxed);
        let head = spans.iter().rposition(|span| span.span_id == root).unwrap_or(0);
        let Decision { priority, rate } = self.decision;
        let (origin, tracestate, tags) = (self.origin.clone(), self.tracestate.clone(), self.tags.clone());
        self.core.push(Chunk { spans, span_bytes, head, priority, rate, origin, tracestate, tags });
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells who has decided to keep the trace: the agent's rates, or nobody who knew any.
fn with_decider(tags: Box<[(Box<str>, Box<str>)]>, decision: Decision) -> Box<[(Box<str>, Box<str>)]> {
    let decider = if decision.rate.is_some() { "-1" } else { "-0" };
    let others = tags.into_iter().filter(|(key, _)| **key != *"_dd.p.dm");
    others.chain([("_dd.p.dm".into(), decider.into())]).collect()
}
