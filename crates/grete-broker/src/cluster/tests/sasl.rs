//! Logins through the cluster's core, in bytes.

use grete_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse, SaslAuthenticateRequest,
    SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use grete_wire::{ApiKey, ErrorCode};

use super::harness::Fixture;
use crate::cluster::Action;
use crate::ids::ConnId;
use crate::sasl::{SaslConfig, Users};

fn fixture(max_reauth_ms: i64) -> Fixture {
    let mut users = Users::default();
    users.set("alice", "secret", 1);
    Fixture::with(|config| config.sasl = Some(SaslConfig { max_reauth_ms, ..SaslConfig::new(users) }), 1)
}

fn is_closed(fixture: &Fixture, conn: ConnId) -> bool {
    fixture.actions.contains(&Action::Close { conn })
}

fn handshake(fixture: &mut Fixture, conn: ConnId, mechanism: &'static str) -> SaslHandshakeResponse<'static> {
    fixture.ask(conn, 1, &SaslHandshakeRequest { mechanism: mechanism.into() }, |version, r| {
        SaslHandshakeResponse::decode(version, r).map(|response| SaslHandshakeResponse {
            mechanisms: response.mechanisms.iter().map(|name| name.to_string().into()).collect(),
            ..response
        })
    })
}

fn authenticate(fixture: &mut Fixture, conn: ConnId, bytes: &'static [u8]) -> (i16, String, i64) {
    fixture.ask(conn, 2, &SaslAuthenticateRequest { auth_bytes: bytes.into() }, |version, r| {
        SaslAuthenticateResponse::decode(version, r).map(|response| {
            let message = response.error_message.unwrap_or_default().into_owned();
            (response.error_code, message, response.session_lifetime_ms)
        })
    })
}
