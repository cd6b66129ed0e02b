//! OpenTelemetry's own format: `POST /v1/traces`, an `ExportTraceServiceRequest` in Protocol Buffers.
//!
//! A span is written as it lies, without a message object in between. What is the same in all requests is written once.
//! Spans of one service that come one after the other share a resource.

use std::sync::Arc;

use crate::chunk::Chunk;
use crate::config::Config;
use crate::protobuf::{self, Value, Wire, bytes, field, fixed64, key, nested, number};
use crate::span::{Link, Number, Span};

// opentelemetry/proto/{trace,resource,common}/v1/*.proto
const RESOURCE_SPANS: u8 = key(1, Wire::Bytes);
const RESOURCE: u8 = key(1, Wire::Bytes);
const RESOURCE_ATTRIBUTES: u8 = key(1, Wire::Bytes);
const SCOPE_SPANS: u8 = key(2, Wire::Bytes);
const SCOPE: u8 = key(1, Wire::Bytes);
const SCOPE_NAME: u8 = key(1, Wire::Bytes);
const SCOPE_VERSION: u8 = key(2, Wire::Bytes);
const SPANS: u8 = key(2, Wire::Bytes);
const TRACE_ID: u8 = key(1, Wire::Bytes);
const SPAN_ID: u8 = key(2, Wire::Bytes);
const TRACE_STATE: u8 = key(3, Wire::Bytes);
const PARENT_SPAN_ID: u8 = key(4, Wire::Bytes);
const NAME: u8 = key(5, Wire::Bytes);
const KIND: u8 = key(6, Wire::Varint);
const START: u8 = key(7, Wire::Fixed64);
const END: u8 = key(8, Wire::Fixed64);
const ATTRIBUTES: u8 = key(9, Wire::Bytes);
const EVENTS: u8 = key(11, Wire::Bytes);
const EVENT_TIME: u8 = key(1, Wire::Fixed64);
const EVENT_NAME: u8 = key(2, Wire::Bytes);
const EVENT_ATTRIBUTES: u8 = key(3, Wire::Bytes);
const LINKS: u8 = key(13, Wire::Bytes);
const LINK_ATTRIBUTES: u8 = key(4, Wire::Bytes);
/// Field 6, four bytes.
const LINK_FLAGS: u8 = 6 << 3 | 5;
const STATUS: u8 = key(15, Wire::Bytes);
const STATUS_MESSAGE: u8 = key(2, Wire::Bytes);
const STATUS_CODE: u8 = key(3, Wire::Varint);
const STATUS_ERROR: u64 = 2;
/// Field 16, four bytes.
const FLAGS: [u8; 2] = [0x85, 0x01];
const SAMPLED: u32 = 1;
const KEY: u8 = key(1, Wire::Bytes);
const VALUE: u8 = key(2, Wire::Bytes);
const STRING: u8 = key(1, Wire::Bytes);
const INT: u8 = key(3, Wire::Varint);
const DOUBLE: u8 = key(4, Wire::Fixed64);

const KINDS: [&str; 5] = ["internal", "server", "client", "producer", "consumer"];

/// What is the same in all requests of a process.
#[derive(Debug)]
pub(crate) struct Otlp {
    service: Arc<str>,
    /// Of our own service.
    version: Box<str>,
    /// Attributes of all resources but the two above, as they are written.
    resource: Vec<u8>,
    scope: Vec<u8>,
}

/// Where spans are being added: to those of this service, whose lengths are to be written at these places.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    service: Arc<str>,
    resource_spans: usize,
    scope_spans: usize,
}

