//! Tests of the settings of SASL.

use std::io::Write;

use grete_proto::sasl::Mechanism;

use crate::config::tests::{parse, refused};
use crate::config::*;

fn sasl(pairs: &[(&str, &str)]) -> SaslSettings {
    let all: Vec<_> = std::iter::once(("security.protocol", "SASL_SSL")).chain(pairs.iter().copied()).collect();
    parse(&all).expect("fits").security().sasl.clone().expect("SASL")
}

fn wrong(pairs: &[(&str, &str)]) -> String {
    let all: Vec<_> = std::iter::once(("security.protocol", "SASL_SSL")).chain(pairs.iter().copied()).collect();
    refused(&all).1
}

#[test]
fn a_login_is_read_in_both_spellings() {
    for name in ["sasl.mechanism", "sasl.mechanisms"] {
        let sasl = sasl(&[(name, "scram-sha-512"), ("sasl.username", "alice"), ("sasl.password", "s3cret")]);
        assert_eq!(sasl.mechanism, Mechanism::ScramSha512);
        assert!(!format!("{sasl:?} {:?}", sasl.to_core()).contains("s3cret"));
    }
    for (names, secret) in [
        (["sasl.oauthbearer.client.id", "sasl.oauthbearer.scope"], "sasl.oauthbearer.client.secret"),
        (
            ["sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.scope"],
            "sasl.oauthbearer.client.credentials.client.secret",
        ),
    ] {
        let sasl = sasl(&[
            ("sasl.oauthbearer.method", "oidc"),
            (names[0], "me"),
            (names[1], "kafka"),
            (secret, "s3cret"),
            ("sasl.oauthbearer.extensions", "logicalCluster=lkc-1, identityPoolId=pool-2"),
        ]);
        let source = sasl.token_source().expect("tokens");
        assert_eq!((sasl.mechanism, &*source.client_id, &*source.scope), (Mechanism::OAuthBearer, "me", "kafka"));
        assert_eq!(source.client_secret.as_ref().expect("a secret").expose(), "s3cret");
        assert_eq!(source.extensions[1], ("identityPoolId".to_owned(), "pool-2".to_owned()));
        assert!(!format!("{sasl:?}").contains("s3cret"));
    }
    assert_eq!(sasl(&[("sasl.mechanism", "AWS_MSK_IAM")]).token_source().expect("tokens").preset, Some("aws_msk_iam"));
}

#[test]
fn a_line_of_java_is_a_login() {
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"k\" password=\"s3cret\";";
    assert_eq!(sasl(&[("sasl.jaas.config", plain)]).mechanism, Mechanism::Plain);
    let scram = plain.replace("plain.Plain", "scram.Scram");
    let scram = [("sasl.mechanism", "SCRAM-SHA-256"), ("sasl.jaas.config", scram.as_str())];
    assert_eq!(sasl(&scram).mechanism, Mechanism::ScramSha256);
    let bearer =
        "OAuthBearerLoginModule required clientId=\"me\" clientSecret=\"s3cret\" scope=\"a b\" extension_x=\"y\";";
    let bearer = sasl(&[("sasl.jaas.config", bearer)]);
    let source = bearer.token_source().expect("tokens");
    assert_eq!((&*source.client_id, &*source.scope, source.extensions.len()), ("me", "a b", 1));

    let message = wrong(&[("sasl.mechanism", "SCRAM-SHA-256"), ("sasl.jaas.config", plain)]);
    assert!(message.contains("ScramLoginModule") && !message.contains("s3cret"), "{message}");
    let message = wrong(&[("sasl.jaas.config", "PlainLoginModule required password=\"s3cret")]);
    assert!(message.contains("quotation mark") && !message.contains("s3cret"), "{message}");
}

