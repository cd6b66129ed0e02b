//! Tests of the probes' thread with real sockets.

mod parse;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use grete_health::probes::{MAX_CONNECTIONS, Server};
use grete_health::{GroupStatus, HealthCollector, HealthSource, Limits, Metrics, Report, RunningJob, metrics};
use parse::Value;

/// Timeout of every wait: longer than anything takes.
const LONG: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Jobs {
    report: Mutex<Report>,
    panics: AtomicBool,
    reads: AtomicU64,
}

impl HealthSource for Jobs {
    fn read(&self, report: &mut Report) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics.load(Ordering::Relaxed), "the test says so");
        *report = self.report.lock().expect("a lock").clone();
    }

    fn metrics(&self, metrics: &mut Metrics) {
        // A text that does not fit into a socket's buffers.
        let handler = |number| metrics::HandlerMetrics {
            handler: format!("{number:0250}").into(),
            jobs: Some(1),
            ..Default::default()
        };
        metrics.handlers = (0..250).map(handler).collect();
    }
}

struct Serving {
    server: Server,
    jobs: Arc<Jobs>,
    address: SocketAddr,
}

fn serve(report: Report) -> Serving {
    let jobs = Arc::new(Jobs { report: Mutex::new(report), ..Jobs::default() });
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let limits = Limits { gil_timeout: None, not_ready_timeout: Some(Duration::from_secs(300)), ..Limits::default() };
    let examiner = Arc::new(HealthCollector::new("shop".into(), limits, Arc::clone(&jobs) as _));
    let server = Server::start(&[listener.as_raw_fd()], examiner).expect("a thread");
    let address = listener.local_addr().expect("an address");
    Serving { server, jobs, address }
}

fn well() -> Report {
    let group = GroupStatus {
        group: "g".into(),
        state: "stable",
        state_age: Duration::ZERO,
        ready: true,
        generation: Some(1),
        partitions: 2,
        group_instance_id: None,
        connections: None,
        login_failure: None,
        authorization_failure: None,
        transaction_stall: None,
    };
    Report { ready: true, workers: 2, groups: vec![group], ..Report::default() }
}

impl Serving {
    fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).expect("it listens");
        socket.set_read_timeout(Some(LONG)).expect("a time");
        socket
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut socket = self.connect();
        send_request(&mut socket, path, "close");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (status(head), body.into())
    }

    fn check(&self, path: &str) -> (u16, Value) {
        let (status, body) = self.get(path);
        (status, parse::parse(body.trim_end()))
    }
}

fn send_request(socket: &mut TcpStream, path: &str, connection: &str) {
    write!(socket, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: {connection}\r\n\r\n").expect("it listens");
}

fn status(head: &str) -> u16 {
    head.strip_prefix("HTTP/1.1 ").expect(head)[..3].parse().expect("a status")
}

/// Reads one response on a connection that stays open.
fn read_response(socket: &mut TcpStream) -> (u16, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).expect("more of the head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("ASCII");
    let length = head.split("Content-Length: ").nth(1).expect("a length").split("\r\n").next().expect("a line");
    let mut body = vec![0; length.parse().expect("a number")];
    socket.read_exact(&mut body).expect("the body");
    (status(&head), body)
}

fn until(condition: impl Fn() -> bool, what: &str) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "no {what}");
        std::thread::yield_now();
    }
}

/// Returns whether the server has closed the connection.
fn is_cut(socket: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).map_or(true, |_| rest.is_empty())
}

#[test]
fn all_is_well() {
    let serving = serve(well());
    for path in ["/livez", "/readyz"] {
        let (status, result) = serving.check(path);
        assert_eq!((status, result.get("ok")), (200, &Value::Flag(true)));
        assert_eq!(result.get("app"), &Value::Text("shop".into()));
        assert_eq!(result.get("problems").items(), []);
    }
    let (status, all) = serving.check("/");
    assert_eq!(status, 200);
    assert_eq!(all.get("live").get("ok"), &Value::Flag(true));
    assert_eq!(all.get("ready").get("ok"), &Value::Flag(true));
    assert_eq!(all.get("status").get("workers"), &Value::Number("2".into()));
    assert_eq!(all.get("status").get("groups").items()[0].get("state"), &Value::Text("stable".into()));
    let (status, text) = serving.get("/metrics");
    assert_eq!(status, 200);
    assert!(text.contains("\ngrete_live 1\n") && text.contains("\ngrete_ready 1\n"), "{text}");
    assert_eq!(serving.get("/nothing").0, 404);
}

