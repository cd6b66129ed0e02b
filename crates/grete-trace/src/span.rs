//! Span: a plain struct with all of its text in one string.

use std::sync::Arc;

use crate::context::SpanContext;

/// Limits in bytes, those of Datadog's agent.
const MAX_NAME_BYTES: usize = 100;
const MAX_RESOURCE_BYTES: usize = 5_000;
const MAX_KEY_BYTES: usize = 200;
const MAX_VALUE_BYTES: usize = 25_000;
/// Maximum number of tags, of metrics, and of links of a span.
const MAX_ENTRIES: usize = 256;

/// Range in a span's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextRange {
    at: u32,
    length: u32,
}

/// Link to a related span that is not the parent, as that of a record in the batch of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Trace id of the other span.
    pub trace_id: u128,
    /// Span id of the other span.
    pub span_id: u64,
    /// W3C's trace flags, if known.
    pub flags: Option<u8>,
    /// W3C's tracestate; may be empty.
    pub tracestate: Box<str>,
    /// Attributes of the link.
    pub attributes: Vec<(Box<str>, Box<str>)>,
}

impl From<SpanContext> for Link {
    fn from(place: SpanContext) -> Self {
        let flags = place.priority.is_some().then(|| place.flags());
        let SpanContext { trace_id, span_id, tracestate, .. } = place;
        Self { trace_id, span_id, flags, tracestate, attributes: Vec::new() }
    }
}

/// Value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Integer.
    Int(i64),
    /// Finite floating-point number.
    Double(f64),
}

impl From<Number> for f64 {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(number) => number as Self,
            Number::Double(number) => number,
        }
    }
}

/// Span: one operation with its service, time, duration and result.
///
/// A span takes two allocations, the text and the ranges of its tags, and a third one if it has metrics.
#[derive(Debug, Clone)]
pub struct Span {
    /// Trace id. Datadog's wire format has its lower half in each span, and the upper half in a tag of the chunk's
    /// first span.
    pub trace_id: u128,
    /// Span id, never 0.
    pub span_id: u64,
    /// Id of the parent span; 0: none.
    pub parent_id: u64,
    /// Start in nanoseconds since 1970.
    pub start: u64,
    /// Duration in nanoseconds.
    pub duration: u64,
    /// Whether the operation failed.
    pub error: bool,
    service: Arc<str>,
    text: String,
    name: TextRange,
    resource: TextRange,
    kind: TextRange,
    tags: Vec<(TextRange, TextRange)>,
    metrics: Vec<(TextRange, Number)>,
    links: Vec<Link>,
    truncated: u32,
    /// Bytes of the text that are no longer referenced.
    wasted_bytes: u32,
}

impl Span {
    /// Creates a span. `resource`: `None` or empty is `name`. `kind`: Datadog's span type ("worker", "web"); may be
    /// empty.
    pub fn new(service: Arc<str>, name: &str, resource: Option<&str>, kind: &str) -> Self {
        let resource = resource.filter(|resource| !resource.is_empty());
        let length = name.len() + resource.map_or(0, str::len) + kind.len();
        let mut span = Self {
            trace_id: 0,
            span_id: 0,
            parent_id: 0,
            start: 0,
            duration: 0,
            error: false,
            service,
            text: String::with_capacity(length.min(MAX_RESOURCE_BYTES) + 96),
            name: TextRange { at: 0, length: 0 },
            resource: TextRange { at: 0, length: 0 },
            kind: TextRange { at: 0, length: 0 },
            tags: Vec::new(),
            metrics: Vec::new(),
            links: Vec::new(),
            truncated: 0,
            wasted_bytes: 0,
        };
        span.name = span.push_text(name, MAX_NAME_BYTES);
        span.resource = resource.map_or(span.name, |resource| span.push_text(resource, MAX_RESOURCE_BYTES));
        span.kind = span.push_text(kind, MAX_NAME_BYTES);
        span
    }

    /// Reserves memory for this many tags and metrics, and for `text` bytes of all their text.
    pub fn reserve(&mut self, tags: usize, metrics: usize, text: usize) {
        self.tags.reserve_exact(tags.min(MAX_ENTRIES));
        self.metrics.reserve_exact(metrics.min(MAX_ENTRIES));
        self.text.reserve_exact(text);
    }

    fn text(&self, range: TextRange) -> &str {
        let at = range.at as usize;
        self.text.get(at..at + range.length as usize).unwrap_or_default()
    }

    /// Returns the name of the service.
    pub fn service(&self) -> &Arc<str> {
        &self.service
    }

    /// Sets the service, if it is not the tracer's.
    pub fn set_service(&mut self, service: &str) {
        let cut = truncate(service, MAX_NAME_BYTES);
        self.truncated += u32::from(cut.len() < service.len());
        self.service = cut.into();
    }

