//! Datadog's wire format: `PUT /v0.4/traces`, an array of chunks of spans in MessagePack.
//!
//! A span is encoded directly, without an intermediate map; the keys are encoded at compile time. The first span of
//! each chunk carries the data of the whole trace: its priority, the upper half of its id, its tags.

use crate::chunk::Chunk;
use crate::config::Config;
use crate::encode::msgpack::{array, float, key, map, string, unsigned};
use crate::span::{Link, Span};

/// Encoder with the data common to all spans of a process.
#[derive(Debug)]
pub(crate) struct DatadogEncoder {
    service: Box<str>,
    env: Box<str>,
    version: Box<str>,
    runtime_id: Box<str>,
    pid: f64,
}

impl DatadogEncoder {
    /// Creates the encoder for this process, which it identifies now.
    pub(crate) fn new(config: &Config) -> Self {
        let id = crate::ids::next_id();
        Self {
            service: config.service.clone(),
            env: config.env.clone(),
            version: config.version.clone(),
            runtime_id: format!("{id:016x}{:016x}", crate::ids::next_id()).into(),
            pid: f64::from(std::process::id()),
        }
    }

    /// Appends a chunk to `out`.
    pub(crate) fn encode_chunk(&self, out: &mut Vec<u8>, chunk: &Chunk) {
        array(out, chunk.spans.len());
        for (head, span) in chunk.head_first() {
            self.encode_span(out, span, head.then_some(chunk), &chunk.origin);
        }
    }

    fn encode_span(&self, out: &mut Vec<u8>, span: &Span, head: Option<&Chunk>, origin: &str) {
        let links = span.links();
        let typed = !span.kind().is_empty();
        map(out, 11 + usize::from(typed) + usize::from(!links.is_empty()));
        out.extend_from_slice(key!("service"));
        string(out, span.service());
        out.extend_from_slice(key!("name"));
        string(out, span.name());
        out.extend_from_slice(key!("resource"));
        string(out, span.resource());
        if typed {
            out.extend_from_slice(key!("type"));
            string(out, span.kind());
        }
        numbers(out, [span.trace_id as u64, span.span_id, span.parent_id, span.start, span.duration]);
        out.extend_from_slice(key!("error"));
        unsigned(out, u64::from(span.error));
        self.meta(out, span, head, origin);
        self.metrics(out, span, head);
        if !links.is_empty() {
            out.extend_from_slice(key!("span_links"));
            array(out, links.len());
            links.iter().for_each(|link| write_link(out, link));
        }
    }

    /// Writes the tags. A repeated key would be an error to some decoders, so the encoder's own tags replace the
    /// span's.
    fn meta(&self, out: &mut Vec<u8>, span: &Span, head: Option<&Chunk>, origin: &str) {
        let upper = (span.trace_id >> 64) as u64;
        let version = if **span.service() == *self.service { &*self.version } else { "" };
        let ours = |key: &str| match key {
            "env" => !self.env.is_empty(),
            "version" => !version.is_empty(),
            "_dd.origin" => !origin.is_empty(),
            "language" | "runtime-id" | "_dd.p.tid" => head.is_some(),
            _ => head.is_some_and(|chunk| chunk.tags.iter().any(|(known, _)| **known == *key)),
        };
        let theirs = span.tags().filter(|&(key, _)| !ours(key)).count();
        let trace = head.map_or(0, |chunk| 2 + chunk.tags.iter().filter(|(key, _)| !is_upper_trace_id(key)).count());
        let fixed = [!self.env.is_empty(), !version.is_empty(), !origin.is_empty(), head.is_some() && upper != 0];
        out.extend_from_slice(key!("meta"));
        map(out, theirs + trace + fixed.into_iter().filter(|&there| there).count());
        for (key, value) in span.tags().filter(|&(key, _)| !ours(key)) {
            string(out, key);
            string(out, value);
        }
        let mut pair = |key: &[u8], value: &str| {
            if !value.is_empty() {
                out.extend_from_slice(key);
                string(out, value);
            }
        };
        pair(key!("env"), &self.env);
        pair(key!("version"), version);
        pair(key!("_dd.origin"), origin);
        let Some(chunk) = head else { return };
        pair(key!("language"), "python");
        pair(key!("runtime-id"), &self.runtime_id);
        if upper != 0 {
            out.extend_from_slice(key!("_dd.p.tid"));
            write_hex(out, upper);
        }
        for (key, value) in chunk.tags.iter().filter(|(key, _)| !is_upper_trace_id(key)) {
            string(out, key);
            string(out, value);
        }
    }

