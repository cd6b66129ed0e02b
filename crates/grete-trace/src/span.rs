//! One span: a plain struct, whose text lies in one string.

use std::sync::Arc;

use crate::context::SpanContext;

/// In bytes, as Datadog's agent cuts them.
const LONGEST_NAME: usize = 100;
const LONGEST_RESOURCE: usize = 5_000;
const LONGEST_KEY: usize = 200;
const LONGEST_VALUE: usize = 25_000;
/// Of tags, of metrics, and of links of a span.
const MOST: usize = 256;

/// Where in a span's text something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    at: u32,
    length: u32,
}

/// Another span that has to do with this one and is not its parent: a record's, of the batch that a job is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its trace.
    pub trace_id: u128,
    /// Its id.
    pub span_id: u64,
    /// W3C's flags, where they came with it.
    pub flags: Option<u8>,
    /// W3C's tracestate; may be empty.
    pub tracestate: Box<str>,
    /// What is said of it.
    pub attributes: Vec<(Box<str>, Box<str>)>,
}

impl From<SpanContext> for Link {
    fn from(place: SpanContext) -> Self {
        let flags = place.priority.is_some().then(|| place.flags());
        let SpanContext { trace_id, span_id, tracestate, .. } = place;
        Self { trace_id, span_id, flags, tracestate, attributes: Vec::new() }
    }
}

/// A number that says something of a span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A whole one.
    Whole(i64),
    /// Any other, always finite.
    Real(f64),
}

impl From<Number> for f64 {
    fn from(number: Number) -> Self {
        match number {
            Number::Whole(number) => number as Self,
            Number::Real(number) => number,
        }
    }
}

/// A piece of work: who did what, when, for how long, with what result.
///
/// Two allocations hold it: its text, and the places of its tags therein; a third one its metrics, if it has any.
#[derive(Debug, Clone)]
pub struct Span {
    /// The trace's id. Datadog's wire format has the lower half here and the upper one in a tag of the chunk's first span.
    pub trace_id: u128,
    /// Its own id, never 0.
    pub span_id: u64,
    /// The parent's id, or 0.
    pub parent_id: u64,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// Nanoseconds.
    pub duration: u64,
    /// Whether it failed.
    pub error: bool,
    service: Arc<str>,
    text: String,
    name: Piece,
    resource: Piece,
    kind: Piece,
    tags: Vec<(Piece, Piece)>,
    metrics: Vec<(Piece, Number)>,
    links: Vec<Link>,
    cut: u32,
    /// Bytes of the text that nothing refers to any more.
    wasted: u32,
}

