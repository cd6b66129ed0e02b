//! Propagation of span contexts in headers: Datadog's (`x-datadog-*`) and W3C's (`traceparent`, `tracestate`).
//!
//! Incoming headers are untrusted: a malformed value is ignored and counted, and never an error. If both kinds are
//! present, Datadog's are used. W3C's headers add the upper half of the trace id and other vendors' state if they refer
//! to the same trace.

use std::fmt::Write as _;

use crate::context::SpanContext;

/// Names of the headers that are read and written, in lower case.
pub const HEADERS: [&str; 7] = [
    "x-datadog-trace-id",
    "x-datadog-parent-id",
    "x-datadog-sampling-priority",
    "x-datadog-origin",
    "x-datadog-tags",
    "traceparent",
    "tracestate",
];

/// Limits of other tracers.
const MAX_TAGS_BYTES: usize = 512;
const MAX_TRACESTATE_BYTES: usize = 512;
const MAX_ORIGIN_BYTES: usize = 128;
const MAX_TRACESTATE_MEMBERS: usize = 32;

type Tags = Vec<(Box<str>, Box<str>)>;

/// Result of reading headers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ExtractedContext {
    /// Context in the headers, if any.
    pub context: Option<SpanContext>,
    /// Number of malformed headers.
    pub broken: u32,
}

/// Parses the values of [`HEADERS`], in that order. Of a repeated header, the caller may give any value.
#[must_use]
pub fn extract(values: [Option<&[u8]>; HEADERS.len()]) -> ExtractedContext {
    let mut reader = HeaderReader { broken: 0 };
    let [trace, parent, priority, origin, tags, traceparent, tracestate] = values.map(|value| reader.text(value));
    let datadog = reader.datadog(trace, parent, priority, origin, tags);
    let w3c = reader.w3c(traceparent, tracestate);
    let context = match (datadog, w3c) {
        (Some(mut datadog), Some(w3c)) => {
            let upper = (datadog.trace_id >> 64) as u64;
            if datadog.trace_id as u64 == w3c.trace_id as u64 && (upper == 0 || datadog.trace_id == w3c.trace_id) {
                datadog.trace_id = w3c.trace_id;
                datadog.tracestate = w3c.tracestate;
                datadog.priority = datadog.priority.or(w3c.priority);
            }
            Some(datadog)
        }
        (datadog, w3c) => datadog.or(w3c),
    };
    ExtractedContext { context, broken: reader.broken }
}

struct HeaderReader {
    broken: u32,
}

impl HeaderReader {
    fn text<'a>(&mut self, value: Option<&'a [u8]>) -> Option<&'a str> {
        let value = value?;
        let text = std::str::from_utf8(value).ok().map(str::trim);
        self.broken += u32::from(text.is_none());
        text
    }

    /// Parses a value; a value that is present and malformed is counted.
    fn or_count_broken<'a, T>(&mut self, text: Option<&'a str>, read: impl FnOnce(&'a str) -> Option<T>) -> Option<T> {
        let found = read(text?);
        self.broken += u32::from(found.is_none());
        found
    }

    fn datadog(
        &mut self,
        trace: Option<&str>,
        parent: Option<&str>,
        priority: Option<&str>,
        origin: Option<&str>,
        tags: Option<&str>,
    ) -> Option<SpanContext> {
        let id = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok().filter(|&id| id != 0))?
        };
        let lower: Option<u64> = self.or_count_broken(trace, id);
        let span_id = self.or_count_broken(parent, id);
        let priority = self.or_count_broken(priority, parse_priority);
        let origin = self.or_count_broken(origin, |origin| {
            (is_printable(origin) && origin.len() <= MAX_ORIGIN_BYTES).then(|| origin.into())
        });
        let mut tags = self.or_count_broken(tags, parse_tags).unwrap_or_default();
        let upper = tags.iter().position(|(key, _)| **key == *"_dd.p.tid").map(|index| tags.remove(index).1);
        let upper = self.or_count_broken(upper.as_deref(), |upper| (upper.len() == 16).then(|| parse_hex(upper))?);
        let trace_id = u128::from(upper.unwrap_or(0)) << 64 | u128::from(lower?);
        let tags = tags.into();
        Some(SpanContext {
            trace_id,
            span_id: span_id?,
            priority,
            origin: origin.unwrap_or_default(),
            tags,
            tracestate: "".into(),
        })
    }

    fn w3c(&mut self, traceparent: Option<&str>, tracestate: Option<&str>) -> Option<SpanContext> {
        let (trace_id, span_id, flags) = self.or_count_broken(traceparent, parse_traceparent)?;
        let sampled = flags & 1 == 1;
        let mut context = SpanContext {
            trace_id,
            span_id,
            priority: Some(i32::from(sampled)),
            origin: "".into(),
            tags: [].into(),
            tracestate: "".into(),
        };
        let Some((datadog, others)) = self.or_count_broken(tracestate, parse_tracestate) else { return Some(context) };
        let mut tags = Tags::new();
        for (key, value) in datadog.split(';').filter_map(|pair| pair.split_once(':')) {
            match key {
                // More precise than the sampled flag, if both agree.
                "s" => match parse_priority(value) {
                    Some(priority) if (priority > 0) == sampled => context.priority = Some(priority),
                    Some(_) => {}
                    None => self.broken += 1,
                },
                "o" => context.origin = value.replace('~', "=").into(),
                _ => {
                    if let Some(name) = key.strip_prefix("t.") {
                        add(&mut tags, &format!("_dd.p.{name}"), &value.replace('~', "="));
                    }
                }
            }
        }
        context.tags = tags.into();
        context.tracestate = others.into();
        Some(context)
    }
}