#[test]
fn a_job_that_is_overdue_is_named() {
    let job = RunningJob {
        handler: "Orders.consume".into(),
        topic: "orders".into(),
        partition: 3,
        elapsed: Duration::from_millis(12_500),
        limit: Some(Duration::from_secs(10)),
    };
    let serving = serve(Report { running: vec![job], ..well() });
    let (status, result) = serving.check("/livez");
    assert_eq!((status, result.get("ok")), (503, &Value::Flag(false)));
    let text = "Orders.consume has run for 12.5 s on orders[3], and its handler_timeout is 10 s";
    assert_eq!(result.get("why"), &Value::Text(text.into()));
    let problem = &result.get("problems").items()[0];
    assert_eq!(problem.get("reason"), &Value::Text("handler".into()));
    assert_eq!(problem.get("handler"), &Value::Text("Orders.consume".into()));
    assert_eq!(problem.get("topic"), &Value::Text("orders".into()));
    assert_eq!(problem.get("partition"), &Value::Number("3".into()));
    assert_eq!(problem.get("seconds"), &Value::Number("12.500000".into()));
    assert_eq!(problem.get("limit"), &Value::Number("10.000000".into()));
    assert_eq!(serving.get("/readyz").0, 200);
    assert!(serving.get("/metrics").1.contains("\ngrete_live 0\n"));
    *serving.jobs.report.lock().expect("a lock") = well();
    assert_eq!(serving.get("/livez").0, 200);
}

#[test]
fn other_methods_are_refused_and_a_head_has_no_body() {
    let serving = serve(well());
    let mut socket = serving.connect();
    write!(
        socket,
        "HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\nDELETE /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    .expect("it listens");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("answers");
    let answers: Vec<&str> = text.split("\r\n\r\n").collect();
    assert_eq!((answers.len(), status(answers[0]), status(answers[1])), (3, 200, 405));
    assert!(answers[1].contains("\r\nAllow: GET, HEAD\r\n"));
}

#[test]
fn a_connection_is_used_again_and_requests_may_come_together() {
    let serving = serve(well());
    let mut socket = serving.connect();
    for _ in 0..3 {
        send_request(&mut socket, "/livez", "keep-alive");
        assert_eq!(read_response(&mut socket).0, 200);
    }
    for path in ["/livez", "/metrics", "/nothing", "/metrics"] {
        send_request(&mut socket, path, "keep-alive");
    }
    let statuses = [(); 4].map(|()| read_response(&mut socket).0);
    assert_eq!(statuses, [200, 200, 404, 200]);
}

#[test]
fn those_who_say_nothing_make_room() {
    let serving = serve(well());
    let mut silent: Vec<TcpStream> = (0..3 * MAX_CONNECTIONS).map(|_| serving.connect()).collect();
    for _ in 0..10 {
        assert_eq!(serving.get("/livez").0, 200);
    }
    // The oldest connections are closed.
    assert!(silent[..MAX_CONNECTIONS].iter_mut().all(is_cut));
}

#[test]
fn slow_readers_do_not_block_other_connections() {
    let serving = serve(well());
    let mut greedy: Vec<TcpStream> = (0..8).map(|_| serving.connect()).collect();
    for socket in &mut greedy {
        for _ in 0..100 {
            send_request(socket, "/metrics", "keep-alive");
        }
    }
    for _ in 0..10 {
        assert_eq!(serving.get("/livez").0, 200);
    }
}

#[test]
fn who_takes_its_time_gets_all_of_it() {
    let serving = serve(well());
    let mut socket = serving.connect();
    for _ in 0..100 {
        send_request(&mut socket, "/metrics", "keep-alive");
    }
    for _ in 0..100 {
        let (status, body) = read_response(&mut socket);
        assert_eq!(status, 200);
        assert!(body.len() > 60_000 && body.ends_with(b"\n"));
    }
}

#[test]
fn who_does_not_come_to_an_end_is_cut_off() {
    let serving = serve(well());
    let (mut silent, mut slow, mut deaf) = (serving.connect(), serving.connect(), serving.connect());
    write!(slow, "GET /livez HTTP/1.1\r\nHost").expect("it listens");
    // This peer sends requests and reads nothing, until the server closes the connection.
    deaf.set_write_timeout(Some(Duration::from_millis(100))).expect("a time");
    let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    let over = Instant::now() + LONG;
    let cut = loop {
        match deaf.write(&request) {
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                break error.kind();
            }
            _ => assert!(Instant::now() < over, "it is not cut off"),
        }
    };
    assert!(matches!(cut, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{cut:?}");
    let mut said = String::new();
    slow.read_to_string(&mut said).expect("an answer");
    assert_eq!(status(&said), 408);
    assert!(is_cut(&mut silent));
    assert_eq!(serving.get("/livez").0, 200);
}

#[test]
fn a_source_that_panics_is_a_500_and_no_end() {
    let serving = serve(well());
    serving.jobs.panics.store(true, Ordering::Relaxed);
    assert_eq!(serving.get("/livez").0, 500);
    let reads = serving.jobs.reads.load(Ordering::Relaxed);
    until(|| serving.jobs.reads.load(Ordering::Relaxed) > reads, "a look that fails");
    serving.jobs.panics.store(false, Ordering::Relaxed);
    assert_eq!(serving.get("/livez").0, 200);
}

#[test]
fn it_looks_once_a_second_without_being_asked() {
    let serving = serve(well());
    until(|| serving.jobs.reads.load(Ordering::Relaxed) >= 2, "two looks");
}

#[test]
fn its_end_closes_everything() {
    let serving = serve(well());
    let mut socket = serving.connect();
    send_request(&mut socket, "/livez", "keep-alive");
    read_response(&mut socket);
    let started = Instant::now();
    serving.server.close();
    serving.server.close();
    assert!(is_cut(&mut socket));
    assert!(TcpStream::connect(serving.address).is_err());
    assert!(started.elapsed() < LONG);
}