impl Span {
    /// A span that has begun. The resource is the name where it is not given; the type ("worker", "web") may be empty.
    #[must_use]
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
            text: String::with_capacity(length.min(LONGEST_RESOURCE) + 96),
            name: Piece { at: 0, length: 0 },
            resource: Piece { at: 0, length: 0 },
            kind: Piece { at: 0, length: 0 },
            tags: Vec::new(),
            metrics: Vec::new(),
            links: Vec::new(),
            cut: 0,
            wasted: 0,
        };
        span.name = span.add(name, LONGEST_NAME);
        span.resource = resource.map_or(span.name, |resource| span.add(resource, LONGEST_RESOURCE));
        span.kind = span.add(kind, LONGEST_NAME);
        span
    }

    /// Has room for so many tags and metrics, and bytes of text of all of them, from the beginning.
    pub fn reserve(&mut self, tags: usize, metrics: usize, text: usize) {
        self.tags.reserve_exact(tags.min(MOST));
        self.metrics.reserve_exact(metrics.min(MOST));
        self.text.reserve_exact(text);
    }

    fn text(&self, piece: Piece) -> &str {
        let at = piece.at as usize;
        self.text.get(at..at + piece.length as usize).unwrap_or_default()
    }

    /// Who did it.
    #[must_use]
    pub fn service(&self) -> &Arc<str> {
        &self.service
    }

    /// Of another service than the tracer's.
    pub fn set_service(&mut self, service: &str) {
        let cut = capped(service, LONGEST_NAME);
        self.cut += u32::from(cut.len() < service.len());
        self.service = cut.into();
    }

    /// What kind of work it is: the operation's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text(self.name)
    }

    /// What it was done to.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.text(self.resource)
    }

    /// Another resource.
    pub fn set_resource(&mut self, resource: &str) {
        if self.resource != self.name {
            self.waste(self.resource);
        }
        self.resource = if resource.is_empty() { self.name } else { self.add(resource, LONGEST_RESOURCE) };
    }

    /// What Datadog calls the span's type; may be empty.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text(self.kind)
    }

    /// Its tags, in the order in which they came.
    pub fn tags(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.tags.iter().map(|&(key, value)| (self.text(key), self.text(value)))
    }

    /// Its metrics, in the order in which they came.
    pub fn metrics(&self) -> impl ExactSizeIterator<Item = (&str, Number)> {
        self.metrics.iter().map(|&(key, value)| (self.text(key), value))
    }

    /// Its links.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// A tag, in place of one of the same key. Long ones are cut; of more than 256 the newest are left out.
    pub fn set_tag(&mut self, key: &str, value: &str) {
        let key = self.key(key);
        if let Some(index) = self.tags.iter().position(|&(known, _)| self.text(known) == key) {
            let value = self.replace(self.tags[index].1, value);
            self.tags[index].1 = value;
        } else if self.tags.len() < MOST {
            if self.tags.capacity() == 0 {
                self.tags.reserve_exact(6);
            }
            let pair = (self.add(key, LONGEST_KEY), self.add(value, LONGEST_VALUE));
            self.tags.push(pair);
        } else {
            self.cut += 1;
        }
    }

    /// A number, in place of one of the same key. Those that are none (NaN, infinities) are left out: agents refuse a whole
    /// payload for one.
    pub fn set_metric(&mut self, key: &str, value: f64) {
        if value.is_finite() {
            self.set_number(key, Number::Real(value));
        } else {
            self.cut += 1;
        }
    }

    /// A whole number, in place of a number of the same key.
    pub fn set_whole(&mut self, key: &str, value: i64) {
        self.set_number(key, Number::Whole(value));
    }

    fn set_number(&mut self, key: &str, value: Number) {
        let key = self.key(key);
        if let Some(index) = self.metrics.iter().position(|&(known, _)| self.text(known) == key) {
            self.metrics[index].1 = value;
        } else if self.metrics.len() < MOST {
            let key = self.add(key, LONGEST_KEY);
            self.metrics.push((key, value));
        } else {
            self.cut += 1;
        }
    }

    /// A link. Of more than 256 the newest are left out.
    pub fn add_link(&mut self, mut link: Link) {
        if self.links.len() >= MOST {
            self.cut += 1;
            return;
        }
        let before = link.attributes.len();
        link.attributes.truncate(MOST);
        self.cut += u32::from(link.attributes.len() < before);
        for (key, value) in &mut link.attributes {
            for (text, longest) in [(key, LONGEST_KEY), (value, LONGEST_VALUE)] {
                if text.len() > longest {
                    *text = capped(text, longest).into();
                    self.cut += 1;
                }
            }
        }
        self.links.push(link);
    }

    /// How many things of it were too long, too many, or no numbers.
    #[must_use]
    pub fn cut(&self) -> u32 {
        self.cut
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let links: usize = self.links.iter().map(link_bytes).sum();
        let pairs = self.tags.capacity() * size_of::<(Piece, Piece)>();
        size_of::<Self>()
            + self.text.capacity()
            + pairs
            + self.metrics.capacity() * size_of::<(Piece, Number)>()
            + links
    }

    fn key<'a>(&mut self, key: &'a str) -> &'a str {
        let kept = capped(key, LONGEST_KEY);
        self.cut += u32::from(kept.len() < key.len());
        kept
    }

    fn add(&mut self, text: &str, longest: usize) -> Piece {
        let kept = capped(text, longest);
        self.cut += u32::from(kept.len() < text.len());
        let at = self.text.len() as u32; // all that fits into a span is some tens of megabytes
        self.text.push_str(kept);
        Piece { at, length: kept.len() as u32 }
    }

    /// What is in place of `old`, which is of no use then: when such make up most of the text, it is written anew.
    fn replace(&mut self, old: Piece, value: &str) -> Piece {
        self.waste(old);
        self.add(value, LONGEST_VALUE)
    }

    fn waste(&mut self, old: Piece) {
        self.wasted += old.length;
        if self.wasted as usize > 4096.max(self.text.len() / 2) {
            self.tidy();
        }
    }

    fn tidy(&mut self) {
        let old = std::mem::take(&mut self.text);
        let text = &mut self.text;
        let mut moved = |piece: &mut Piece| {
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
        self.wasted = 0;
    }
}

fn link_bytes(link: &Link) -> usize {
    let attributes: usize = link.attributes.iter().map(|(key, value)| key.len() + value.len() + 32).sum();
    size_of::<Link>() + link.tracestate.len() + attributes
}

/// What of `text` fits into `longest` bytes, in whole characters.
fn capped(text: &str, longest: usize) -> &str {
    if text.len() <= longest { text } else { &text[..text.floor_char_boundary(longest)] }
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
        span.set_whole("offset", 7);
        assert_eq!(span.metrics().collect::<Vec<_>>(), [("records", Number::Real(4.0)), ("offset", Number::Whole(7))]);
        assert_eq!((&**span.service(), span.cut()), ("ledger", 0));
        assert_eq!(Span::new("a".into(), "name", Some(""), "").resource(), "name");
    }

    #[test]
    fn what_is_too_much_is_cut_and_counted() {
        let mut span = Span::new("s".into(), &"n".repeat(101), Some(&"\u{1F600}".repeat(2000)), "");
        assert_eq!((span.name().len(), span.resource().len(), span.cut()), (100, 5000, 2));
        span.set_tag(&"k".repeat(500), &"\u{e9}".repeat(20_000));
        let (key, value) = span.tags().next().expect("a tag");
        assert_eq!((key.len(), value.len(), span.cut()), (200, 25_000, 4));
        for index in 0..300 {
            span.set_tag(&index.to_string(), "x");
            span.set_metric(&index.to_string(), 1.0);
        }
        span.set_metric("none", f64::NAN);
        span.set_metric("endless", f64::INFINITY);
        assert_eq!((span.tags().len(), span.metrics().len(), span.cut()), (256, 256, 4 + 45 + 44 + 2));
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