    /// Returns the operation name.
    pub fn name(&self) -> &str {
        self.text(self.name)
    }

    /// Returns the resource: the object of the operation.
    pub fn resource(&self) -> &str {
        self.text(self.resource)
    }

    /// Sets the resource.
    pub fn set_resource(&mut self, resource: &str) {
        if self.resource != self.name {
            self.mark_wasted(self.resource);
        }
        self.resource = if resource.is_empty() { self.name } else { self.push_text(resource, MAX_RESOURCE_BYTES) };
    }

    /// Returns Datadog's span type; may be empty.
    pub fn kind(&self) -> &str {
        self.text(self.kind)
    }

    /// Returns the tags, in the order of insertion.
    pub fn tags(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.tags.iter().map(|&(key, value)| (self.text(key), self.text(value)))
    }

    /// Returns the metrics, in the order of insertion.
    pub fn metrics(&self) -> impl ExactSizeIterator<Item = (&str, Number)> {
        self.metrics.iter().map(|&(key, value)| (self.text(key), value))
    }

    /// Returns the links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Sets a tag, replacing one of the same key. Long texts are truncated; beyond 256 tags, new ones are dropped.
    pub fn set_tag(&mut self, key: &str, value: &str) {
        let key = self.truncate_key(key);
        if let Some(index) = self.tags.iter().position(|&(known, _)| self.text(known) == key) {
            let value = self.replace(self.tags[index].1, value);
            self.tags[index].1 = value;
        } else if self.tags.len() < MAX_ENTRIES {
            if self.tags.capacity() == 0 {
                self.tags.reserve_exact(6);
            }
            let pair = (self.push_text(key, MAX_KEY_BYTES), self.push_text(value, MAX_VALUE_BYTES));
            self.tags.push(pair);
        } else {
            self.truncated += 1;
        }
    }

    /// Sets a metric, replacing one of the same key. NaN and infinities are dropped, because agents refuse a whole
    /// payload for one of them.
    pub fn set_metric(&mut self, key: &str, value: f64) {
        if value.is_finite() {
            self.set_number(key, Number::Double(value));
        } else {
            self.truncated += 1;
        }
    }

    /// Sets an integer metric, replacing one of the same key.
    pub fn set_i64(&mut self, key: &str, value: i64) {
        self.set_number(key, Number::Int(value));
    }

    fn set_number(&mut self, key: &str, value: Number) {
        let key = self.truncate_key(key);
        if let Some(index) = self.metrics.iter().position(|&(known, _)| self.text(known) == key) {
            self.metrics[index].1 = value;
        } else if self.metrics.len() < MAX_ENTRIES {
            let key = self.push_text(key, MAX_KEY_BYTES);
            self.metrics.push((key, value));
        } else {
            self.truncated += 1;
        }
    }

    /// Adds a link. Beyond 256 links, new ones are dropped.
    pub fn add_link(&mut self, mut link: Link) {
        if self.links.len() >= MAX_ENTRIES {
            self.truncated += 1;
            return;
        }
        let before = link.attributes.len();
        link.attributes.truncate(MAX_ENTRIES);
        self.truncated += u32::from(link.attributes.len() < before);
        for (key, value) in &mut link.attributes {
            for (text, longest) in [(key, MAX_KEY_BYTES), (value, MAX_VALUE_BYTES)] {
                if text.len() > longest {
                    *text = truncate(text, longest).into();
                    self.truncated += 1;
                }
            }
        }
        self.links.push(link);
    }

    /// Returns the number of values that were too long, too many, or not finite numbers.
    pub fn truncated(&self) -> u32 {
        self.truncated
    }

    /// Returns the bytes of the span in memory.
    pub fn bytes(&self) -> usize {
        let links: usize = self.links.iter().map(link_bytes).sum();
        let pairs = self.tags.capacity() * size_of::<(TextRange, TextRange)>();
        size_of::<Self>()
            + self.text.capacity()
            + pairs
            + self.metrics.capacity() * size_of::<(TextRange, Number)>()
            + links
    }

