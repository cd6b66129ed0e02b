use std::collections::BTreeMap;

use grete_wire::messages::{
    HeartbeatRequest, HeartbeatResponse, ListGroupsRequest, ListGroupsResponse, MetadataRequest, ProduceRequest,
};
use grete_wire::produce::{ProduceRequestBody, ProduceTopic};
use grete_wire::segmented_buf::Segment;

use super::*;
use crate::cluster::test_cluster::{ReceivedRequest, api_versions, frame};
use crate::ids::ConnId;
use crate::request::{DetectedProtocol, RequestOwner};
use crate::time::{MILLI, SECOND};

const SETUP: Nanos = 10 * SECOND;

/// A connection and the simulated broker at the other end.
struct Line {
    conn: Connection,
    now: Nanos,
    asked: Vec<ReceivedRequest>,
    replies: Vec<(u32, Result<Response, RequestError>)>,
    ready: bool,
    throttled: Vec<Nanos>,
    closed: Option<CloseReason>,
}

impl Line {
    fn new(config: ConnConfig) -> Self {
        let conn = Connection::new(Arc::new(config), 0, SETUP);
        Self { conn, now: 0, asked: vec![], replies: vec![], ready: false, throttled: vec![], closed: None }
    }

    fn ready() -> Self {
        Self::ready_with(ConnConfig::default())
    }

    fn ready_with(config: ConnConfig) -> Self {
        let mut line = Self::new(config);
        line.act(|conn, now, out| conn.on_connected(now, out));
        line.handshake();
        assert!(line.ready);
        line
    }

    fn handshake(&mut self) {
        let asked = self.asked.remove(0);
        let answer = api_versions(&BTreeMap::new());
        self.frame(asked.encode_response(|version, out| answer.encode(version, out)));
    }

    fn act(&mut self, act: impl FnOnce(&mut Connection, Nanos, &mut Vec<ConnAction>)) {
        let mut out = Vec::new();
        act(&mut self.conn, self.now, &mut out);
        for action in out {
            match action {
                ConnAction::Write(_) if self.closed.is_some() => panic!("a write to a closed connection"),
                ConnAction::Write(bytes) => self.asked.push(ReceivedRequest::parse(ConnId(0), &bytes.to_vec())),
                ConnAction::Reply(token, result) => self.replies.push((token.id, result)),
                ConnAction::Ready => self.ready = true,
                ConnAction::Throttled(span) => self.throttled.push(span),
                ConnAction::Gss(call) => panic!("no login was set up: {call:?}"),
                ConnAction::Close(reason) => self.closed = Some(reason),
            }
        }
    }

    fn frame(&mut self, frame: Frame) {
        self.act(|conn, now, out| conn.on_frame(now, frame, out));
    }

    fn send(&mut self, request: Request, id: u32, timeout: Nanos) {
        let token = Token { owner: RequestOwner::Client, id };
        self.act(|conn, now, out| conn.send(now, request, token, timeout, out));
    }

    fn tick_at(&mut self, now: Nanos) {
        self.now = now;
        self.act(|conn, now, out| conn.on_tick(now, out));
    }

    fn answer_heartbeat(&mut self, throttle_ms: i32) {
        let asked = self.asked.remove(0);
        let body = HeartbeatResponse { throttle_time_ms: throttle_ms, ..Default::default() };
        self.frame(asked.encode_response(|version, out| body.encode(version, out)));
    }

    fn errors(&self) -> Vec<(u32, Option<RequestError>)> {
        self.replies.iter().map(|(id, result)| (*id, result.as_ref().err().cloned())).collect()
    }
}

fn heartbeat() -> Request {
    Request::Heartbeat(HeartbeatRequest { group_id: "g".into(), member_id: "m".into(), ..Default::default() })
}

fn metadata() -> Request {
    Request::Metadata(MetadataRequest { topics: Some(vec![]), ..Default::default() })
}

