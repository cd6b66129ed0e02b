//! OpenTelemetry's wire format: `POST /v1/traces`, an `ExportTraceServiceRequest` in Protocol Buffers.
//!
//! A span is encoded directly, without a message object. The data common to all requests is encoded once. Consecutive
//! spans of one service share a resource.

use std::sync::Arc;

use crate::chunk::Chunk;
use crate::config::Config;
use crate::encode::protobuf;
use crate::encode::protobuf::{Value, WireType, bytes_field, field_len, fixed64_field, key, nested, varint_field};
use crate::span::{Link, Number, Span};

// opentelemetry/proto/{trace,resource,common}/v1/*.proto
const RESOURCE_SPANS: u8 = key(1, WireType::Bytes);
const RESOURCE: u8 = key(1, WireType::Bytes);
const RESOURCE_ATTRIBUTES: u8 = key(1, WireType::Bytes);
const SCOPE_SPANS: u8 = key(2, WireType::Bytes);
const SCOPE: u8 = key(1, WireType::Bytes);
const SCOPE_NAME: u8 = key(1, WireType::Bytes);
const SCOPE_VERSION: u8 = key(2, WireType::Bytes);
const SPANS: u8 = key(2, WireType::Bytes);
const TRACE_ID: u8 = key(1, WireType::Bytes);
const SPAN_ID: u8 = key(2, WireType::Bytes);
const TRACE_STATE: u8 = key(3, WireType::Bytes);
const PARENT_SPAN_ID: u8 = key(4, WireType::Bytes);
const NAME: u8 = key(5, WireType::Bytes);
const KIND: u8 = key(6, WireType::Varint);
const START: u8 = key(7, WireType::Fixed64);
const END: u8 = key(8, WireType::Fixed64);
const ATTRIBUTES: u8 = key(9, WireType::Bytes);
const EVENTS: u8 = key(11, WireType::Bytes);
const EVENT_TIME: u8 = key(1, WireType::Fixed64);
const EVENT_NAME: u8 = key(2, WireType::Bytes);
const EVENT_ATTRIBUTES: u8 = key(3, WireType::Bytes);
const LINKS: u8 = key(13, WireType::Bytes);
const LINK_ATTRIBUTES: u8 = key(4, WireType::Bytes);
/// Field 6, wire type of four bytes.
const LINK_FLAGS: u8 = 6 << 3 | 5;
const STATUS: u8 = key(15, WireType::Bytes);
const STATUS_MESSAGE: u8 = key(2, WireType::Bytes);
const STATUS_CODE: u8 = key(3, WireType::Varint);
const STATUS_ERROR: u64 = 2;
/// Field 16, wire type of four bytes.
const FLAGS: [u8; 2] = [0x85, 0x01];
const SAMPLED: u32 = 1;
const KEY: u8 = key(1, WireType::Bytes);
const VALUE: u8 = key(2, WireType::Bytes);
const STRING: u8 = key(1, WireType::Bytes);
const INT: u8 = key(3, WireType::Varint);
const DOUBLE: u8 = key(4, WireType::Fixed64);

const KINDS: [&str; 5] = ["internal", "server", "client", "producer", "consumer"];

/// Encoder with the data common to all requests of a process.
#[derive(Debug)]
pub(crate) struct OtlpEncoder {
    service: Arc<str>,
    /// Version of the tracer's own service.
    version: Box<str>,
    /// Encoded attributes common to all resources: all except the service's name and version.
    resource: Vec<u8>,
    scope: Vec<u8>,
}

/// Resource under construction: its service, and the positions of the lengths that are written at its end.
#[derive(Debug, Clone)]
pub(crate) struct OpenResource {
    service: Arc<str>,
    resource_spans: usize,
    scope_spans: usize,
}