impl Otlp {
    /// For this process: what names it is read now. `attributes` are those of the resource that the user gave.
    pub(crate) fn new(config: &Config, attributes: &[(Box<str>, Box<str>)]) -> Self {
        let mut resource = Vec::new();
        let instance = format!("{:016x}{:016x}", crate::ids::next(), crate::ids::next());
        let (version, interpreter) = &config.language;
        let known: [(&str, &str); 7] = [
            ("deployment.environment.name", &config.env),
            ("service.instance.id", &instance),
            ("telemetry.sdk.name", "grete"),
            ("telemetry.sdk.language", "python"),
            ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
            ("process.runtime.name", interpreter),
            ("process.runtime.version", version),
        ];
        let given = |key: &str| attributes.iter().any(|(given, _)| **given == *key);
        for (key, value) in known.into_iter().filter(|(key, value)| !value.is_empty() && !given(key)) {
            text(&mut resource, RESOURCE_ATTRIBUTES, key, value);
        }
        let ours = |key: &str| matches!(key, "service.name" | "service.version" | "process.pid");
        for (key, value) in attributes.iter().filter(|(key, _)| !ours(key)) {
            text(&mut resource, RESOURCE_ATTRIBUTES, key, value);
        }
        whole(&mut resource, RESOURCE_ATTRIBUTES, "process.pid", i64::from(std::process::id()));
        let mut scope = Vec::new();
        nested(&mut scope, SCOPE, |out| {
            bytes(out, SCOPE_NAME, b"grete");
            bytes(out, SCOPE_VERSION, env!("CARGO_PKG_VERSION").as_bytes());
        });
        Self { service: (*config.service).into(), version: config.version.clone(), resource, scope }
    }

    /// Adds one chunk to `out`, going on where `open` says.
    pub(crate) fn chunk(&self, out: &mut Vec<u8>, chunk: &Chunk, open: &mut Option<Open>) {
        for span in &chunk.spans {
            if open.as_ref().is_none_or(|open| *open.service != **span.service()) {
                close(out, open.as_ref());
                *open = Some(self.open(out, span.service()));
            }
            nested(out, SPANS, |out| write_span(out, span, chunk));
        }
    }

    fn open(&self, out: &mut Vec<u8>, service: &Arc<str>) -> Open {
        let resource_spans = protobuf::begin(out, RESOURCE_SPANS);
        nested(out, RESOURCE, |out| {
            text(out, RESOURCE_ATTRIBUTES, "service.name", service);
            if *service == self.service && !self.version.is_empty() {
                text(out, RESOURCE_ATTRIBUTES, "service.version", &self.version);
            }
            out.extend_from_slice(&self.resource);
        });
        let scope_spans = protobuf::begin(out, SCOPE_SPANS);
        out.extend_from_slice(&self.scope);
        Open { service: Arc::clone(service), resource_spans, scope_spans }
    }
}

/// Writes the lengths of what is open: nothing is added to it any more. May be done again once `out` is cut back.
pub(crate) fn close(out: &mut [u8], open: Option<&Open>) {
    if let Some(open) = open {
        protobuf::end(out, open.scope_spans);
        protobuf::end(out, open.resource_spans);
    }
}

/// How many spans a good answer says were refused: it may take a part.
pub(crate) fn rejected(answer: &[u8]) -> u64 {
    let mut rejected = 0;
    let _ = protobuf::read(answer, |field, value| {
        let (1, Value::Bytes(partial)) = (field, value) else { return };
        let _ = protobuf::read(partial, |field, value| {
            if let (1, Value::Number(number)) = (field, value) {
                rejected = number.cast_signed().max(0).cast_unsigned();
            }
        });
    });
    rejected
}

fn write_span(out: &mut Vec<u8>, span: &Span, chunk: &Chunk) {
    let end = span.start.saturating_add(span.duration);
    bytes(out, TRACE_ID, &span.trace_id.to_be_bytes());
    bytes(out, SPAN_ID, &span.span_id.to_be_bytes());
    if !chunk.tracestate.is_empty() {
        bytes(out, TRACE_STATE, chunk.tracestate.as_bytes());
    }
    if span.parent_id != 0 {
        bytes(out, PARENT_SPAN_ID, &span.parent_id.to_be_bytes());
    }
    bytes(out, NAME, span.name().as_bytes());
    let kind = span.tags().find(|(key, _)| *key == "span.kind").and_then(|(_, kind)| kind_of(kind));
    number(out, KIND, kind.unwrap_or(1));
    fixed64(out, START, span.start);
    fixed64(out, END, end);
    let failure = if span.error { Failure::of(span) } else { Failure::default() };
    attributes(out, span, kind.is_some(), &failure);
    if failure.class.is_some() {
        nested(out, EVENTS, |out| failure.event(out, end));
    }
    for link in span.links() {
        nested(out, LINKS, |out| write_link(out, link));
    }
    if span.error {
        nested(out, STATUS, |out| {
            if let Some(message) = failure.message.filter(|message| !message.is_empty()) {
                bytes(out, STATUS_MESSAGE, message.as_bytes());
            }
            number(out, STATUS_CODE, STATUS_ERROR);
        });
    }
    out.extend_from_slice(&FLAGS);
    out.extend_from_slice(&SAMPLED.to_le_bytes()); // others are not sent
}