#[test]
fn a_password_is_read_from_a_file() {
    let path = std::env::temp_dir().join(format!("grete-password-{}", std::process::id()));
    let file = path.to_str().expect("UTF-8").to_owned();
    let pairs = [("sasl.mechanism", "PLAIN"), ("sasl.username", "u"), ("sasl.password.file", file.as_str())];
    for (content, password) in [("s3cret\n", "s3cret"), ("s3cret\r\n", "s3cret"), (" s 3\n\n", " s 3\n")] {
        std::fs::File::create(&path).and_then(|mut file| file.write_all(content.as_bytes())).expect("written");
        let core = sasl(&pairs).to_core();
        let grete_proto::sasl::Credentials::Password { password: read, .. } = core.credentials() else { panic!() };
        assert_eq!(read.expose(), password);
    }
    let both = wrong(&[&pairs[..], &[("sasl.password", "stale")]].concat());
    assert!(both.contains("sasl.password and sasl.password.file are both set: leave out one"), "{both}");
    assert!(!both.contains("stale"), "{both}");
    std::fs::write(&path, "\n").expect("written");
    assert!(wrong(&pairs).contains("is empty"));
    std::fs::write(&path, "s".repeat(70_000)).expect("written");
    assert!(wrong(&pairs).contains("70000 bytes"));
    std::fs::remove_file(&path).expect("removed");
    let message = wrong(&pairs);
    assert!(message.contains("sasl.password.file") && message.contains("No such file"), "{message}");
}

#[test]
fn what_is_missing_or_wrong_is_named_with_the_cure() {
    let user = [("sasl.username", "u"), ("sasl.password", "s3cret")];
    for (pairs, says) in [
        (&user[..], "give PLAIN, SCRAM-SHA-256"),
        (&[("sasl.mechanism", "GSSAPI")], "usually kafka"),
        (&[("sasl.mechanism", "DIGEST-MD5")], "AWS_MSK_IAM, AZURE or GCP"),
        (&[("sasl.mechanism", "PLAIN")], "needs sasl.username"),
        (&[("sasl.mechanism", "PLAIN"), ("sasl.username", "u")], "GRETE_KAFKA_SASL_PASSWORD"),
        (&[("sasl.mechanism", "OAUTHBEARER"), ("sasl.oauthbearer.extensions", "x")], "name=value"),
        (&[("sasl.mechansim", "PLAIN")], "did you mean \"sasl.mechanism\""),
        (&[("sasl.user.name", "PLAIN")], "did you mean \"sasl.username\""),
    ] {
        let message = wrong(pairs);
        assert!(message.contains(says) && !message.contains("s3cret"), "{pairs:?}: {message}");
    }
    let (_, message) = refused(&user);
    assert!(message.contains("add security.protocol=SASL_SSL") && !message.contains("s3cret"), "{message}");
    let plain = [user[0], user[1], ("security.protocol", "PLAINTEXT")];
    assert!(parse(&plain).expect("one dict serves a test without a login").security().sasl.is_none());
}

#[test]
fn secrets_without_encryption_need_a_permission_by_name() {
    let plain = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "u"),
        ("sasl.password", "s3cret"),
    ];
    let (_, message) = refused(&plain);
    assert!(message.contains("sasl.allow.plaintext=true") && !message.contains("s3cret"), "{message}");
    let bearer = [("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "OAUTHBEARER")];
    assert!(refused(&bearer).1.contains("sends the token"));
    let allowed: Vec<_> = plain.into_iter().chain([("sasl.allow.plaintext", "true")]).collect();
    let sasl = parse(&allowed).expect("fits").security().sasl.clone().expect("SASL");
    assert!(sasl.to_core().is_exposed());
    let scram = [plain[0], ("sasl.mechanism", "SCRAM-SHA-256"), plain[2], plain[3]];
    assert!(!parse(&scram).expect("fits").security().sasl.clone().expect("SASL").to_core().is_exposed());
}

#[test]
fn entries_show_no_secret() {
    let config = parse(&[
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "u"),
        ("sasl.password", "s3cret"),
        ("sasl.oauthbearer.client.secret", "s3cret"),
    ])
    .expect("fits");
    let text = format!("{config:?} {:?}", config.entries());
    assert!(!text.contains("s3cret") && text.contains("********"), "{text}");
}

fn kerberos(pairs: &[(&str, &str)]) -> grete_proto::sasl::KerberosConfig {
    let sasl = sasl(pairs);
    assert_eq!((sasl.mechanism, sasl.user().is_none()), (Mechanism::Gssapi, true));
    let core = sasl.to_core();
    assert!(!core.is_exposed());
    let grete_proto::sasl::Credentials::Kerberos(config) = core.credentials() else { panic!("{core:?}") };
    (**config).clone()
}

