//! Probes over HTTP: alive, ready, and what is measured.
//!
//! [`Server`] is the thread and its sockets, a connection is what one peer says, [`parse`] what that means, [`Answer`] what it gets.
//! What is true comes from an [`Examiner`].

mod answer;
mod connection;
mod doors;
mod request;
mod server;

use std::time::Instant;

use crate::examiner::Examiner;
use crate::exposition;
use crate::json::Json;
use crate::verdict::{self, Verdict};

pub use answer::Answer;
pub use connection::{Connection, IDLE, PATIENCE, Stream};
pub use request::{MAX_HEAD, Parsed, Request, parse};
pub use server::{Answers, CONNECTIONS, Server};

const PATHS: &str = "there is nothing here but /, /livez, /readyz, /metrics";

impl Answers for Examiner {
    fn answer(&self, request: &Request) -> Answer {
        let known = matches!(request.path.as_str(), "/" | "/livez" | "/readyz" | "/metrics");
        if !known {
            return Answer::refusal(404, PATHS);
        }
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return Answer::refusal(405, &format!("{} takes GET and HEAD", request.path));
        }
        let now = Instant::now();
        if request.path == "/metrics" {
            let body = exposition::write(self.metrics_at(now), Vec::new());
            return Answer { status: 200, content_type: exposition::CONTENT_TYPE, body };
        }
        let look = self.look(now);
        let (live, ready) = (verdict::live(&look, self.limits()), verdict::ready(&look, self.limits()));
        match request.path.as_str() {
            "/livez" => self.told(&live),
            "/readyz" => self.told(&ready),
            _ => {
                let mut json = Json::default();
                json.open(b'{').name("live");
                live.write(&mut json, self.app());
                json.name("ready");
                ready.write(&mut json, self.app());
                json.name("status");
                self.write_status(&mut json, &look, now);
                json.close(b'}');
                Answer::json(200, json)
            }
        }
    }

    fn beat(&self, beat: Instant, slept: bool, now: Instant) {
        Examiner::beat(self, beat, slept, now);
    }
}

impl Examiner {
    fn told(&self, verdict: &Verdict<'_>) -> Answer {
        let mut json = Json::default();
        verdict.write(&mut json, self.app());
        Answer::json(if verdict.ok { 200 } else { 503 }, json)
    }
}