impl OtlpEncoder {
    /// Creates the encoder for this process, which it identifies now. `attributes`: resource attributes of the
    /// configuration.
    pub(crate) fn new(config: &Config, attributes: &[(Box<str>, Box<str>)]) -> Self {
        let mut resource = Vec::new();
        let instance = format!("{:016x}{:016x}", crate::ids::next_id(), crate::ids::next_id());
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
            string_attribute(&mut resource, RESOURCE_ATTRIBUTES, key, value);
        }
        let ours = |key: &str| matches!(key, "service.name" | "service.version" | "process.pid");
        for (key, value) in attributes.iter().filter(|(key, _)| !ours(key)) {
            string_attribute(&mut resource, RESOURCE_ATTRIBUTES, key, value);
        }
        int_attribute(&mut resource, RESOURCE_ATTRIBUTES, "process.pid", i64::from(std::process::id()));
        let mut scope = Vec::new();
        nested(&mut scope, SCOPE, |out| {
            bytes_field(out, SCOPE_NAME, b"grete");
            bytes_field(out, SCOPE_VERSION, env!("CARGO_PKG_VERSION").as_bytes());
        });
        Self { service: (*config.service).into(), version: config.version.clone(), resource, scope }
    }

    /// Appends a chunk to `out`, in the resource `open` if the service is the same.
    pub(crate) fn encode_chunk(&self, out: &mut Vec<u8>, chunk: &Chunk, open: &mut Option<OpenResource>) {
        for span in &chunk.spans {
            if open.as_ref().is_none_or(|open| *open.service != **span.service()) {
                close_resource(out, open.as_ref());
                *open = Some(self.open_resource(out, span.service()));
            }
            nested(out, SPANS, |out| write_span(out, span, chunk));
        }
    }

    fn open_resource(&self, out: &mut Vec<u8>, service: &Arc<str>) -> OpenResource {
        let resource_spans = protobuf::begin(out, RESOURCE_SPANS);
        nested(out, RESOURCE, |out| {
            string_attribute(out, RESOURCE_ATTRIBUTES, "service.name", service);
            if *service == self.service && !self.version.is_empty() {
                string_attribute(out, RESOURCE_ATTRIBUTES, "service.version", &self.version);
            }
            out.extend_from_slice(&self.resource);
        });
        let scope_spans = protobuf::begin(out, SCOPE_SPANS);
        out.extend_from_slice(&self.scope);
        OpenResource { service: Arc::clone(service), resource_spans, scope_spans }
    }
}

/// Writes the lengths of the open resource, to which nothing is added afterwards. It may be called again after `out`
/// was truncated.
pub(crate) fn close_resource(out: &mut [u8], open: Option<&OpenResource>) {
    if let Some(open) = open {
        protobuf::end(out, open.scope_spans);
        protobuf::end(out, open.resource_spans);
    }
}

/// Returns the number of spans that a successful response reports as rejected (partial success).
pub(crate) fn rejected_spans(response: &[u8]) -> u64 {
    let mut rejected = 0;
    let _ = protobuf::for_each_field(response, |field, value| {
        let (1, Value::Bytes(partial)) = (field, value) else { return };
        let _ = protobuf::for_each_field(partial, |field, value| {
            if let (1, Value::Number(number)) = (field, value) {
                rejected = number.cast_signed().max(0).cast_unsigned();
            }
        });
    });
    rejected
}

fn write_span(out: &mut Vec<u8>, span: &Span, chunk: &Chunk) {
    let end = span.start.saturating_add(span.duration);
    bytes_field(out, TRACE_ID, &span.trace_id.to_be_bytes());
    bytes_field(out, SPAN_ID, &span.span_id.to_be_bytes());
    if !chunk.tracestate.is_empty() {
        bytes_field(out, TRACE_STATE, chunk.tracestate.as_bytes());
    }
    if span.parent_id != 0 {
        bytes_field(out, PARENT_SPAN_ID, &span.parent_id.to_be_bytes());
    }
    bytes_field(out, NAME, span.name().as_bytes());
    let kind = span.tags().find(|(key, _)| *key == "span.kind").and_then(|(_, kind)| span_kind(kind));
    varint_field(out, KIND, kind.unwrap_or(1));
    fixed64_field(out, START, span.start);
    fixed64_field(out, END, end);
    let failure = if span.error { ExceptionInfo::from_span(span) } else { ExceptionInfo::default() };
    write_attributes(out, span, kind.is_some(), &failure);
    if failure.class.is_some() {
        nested(out, EVENTS, |out| failure.write_event(out, end));
    }
    for link in span.links() {
        nested(out, LINKS, |out| write_link(out, link));
    }
    if span.error {
        nested(out, STATUS, |out| {
            if let Some(message) = failure.message.filter(|message| !message.is_empty()) {
                bytes_field(out, STATUS_MESSAGE, message.as_bytes());
            }
            varint_field(out, STATUS_CODE, STATUS_ERROR);
        });
    }
    out.extend_from_slice(&FLAGS);
    out.extend_from_slice(&SAMPLED.to_le_bytes()); // unsampled traces are not sent
}

