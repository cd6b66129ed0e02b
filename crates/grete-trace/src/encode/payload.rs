//! HTTP request to the agent: head and body, in reused buffers.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::chunk::Chunk;
use crate::config::{Config, Format};
use crate::encode::datadog::DatadogEncoder;
use crate::encode::msgpack;
use crate::encode::otlp;
use crate::encode::otlp::OtlpEncoder;

pub(crate) struct Payload {
    encoder: Encoder,
    /// Constant lines of the head.
    fixed_headers: String,
    max_body_bytes: usize,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

enum Encoder {
    Datadog(DatadogEncoder),
    Otlp(OtlpEncoder),
}

impl Payload {
    pub(crate) fn new(config: &Config) -> Self {
        let (encoder, method, more) = match &config.format {
            Format::Datadog => (Encoder::Datadog(DatadogEncoder::new(config)), "PUT", datadog_headers(config)),
            Format::Otlp { resource } => {
                let agent = concat!("grete/", env!("CARGO_PKG_VERSION"));
                let lines = format!("Content-Type: application/x-protobuf\r\nUser-Agent: {agent}\r\n");
                (Encoder::Otlp(OtlpEncoder::new(config, resource)), "POST", lines)
            }
        };
        let path = match (config.agent.prefix(), &*config.path) {
            ("", "") => "/",
            ("", path) => path,
            (prefix, path) => &format!("{prefix}{path}"),
        };
        let authority = config.agent.authority();
        let mut lines = format!("{method} {path} HTTP/1.1\r\nHost: {authority}\r\n{more}");
        for (name, value) in &config.headers {
            let _ = write!(lines, "{name}: {value}\r\n");
        }
        Self {
            encoder,
            fixed_headers: lines,
            max_body_bytes: config.max_payload,
            head: String::new(),
            body: Vec::new(),
        }
    }

    /// Encodes the first chunks: as many as fit into `limit` bytes, and at least one. Returns their number. `None`: the
    /// first chunk alone exceeds the maximum size of a request.
    pub(crate) fn fill(&mut self, chunks: &VecDeque<Chunk>, limit: usize) -> Option<usize> {
        self.body.clear();
        self.body.shrink_to(self.max_body_bytes);
        let count = match &self.encoder {
            Encoder::Datadog(encoder) => {
                let array = msgpack::begin_array(&mut self.body);
                let count = fill(&mut self.body, chunks, limit, self.max_body_bytes, |body, chunk| {
                    encoder.encode_chunk(body, chunk)
                })?;
                msgpack::end_array(&mut self.body, array, count);
                count
            }
            Encoder::Otlp(encoder) => {
                // Open resource after all encoded chunks, and after all but the last, which may have to be removed
                // again.
                let (mut open, mut before) = (None, None);
                let count = fill(&mut self.body, chunks, limit, self.max_body_bytes, |body, chunk| {
                    before.clone_from(&open);
                    encoder.encode_chunk(body, chunk, &mut open);
                })?;
                let all = count == chunks.len();
                otlp::close_resource(&mut self.body, if all { open.as_ref() } else { before.as_ref() });
                count
            }
        };
        self.head.clear();
        self.head.push_str(&self.fixed_headers);
        if matches!(self.encoder, Encoder::Datadog(_)) {
            // a write to a String cannot fail
            let _ = write!(self.head, "X-Datadog-Trace-Count: {count}\r\n");
        }
        let _ = write!(self.head, "Content-Length: {}\r\n\r\n", self.body.len());
        Some(count)
    }
}

/// Appends chunks until the next one would exceed `limit`, and at least one. The excess chunk is removed again.
fn fill(
    body: &mut Vec<u8>,
    chunks: &VecDeque<Chunk>,
    limit: usize,
    largest: usize,
    mut add: impl FnMut(&mut Vec<u8>, &Chunk),
) -> Option<usize> {
    let mut count = 0;
    for chunk in chunks {
        let end = body.len();
        add(body, chunk);
        if body.len() > limit && count > 0 {
            body.truncate(end);
            break;
        }
        count += 1;
        if body.len() > largest {
            return None;
        }
    }
    Some(count)
}

fn datadog_headers(config: &Config) -> String {
    let (version, interpreter) = &config.language;
    format!(
        "Content-Type: application/msgpack\r\nDatadog-Meta-Lang: python\r\nDatadog-Meta-Lang-Version: {}\r\n\
         Datadog-Meta-Lang-Interpreter: {}\r\nDatadog-Meta-Tracer-Version: grete-{}\r\n\
         Datadog-Send-Real-Http-Status: true\r\n",
        header_safe(version),
        header_safe(interpreter),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Returns the characters that are safe in a header; the text comes from another program.
fn header_safe(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(64).collect()
}