#[test]
fn the_first_question_is_api_versions_and_names_the_software() {
    let mut line = Line::new(ConnConfig::default());
    line.act(|conn, now, out| conn.on_connected(now, out));
    let asked = &line.asked[0];
    assert_eq!((asked.api, asked.version), (ApiKey::ApiVersions, *ApiKey::ApiVersions.ours().end()));
    let body = ApiVersionsRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
    assert_eq!(body.client_software_name, "grete");
    assert!(!body.client_software_version.is_empty());
    assert!(!line.conn.is_ready());
    line.handshake();
    assert!(line.conn.is_ready());
    assert_eq!(line.conn.versions().unwrap().negotiate(ApiKey::Metadata), Ok(*ApiKey::Metadata.ours().end()));
}

#[test]
fn an_older_broker_is_asked_again_in_a_version_that_it_lists() {
    for (listed, again) in [(Some(3), 3), (None, 0), (Some(9), 0)] {
        let mut line = Line::new(ConnConfig::default());
        line.act(|conn, now, out| conn.on_connected(now, out));
        let asked = line.asked.remove(0);
        let mut answer = ApiVersionsResponse { error_code: ErrorCode::UNSUPPORTED_VERSION.0, ..Default::default() };
        if let Some(max_version) = listed {
            answer.api_keys = vec![grete_wire::messages::ApiVersion { api_key: 18, max_version, min_version: 0 }];
        }
        line.frame(asked.encode_response(|_, out| answer.encode(0, out)));
        assert_eq!(line.asked[0].version, again);
        line.handshake();
        assert!(line.conn.is_ready());
    }
}

#[test]
fn a_broker_that_refuses_every_version_is_left() {
    let mut line = Line::new(ConnConfig::default());
    line.act(|conn, now, out| conn.on_connected(now, out));
    let answer = ApiVersionsResponse { error_code: ErrorCode::UNSUPPORTED_VERSION.0, ..Default::default() };
    for _ in 0..2 {
        let asked = line.asked.remove(0);
        line.frame(asked.encode_response(|_, out| answer.encode(0, out)));
    }
    assert_eq!(line.closed, Some(CloseReason::HandshakeRefused(35)));
}

#[test]
fn the_first_request_has_a_line_end_so_that_a_web_server_refuses_it_at_once() {
    let mut line = Line::new(ConnConfig::default());
    line.act(|conn, now, out| conn.on_connected(now, out));
    assert_eq!(line.asked[0].api, ApiKey::ApiVersions);
    assert_eq!(&line.asked[0].correlation.to_be_bytes(), b"\r\n\r\n");
    // It stands before the client id, whose bytes are any.
    line.handshake();
    line.send(heartbeat(), 1, SECOND);
    assert_eq!(line.asked.last().unwrap().correlation, 1);
}

#[test]
fn what_is_sent_during_the_handshake_leaves_after_it_in_order() {
    let mut line = Line::new(ConnConfig::default());
    line.send(metadata(), 1, SECOND);
    line.act(|conn, now, out| conn.on_connected(now, out));
    line.send(heartbeat(), 2, SECOND);
    assert_eq!(line.asked.len(), 1);
    line.handshake();
    let apis: Vec<_> = line.asked.iter().map(|asked| asked.api).collect();
    assert_eq!(apis, [ApiKey::Metadata, ApiKey::Heartbeat]);
    assert!(line.asked[0].correlation < line.asked[1].correlation);
}

#[test]
fn answers_belong_to_the_head_of_the_line() {
    let mut line = Line::ready();
    for id in 1..=3 {
        line.send(heartbeat(), id, SECOND);
    }
    for _ in 0..3 {
        line.answer_heartbeat(0);
    }
    assert_eq!(line.errors(), [(1, None), (2, None), (3, None)]);
    let response = line.replies.remove(0).1.unwrap();
    assert_eq!(response.decode(HeartbeatResponse::decode).unwrap().error_code, 0);
}

#[test]
fn a_wrong_correlation_id_ends_the_connection() {
    let mut line = Line::ready();
    line.send(heartbeat(), 1, SECOND);
    line.send(heartbeat(), 2, SECOND);
    let second = line.asked.remove(1);
    line.frame(second.encode_response(|version, out| HeartbeatResponse::default().encode(version, out)));
    assert!(
        matches!(line.closed, Some(CloseReason::Correlation { expected: Some(1), actual: 2 })),
        "{:?}",
        line.closed
    );
    assert_eq!(line.errors(), [(1, Some(RequestError::Disconnected)), (2, Some(RequestError::Disconnected))]);
}

