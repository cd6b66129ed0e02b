//! Decodes the encoder's output with a decoder that knows only the wire format.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::config::Format;
use crate::encode::payload::Payload;
use crate::endpoint::AgentEndpoint;

/// Fields of a message, in their order.
struct Message<'a>(Vec<(u64, Value<'a>)>);

impl<'a> Message<'a> {
    fn parse(bytes: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        protobuf::for_each_field(bytes, |field, value| fields.push((field, value))).expect("a message");
        Self(fields)
    }

    fn all(&self, field: u64) -> Vec<&'a [u8]> {
        let of = |(known, value): &(u64, Value<'a>)| match value {
            Value::Bytes(bytes) if *known == field => Some(*bytes),
            _ => None,
        };
        self.0.iter().filter_map(of).collect()
    }

    fn bytes(&self, field: u64) -> &'a [u8] {
        let all = self.all(field);
        assert!(all.len() < 2, "field {field} comes {} times", all.len());
        all.first().copied().unwrap_or_default()
    }

    fn text(&self, field: u64) -> &'a str {
        std::str::from_utf8(self.bytes(field)).expect("text")
    }

    fn number(&self, field: u64) -> u64 {
        let of = |(known, value): &(u64, Value<'a>)| match value {
            Value::Number(number) if *known == field => Some(*number),
            _ => None,
        };
        self.0.iter().find_map(of).unwrap_or_default()
    }

    /// Returns each attribute as text.
    fn attributes(&self, field: u64) -> Vec<(String, String)> {
        let attribute = |bytes| {
            let pair = Message::parse(bytes);
            let value = Message::parse(pair.bytes(2));
            let [(kind, read)] = &value.0[..] else { panic!("one value") };
            let rendered = match (kind, read) {
                (1, Value::Bytes(text)) => String::from_utf8(text.to_vec()).expect("text"),
                (3, Value::Number(number)) => format!("{}i", number.cast_signed()),
                (4, Value::Number(bits)) => format!("{:?}", f64::from_bits(*bits)),
                other => panic!("{other:?}"),
            };
            (pair.text(1).to_owned(), rendered)
        };
        self.all(field).into_iter().map(attribute).collect()
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

fn config() -> Config {
    let mut config = Config::new("orders", AgentEndpoint::from_url("http://collector:4318", 80).expect("an address"));
    config.format = Format::Otlp { resource: [("cloud.region".into(), "eu".into())].into() };
    config.path = "/v1/traces".into();
    config.version = "1.2".into();
    config.env = "test".into();
    config
}

fn chunk(spans: Vec<Span>) -> Chunk {
    let (origin, tracestate, tags) = ("".into(), "a=b".into(), [].into());
    let span_bytes = spans.iter().map(Span::bytes).sum();
    Chunk { spans, span_bytes, head: 0, priority: 1, rate: None, origin, tracestate, tags }
}

fn span(service: &str) -> Span {
    let mut span = Span::new(service.into(), "name", None, "");
    span.trace_id = 7 << 64 | 5;
    span.span_id = 3;
    span
}

/// Returns the resources with the names of their spans.
fn spans_by_resource(body: &[u8]) -> Vec<(String, Vec<String>)> {
    let resource = |bytes| {
        let spans = Message::parse(bytes);
        let resource = Message::parse(spans.bytes(1)).attributes(1);
        let scope = Message::parse(spans.bytes(2));
        assert_eq!(Message::parse(scope.bytes(1)).text(1), "grete");
        let names = scope.all(2).into_iter().map(|span| Message::parse(span).text(5).to_owned()).collect();
        (resource[0].1.clone(), names)
    };
    Message::parse(body).all(1).into_iter().map(resource).collect()
}

fn write(chunk: &Chunk) -> Vec<u8> {
    let (mut body, mut open) = (Vec::new(), None);
    OtlpEncoder::new(&config(), &[]).encode_chunk(&mut body, chunk, &mut open);
    close_resource(&mut body, open.as_ref());
    body
}

#[test]
fn a_request_says_who_and_what() {
    let mut payload = Payload::new(&config());
    let chunks = VecDeque::from([chunk(vec![span("orders")])]);
    assert_eq!(payload.fill(&chunks, 1 << 20), Some(1));
    assert!(payload.head.starts_with("POST /v1/traces HTTP/1.1\r\nHost: collector:4318\r\n"), "{}", payload.head);
    assert!(payload.head.contains("Content-Type: application/x-protobuf\r\n"));
    let spans = Message::parse(Message::parse(&payload.body).bytes(1));
    let mut resource = Message::parse(spans.bytes(1)).attributes(1);
    resource.retain(|(key, _)| !matches!(&**key, "service.instance.id" | "telemetry.sdk.version" | "process.pid"));
    let expected = [
        ("service.name", "orders"),
        ("service.version", "1.2"),
        ("deployment.environment.name", "test"),
        ("telemetry.sdk.name", "grete"),
        ("telemetry.sdk.language", "python"),
        ("cloud.region", "eu"),
    ];
    assert_eq!(resource, pairs(&expected));
}

#[test]
fn each_service_is_a_resource_of_its_own() {
    let spans = ["orders", "orders", "ledger", "orders"].map(span);
    let names = |count| vec!["name".to_owned(); count];
    let expected = [("orders".into(), names(2)), ("ledger".into(), names(1)), ("orders".into(), names(1))];
    assert_eq!(spans_by_resource(&write(&chunk(spans.into()))), expected);
}

#[test]
fn what_a_failure_left_is_an_event_and_a_status() {
    let mut failed = span("orders");
    failed.error = true;
    failed.start = 100;
    failed.duration = 11;
    for (key, value) in [("error.type", "ValueError"), ("error.message", "no"), ("error.stack", "line 1"), ("a", "b")] {
        failed.set_tag(key, value);
    }
    let body = write(&chunk(vec![failed]));
    let scope = Message::parse(Message::parse(Message::parse(&body).bytes(1)).bytes(2));
    let span = Message::parse(scope.bytes(2));
    assert_eq!(span.attributes(9), pairs(&[("error.type", "ValueError"), ("a", "b")]));
    let status = Message::parse(span.bytes(15));
    assert_eq!((status.text(2), status.number(3)), ("no", 2));
    let event = Message::parse(span.bytes(11));
    assert_eq!((event.number(1), event.text(2)), (111, "exception"));
    let expected = [("exception.type", "ValueError"), ("exception.message", "no"), ("exception.stacktrace", "line 1")];
    assert_eq!(event.attributes(3), pairs(&expected));
}

#[test]
fn no_key_comes_twice() {
    let mut both = Span::new("orders".into(), "name", Some("resource"), "worker");
    both.set_tag("a", "tag");
    both.set_i64("a", 1);
    both.set_i64("resource.name", 2);
    both.set_tag("span.type", "theirs");
    both.set_tag("span.kind", "odd");
    let attributes = vec![("k".into(), "1".into()), ("k".into(), "2".into())];
    both.add_link(Link { trace_id: 1, span_id: 2, flags: None, tracestate: "".into(), attributes });
    let body = write(&chunk(vec![both]));
    let scope = Message::parse(Message::parse(Message::parse(&body).bytes(1)).bytes(2));
    let span = Message::parse(scope.bytes(2));
    let expected = [("a", "tag"), ("span.type", "theirs"), ("span.kind", "odd"), ("resource.name", "2i")];
    assert_eq!(span.attributes(9), pairs(&expected));
    assert_eq!(span.number(6), 1);
    assert_eq!(Message::parse(span.bytes(13)).attributes(4), pairs(&[("k", "1")]));
}

#[test]
fn a_part_that_was_not_taken_is_found() {
    assert_eq!(rejected_spans(b""), 0);
    assert_eq!(rejected_spans(&[10, 4, 8, 7, 18, 0]), 7);
    assert_eq!(rejected_spans(&[10, 2, 18, 0]), 0);
    let negative = [&[10, 11, 8][..], &[0xff; 9], &[1]].concat();
    assert_eq!(rejected_spans(&negative), 0);
    assert_eq!(rejected_spans(b"<html>"), 0);
}

type SpanParts = (String, String, Vec<(String, String)>, Vec<(String, i64)>, Vec<(String, f64)>);

proptest! {
    #[test]
    fn what_is_written_is_what_was_said(
        (name, resource, tags, wholes, reals) in any_span(),
        ids in any::<(u128, u64, u64)>(),
        times in any::<(u64, u64)>(),
        kind in 0usize..6,
        error: bool,
        links in prop::collection::vec((any::<u128>(), any::<u64>(), any::<Option<u8>>(), "[a-z]{0,3}"), 0..4),
    ) {
        let mut span = Span::new("orders".into(), &name, Some(&resource), "");
        (span.trace_id, span.span_id, span.parent_id) = ids;
        (span.start, span.duration) = times;
        span.error = error;
        let mut expected = Vec::new();
        if let Some(kind) = KINDS.get(kind) {
            span.set_tag("span.kind", kind);
        }
        for (key, value) in &tags {
            span.set_tag(key, value);
        }
        expected.extend(span.tags().filter(|(key, _)| *key != "span.kind").map(|(key, value)| (key.to_owned(), value.to_owned())));
        for (key, value) in &wholes {
            span.set_i64(key, *value);
        }
        for (key, value) in &reals {
            span.set_metric(key, *value);
        }
        for (key, number) in span.metrics() {
            let rendered = match number {
                Number::Int(number) => format!("{number}i"),
                Number::Double(number) => format!("{number:?}"),
            };
            expected.push((key.to_owned(), rendered));
        }
        if span.resource() != span.name() {
            expected.push(("resource.name".into(), span.resource().into()));
        }
        for (trace_id, span_id, flags, state) in &links {
            let (trace_id, span_id, flags, tracestate) = (*trace_id, *span_id, *flags, state.as_str().into());
            span.add_link(Link { trace_id, span_id, flags, tracestate, attributes: vec![("l".into(), state.as_str().into())] });
        }
        let body = write(&chunk(vec![span.clone()]));
        let scope = Message::parse(Message::parse(Message::parse(&body).bytes(1)).bytes(2));
        let read = Message::parse(scope.bytes(2));
        prop_assert_eq!(read.bytes(1), &ids.0.to_be_bytes());
        prop_assert_eq!(read.bytes(2), &ids.1.to_be_bytes());
        let parent = ids.2.to_be_bytes();
        prop_assert_eq!(read.bytes(4), if ids.2 == 0 { &[][..] } else { &parent });
        prop_assert_eq!(read.text(3), "a=b");
        prop_assert_eq!(read.text(5), span.name());
        prop_assert_eq!(read.number(6), if kind < 5 { kind as u64 + 1 } else { 1 });
        prop_assert_eq!((read.number(7), read.number(8)), (times.0, times.0.saturating_add(times.1)));
        prop_assert_eq!(read.attributes(9), expected);
        prop_assert_eq!(Message::parse(read.bytes(15)).number(3), u64::from(error) * 2);
        prop_assert_eq!(read.number(16), 1);
        let decoded_links: Vec<_> = read.all(13).into_iter().map(Message::parse).collect();
        prop_assert_eq!(decoded_links.len(), links.len());
        for (link, (trace_id, span_id, flags, state)) in decoded_links.iter().zip(&links) {
            prop_assert_eq!((link.bytes(1), link.bytes(2)), (&trace_id.to_be_bytes()[..], &span_id.to_be_bytes()[..]));
            prop_assert_eq!(link.number(6), u64::from(flags.unwrap_or(0)));
            prop_assert_eq!(link.text(3), state);
            prop_assert_eq!(link.attributes(4), pairs(&[("l", state)]));
        }
    }

    /// Chunks beyond the limit go into the next request, complete.
    #[test]
    fn requests_are_cut_between_chunks(services in prop::collection::vec(prop::collection::vec(0usize..2, 1..6), 1..12), limit in 100usize..2_000) {
        let make = |(index, services): (usize, &Vec<usize>)| {
            let spans = services.iter().map(|&service| Span::new(["orders", "ledger"][service].into(), &index.to_string(), None, ""));
            chunk(spans.collect())
        };
        let mut chunks: VecDeque<Chunk> = services.iter().enumerate().map(make).collect();
        let mut payload = Payload::new(&config());
        let mut arrived = Vec::new();
        while !chunks.is_empty() {
            let count = payload.fill(&chunks, limit).expect("none is too large");
            prop_assert!(count == 1 || payload.body.len() <= limit);
            let length = format!("Content-Length: {}\r\n", payload.body.len());
            prop_assert!(payload.head.contains(&length));
            for (service, names) in spans_by_resource(&payload.body) {
                arrived.extend(names.into_iter().map(|name| (service.clone(), name)));
            }
            chunks.drain(..count);
        }
        let each = |(index, services): (usize, &Vec<usize>)| {
            services.iter().map(|&service| (["orders", "ledger"][service].to_owned(), index.to_string())).collect::<Vec<_>>()
        };
        prop_assert_eq!(arrived, services.iter().enumerate().flat_map(each).collect::<Vec<_>>());
    }

    #[test]
    fn no_answer_makes_it_panic(answer in prop::collection::vec(any::<u8>(), 0..40)) {
        rejected_spans(&answer);
    }
}

/// Generates spans. Tags and numbers have different keys: see `no_key_comes_twice`.
fn any_span() -> impl Strategy<Value = SpanParts> {
    let tags = prop::collection::vec(("t[a-z]{0,4}", "\\PC{0,200}"), 0..6);
    let wholes = prop::collection::vec(("w[a-z]{0,4}", any::<i64>()), 0..4);
    let reals = prop::collection::vec(("r[a-z]{0,4}", -1e300f64..1e300), 0..4);
    ("\\PC{1,30}", "\\PC{0,30}", tags, wholes, reals)
}