    fn metrics(&self, out: &mut Vec<u8>, span: &Span, head: Option<&Chunk>) {
        let ours = |key: &str| {
            head.is_some_and(|chunk| match key {
                "_sampling_priority_v1" | "process_id" => true,
                "_dd.agent_psr" => chunk.rate.is_some(),
                _ => false,
            })
        };
        let theirs = span.metrics().filter(|&(key, _)| !ours(key)).count();
        let trace = head.map_or(0, |chunk| 2 + usize::from(chunk.rate.is_some()));
        out.extend_from_slice(key!("metrics"));
        map(out, theirs + trace);
        for (key, value) in span.metrics().filter(|&(key, _)| !ours(key)) {
            string(out, key);
            float(out, value.into());
        }
        let Some(chunk) = head else { return };
        out.extend_from_slice(key!("_sampling_priority_v1"));
        float(out, f64::from(chunk.priority));
        out.extend_from_slice(key!("process_id"));
        float(out, self.pid);
        if let Some(rate) = chunk.rate {
            out.extend_from_slice(key!("_dd.agent_psr"));
            float(out, rate);
        }
    }
}

/// Writes the numbers of each span with their keys, in one piece. Ids are large, so all numbers have eight bytes.
fn numbers(out: &mut Vec<u8>, numbers: [u64; 5]) {
    const TEMPLATE: &[u8; 87] = b"\xa8trace_id\xcf........\xa7span_id\xcf........\xa9parent_id\xcf........\
        \xa5start\xcf........\xa8duration\xcf........";
    const OFFSETS: [usize; 5] = [10, 27, 46, 61, 79];
    let mut block = *TEMPLATE;
    for (number, at) in numbers.into_iter().zip(OFFSETS) {
        block[at..at + 8].copy_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(&block);
}

/// Returns whether the key is that of the upper half of the trace id, which is computed from the id itself.
fn is_upper_trace_id(key: &str) -> bool {
    key == "_dd.p.tid"
}

fn write_hex(out: &mut Vec<u8>, number: u64) {
    out.push(0xb0);
    for shift in (0..16).rev() {
        let digit = (number >> (shift * 4) & 0xf) as u8;
        out.push(digit + if digit < 10 { b'0' } else { b'a' - 10 });
    }
}

fn write_link(out: &mut Vec<u8>, link: &Link) {
    let there = [!link.attributes.is_empty(), !link.tracestate.is_empty(), link.flags.is_some()];
    map(out, 3 + there.into_iter().filter(|&there| there).count());
    out.extend_from_slice(key!("trace_id"));
    unsigned(out, link.trace_id as u64);
    out.extend_from_slice(key!("trace_id_high"));
    unsigned(out, (link.trace_id >> 64) as u64);
    out.extend_from_slice(key!("span_id"));
    unsigned(out, link.span_id);
    if !link.attributes.is_empty() {
        out.extend_from_slice(key!("attributes"));
        map(out, link.attributes.len());
        for (key, value) in &link.attributes {
            string(out, key);
            string(out, value);
        }
    }
    if !link.tracestate.is_empty() {
        out.extend_from_slice(key!("tracestate"));
        string(out, &link.tracestate);
    }
    if let Some(flags) = link.flags {
        out.extend_from_slice(key!("flags"));
        unsigned(out, u64::from(flags) | 1 << 31); // the top bit: the flags are known
    }
}
