//! Table of the settings of SASL, in Java's and librdkafka's spellings.

use crate::config::setting::{Kind, Setting, supported, unsupported};

const METHOD: &[(&str, &str)] = &[("default", "default"), ("oidc", "oidc")];
const KINIT_HINT: &str = "leave it out: Grete runs no command; with sasl.kerberos.keytab it gets tickets and renews them itself, and without it, it uses the tickets of kinit or k5start";
const RELOGIN_HINT: &str =
    "leave it out: the Kerberos library gets a new ticket from the keytab when half of a ticket's life is over";
const HANDLER_HINT: &str = "leave it out: set sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.token.file or sasl.oauthbearer.token.provider";
const HANDLERS: &[&str] = &[
    "",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
];
/// That of AWS's own library, which comes with sasl.mechanism=AWS_MSK_IAM.
const CLIENT_HANDLERS: &[&str] = &["", "software.amazon.msk.auth.iam.IAMClientCallbackHandler"];
const REFRESH_HINT: &str = "leave it out: a token is renewed when 80 % of its life are over";

/// Settings of SASL, for every client.
pub(in crate::config) static SASL: &[Setting] = &[
    supported("sasl.mechanism", &["sasl.mechanisms"], "", Kind::Text),
    supported("sasl.username", &[], "", Kind::Text),
    supported("sasl.password", &[], "", Kind::Secret),
    supported("sasl.password.file", &[], "", Kind::Text),
    supported("sasl.jaas.config", &[], "", Kind::Secret),
    supported("sasl.allow.plaintext", &[], "false", Kind::Flag),
    supported("sasl.oauthbearer.method", &[], "default", Kind::Choice(METHOD)),
    supported("sasl.oauthbearer.token.endpoint.url", &[], "", Kind::Text),
    supported("sasl.oauthbearer.client.id", &["sasl.oauthbearer.client.credentials.client.id"], "", Kind::Text),
    supported(
        "sasl.oauthbearer.client.secret",
        &["sasl.oauthbearer.client.credentials.client.secret"],
        "",
        Kind::Secret,
    ),
    supported("sasl.oauthbearer.client.secret.file", &[], "", Kind::Text),
    supported("sasl.oauthbearer.scope", &[], "", Kind::Text),
    supported("sasl.oauthbearer.extensions", &[], "", Kind::Text),
    supported("sasl.oauthbearer.token.file", &[], "", Kind::Text),
    supported("sasl.oauthbearer.token.provider", &[], "", Kind::Text),
    supported("sasl.kerberos.service.name", &[], "", Kind::Text),
    supported("sasl.kerberos.principal", &[], "", Kind::Text),
    supported("sasl.kerberos.keytab", &[], "", Kind::Text),
    unsupported("sasl.oauthbearer.grant.type", &["client_credentials"], "only client_credentials is built"),
    unsupported("sasl.login.callback.handler.class", HANDLERS, HANDLER_HINT),
    unsupported("sasl.client.callback.handler.class", CLIENT_HANDLERS, HANDLER_HINT),
    unsupported("sasl.login.class", &[""], HANDLER_HINT),
    unsupported("sasl.login.refresh.window.factor", &["0.8"], REFRESH_HINT),
    unsupported("sasl.login.refresh.window.jitter", &["0.05"], REFRESH_HINT),
    unsupported("sasl.login.refresh.buffer.seconds", &["300"], REFRESH_HINT),
    unsupported("sasl.login.refresh.min.period.seconds", &["60"], REFRESH_HINT),
    unsupported("enable.sasl.oauthbearer.unsecure.jwt", &["false"], HANDLER_HINT),
    unsupported("sasl.kerberos.kinit.cmd", &[""], KINIT_HINT),
    unsupported("sasl.kerberos.min.time.before.relogin", &["60000"], RELOGIN_HINT),
    unsupported("sasl.kerberos.ticket.renew.window.factor", &["0.8"], RELOGIN_HINT),
    unsupported("sasl.kerberos.ticket.renew.jitter", &["0.05"], RELOGIN_HINT),
];