    fn truncate_key<'a>(&mut self, key: &'a str) -> &'a str {
        let kept = truncate(key, MAX_KEY_BYTES);
        self.truncated += u32::from(kept.len() < key.len());
        kept
    }

    fn push_text(&mut self, text: &str, max: usize) -> TextRange {
        let kept = truncate(text, max);
        self.truncated += u32::from(kept.len() < text.len());
        let at = self.text.len() as u32; // cannot overflow: a span has at most some tens of megabytes
        self.text.push_str(kept);
        TextRange { at, length: kept.len() as u32 }
    }

    /// Replaces the text `old`. When unreferenced text is the greater part, the text is compacted.
    fn replace(&mut self, old: TextRange, value: &str) -> TextRange {
        self.mark_wasted(old);
        self.push_text(value, MAX_VALUE_BYTES)
    }

    fn mark_wasted(&mut self, old: TextRange) {
        self.wasted_bytes += old.length;
        if self.wasted_bytes as usize > 4096.max(self.text.len() / 2) {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let old = std::mem::take(&mut self.text);
        let text = &mut self.text;
        let mut moved = |piece: &mut TextRange| {
            let from = piece.at as usize;
            piece.at = text.len() as u32;
            text.push_str(old.get(from..from + piece.length as usize).unwrap_or_default());
        };
        [&mut self.name, &mut self.resource, &mut self.kind].into_iter().for_each(&mut moved);
        for (key, value) in &mut self.tags {
            moved(key);
            moved(value);
        }
        self.metrics.iter_mut().for_each(|(key, _)| moved(key));
        self.wasted_bytes = 0;
    }
}

fn link_bytes(link: &Link) -> usize {
    let attributes: usize = link.attributes.iter().map(|(key, value)| key.len() + value.len() + 32).sum();
    size_of::<Link>() + link.tracestate.len() + attributes
}

/// Returns the part of `text` that fits into `max` bytes, in whole characters.
fn truncate(text: &str, max: usize) -> &str {
    if text.len() <= max { text } else { &text[..text.floor_char_boundary(max)] }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span() -> Span {
        Span::new("orders".into(), "handle", Some("orders[3]"), "worker")
    }

    #[test]
    fn a_span_is_what_was_said() {
        let mut span = span();
        span.set_tag("topic", "orders");
        span.set_tag("group", "billing");
        span.set_tag("topic", "orders.v2");
        span.set_metric("records", 3.0);
        span.set_metric("records", 4.0);
        span.set_service("ledger");
        assert_eq!((span.name(), span.resource(), span.kind()), ("handle", "orders[3]", "worker"));
        assert_eq!(span.tags().collect::<Vec<_>>(), [("topic", "orders.v2"), ("group", "billing")]);
        span.set_i64("offset", 7);
        assert_eq!(span.metrics().collect::<Vec<_>>(), [("records", Number::Double(4.0)), ("offset", Number::Int(7))]);
        assert_eq!((&**span.service(), span.truncated()), ("ledger", 0));
        assert_eq!(Span::new("a".into(), "name", Some(""), "").resource(), "name");
    }

    #[test]
    fn what_is_too_much_is_cut_and_counted() {
        let mut span = Span::new("s".into(), &"n".repeat(101), Some(&"\u{1F600}".repeat(2000)), "");
        assert_eq!((span.name().len(), span.resource().len(), span.truncated()), (100, 5000, 2));
        span.set_tag(&"k".repeat(500), &"\u{e9}".repeat(20_000));
        let (key, value) = span.tags().next().expect("a tag");
        assert_eq!((key.len(), value.len(), span.truncated()), (200, 25_000, 4));
        for index in 0..300 {
            span.set_tag(&index.to_string(), "x");
            span.set_metric(&index.to_string(), 1.0);
        }
        span.set_metric("none", f64::NAN);
        span.set_metric("endless", f64::INFINITY);
        assert_eq!((span.tags().len(), span.metrics().len(), span.truncated()), (256, 256, 4 + 45 + 44 + 2));
    }

    #[test]
    fn a_tag_that_is_set_again_and_again_takes_no_more_room() {
        let mut span = span();
        span.set_tag("kept", "as it is");
        for index in 0..10_000 {
            span.set_tag("state", &format!("{index}{}", "x".repeat(100)));
            span.set_resource(&index.to_string());
        }
        assert!(span.bytes() < 20_000, "{}", span.bytes());
        assert_eq!((span.name(), span.kind(), span.resource()), ("handle", "worker", "9999"));
        assert_eq!(span.tags().next(), Some(("kept", "as it is")));
    }

    proptest! {
        #[test]
        fn the_last_value_of_each_key_counts(tags in prop::collection::vec(("[a-c\u{e9}]{0,2}", ".{0,300}"), 0..200)) {
            let mut span = span();
            let mut naive: Vec<(String, String)> = Vec::new();
            for (key, value) in tags {
                span.set_tag(&key, &value);
                match naive.iter_mut().find(|(known, _)| *known == key) {
                    Some(pair) => pair.1 = value,
                    None => naive.push((key, value)),
                }
            }
            let found: Vec<_> = span.tags().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            prop_assert_eq!(found, naive);
        }
    }
}
