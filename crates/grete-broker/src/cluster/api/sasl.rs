//! SaslHandshake and SaslAuthenticate.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};

use crate::cluster::{Cluster, RequestContext};
use crate::message::Response;
use crate::sasl::session::Answer;

impl Cluster {
    pub(in crate::cluster) fn sasl_handshake(&mut self, context: &RequestContext, request: &SaslHandshakeRequest<'_>) {
        let Some(config) = &self.config.sasl else { return self.effects.no_reply(context.id) };
        let Some(connection) = self.connections.get_mut(&context.conn) else { return };
        let result = connection.sasl.handshake(config, self.now, &request.mechanism);
        connection.ends_after_response |= result.is_err_and(|code| code != ErrorCode::ILLEGAL_SASL_STATE);
        let response = SaslHandshakeResponse {
            error_code: result.err().unwrap_or(ErrorCode::NONE).0,
            mechanisms: config.mechanisms.iter().map(|&name| Cow::Borrowed(name)).collect(),
        };
        self.reply(context, Response::SaslHandshake(response));
    }

    pub(in crate::cluster) fn sasl_authenticate(
        &mut self,
        context: &RequestContext,
        request: &SaslAuthenticateRequest<'_>,
    ) {
        let nonce = format!("{:032x}", self.rng.uuid());
        let Some(config) = &self.config.sasl else { return self.effects.no_reply(context.id) };
        let Some(connection) = self.connections.get_mut(&context.conn) else { return };
        let answer = connection.sasl.authenticate(config, self.now, &nonce, &request.auth_bytes);
        connection.ends_after_response |= matches!(answer, Answer::Failed(..));
        let response = match answer {
            Answer::Challenge(bytes) => SaslAuthenticateResponse { auth_bytes: bytes.into(), ..Default::default() },
            Answer::LoggedIn { bytes, lifetime_ms } => SaslAuthenticateResponse {
                auth_bytes: bytes.into(),
                session_lifetime_ms: lifetime_ms,
                ..Default::default()
            },
            Answer::Failed(code, message) => SaslAuthenticateResponse {
                error_code: code.0,
                error_message: Some(message.into()),
                ..Default::default()
            },
        };
        self.reply(context, Response::SaslAuthenticate(response));
    }
}