/// A key must not come twice: of tags and numbers of the same one, the tag counts.
fn attributes(out: &mut Vec<u8>, span: &Span, has_kind: bool, failure: &Failure<'_>) {
    let has = |key: &str| span.tags().any(|(known, _)| known == key);
    let elsewhere = |key: &str| match key {
        "span.kind" => has_kind,
        "error.message" | "error.stack" => failure.class.is_some(),
        _ => false,
    };
    for (key, value) in span.tags().filter(|(key, _)| !elsewhere(key)) {
        text(out, ATTRIBUTES, key, value);
    }
    for (key, value) in span.metrics().filter(|(key, _)| !has(key)) {
        match value {
            Number::Whole(value) => whole(out, ATTRIBUTES, key, value),
            Number::Real(value) => real(out, ATTRIBUTES, key, value),
        }
    }
    // As Datadog reads them.
    let more = [("resource.name", span.resource(), span.resource() != span.name()), ("span.type", span.kind(), true)];
    for (key, value, wanted) in more {
        let taken = || has(key) || span.metrics().any(|(known, _)| known == key);
        if wanted && !value.is_empty() && !taken() {
            text(out, ATTRIBUTES, key, value);
        }
    }
}

/// What `Span.set_error` has written of an exception.
#[derive(Default)]
struct Failure<'a> {
    class: Option<&'a str>,
    message: Option<&'a str>,
    stack: Option<&'a str>,
}

impl<'a> Failure<'a> {
    fn of(span: &'a Span) -> Self {
        let mut failure = Self::default();
        for (key, value) in span.tags() {
            match key {
                "error.type" => failure.class = Some(value),
                "error.message" => failure.message = Some(value),
                "error.stack" => failure.stack = Some(value),
                _ => {}
            }
        }
        failure
    }

    fn event(&self, out: &mut Vec<u8>, time: u64) {
        fixed64(out, EVENT_TIME, time);
        bytes(out, EVENT_NAME, b"exception");
        let told =
            [("exception.type", self.class), ("exception.message", self.message), ("exception.stacktrace", self.stack)];
        for (key, value) in told {
            if let Some(value) = value {
                text(out, EVENT_ATTRIBUTES, key, value);
            }
        }
    }
}

fn write_link(out: &mut Vec<u8>, link: &Link) {
    bytes(out, TRACE_ID, &link.trace_id.to_be_bytes());
    bytes(out, SPAN_ID, &link.span_id.to_be_bytes());
    if !link.tracestate.is_empty() {
        bytes(out, TRACE_STATE, link.tracestate.as_bytes());
    }
    for (index, (key, value)) in link.attributes.iter().enumerate() {
        if !link.attributes.iter().take(index).any(|(known, _)| known == key) {
            text(out, LINK_ATTRIBUTES, key, value);
        }
    }
    if let Some(flags) = link.flags {
        out.push(LINK_FLAGS);
        out.extend_from_slice(&u32::from(flags).to_le_bytes());
    }
}

fn kind_of(tag: &str) -> Option<u64> {
    KINDS.iter().position(|kind| *kind == tag).map(|index| index as u64 + 1)
}

fn text(out: &mut Vec<u8>, attribute: u8, key: &str, value: &str) {
    begin_attribute(out, attribute, key, field(value.len()));
    bytes(out, STRING, value.as_bytes());
}

fn whole(out: &mut Vec<u8>, attribute: u8, key: &str, value: i64) {
    let value = value.cast_unsigned();
    begin_attribute(out, attribute, key, 1 + protobuf::width(value as usize));
    number(out, INT, value);
}

fn real(out: &mut Vec<u8>, attribute: u8, key: &str, value: f64) {
    begin_attribute(out, attribute, key, 9);
    fixed64(out, DOUBLE, value.to_bits());
}

/// Everything of an attribute before its value, which takes so many bytes.
fn begin_attribute(out: &mut Vec<u8>, attribute: u8, key: &str, value: usize) {
    out.push(attribute);
    protobuf::varint(out, (field(key.len()) + field(value)) as u64);
    bytes(out, KEY, key.as_bytes());
    out.push(VALUE);
    protobuf::varint(out, value as u64);
}

#[cfg(test)]
mod tests;