fn parse_traceparent(text: &str) -> Option<(u128, u64, u8)> {
    let mut parts = text.split('-');
    let mut part = |length| parts.next().filter(|part| part.len() == length && part.bytes().all(is_lower_hex));
    let version = part(2)?;
    let trace_id = u128::from_str_radix(part(32)?, 16).ok().filter(|&id| id != 0)?;
    let span_id = parse_hex(part(16)?).filter(|&id| id != 0)?;
    let flags = u8::from_str_radix(part(2)?, 16).ok()?;
    // Later versions may append fields; version "ff" is invalid.
    (version != "ff" && (version != "00" || parts.next().is_none())).then_some((trace_id, span_id, flags))
}

/// Returns Datadog's member, and the others unchanged.
fn parse_tracestate(text: &str) -> Option<(&str, String)> {
    let mut datadog = "";
    let mut others = String::new();
    if !is_printable(text) {
        return None;
    }
    for member in text.split(',').map(str::trim).filter(|member| !member.is_empty()).take(MAX_TRACESTATE_MEMBERS) {
        let (key, value) = member.split_once('=')?;
        if key == "dd" {
            datadog = value;
        } else if others.len() + member.len() < MAX_TRACESTATE_BYTES {
            if !others.is_empty() {
                others.push(',');
            }
            others.push_str(member);
        }
    }
    Some((datadog, others))
}

/// Parses `key=value,key=value`; keeps only tags that are propagated with a trace.
fn parse_tags(text: &str) -> Option<Tags> {
    if text.len() > MAX_TAGS_BYTES || !is_printable(text) {
        return None;
    }
    let mut tags = Tags::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=')?;
        if key.starts_with("_dd.p.") {
            add(&mut tags, key, value);
        }
    }
    Some(tags)
}

/// Adds a tag unless the key is present: the first one is kept.
fn add(tags: &mut Tags, key: &str, value: &str) {
    if !tags.iter().any(|(known, _)| **known == *key) {
        tags.push((key.into(), value.into()));
    }
}

fn parse_priority(text: &str) -> Option<i32> {
    text.parse().ok().filter(|priority| (-1..=2).contains(priority))
}

fn parse_hex(text: &str) -> Option<u64> {
    text.bytes().all(is_lower_hex).then(|| u64::from_str_radix(text, 16).ok())?
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// Returns the headers for a span context, in Datadog's form and in W3C's.
#[must_use]
pub fn inject(context: &SpanContext) -> Vec<(&'static str, String)> {
    let [trace, parent, priority, origin, tags, traceparent, tracestate] = HEADERS;
    let mut headers = Vec::with_capacity(HEADERS.len());
    headers.push((trace, (context.trace_id as u64).to_string()));
    headers.push((parent, context.span_id.to_string()));
    if let Some(kept) = context.priority {
        headers.push((priority, kept.to_string()));
    }
    if !context.origin.is_empty() {
        headers.push((origin, context.origin.to_string()));
    }
    let carried = tags_header(context);
    if !carried.is_empty() {
        headers.push((tags, carried));
    }
    let (id, span, flags) = (context.trace_id, context.span_id, context.flags());
    headers.push((traceparent, format!("00-{id:032x}-{span:016x}-{flags:02x}")));
    headers.push((tracestate, tracestate_header(context)));
    headers
}

fn tags_header(context: &SpanContext) -> String {
    let mut text = String::new();
    let upper = (context.trace_id >> 64) as u64;
    if upper != 0 {
        let _ = write!(text, "_dd.p.tid={upper:016x}");
    }
    for (key, value) in &context.tags {
        if text.len() + key.len() + value.len() + 2 <= MAX_TAGS_BYTES && !value.contains(',') {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, "{comma}{key}={value}");
        }
    }
    text
}

fn tracestate_header(context: &SpanContext) -> String {
    let mut text = String::from("dd=");
    if let Some(priority) = context.priority {
        let _ = write!(text, "s:{priority};");
    }
    if !context.origin.is_empty() {
        let _ = write!(text, "o:{};", member(&context.origin));
    }
    let _ = write!(text, "p:{:016x}", context.span_id);
    for (key, value) in &context.tags {
        let name = key.strip_prefix("_dd.p.").unwrap_or(key);
        // A member has at most 256 characters.
        if text.len() + name.len() + value.len() + 4 <= 256 {
            let _ = write!(text, ";t.{}:{}", member(name), member(value));
        }
    }
    for other in context.tracestate.split(',').filter(|other| !other.is_empty()).take(MAX_TRACESTATE_MEMBERS - 1) {
        if text.len() + other.len() < MAX_TRACESTATE_BYTES {
            let _ = write!(text, ",{other}");
        }
    }
    text
}