#[test]
fn an_unsolicited_response_closes_the_connection() {
    let mut line = Line::ready();
    line.frame(frame(ApiKey::Heartbeat, 4, 9, |v, out| HeartbeatResponse::default().encode(v, out)));
    assert_eq!(line.closed, Some(CloseReason::Correlation { expected: None, actual: 9 }));
    let mut line = Line::ready();
    line.send(heartbeat(), 1, SECOND);
    line.frame(Frame::from(vec![0, 0]));
    assert!(matches!(line.closed, Some(CloseReason::Wire(_))));
    assert!(matches!(line.replies[0].1, Err(RequestError::Protocol(_))));
}

/// P33: a broker that drops one request must not wedge the connection.
#[test]
fn a_head_that_is_not_answered_ends_the_connection_and_whatever_waits_behind_it() {
    let mut line = Line::ready();
    line.send(heartbeat(), 1, 5 * SECOND);
    line.send(heartbeat(), 2, 60 * SECOND);
    assert_eq!(line.conn.deadline(), Some(5 * SECOND));
    line.tick_at(5 * SECOND - 1);
    assert!(line.closed.is_none());
    line.tick_at(5 * SECOND);
    assert_eq!(line.closed, Some(CloseReason::RequestTimeout { api: ApiKey::Heartbeat, waited: 5 * SECOND }));
    assert_eq!(line.errors(), [(1, Some(RequestError::TimedOut)), (2, Some(RequestError::Disconnected))]);
    assert_eq!(line.conn.deadline(), None);
    line.send(heartbeat(), 3, SECOND);
    assert_eq!(line.errors()[2], (3, Some(RequestError::NoConnection)));
}

#[test]
fn a_late_one_behind_a_head_with_time_loses_its_asker_but_not_the_connection() {
    let mut line = Line::ready();
    line.send(heartbeat(), 1, 60 * SECOND);
    line.send(heartbeat(), 2, SECOND);
    line.tick_at(SECOND);
    assert_eq!(line.errors(), [(2, Some(RequestError::TimedOut))]);
    line.now = 30 * SECOND;
    line.answer_heartbeat(0);
    assert_eq!(line.errors().len(), 2);
    // The head's response came late; the request behind it gets its full timeout, counted from now.
    assert_eq!(line.conn.deadline(), Some(31 * SECOND));
    line.answer_heartbeat(0);
    assert_eq!(line.errors().len(), 2, "the late answer goes to no caller");
    assert!(line.closed.is_none());

    let mut line = Line::ready();
    line.send(heartbeat(), 1, 60 * SECOND);
    line.send(heartbeat(), 2, SECOND);
    line.tick_at(SECOND);
    line.answer_heartbeat(0);
    line.tick_at(2 * SECOND);
    assert!(matches!(line.closed, Some(CloseReason::RequestTimeout { .. })), "a swallowed request cannot wedge it");
}

#[test]
fn queued_requests_time_out_too() {
    let mut line = Line::new(ConnConfig::default());
    line.send(heartbeat(), 1, SECOND);
    assert_eq!(line.conn.deadline(), Some(SECOND));
    line.tick_at(SECOND);
    assert_eq!(line.errors(), [(1, Some(RequestError::TimedOut))]);
    assert!(line.closed.is_none());
}

#[test]
fn setup_has_a_deadline_for_the_connect_and_one_for_the_handshake() {
    let mut line = Line::new(ConnConfig::default());
    line.send(heartbeat(), 1, 60 * SECOND);
    line.tick_at(SETUP);
    assert_eq!(line.closed, Some(CloseReason::ConnectTimeout(SETUP)));
    assert_eq!(line.errors(), [(1, Some(RequestError::NoConnection))]);

    let mut line = Line::new(ConnConfig::default());
    line.now = 9 * SECOND;
    line.act(|conn, now, out| conn.on_connected(now, out));
    line.tick_at(SETUP);
    assert!(line.closed.is_none());
    line.tick_at(9 * SECOND + SETUP);
    assert_eq!(line.closed, Some(CloseReason::HandshakeTimeout(SETUP)));
}