#[test]
fn a_login_by_kerberos_is_read_from_settings_and_from_a_line_of_java() {
    let service = ("sasl.kerberos.service.name", "kafka");
    let cache = kerberos(&[("sasl.mechanism", "GSSAPI"), service]);
    assert_eq!((cache.service.as_str(), cache.principal, cache.keytab), ("kafka", None, None));
    let expected = ("kafka", Some("alice@EXAMPLE.COM"), Some("/etc/alice.keytab"));
    let named = [
        ("sasl.mechanism", "gssapi"),
        service,
        ("sasl.kerberos.principal", "alice@EXAMPLE.COM"),
        ("sasl.kerberos.keytab", "/etc/alice.keytab"),
    ];
    let line = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true \
                keyTab=\"/etc/alice.keytab\" principal=\"alice@EXAMPLE.COM\";";
    let with_service = line.replace("storeKey=true", "serviceName=kafka");
    for pairs in [
        &named[..],
        &[service, ("sasl.jaas.config", line)],
        &[("sasl.jaas.config", with_service.as_str())],
        &[named[1], named[2], named[3], ("sasl.jaas.config", "Krb5LoginModule required debug=true;")],
    ] {
        let found = kerberos(pairs);
        assert_eq!((found.service.as_str(), found.principal.as_deref(), found.keytab.as_deref()), expected);
        assert_eq!(found.ticket_cache, None);
    }
    let line = "Krb5LoginModule required useTicketCache=true ticketCache=\"/tmp/t\" doNotPrompt=true renewTGT=false;";
    let cache = kerberos(&[service, ("sasl.jaas.config", line)]);
    assert_eq!((cache.keytab, cache.ticket_cache.as_deref()), (None, Some("/tmp/t")));
}

#[test]
fn settings_of_kerberos_that_do_nothing_or_contradict_are_refused() {
    let service = ("sasl.kerberos.service.name", "kafka");
    for (line, says) in [
        ("useKeyTab=true", "name the keytab"),
        ("keyTab=\"/k\"", "add that"),
        ("useTicketCache=false ticketCache=\"/t\"", "useTicketCache=true"),
        ("useKeyTab=true keyTab=\"/k\" useTicketCache=true", "both true"),
        ("useTicketCache=true renewTGT=true", "renewTGT of Krb5LoginModule can only be false"),
        ("useKeytab=\"file:///k\"", "useKeytab of Krb5LoginModule is not supported"),
        ("password=\"s3cret\"", "password of Krb5LoginModule is not supported"),
    ] {
        let jaas = format!("Krb5LoginModule required {line};");
        let message = wrong(&[service, ("sasl.jaas.config", jaas.as_str())]);
        assert!(message.contains(says) && !message.contains("s3cret"), "{line}: {message}");
    }
    let cache = ("sasl.jaas.config", "Krb5LoginModule required useTicketCache=true ticketCache=\"/t\";");
    assert!(wrong(&[service, cache, ("sasl.kerberos.keytab", "/k")]).contains("leave out one"));
    let gssapi = ("sasl.mechanism", "GSSAPI");
    for name in ["kafka/broker.example.com", "kafka@EXAMPLE.COM", "kafka broker"] {
        assert!(wrong(&[gssapi, ("sasl.kerberos.service.name", name)]).contains("give kafka"));
    }
    for (name, value, says) in [
        ("sasl.kerberos.kinit.cmd", "kinit -R || kinit -t k -k p", "runs no command"),
        ("sasl.kerberos.min.time.before.relogin", "1000", "from the keytab"),
        ("sasl.kerberos.ticket.renew.jitter", "0.5", "from the keytab"),
    ] {
        let message = wrong(&[gssapi, service, (name, value)]);
        assert!(message.contains(says) && message.contains(name), "{message}");
    }
    let off = [gssapi, service, ("sasl.kerberos.kinit.cmd", ""), ("sasl.kerberos.min.time.before.relogin", "60000")];
    assert_eq!(kerberos(&off).service, "kafka");
    let (_, message) = refused(&[("sasl.kerberos.keytab", "/k")]);
    assert!(message.contains("add security.protocol"), "{message}");
}
