//! One request: its head and its body, in buffers that are kept.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::chunk::Chunk;
use crate::config::{Config, Format};
use crate::datadog::Datadog;
use crate::msgpack;
use crate::otlp::{self, Otlp};

pub(crate) struct Payload {
    encoder: Encoder,
    /// The lines of the head that do not change.
    lines: String,
    largest: usize,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

enum Encoder {
    Datadog(Datadog),
    Otlp(Otlp),
}

impl Payload {
    pub(crate) fn new(config: &Config) -> Self {
        let (encoder, method, more) = match &config.format {
            Format::Datadog => (Encoder::Datadog(Datadog::new(config)), "PUT", datadog_lines(config)),
            Format::Otlp { resource } => {
                let agent = concat!("grete/", env!("CARGO_PKG_VERSION"));
                let lines = format!("Content-Type: application/x-protobuf\r\nUser-Agent: {agent}\r\n");
                (Encoder::Otlp(Otlp::new(config, resource)), "POST", lines)
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
        Self { encoder, lines, largest: config.max_payload, head: String::new(), body: Vec::new() }
    }

    /// Writes the first chunks, as many as make at most `limit` bytes, and one in any case. Returns how many. None: the first
    /// one alone is larger than any request may be.
    pub(crate) fn fill(&mut self, chunks: &VecDeque<Chunk>, limit: usize) -> Option<usize> {
        self.body.clear();
        self.body.shrink_to(self.largest);
        let count = match &self.encoder {
            Encoder::Datadog(encoder) => {
                let array = msgpack::begin_array(&mut self.body);
                let count =
                    fill(&mut self.body, chunks, limit, self.largest, |body, chunk| encoder.chunk(body, chunk))?;
                msgpack::end_array(&mut self.body, array, count);
                count
            }
            Encoder::Otlp(encoder) => {
                // Of those that are in, and of the one before the last, which may have been one too many.
                let (mut open, mut before) = (None, None);
                let count = fill(&mut self.body, chunks, limit, self.largest, |body, chunk| {
                    before.clone_from(&open);
                    encoder.chunk(body, chunk, &mut open);
                })?;
                let all = count == chunks.len();
                otlp::close(&mut self.body, if all { open.as_ref() } else { before.as_ref() });
                count
            }
        };
        self.head.clear();
        self.head.push_str(&self.lines);
        if matches!(self.encoder, Encoder::Datadog(_)) {
            // A String takes all that is written to it.
            let _ = write!(self.head, "X-Datadog-Trace-Count: {count}\r\n");
        }
        let _ = write!(self.head, "Content-Length: {}\r\n\r\n", self.body.len());
        Some(count)
    }
}

/// Adds chunks until the next one would make it more than `limit`, and one in any case; that one is cut off again.
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

fn datadog_lines(config: &Config) -> String {
    let (version, interpreter) = &config.language;
    format!(
        "Content-Type: application/msgpack\r\nDatadog-Meta-Lang: python\r\nDatadog-Meta-Lang-Version: {}\r\n\
         Datadog-Meta-Lang-Interpreter: {}\r\nDatadog-Meta-Tracer-Version: grete-{}\r\n\
         Datadog-Send-Real-Http-Status: true\r\n",
        harmless(version),
        harmless(interpreter),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Of what another program says of itself: what can stand in a header.
fn harmless(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(64).collect()
}