#[test]
fn the_pipeline_is_bounded() {
    let mut line = Line::ready_with(ConnConfig { max_in_flight: 2, ..Default::default() });
    for id in 1..=4 {
        line.send(heartbeat(), id, SECOND);
    }
    assert_eq!((line.asked.len(), line.conn.load()), (2, 4));
    line.answer_heartbeat(0);
    assert_eq!(line.asked.len(), 2);
    line.tick_at(SECOND);
    let late = line.errors().into_iter().filter(|(_, e)| *e == Some(RequestError::TimedOut)).count();
    assert_eq!(late, 3, "every one has its reply");
}

/// KIP-219: a throttle time does not apply to membership requests.
#[test]
fn a_throttle_holds_back_all_but_membership() {
    let mut line = Line::ready();
    line.send(heartbeat(), 1, SECOND);
    line.answer_heartbeat(250);
    assert_eq!(line.throttled, [250 * MILLI]);
    line.send(metadata(), 2, SECOND);
    line.send(heartbeat(), 3, SECOND);
    assert_eq!(line.asked.iter().map(|asked| asked.api).collect::<Vec<_>>(), [ApiKey::Heartbeat]);
    assert_eq!(line.conn.deadline(), Some(250 * MILLI));
    line.tick_at(250 * MILLI);
    assert_eq!(line.asked.len(), 2);
    assert_eq!(line.asked[1].api, ApiKey::Metadata);
}

#[test]
fn a_version_that_only_one_side_speaks_is_refused_by_name() {
    let mut line = Line::new(ConnConfig::default());
    line.act(|conn, now, out| conn.on_connected(now, out));
    let asked = line.asked.remove(0);
    let answer = api_versions(&BTreeMap::from([(ApiKey::Metadata, 1), (ApiKey::Fetch, 12)]));
    line.frame(asked.encode_response(|version, out| answer.encode(version, out)));
    line.send(metadata(), 1, SECOND);
    let error = line.errors().remove(0).1.unwrap();
    let ours = ApiKey::Metadata.ours();
    let expected =
        RequestError::Unsupported { api: ApiKey::Metadata, broker: Some((0, 1)), ours: (*ours.start(), *ours.end()) };
    assert_eq!(error, expected);
    line.send(Request::Raw { api: ApiKey::Fetch, version: 13, body: vec![] }, 2, SECOND);
    assert!(matches!(line.errors()[1].1, Some(RequestError::Unsupported { api: ApiKey::Fetch, .. })));
    line.send(Request::Raw { api: ApiKey::Fetch, version: 12, body: vec![1, 2, 3] }, 3, SECOND);
    assert_eq!((line.asked[0].version, line.asked[0].body.as_slice()), (12, &[1, 2, 3][..]));
    assert!(line.closed.is_none());
}

#[test]
fn http_and_tls_are_recognised() {
    assert_eq!(CloseReason::Wire(WireError::LooksLikeHttp).detected_protocol(true), Some(DetectedProtocol::Http));
    assert_eq!(CloseReason::Wire(WireError::LooksLikeTls).detected_protocol(false), Some(DetectedProtocol::Tls));
    assert_eq!(CloseReason::Wire(WireError::BadVarint).detected_protocol(false), Some(DetectedProtocol::Unknown));
    assert_eq!(CloseReason::Wire(WireError::BadVarint).detected_protocol(true), None);
    assert_eq!(CloseReason::Eof.detected_protocol(false), None);
}

#[test]
fn a_broker_that_hangs_up_during_the_handshake_gets_its_own_reason() {
    let mut line = Line::new(ConnConfig::default());
    line.act(|conn, now, out| conn.on_connected(now, out));
    line.act(|conn, now, out| conn.on_closed(now, CloseReason::Eof, out));
    assert_eq!(line.closed, Some(CloseReason::HandshakeEof));
}

#[test]
fn an_idle_connection_is_closed_but_not_one_with_a_question_open() {
    let config = ConnConfig { max_idle: 60 * SECOND, ..Default::default() };
    let mut line = Line::ready_with(config.clone());
    assert_eq!(line.conn.deadline(), Some(60 * SECOND));
    line.tick_at(50 * SECOND);
    line.send(heartbeat(), 1, 100 * SECOND);
    line.tick_at(120 * SECOND);
    assert!(line.closed.is_none());
    line.answer_heartbeat(0);
    line.tick_at(180 * SECOND - 1);
    assert!(line.closed.is_none());
    line.tick_at(180 * SECOND);
    assert_eq!(line.closed, Some(CloseReason::Idle));
}

