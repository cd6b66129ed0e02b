use super::*;

fn parse(pairs: &[(&str, &str)]) -> Result<ConsumerConfig, ConfigError> {
    let mut all = vec![("bootstrap.servers".to_owned(), "localhost:9092".to_owned())];
    all.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    ConsumerConfig::from_pairs(&all)
}

fn refused(pairs: &[(&str, &str)]) -> (ConfigErrorKind, String) {
    let error = parse(pairs).expect_err("refused");
    (error.kind, error.message)
}

#[test]
fn the_defaults_are_complete_and_fit_their_own_rules() {
    for setting in SETTINGS.iter().filter(|setting| setting.status == Status::Built && !setting.default.is_empty()) {
        assert!(check(setting, setting.name, setting.default).is_ok(), "{}", setting.name);
    }
    let config = parse(&[]).expect("defaults");
    assert_eq!(config.reset(), Reset::Earliest);
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
fn what_is_not_built_is_refused_by_name_and_off_values_pass() {
    let (kind, message) = refused(&[("security.protocol", "SASL_SSL")]);
    assert_eq!(kind, ConfigErrorKind::NotBuilt);
    assert!(message.contains("security.protocol") && message.contains("SASL_SSL"), "{message}");
    assert!(parse(&[("security.protocol", "PLAINTEXT")]).is_ok());
    assert_eq!(refused(&[("sasl.mechanism", "PLAIN")]).0, ConfigErrorKind::NotBuilt);
    assert_eq!(refused(&[("partition.assignment.strategy", "roundrobin")]).0, ConfigErrorKind::NotBuilt);
}

#[test]
fn wrong_values_say_what_would_be_right() {
    for (name, value, says) in [
        ("session.timeout.ms", "30s", "whole number of milliseconds"),
        ("enable.auto.commit", "maybe", "true or false"),
        ("isolation.level", "serializable", "read_committed"),
        ("bootstrap.servers", "localhost", "localhost:9092"),
        ("bootstrap.servers", "localhost:99999", "65535"),
        ("heartbeat.interval.ms", "60000", "below session.timeout.ms"),
    ] {
        let (kind, message) = refused(&[(name, value)]);
        assert_eq!(kind, ConfigErrorKind::Invalid, "{name}");
        assert!(message.contains(says), "{name}: {message}");
    }
    let error = ConsumerConfig::from_pairs(&[]).expect_err("refused");
    assert_eq!(error.kind, ConfigErrorKind::Missing);
}
