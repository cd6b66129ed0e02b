//! Logins of a connection against the brokers' core, on a virtual clock.

use std::collections::VecDeque;

use grete_broker::cluster::{Action, BrokerAddress, Cluster as BrokerCluster, ClusterConfig as BrokerConfig, Event};
use grete_broker::ids::ConnId as BrokerConn;
use grete_broker::sasl::{SaslConfig as BrokerSasl, Users};
use grete_wire::messages::{FindCoordinatorRequest, HeartbeatRequest, MetadataRequest};

use super::*;
use crate::request::RequestOwner;
use crate::rng::Rng;
use crate::sasl::{Credentials, Mechanism, SaslError, Token as BearerToken, TokenStore};
use crate::time::MILLI;

const CONN: BrokerConn = BrokerConn(1);
/// Wall clock of the broker at the begin, in milliseconds.
const EPOCH: i64 = 1_700_000_000_000;

/// Client and broker, with a network between them that delays bytes.
struct World {
    conn: Connection,
    broker: BrokerCluster,
    now: Nanos,
    rng: Rng,
    /// Longest delay of a frame in each direction.
    delay: Nanos,
    to_broker: VecDeque<(Nanos, Frame)>,
    to_client: VecDeque<(Nanos, Frame)>,
    broker_closes: Option<Nanos>,
    broker_log: Vec<String>,
    sent: u32,
    answered: Vec<u32>,
    failed: Vec<(u32, RequestError)>,
    is_ready: bool,
    closed: Option<CloseReason>,
    logins: usize,
}

impl World {
    fn new(sasl: Option<SaslConfig>, max_reauth_ms: i64, seed: u64) -> Self {
        let mut users = Users::default();
        users.set("alice", "secret", seed);
        let address = BrokerAddress { id: 1, host: "b1".into(), port: 9092, rack: None };
        let sasl_of_broker = (max_reauth_ms >= 0).then(|| BrokerSasl { max_reauth_ms, ..BrokerSasl::new(users) });
        let config = BrokerConfig { sasl: sasl_of_broker, ..BrokerConfig::new(vec![address]) };
        let mut broker = BrokerCluster::new(config);
        let accepted = Event::Accepted { conn: CONN, broker: 1, client_host: "c".into() };
        broker.step(EPOCH, accepted, &mut Vec::new());
        let config = ConnConfig { sasl: sasl.map(Arc::new), max_in_flight: 5, ..ConnConfig::default() };
        let mut world = Self {
            conn: Connection::new(Arc::new(config), 0, 10 * SECOND),
            broker,
            now: 0,
            rng: Rng::new(seed),
            delay: 0,
            to_broker: VecDeque::new(),
            to_client: VecDeque::new(),
            broker_closes: None,
            broker_log: Vec::new(),
            sent: 0,
            answered: Vec::new(),
            failed: Vec::new(),
            is_ready: false,
            closed: None,
            logins: 0,
        };
        world.act(|conn, now, out| conn.on_connected(now, out));
        world
    }

    fn act(&mut self, act: impl FnOnce(&mut Connection, Nanos, &mut Vec<ConnAction>)) {
        let mut out = Vec::new();
        act(&mut self.conn, self.now, &mut out);
        for action in out {
            match action {
                ConnAction::Write(bytes) => {
                    let frame = Frame::from(bytes.to_vec()[4..].to_vec());
                    self.logins += usize::from(frame[..2] == [0, 17]);
                    let at = self.arrival(self.to_broker.back().map(|(at, _)| *at));
                    self.to_broker.push_back((at, frame));
                }
                ConnAction::Reply(token, Ok(_)) => self.answered.push(token.id),
                ConnAction::Reply(token, Err(error)) => self.failed.push((token.id, error)),
                ConnAction::Ready => self.is_ready = true,
                ConnAction::Throttled(_) => {}
                ConnAction::Gss(call) => panic!("no password and no token is a matter of Kerberos: {call:?}"),
                ConnAction::Close(reason) => self.closed = Some(reason),
            }
        }
    }

    /// Draws the time at which a frame arrives, behind the one before.
    fn arrival(&mut self, before: Option<Nanos>) -> Nanos {
        (self.now + self.rng.below(self.delay + 1)).max(before.unwrap_or_default())
    }

