use std::time::Duration;

use grete_proto::group::GroupProtocol;

use super::setting::Kind;
use super::*;

pub(super) fn parse(pairs: &[(&str, &str)]) -> Result<ConsumerConfig, ConfigError> {
    let mut all = vec![("bootstrap.servers".to_owned(), "localhost:9092".to_owned())];
    all.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    ConsumerConfig::from_pairs(&all)
}

pub(super) fn refused(pairs: &[(&str, &str)]) -> (ConfigErrorKind, String) {
    let error = parse(pairs).expect_err("refused");
    (error.kind, error.message)
}

#[test]
fn the_defaults_are_complete_and_fit_their_own_rules() {
    for setting in settings_table::all_settings()
        .filter(|setting| setting.status == Status::Supported && !setting.default.is_empty())
    {
        let kept = validate::parse_value(setting, setting.name, setting.default).expect(setting.name);
        assert_eq!(kept, setting.default, "{}", setting.name);
    }
    let config = parse(&[]).expect("defaults");
    assert_eq!(config.offset_reset(), OffsetReset::Earliest);
    assert_eq!(config.millis("session.timeout.ms"), Duration::from_secs(45));
    assert!(!config.flag("enable.auto.commit"));
    assert_eq!(config.group_id(), None);
}

#[test]
fn both_spellings_are_understood_and_the_last_wins() {
    let config = parse(&[("fetch.max.wait.ms", "100"), ("fetch.wait.max.ms", "200")]).expect("fits");
    assert_eq!(config.number("fetch.max.wait.ms"), 200);
    let java = "org.apache.kafka.clients.consumer.RangeAssignor";
    let config = parse(&[("partition.assignment.strategy", java)]).expect("fits");
    assert_eq!(config.assignors().collect::<Vec<_>>(), ["range"]);
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest() {
    let (kind, message) = refused(&[("auto.ofset.reset", "latest")]);
    assert_eq!(kind, ConfigErrorKind::Unknown);
    assert!(message.contains("did you mean \"auto.offset.reset\""), "{message}");
    let (_, message) = refused(&[("group_id", "g")]);
    assert!(message.contains("did you mean \"group.id\""), "{message}");
    let (_, message) = refused(&[("flux.capacitor", "1")]);
    assert!(!message.contains("did you mean"), "{message}");
}

#[test]
fn refused_secrets_are_not_in_the_message() {
    for name in ["sasl.password", "sasl.jaas.config", "sasl.kerberos.x"] {
        let (_, message) = refused(&[(name, "hunter2")]);
        assert!(message.contains(name) && !message.contains("hunter2"), "{message}");
    }
}

#[test]
fn unsupported_settings_are_refused_by_name_and_off_values_pass() {
    assert!(parse(&[("security.protocol", "PLAINTEXT")]).is_ok());
    assert_eq!(refused(&[("ssl.cipher.suites", "TLS_AES_128_GCM_SHA256")]).0, ConfigErrorKind::NotSupported);
    assert_eq!(refused(&[("partition.assignment.strategy", "uniform")]).0, ConfigErrorKind::Invalid);
}

#[test]
fn wrong_values_say_what_would_be_right() {
    for (name, value, says) in [
        ("session.timeout.ms", "30s", "whole number of milliseconds"),
        ("enable.auto.commit", "maybe", "true or false"),
        ("isolation.level", "serializable", "read_committed"),
        ("bootstrap.servers", "localhost", "localhost:9092"),
        ("bootstrap.servers", "localhost:99999", "65535"),
        ("bootstrap.servers", "a:1,SSL://b:9093", "begins with SSL://; give host:port, and set security.protocol=SSL"),
        ("bootstrap.servers", "https://b:443", "begins with https://"),
        ("bootstrap.servers", "a:1;b:2", "separate addresses by commas"),
        ("bootstrap.servers", "a:1 b:2", "separate addresses by commas"),
        ("heartbeat.interval.ms", "60000", "below session.timeout.ms"),
    ] {
        let (kind, message) = refused(&[(name, value)]);
        assert_eq!(kind, ConfigErrorKind::Invalid, "{name}");
        assert!(message.contains(says), "{name}: {message}");
    }
    let error = ConsumerConfig::from_pairs(&[]).expect_err("refused");
    assert_eq!(error.kind, ConfigErrorKind::Missing);
}

#[test]
fn a_login_in_an_address_is_refused_and_not_repeated() {
    for list in
        ["user:s3cr3t@host:1", "a:1,user:s3cr3t@host:1", "user:s3cr3t,s3cr3t@host:1", "SASL_SSL://s3cr3t@host:1"]
    {
        let (kind, message) = refused(&[("bootstrap.servers", list)]);
        assert_eq!(kind, ConfigErrorKind::Invalid);
        assert!(message.contains("host:port alone") && !message.contains("s3cr3t"), "{message}");
    }
}

#[test]
fn no_name_stands_for_two_settings() {
    let mut names: Vec<&str> = settings_table::all_settings()
        .flat_map(|setting| std::iter::once(setting.name).chain(setting.aliases.iter().copied()))
        .collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for setting in settings_table::all_settings() {
        if let Kind::Choice(choices) = setting.kind {
            assert!(choices.iter().all(|(_, kept)| choices.iter().any(|(said, _)| said == kept)), "{}", setting.name);
        }
    }
}

fn produce(pairs: &[(&str, &str)]) -> Result<ProducerConfig, ConfigError> {
    let mut all = vec![("bootstrap.servers".to_owned(), "localhost:9092".to_owned())];
    all.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    ProducerConfig::from_pairs(&all)
}

#[test]
fn a_producer_writes_safely_by_default() {
    let config = produce(&[]).expect("defaults");
    assert_eq!(config.acks(), Acks::All);
    assert!(config.idempotent());
    assert_eq!(config.delivery_timeout(), Duration::from_secs(120));
    assert_eq!((config.compression(), config.compression_level()), ("none", None));
}

#[test]
fn transactions_need_idempotence() {
    let config = produce(&[("transactional.id", "t"), ("transaction.timeout.ms", "9000")]).expect("fits");
    let core = config.to_core().produce;
    assert_eq!((core.transactional_id.as_deref(), core.transaction_timeout), (Some("t"), 9_000_000_000));
    assert_eq!(produce(&[("transactional.id", "")]).expect("off").transactional_id(), None);
    for (name, value) in [("acks", "1"), ("enable.idempotence", "false")] {
        let refused = produce(&[("transactional.id", "t"), (name, value)]).expect_err("refused");
        assert!(refused.setting == name && refused.message.contains("transactional.id"), "{refused}");
    }
}

#[test]
fn one_dict_serves_all_roles() {
    let shared = [("group.id", "g"), ("session.timeout.ms", "10000"), ("linger.ms", "0"), ("acks", "-1")];
    assert_eq!(produce(&shared).expect("fits").number("linger.ms"), 0);
    assert_eq!(parse(&shared).expect("fits").group_id(), Some("g"));
    let pairs: Vec<_> =
        [("bootstrap.servers", "a:1"), ("group.id", "g"), ("linger.ms", "0"), ("transactional.id", "t")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
    let admin = AdminConfig::from_pairs(&pairs).expect("fits");
    let names: Vec<&str> = admin.entries().iter().map(|(name, _, _)| *name).collect();
    assert!(names.contains(&"default.api.timeout.ms") && !names.contains(&"linger.ms"), "{names:?}");
    // A setting of another role is ignored where unsupported; a misspelled value is refused in every role.
    assert!(produce(&[("group.instance.id", "i")]).is_ok());
    let refused = produce(&[("transaction.two.phase.commit.enable", "true")]).expect_err("refused");
    assert_eq!(refused.kind, ConfigErrorKind::NotSupported);
    assert!(parse(&[("transactional.id", "t")]).is_ok());
    assert_eq!(parse(&[("acks", "two")]).expect_err("refused").kind, ConfigErrorKind::Invalid);
    // Combinations of settings are checked by the role to which they apply.
    assert!(produce(&[("heartbeat.interval.ms", "60000")]).is_ok());
}

#[test]
fn a_static_member_has_an_id_that_brokers_take() {
    assert_eq!(parse(&[("group.id", "g")]).expect("fits").instance_id(), None);
    assert_eq!(parse(&[("group.instance.id", "")]).expect("fits").instance_id(), None);
    let config = parse(&[("group.id", "g"), ("group.instance.id", "host-0")]).expect("fits");
    let group = config.to_core(true).expect("fits").group.expect("a group");
    assert_eq!((config.instance_id(), group.instance_id.as_deref()), (Some("host-0"), Some("host-0")));
    let config = parse(&[("group.id", "g"), ("group.instance.id", "a b")]).expect("checked with the group");
    let error = config.to_core(true).expect_err("refused");
    assert_eq!(error.setting, "group.instance.id");
    assert!(error.to_string().contains("letters, digits, dots"), "{error}");
}

#[test]
fn a_producer_accepts_java_and_librdkafka_names() {
    let config = produce(&[
        ("request.required.acks", "1"),
        ("max.in.flight", "3"),
        ("queue.buffering.max.ms", "7"),
        ("message.max.bytes", "5000"),
        ("compression.codec", "zstd"),
        ("compression.level", "3"),
        ("message.timeout.ms", "60000"),
    ]);
    let config = config.expect("fits");
    assert_eq!(config.acks(), Acks::Leader);
    assert!(!config.idempotent(), "acks other than all switch it off");
    assert_eq!(config.number("max.in.flight.requests.per.connection"), 3);
    assert_eq!(config.number("linger.ms"), 7);
    assert_eq!(config.number("max.request.size"), 5000);
    assert_eq!((config.compression(), config.compression_level()), ("zstd", Some(3)));
    assert_eq!(config.delivery_timeout(), Duration::from_secs(60));
}

#[test]
fn settings_that_contradict_each_other_are_both_named() {
    for (pairs, names) in [
        (&[("enable.idempotence", "true"), ("acks", "1")][..], ["enable.idempotence", "acks = 1"]),
        (&[("max.in.flight", "6")], ["max.in.flight.requests.per.connection = 6", "enable.idempotence"]),
        (&[("delivery.timeout.ms", "5000")], ["linger.ms", "request.timeout.ms (30000)"]),
        (&[("compression.type", "lz4"), ("compression.level", "3")], ["compression.level", "compression.type = lz4"]),
        (&[("compression.type", "gzip"), ("compression.level", "12")], ["compression.level", "gzip"]),
    ] {
        let error = produce(pairs).expect_err("refused");
        assert_eq!(error.kind, ConfigErrorKind::Invalid);
        assert!(names.iter().all(|name| error.message.contains(name)), "{}", error.message);
    }
    assert!(produce(&[("max.in.flight", "100"), ("enable.idempotence", "false")]).is_ok());
    assert!(produce(&[("delivery.timeout.ms", "5000"), ("request.timeout.ms", "4000")]).is_ok());
    // The default is raised to fit the other timeouts.
    let config = produce(&[("request.timeout.ms", "300000")]).expect("fits");
    assert_eq!(config.delivery_timeout(), Duration::from_millis(300_005));
}

#[test]
fn what_a_producer_does_not_have_says_what_to_do_instead() {
    for (name, value, says) in [
        ("retries", "3", "delivery.timeout.ms"),
        ("message.send.max.retries", "0", "delivery.timeout.ms"),
        ("queue.buffering.max.messages", "100000", "buffer.memory"),
        ("partitioner", "consistent_random", "partitioner="),
        ("key.serializer", "org.apache.kafka.common.serialization.StringSerializer", "bytes"),
    ] {
        let error = produce(&[(name, value)]).expect_err("refused");
        assert_eq!(error.kind, ConfigErrorKind::NotSupported, "{name}");
        assert!(error.message.contains(says), "{name}: {}", error.message);
    }
    assert!(produce(&[("retries", "2147483647"), ("partitioner", "murmur2_random")]).is_ok());
    let error = produce(&[("linger", "5")]).expect_err("refused");
    assert!(error.message.contains("did you mean \"linger.ms\""), "{}", error.message);
}

#[test]
fn settings_of_tls_are_read_in_both_spellings() {
    let java = parse(&[
        ("security.protocol", "ssl"),
        ("ssl.truststore.type", "PEM"),
        ("ssl.truststore.certificates", "-----BEGIN"),
        ("ssl.keystore.type", "PEM"),
        ("ssl.keystore.certificate.chain", "chain"),
        ("ssl.keystore.key", "hunter2"),
        ("ssl.key.password", " hunter3 "),
        ("ssl.endpoint.identification.algorithm", ""),
    ]);
    let librdkafka = parse(&[
        ("security.protocol", "SSL"),
        ("ssl.ca.pem", "-----BEGIN"),
        ("ssl.certificate.pem", "chain"),
        ("ssl.key.pem", "hunter2"),
        ("ssl.key.password", " hunter3 "),
        ("ssl.endpoint.identification.algorithm", "none"),
    ]);
    let tls = |config: Result<ConsumerConfig, ConfigError>| config.expect("fits").security().tls.clone().expect("TLS");
    let tls = (tls(java), tls(librdkafka));
    assert_eq!(tls.0, tls.1);
    assert!(!tls.0.verify_host_name && tls.0.verify_certificate && tls.0.roots.len() == 1);
    let java =
        parse(&[("security.protocol", "SSL"), ("ssl.truststore.location", "/ca"), ("ssl.keystore.location", "/k")]);
    assert!(java.expect("fits").security().tls.is_some());
    let config = parse(&[("security.protocol", "SSL"), ("bootstrap.servers", "SSL://b:9093")]).expect("fits");
    assert!(config.security().protocol.uses_tls() && config.bootstrap()[0].1 == 9093);
    let tls = config.security().tls.clone().expect("TLS");
    assert!(tls.verify_host_name && tls.verify_certificate && tls.roots.is_empty() && tls.identity.is_none());
    assert!(parse(&[]).expect("fits").security().tls.is_none());
}

#[test]
fn secrets_of_tls_are_shown_nowhere() {
    let secrets = ["ssl.key.password", "ssl.keystore.key", "ssl.key.pem", "ssl.keystore.password"];
    let mut pairs = vec![("security.protocol", "SSL"), ("ssl.certificate.location", "/c")];
    pairs.extend(secrets.map(|name| (name, "hunter2")));
    let config = parse(&pairs).expect("fits");
    assert!(!format!("{config:?} {:?}", config.entries()).contains("hunter2"));
    assert!(config.entries().contains(&("ssl.key.password", "********".to_owned(), false)));
    assert!(config.entries().contains(&("ssl.truststore.password", String::new(), true)));
    let half = refused(&[("security.protocol", "SSL"), ("ssl.key.pem", "hunter2")]);
    assert!(half.1.contains("ssl.certificate.location") && !half.1.contains("hunter2"), "{half:?}");
}

#[test]
fn settings_of_tls_that_would_have_no_effect_are_refused() {
    let (kind, message) = refused(&[("ssl.ca.location", "/ca.pem")]);
    assert_eq!(kind, ConfigErrorKind::Invalid);
    assert!(message.contains("add security.protocol=SSL"), "{message}");
    assert!(parse(&[("ssl.ca.location", "/ca.pem"), ("security.protocol", "PLAINTEXT")]).is_ok());
    let both = refused(&[("security.protocol", "SSL"), ("ssl.keystore.location", "/k"), ("ssl.key.location", "/k")]);
    assert!(both.1.contains("a keystore has both"), "{both:?}");
}

#[test]
fn the_consumer_protocol_has_settings_of_its_own() {
    let config = parse(&[("group.protocol", "CONSUMER"), ("group.remote.assignor", "range")]).expect("fits");
    assert_eq!((config.group_protocol(), config.remote_assignor()), (GroupProtocol::Consumer, Some("range")));
    // The coordinator decides these, so nothing is ignored.
    for (name, value) in [("partition.assignment.strategy", "range"), ("heartbeat.interval.ms", "300")] {
        let message = refused(&[("group.protocol", "consumer"), (name, value)]).1;
        assert!(message.contains(name) && message.contains("group.protocol=consumer"), "{message}");
    }
    // Its heartbeat interval is the coordinator's, so the default of the classic one does not limit the session.
    assert!(parse(&[("group.protocol", "consumer"), ("session.timeout.ms", "2000")]).is_ok());
    let classic = [("group.protocol", "classic"), ("group.remote.assignor", "range")];
    assert!(refused(&classic).1.contains("group.protocol=classic"));
    assert!(refused(&[("group.protocol", "streams")]).1.contains("classic, consumer, auto"));
}

#[test]
fn the_cluster_decides_the_group_protocol_unless_a_setting_of_the_classic_one_is_given() {
    let default = parse(&[]).expect("fits");
    assert_eq!((default.group_protocol(), default.classic_setting()), (GroupProtocol::Auto, None));
    // A default selects nothing: the settings of the classic protocol have defaults, too.
    let unrelated = parse(&[("max.poll.interval.ms", "60000"), ("group.instance.id", "i")]).expect("fits");
    assert_eq!(unrelated.classic_setting(), None);
    let own = [
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("heartbeat.interval.ms", "300"),
        ("session.timeout.ms", "6000"),
    ];
    for (name, value) in own {
        for protocol in [None, Some(("group.protocol", "auto"))] {
            let pairs: Vec<_> = protocol.into_iter().chain([(name, value)]).collect();
            let config = parse(&pairs).expect("fits");
            assert_eq!((config.group_protocol(), config.classic_setting()), (GroupProtocol::Auto, Some(name)));
            let group = parse(&[&pairs[..], &[("group.id", "g")]].concat()).expect("fits").to_core(false);
            assert_eq!(group.expect("fits").group.expect("is a member").classic_setting, Some(name));
        }
        // Settings of both protocols are for either of them.
        let both = parse(&[(name, value), ("group.remote.assignor", "range")]).expect("fits");
        assert_eq!(both.classic_setting(), None);
        let classic = parse(&[(name, value), ("group.protocol", "classic")]).expect("fits");
        assert_eq!((classic.group_protocol(), classic.classic_setting()), (GroupProtocol::Classic, None));
    }
    let consumer = parse(&[("group.protocol", "consumer"), ("session.timeout.ms", "6000")]).expect("fits");
    assert_eq!(consumer.classic_setting(), None);
}