fn produce(acks: i16, id: u128) -> ProduceRequestBody {
    let partitions = vec![(0, Arc::new(vec![1; 4000])), (1, Arc::new(vec![2; 100]))];
    let topics = vec![ProduceTopic { name: "orders".into(), id, partitions }];
    ProduceRequestBody { acks, timeout_ms: 30_000, topics, ..Default::default() }
}

#[test]
fn a_batch_is_framed_but_not_copied() {
    let mut line = Line::ready();
    let body = produce(-1, 7);
    let batch = Arc::clone(&body.topics[0].partitions[0].1);
    let mut out = Vec::new();
    let token = Token { owner: RequestOwner::Produce, id: 1 };
    line.conn.send(0, Request::Produce(body.clone()), token, SECOND, &mut out);
    let Some(ConnAction::Write(bytes)) = out.pop() else { panic!("nothing was written") };
    let shared = |segment: &Segment| matches!(segment, Segment::Shared(bytes) if Arc::ptr_eq(bytes, &batch));
    assert_eq!(bytes.segments().iter().filter(|segment| shared(segment)).count(), 1);
    let asked = ReceivedRequest::parse(ConnId(0), &bytes.to_vec());
    assert_eq!((asked.api, asked.version), (ApiKey::Produce, 13));
    let request = ProduceRequest::decode(13, &mut Reader::new(&asked.body)).unwrap();
    let sizes: Vec<_> =
        request.topic_data[0].partition_data.iter().map(|p| p.records.as_deref().map(<[u8]>::len)).collect();
    assert_eq!((request.acks, request.topic_data[0].topic_id, sizes), (-1, 7, vec![Some(4000), Some(100)]));
    assert_eq!(line.conn.deadline(), Some(SECOND));
}

#[test]
fn a_topic_without_an_id_is_produced_to_by_name() {
    let mut line = Line::ready();
    line.send(Request::Produce(produce(-1, 0)), 1, SECOND);
    let request = ProduceRequest::decode(line.asked[0].version, &mut Reader::new(&line.asked[0].body)).unwrap();
    assert_eq!((line.asked[0].version, &*request.topic_data[0].name), (12, "orders"));
}

#[test]
fn without_acks_the_reply_is_that_there_is_none() {
    let mut line = Line::ready_with(ConnConfig { max_in_flight: 1, ..Default::default() });
    for id in 1..=3 {
        line.send(Request::Produce(produce(0, 7)), id, SECOND);
    }
    assert_eq!(line.asked.len(), 3, "nothing waits for an answer that does not come");
    let unanswered = || Some(RequestError::Unanswered);
    assert_eq!(line.errors(), [(1, unanswered()), (2, unanswered()), (3, unanswered())]);
    assert!(line.conn.is_idle());
    // A response to another request is still matched.
    line.asked.clear();
    line.send(heartbeat(), 4, SECOND);
    line.answer_heartbeat(0);
    assert_eq!(line.errors()[3], (4, None));
}

#[test]
fn any_request_goes_in_the_highest_version_of_both() {
    let mut line = Line::ready();
    let request =
        Request::from_message(ListGroupsRequest { states_filter: vec!["Stable".into()], ..Default::default() });
    assert_eq!(request, request.clone());
    assert_ne!(request, Request::from_message(ListGroupsRequest::default()));
    line.send(request, 1, SECOND);
    let asked = line.asked.remove(0);
    assert_eq!((asked.api, asked.version), (ApiKey::ListGroups, *ApiKey::ListGroups.ours().end()));
    let body = ListGroupsRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
    assert_eq!(body.states_filter, ["Stable"]);
    let answer = ListGroupsResponse { throttle_time_ms: 20, ..Default::default() };
    line.frame(asked.encode_response(|version, out| answer.encode(version, out)));
    assert_eq!(line.throttled, [20 * MILLI]);
    assert!(line.replies[0].1.as_ref().unwrap().decode(ListGroupsResponse::decode).is_ok());
}