    fn wall(&self) -> i64 {
        EPOCH + i64::try_from(self.now / MILLI).unwrap()
    }

    fn broker_step(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.broker.step(self.wall(), event, &mut actions);
        for action in actions {
            match action {
                Action::Write { bytes, .. } => {
                    let at = self.arrival(self.to_client.back().map(|(at, _)| *at));
                    self.to_client.push_back((at, Frame::from(bytes.to_vec()[4..].to_vec())));
                }
                Action::Close { .. } => {
                    self.broker_closes = Some(self.arrival(self.to_client.back().map(|(at, _)| *at)));
                }
                Action::Log(line) => self.broker_log.push(line),
                _ => {}
            }
        }
    }

    fn send(&mut self, request: Request) {
        self.sent += 1;
        let token = Token { owner: RequestOwner::Client, id: self.sent };
        self.act(|conn, now, out| conn.send(now, request, token, 30 * SECOND, out));
    }

    /// Carries frames and ticks until `end`.
    fn run_until(&mut self, end: Nanos) {
        loop {
            let due = [
                self.to_broker.front().map(|(at, _)| *at),
                self.to_client.front().map(|(at, _)| *at),
                self.broker_closes,
                self.conn.deadline(),
            ];
            let Some(at) = due.into_iter().flatten().min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            if self.to_broker.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, frame) = self.to_broker.pop_front().unwrap();
                self.broker_step(Event::Frame { conn: CONN, frame });
            } else if self.to_client.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, frame) = self.to_client.pop_front().unwrap();
                self.act(|conn, now, out| conn.on_frame(now, frame, out));
            } else if self.broker_closes.is_some_and(|at| at <= self.now) {
                self.broker_closes = None;
                self.act(|conn, now, out| conn.on_closed(now, CloseReason::Eof, out));
            } else {
                self.act(|conn, now, out| conn.on_tick(now, out));
                assert!(self.conn.deadline().is_none_or(|at| at > self.now), "a tick leaves nothing due");
            }
        }
        self.now = self.now.max(end);
    }
}

fn password(mechanism: Mechanism, password: &str) -> SaslConfig {
    let credentials = Credentials::Password { username: "alice".into(), password: password.into() };
    SaslConfig::new(mechanism, credentials, [3; 32])
}

fn metadata() -> Request {
    Request::Metadata(MetadataRequest { topics: Some(vec![]), ..Default::default() })
}

