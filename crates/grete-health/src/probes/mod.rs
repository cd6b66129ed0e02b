//! HTTP probes: liveness, readiness, status and metrics.
//!
//! [`Server`] is the thread with its sockets, [`Connection`] one connection with its deadlines, [`HttpProtocol`]
//! HTTP without a socket, [`parse`] the request parser, [`Response`] the reply. The content comes from a [`HealthCollector`].

mod connection;
mod protocol;
mod request;
mod response;
mod server;

use std::time::Instant;

use crate::checks::{self, CheckResult};
use crate::collector::HealthCollector;
use crate::json::Json;
use crate::metrics::prometheus;

pub use connection::{Connection, FIRST_REQUEST_GRACE, KEEP_ALIVE_TIMEOUT, REQUEST_TIMEOUT, Stream};
pub use protocol::HttpProtocol;
pub use request::{MAX_HEAD_BYTES, ParseOutcome, Request, parse};
pub use response::Response;
pub use server::{MAX_CONNECTIONS, RequestHandler, Server};

const UNKNOWN_PATH: &str = "unknown path; request /, /livez, /readyz or /metrics";

impl RequestHandler for HealthCollector {
    fn handle(&self, request: &Request) -> Response {
        let known = matches!(request.path.as_str(), "/" | "/livez" | "/readyz" | "/metrics");
        if !known {
            return Response::error(404, UNKNOWN_PATH);
        }
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return Response::error(405, &format!("{} takes GET and HEAD", request.path));
        }
        let now = Instant::now();
        if request.path == "/metrics" {
            let body = prometheus::write(self.metrics_at(now), Vec::new());
            return Response { status: 200, content_type: prometheus::CONTENT_TYPE, body };
        }
        let snapshot = self.snapshot(now);
        let (live, ready) =
            (checks::check_liveness(&snapshot, self.limits()), checks::check_readiness(&snapshot, self.limits()));
        match request.path.as_str() {
            "/livez" => self.check_response(&live),
            "/readyz" => self.check_response(&ready),
            _ => {
                let mut json = Json::default();
                json.open(b'{').name("live");
                live.write(&mut json, self.app());
                json.name("ready");
                ready.write(&mut json, self.app());
                json.name("status");
                self.write_status(&mut json, &snapshot, now);
                json.close(b'}');
                Response::json(200, json)
            }
        }
    }

    fn tick(&self, beat: Instant, slept: bool, now: Instant) {
        HealthCollector::tick(self, beat, slept, now);
    }
}

impl HealthCollector {
    fn check_response(&self, result: &CheckResult<'_>) -> Response {
        let mut json = Json::default();
        result.write(&mut json, self.app());
        Response::json(if result.ok { 200 } else { 503 }, json)
    }
}
