//! Logins through the cluster's core, in bytes.

use grete_wire::messages::{ApiVersionsRequest, MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest};
use grete_wire::{ApiKey, ErrorCode};

use super::harness::Fixture;
use crate::cluster::ClusterConfig;
use crate::ids::ConnId;
use crate::sasl::{SaslConfig, Users};

fn fixture(max_reauth_ms: i64) -> Fixture {
    let mut users = Users::default();
    users.set("alice", "secret", 1);
    Fixture::with(|config| config.sasl = Some(SaslConfig { max_reauth_ms, ..SaslConfig::new(users) }), 1)
}

fn handshake(fixture: &mut Fixture, conn: ConnId, mechanism: &'static str) -> (i16, Vec<String>) {
    let request = SaslHandshakeRequest { mechanism: mechanism.into() };
    fixture.call(conn, 1, &request, |response| {
        (response.error_code, response.mechanisms.iter().map(ToString::to_string).collect())
    })
}

fn authenticate(fixture: &mut Fixture, conn: ConnId, bytes: &'static [u8]) -> (i16, String, i64) {
    let request = SaslAuthenticateRequest { auth_bytes: bytes.into() };
    fixture.call(conn, 2, &request, |response| {
        let message = response.error_message.unwrap_or_default().into_owned();
        (response.error_code, message, response.session_lifetime_ms)
    })
}

fn offers_sasl(fixture: &mut Fixture, conn: ConnId) -> bool {
    let request = ApiVersionsRequest { client_software_name: "t".into(), client_software_version: "1".into() };
    fixture.call(conn, 3, &request, |response| {
        response.api_keys.iter().any(|api| api.api_key == ApiKey::SaslHandshake.key())
    })
}

#[test]
fn a_client_logs_in_before_anything_else() {
    let mut fixture = fixture(5_000);
    let conn = fixture.connect(1);
    assert!(offers_sasl(&mut fixture, conn));
    assert_eq!(handshake(&mut fixture, conn, "PLAIN").0, 0);
    assert_eq!(authenticate(&mut fixture, conn, b"\0alice\0secret"), (0, String::new(), 5_000));
    fixture.call(conn, 12, &MetadataRequest::default(), |_| ());
    // The session ends; a new login continues the connection, anything else closes it.
    fixture.advance(6_000);
    assert_eq!(handshake(&mut fixture, conn, "PLAIN").0, 0);
    assert_eq!(authenticate(&mut fixture, conn, b"\0alice\0secret").0, 0);
    fixture.call(conn, 12, &MetadataRequest::default(), |_| ());
    fixture.advance(6_000);
    fixture.send(conn, 12, &MetadataRequest::default());
    assert!(fixture.is_closed(conn) && fixture.received(conn).is_empty());
    assert!(fixture.logged().iter().any(|line| line.contains("session had ended")), "{:?}", fixture.logged());
}

#[test]
fn a_refused_login_is_answered_and_ends_the_connection() {
    let mut fixture = fixture(0);
    let conn = fixture.connect(1);
    handshake(&mut fixture, conn, "PLAIN");
    let (code, message, _) = authenticate(&mut fixture, conn, b"\0alice\0wrong");
    assert_eq!((code, fixture.is_closed(conn)), (ErrorCode::SASL_AUTHENTICATION_FAILED.0, true));
    assert!(message.contains("Invalid username or password"), "{message}");

    let conn = fixture.connect(1);
    let (code, offered) = handshake(&mut fixture, conn, "GSSAPI");
    assert_eq!((code, fixture.is_closed(conn)), (ErrorCode::UNSUPPORTED_SASL_MECHANISM.0, true));
    assert_eq!(offered, ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]);
}

#[test]
fn a_client_without_a_login_is_cut_off_at_its_first_request() {
    let mut fixture = fixture(0);
    let conn = fixture.connect(1);
    offers_sasl(&mut fixture, conn);
    fixture.send(conn, 12, &MetadataRequest::default());
    assert!(fixture.is_closed(conn));
    assert!(fixture.logged().iter().any(|line| line.contains("expects SASL")), "{:?}", fixture.logged());
}

#[test]
fn brokers_without_users_do_not_offer_sasl() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    assert!(!offers_sasl(&mut fixture, conn));
    fixture.send(conn, 1, &SaslHandshakeRequest { mechanism: "PLAIN".into() });
    assert!(fixture.is_closed(conn));
}

#[test]
fn settings_of_sasl_have_the_names_of_kafka_and_need_users() {
    let mut users = Users::default();
    users.set("alice", "secret", 1);
    let mut config = ClusterConfig::new(Vec::new());
    assert!(config.set("connections.max.reauth.ms", "5000").unwrap_err().contains("--sasl"));
    config.sasl = Some(SaslConfig::new(users));
    config.set("connections.max.reauth.ms", "5000").unwrap();
    config.set("sasl.enabled.mechanisms", "PLAIN, SCRAM-SHA-512").unwrap();
    assert!(config.set("sasl.enabled.mechanisms", "GSSAPI").unwrap_err().contains("OAUTHBEARER"));
    let sasl = config.sasl.unwrap();
    assert_eq!((sasl.max_reauth_ms, sasl.mechanisms), (5_000, vec!["PLAIN", "SCRAM-SHA-512"]));
}