/// Escapes a text for a member: `=` becomes `~`, and separators become `_`.
fn member(text: &str) -> String {
    let safe = |character| match character {
        '=' => '~',
        ' '..='+' | '-'..=':' | '<'..='}' => character,
        _ => '_',
    };
    text.chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(headers: &[(&str, &str)]) -> ExtractedContext {
        extract(HEADERS.map(|name| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_bytes())))
    }

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn w3c_is_read() {
        let state = "foo=1, dd=s:2;o:rum;t.dm:-4;t.usr.id:a~b;p:00f067aa0ba902b7,bar=x=y";
        let ExtractedContext { context: Some(context), broken: 0 } =
            read(&[("traceparent", PARENT), ("tracestate", state)])
        else {
            panic!("it says something")
        };
        assert_eq!(context.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span_id, context.priority, &*context.origin), (0x00f0_67aa_0ba9_02b7, Some(2), "rum"));
        assert_eq!(*context.tags, [("_dd.p.dm".into(), "-4".into()), ("_dd.p.usr.id".into(), "a=b".into())]);
        assert_eq!(&*context.tracestate, "foo=1,bar=x=y");
        let later = read(&[("traceparent", &format!("01{}-more", &PARENT[2..]))]);
        assert_eq!((later.context.map(|context| context.priority), later.broken), (Some(Some(1)), 0));
    }

    #[test]
    fn datadogs_own_is_read_and_goes_first() {
        let own = [
            ("x-datadog-trace-id", "11803532876627986230"),
            ("x-datadog-parent-id", "17"),
            ("x-datadog-sampling-priority", "-1"),
            ("x-datadog-tags", "_dd.p.tid=4bf92f3577b34da6,_dd.p.dm=-1,other=x"),
        ];
        let context = read(&own).context.expect("a context");
        assert_eq!(context.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span_id, context.priority, context.flags()), (17, Some(-1), 0));
        assert_eq!(*context.tags, [("_dd.p.dm".into(), "-1".into())]);
        let both = [&own[..2], &[("traceparent", PARENT), ("tracestate", "foo=1")]].concat();
        let both = read(&both).context.expect("a context");
        assert_eq!((both.trace_id, both.span_id, &*both.tracestate), (context.trace_id, 17, "foo=1"));
        let another = read(&[("x-datadog-trace-id", "5"), ("x-datadog-parent-id", "6"), ("traceparent", PARENT)]);
        assert_eq!(another.context.map(|context| context.trace_id), Some(5));
    }

    #[test]
    fn broken_ones_are_left_out_and_counted() {
        for broken in [
            "",
            "x",
            "00",
            &PARENT[..54],
            &PARENT.to_uppercase(),
            &format!("ff{}", &PARENT[2..]),
            &format!("{PARENT}-x"),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-+1",
        ] {
            assert_eq!(read(&[("traceparent", broken)]), ExtractedContext { context: None, broken: 1 }, "{broken}");
        }
        for id in ["0", "-1", "+1", "x", "99999999999999999999"] {
            let both = read(&[("x-datadog-trace-id", id), ("x-datadog-parent-id", "1")]);
            assert_eq!(both, ExtractedContext { context: None, broken: 1 }, "{id}");
        }
        let half = read(&[("traceparent", PARENT), ("tracestate", "no member"), ("x-datadog-sampling-priority", "9")]);
        assert_eq!((half.context.is_some(), half.broken), (true, 2));
        assert_eq!(extract([Some(b"\xff"); 7]), ExtractedContext { context: None, broken: 7 });
        assert_eq!(read(&[]), ExtractedContext::default());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            trace_id in 1u128.., span_id in 1u64.., priority in -1i32..=2, origin in "[a-z]{0,9}", value in "[a-z0-9-]{1,20}",
            state in "([a-z]{1,5}=[!-+.-<>-~]{1,20})?",
        ) {
            prop_assume!(trace_id as u64 != 0 && !state.starts_with("dd="));
            let context = SpanContext {
                trace_id, span_id, priority: Some(priority), origin: origin.into(),
                tags: [("_dd.p.dm".into(), value.into())].into(), tracestate: state.into(),
            };
            let written = inject(&context);
            let all: Vec<(&str, &str)> = written.iter().map(|(key, value)| (*key, &**value)).collect();
            prop_assert_eq!(read(&all), ExtractedContext { context: Some(context.clone()), broken: 0 });
            let w3c: Vec<_> = all.into_iter().filter(|(key, _)| key.starts_with("trace")).collect();
            prop_assert_eq!(read(&w3c), ExtractedContext { context: Some(context), broken: 0 });
        }

        #[test]
        fn nothing_makes_it_panic(values in prop::array::uniform7(prop::option::of("[ -~\\u{e9}]{0,90}"))) {
            let values = values.each_ref().map(|value| value.as_ref().map(|value| value.as_bytes()));
            let found = extract(values);
            if let Some(context) = found.context {
                for (_, value) in inject(&context) {
                    prop_assert!(is_printable(&value));
                }
            }
        }
    }
}
