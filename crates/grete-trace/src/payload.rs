//! One request: its head and its body, in buffers that are kept.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::chunk::Chunk;
use crate::config::Config;
use crate::datadog::Datadog;
use crate::msgpack;

pub(crate) struct Payload {
    datadog: Datadog,
    /// The lines of the head that do not change.
    lines: String,
    largest: usize,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Payload {
    pub(crate) fn new(config: &Config) -> Self {
        let (agent, (version, interpreter)) = (&config.agent, &config.language);
        let lines = format!(
            "PUT {}/v0.4/traces HTTP/1.1\r\nHost: {}\r\nContent-Type: application/msgpack\r\nDatadog-Meta-Lang: python\r\n\
             Datadog-Meta-Lang-Version: {}\r\nDatadog-Meta-Lang-Interpreter: {}\r\nDatadog-Meta-Tracer-Version: grete-{}\r\n\
             Datadog-Send-Real-Http-Status: true\r\n",
            agent.prefix(),
            agent.authority(),
            harmless(version),
            harmless(interpreter),
            env!("CARGO_PKG_VERSION"),
        );
        let datadog = Datadog::new(config);
        Self { datadog, lines, largest: config.max_payload, head: String::new(), body: Vec::new() }
    }

    /// Writes the first chunks, as many as make at most `limit` bytes, and one in any case. Returns how many. None: the first
    /// one alone is larger than any request may be.
    pub(crate) fn fill(&mut self, chunks: &VecDeque<Chunk>, limit: usize) -> Option<usize> {
        self.body.clear();
        self.body.shrink_to(self.largest);
        let array = msgpack::begin_array(&mut self.body);
        let mut count = 0;
        for chunk in chunks {
            let end = self.body.len();
            self.datadog.chunk(&mut self.body, chunk);
            if self.body.len() > limit && count > 0 {
                self.body.truncate(end);
                break;
            }
            count += 1;
            if self.body.len() > self.largest {
                return None;
            }
        }
        msgpack::end_array(&mut self.body, array, count);
        self.head.clear();
        self.head.push_str(&self.lines);
        let length = self.body.len();
        // A String takes all that is written to it.
        let _ = write!(self.head, "X-Datadog-Trace-Count: {count}\r\nContent-Length: {length}\r\n\r\n");
        Some(count)
    }
}

/// Of what another program says of itself: what can stand in a header.
fn harmless(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(64).collect()
}