/// Writes the attributes. Keys must not repeat: of a tag and a number with the same key, the tag is written.
fn write_attributes(out: &mut Vec<u8>, span: &Span, has_kind: bool, failure: &ExceptionInfo<'_>) {
    let has = |key: &str| span.tags().any(|(known, _)| known == key);
    let elsewhere = |key: &str| match key {
        "span.kind" => has_kind,
        "error.message" | "error.stack" => failure.class.is_some(),
        _ => false,
    };
    for (key, value) in span.tags().filter(|(key, _)| !elsewhere(key)) {
        string_attribute(out, ATTRIBUTES, key, value);
    }
    for (key, value) in span.metrics().filter(|(key, _)| !has(key)) {
        match value {
            Number::Int(value) => int_attribute(out, ATTRIBUTES, key, value),
            Number::Double(value) => double_attribute(out, ATTRIBUTES, key, value),
        }
    }
    // The keys under which Datadog reads these.
    let more = [("resource.name", span.resource(), span.resource() != span.name()), ("span.type", span.kind(), true)];
    for (key, value, wanted) in more {
        let taken = || has(key) || span.metrics().any(|(known, _)| known == key);
        if wanted && !value.is_empty() && !taken() {
            string_attribute(out, ATTRIBUTES, key, value);
        }
    }
}

/// Parts of an exception, from the tags of `Span.set_error`.
#[derive(Default)]
struct ExceptionInfo<'a> {
    class: Option<&'a str>,
    message: Option<&'a str>,
    stack: Option<&'a str>,
}

impl<'a> ExceptionInfo<'a> {
    fn from_span(span: &'a Span) -> Self {
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

    fn write_event(&self, out: &mut Vec<u8>, time: u64) {
        fixed64_field(out, EVENT_TIME, time);
        bytes_field(out, EVENT_NAME, b"exception");
        let event_attributes =
            [("exception.type", self.class), ("exception.message", self.message), ("exception.stacktrace", self.stack)];
        for (key, value) in event_attributes {
            if let Some(value) = value {
                string_attribute(out, EVENT_ATTRIBUTES, key, value);
            }
        }
    }
}

fn write_link(out: &mut Vec<u8>, link: &Link) {
    bytes_field(out, TRACE_ID, &link.trace_id.to_be_bytes());
    bytes_field(out, SPAN_ID, &link.span_id.to_be_bytes());
    if !link.tracestate.is_empty() {
        bytes_field(out, TRACE_STATE, link.tracestate.as_bytes());
    }
    for (index, (key, value)) in link.attributes.iter().enumerate() {
        if !link.attributes.iter().take(index).any(|(known, _)| known == key) {
            string_attribute(out, LINK_ATTRIBUTES, key, value);
        }
    }
    if let Some(flags) = link.flags {
        out.push(LINK_FLAGS);
        out.extend_from_slice(&u32::from(flags).to_le_bytes());
    }
}

fn span_kind(tag: &str) -> Option<u64> {
    KINDS.iter().position(|kind| *kind == tag).map(|index| index as u64 + 1)
}

fn string_attribute(out: &mut Vec<u8>, attribute: u8, key: &str, value: &str) {
    begin_attribute(out, attribute, key, field_len(value.len()));
    bytes_field(out, STRING, value.as_bytes());
}

fn int_attribute(out: &mut Vec<u8>, attribute: u8, key: &str, value: i64) {
    let value = value.cast_unsigned();
    begin_attribute(out, attribute, key, 1 + protobuf::varint_len(value as usize));
    varint_field(out, INT, value);
}

fn double_attribute(out: &mut Vec<u8>, attribute: u8, key: &str, value: f64) {
    begin_attribute(out, attribute, key, 9);
    fixed64_field(out, DOUBLE, value.to_bits());
}

/// Writes the part of an attribute before its value, which takes `value` bytes.
fn begin_attribute(out: &mut Vec<u8>, attribute: u8, key: &str, value: usize) {
    out.push(attribute);
    protobuf::varint(out, (field_len(key.len()) + field_len(value)) as u64);
    bytes_field(out, KEY, key.as_bytes());
    out.push(VALUE);
    protobuf::varint(out, value as u64);
}

#[cfg(test)]
mod tests;