fn login_error(world: &World) -> &SaslError {
    match &world.closed {
        Some(CloseReason::Sasl(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_mechanism_logs_in_before_the_first_request() {
    for mechanism in [Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha512] {
        let mut world = World::new(Some(password(mechanism, "secret")), 0, 1);
        world.send(metadata());
        world.run_until(SECOND);
        assert!(world.is_ready && world.closed.is_none(), "{mechanism}: {:?} {:?}", world.closed, world.broker_log);
        assert_eq!((world.answered.as_slice(), world.logins), (&[1][..], 1));
        assert_eq!(world.conn.deadline(), Some(540 * SECOND), "a session without an end needs no timer");
    }
}

#[test]
fn failed_logins_are_told_apart() {
    for mechanism in [Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha512] {
        let mut world = World::new(Some(password(mechanism, "wrong")), 0, 1);
        world.send(metadata());
        world.run_until(SECOND);
        assert!(matches!(login_error(&world), SaslError::Refused { .. }), "{:?}", world.closed);
        assert_eq!(world.failed, [(1, RequestError::NoConnection)]);
        assert!(!world.is_ready);
    }
    let mut world = World::new(Some(password(Mechanism::Plain, "secret")), -1, 1);
    world.run_until(SECOND);
    assert_eq!(login_error(&world), &SaslError::NotOffered);

    let mut world = World::new(None, 0, 1);
    world.send(metadata());
    world.run_until(SECOND);
    assert_eq!(world.closed, Some(CloseReason::FirstRequestEof));
}

#[test]
fn a_probe_tells_a_listener_with_logins_from_one_without() {
    let mut world = World::new(None, 0, 1);
    world.conn.probe_login();
    world.send(metadata());
    world.run_until(SECOND);
    let SaslError::Expected { offered } = login_error(&world) else { panic!("{:?}", world.closed) };
    assert!(offered.iter().any(|mechanism| mechanism == "SCRAM-SHA-256"), "{offered:?}");
    assert!(!world.is_ready);

    let mut world = World::new(None, -1, 1);
    world.conn.probe_login();
    world.send(metadata());
    world.run_until(SECOND);
    assert_eq!((world.is_ready, &world.closed), (true, &None));
    assert_eq!(world.answered, [1]);
}

#[test]
fn a_login_that_is_not_answered_times_out_and_a_broker_that_hangs_up_is_named() {
    let mut world = World::new(Some(password(Mechanism::Plain, "secret")), 0, 1);
    let frame = world.to_broker.pop_front().unwrap().1;
    world.broker_step(Event::Frame { conn: CONN, frame });
    let frame = world.to_client.pop_front().unwrap().1;
    world.act(|conn, now, out| conn.on_frame(now, frame, out));
    world.to_broker.clear();
    world.run_until(9 * SECOND);
    assert!(world.closed.is_none());
    world.run_until(10 * SECOND);
    assert_eq!(world.closed, Some(CloseReason::AuthenticationTimeout(10 * SECOND)));

    let mut world = World::new(Some(password(Mechanism::Plain, "secret")), 0, 1);
    let frame = world.to_broker.pop_front().unwrap().1;
    world.broker_step(Event::Frame { conn: CONN, frame });
    let frame = world.to_client.pop_front().unwrap().1;
    world.act(|conn, now, out| conn.on_frame(now, frame, out));
    world.act(|conn, now, out| conn.on_closed(now, CloseReason::Eof, out));
    assert_eq!(world.closed, Some(CloseReason::AuthenticationEof));
}

/// KIP-368, P34: random requests and delays over many short sessions. The broker closes the connection on any request
/// between SaslHandshake and the end of the login, and on any request after the end of a session.
#[test]
fn sessions_are_renewed_in_time_and_nothing_gets_in_between() {
    for seed in 0..60 {
        let mechanism = [Mechanism::Plain, Mechanism::ScramSha256][usize::try_from(seed % 2).unwrap()];
        let mut world = World::new(Some(password(mechanism, "secret")), 2_000, seed);
        // A login of three round trips must fit in the last 5 % of a session, for a request that waits behind it, too.
        world.delay = 10 * MILLI;
        let mut rng = Rng::new(seed ^ 0xfeed);
        while world.now < 20 * SECOND {
            for _ in 0..rng.below(4) {
                world.send(match rng.below(3) {
                    0 => metadata(),
                    1 => Request::FindCoordinator(FindCoordinatorRequest {
                        coordinator_keys: vec!["g".into()],
                        ..Default::default()
                    }),
                    _ => Request::Heartbeat(HeartbeatRequest { group_id: "g".into(), ..Default::default() }),
                });
            }
            let pause = rng.below(60 * MILLI);
            world.run_until(world.now + pause);
        }
        world.run_until(world.now + SECOND);
        assert!(world.closed.is_none(), "seed {seed}: {:?} {:?}", world.closed, world.broker_log);
        assert_eq!(world.failed, [], "seed {seed}");
        assert_eq!(world.answered, (1..=world.sent).collect::<Vec<_>>(), "seed {seed}: in order, each once");
        assert!((10..=14).contains(&world.logins), "seed {seed}: {} logins", world.logins);
    }
}

fn unsecured_token(ends_at: i64) -> BearerToken {
    use base64::Engine;
    let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let claims = format!(r#"{{"sub":"alice","exp":{}.{:03}}}"#, ends_at / 1000, ends_at % 1000);
    BearerToken::new(format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(&claims)).as_str().into(), vec![]).unwrap()
}

#[test]
fn a_session_ends_with_its_token_unless_a_new_one_is_there() {
    let store = Arc::new(TokenStore::default());
    let config = SaslConfig::new(Mechanism::OAuthBearer, Credentials::Token(Arc::clone(&store)), [3; 32]);
    let mut world = World::new(Some(config), 0, 1);
    world.run_until(3 * SECOND);
    assert!(!world.is_ready && world.closed.is_none(), "waits for the first token");
    assert!(world.conn.awaits_token());
    assert_eq!(world.conn.deadline(), Some(10 * SECOND), "nothing is polled");
    store.set(unsecured_token(EPOCH + 60_000));
    world.act(|conn, now, out| conn.on_tick(now, out));
    world.run_until(4 * SECOND);
    assert!(world.is_ready);
    store.set(unsecured_token(EPOCH + 120_000));
    world.run_until(70 * SECOND);
    assert_eq!((world.logins, world.closed.is_none()), (2, true));
    // No newer token: the broker accepts the old one once more, then it has expired.
    store.fail("the endpoint answers 500", false);
    world.run_until(125 * SECOND);
    assert_eq!(login_error(&world), &SaslError::NoToken { reason: "the endpoint answers 500".into(), lasts: false });
}

#[test]
fn a_token_that_does_not_come_is_named_instead_of_the_broker() {
    let config = SaslConfig::new(Mechanism::OAuthBearer, Credentials::Token(Arc::default()), [3; 32]);
    let mut world = World::new(Some(config), 0, 1);
    world.run_until(11 * SECOND);
    assert!(matches!(login_error(&world), SaslError::NoToken { lasts: false, .. }), "{:?}", world.closed);
}

/// A token with less than a second to live makes a session that is shorter than the time between two logins, which
/// brokers insist on.
#[test]
fn tokens_of_seconds_are_renewed_without_a_refused_login() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed ^ 0xbea4);
        let store = Arc::new(TokenStore::default());
        let config = SaslConfig::new(Mechanism::OAuthBearer, Credentials::Token(Arc::clone(&store)), [3; 32]);
        store.set(unsecured_token(EPOCH + 3_000));
        let mut world = World::new(Some(config), 2_000, seed);
        world.delay = 5 * MILLI;
        let mut renewed_at = 0;
        while world.now < 60 * SECOND {
            if world.now >= renewed_at + 2_200 * MILLI + rng.below(500 * MILLI) {
                renewed_at = world.now;
                store.set(unsecured_token(world.wall() + 3_000));
            }
            world.send(metadata());
            let pause = rng.below(60 * MILLI);
            world.run_until(world.now + pause);
        }
        store.set(unsecured_token(world.wall() + 60_000));
        world.run_until(world.now + 2 * SECOND);
        assert!(world.closed.is_none(), "seed {seed}: {:?} {:?}", world.closed, world.broker_log);
        assert_eq!(world.failed, [], "seed {seed}");
        assert_eq!(world.answered, (1..=world.sent).collect::<Vec<_>>(), "seed {seed}: in order, each once");
        assert!((30..=60).contains(&world.logins), "seed {seed}: {} logins", world.logins);
    }
}

/// A part of 85 to 95 % of such a session ends before the broker takes the next login.
#[test]
fn requests_go_on_until_the_broker_takes_the_next_login() {
    for seed in 0..20 {
        let mut world = World::new(Some(password(Mechanism::Plain, "secret")), 1_060, seed);
        world.run_until(SECOND / 10);
        while world.now < 20 * SECOND {
            world.send(metadata());
            world.run_until(world.now + 2 * MILLI);
            assert_eq!(world.answered.last(), Some(&world.sent), "seed {seed}: waits at {} ms", world.now / MILLI);
        }
        assert!(world.closed.is_none(), "seed {seed}: {:?}", world.closed);
        assert!((19..=22).contains(&world.logins), "seed {seed}: {} logins", world.logins);
    }
}

#[test]
fn a_new_login_that_fails_closes_the_connection() {
    let store = Arc::new(TokenStore::default());
    store.set(unsecured_token(EPOCH + 10_000));
    let config = SaslConfig::new(Mechanism::OAuthBearer, Credentials::Token(Arc::clone(&store)), [3; 32]);
    let mut world = World::new(Some(config), 0, 1);
    world.run_until(SECOND);
    assert!(world.is_ready);
    store.set(unsecured_token(EPOCH + 1_000));
    world.run_until(12 * SECOND);
    assert!(matches!(login_error(&world), SaslError::Refused { mechanism: Mechanism::OAuthBearer, .. }));
    assert!(login_error(&world).to_string().contains("invalid_token"));
}
