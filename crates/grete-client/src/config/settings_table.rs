//! Tables of settings: names, aliases, defaults and allowed values; and their lookup by name. Defaults are Kafka's unless
//! a table says otherwise. The settings of encryption have a table of their own.

use grete_proto::edit_distance::{edit_distance, is_likely_typo};

use super::sasl::table::SASL;
use super::security_table::SECURITY;
use super::setting::{Kind, Role, Setting, supported, unsupported};

const DAY_MS: i64 = 24 * 3600 * 1000;
const MAX_BYTES: i64 = i32::MAX as i64;
const LEAVE_OUT_HINT: &str = "leave it out";

const fn ms(least: i64) -> Kind {
    Kind::Number { min: least, max: DAY_MS, unit: "milliseconds" }
}

const fn bytes(least: i64) -> Kind {
    Kind::Number { min: least, max: MAX_BYTES, unit: "bytes" }
}

/// Settings of every client.
static COMMON: &[Setting] = &[
    supported("bootstrap.servers", &["metadata.broker.list"], "", Kind::Text),
    supported("client.id", &[], "grete", Kind::Text),
    supported("request.timeout.ms", &["socket.timeout.ms"], "30000", ms(100)),
    supported("default.api.timeout.ms", &[], "60000", ms(1)),
    supported("reconnect.backoff.ms", &[], "50", ms(1)),
    supported("reconnect.backoff.max.ms", &[], "1000", ms(1)),
    supported("retry.backoff.ms", &[], "100", ms(1)),
    supported("retry.backoff.max.ms", &[], "1000", ms(1)),
    supported("metadata.max.age.ms", &["topic.metadata.refresh.interval.ms"], "300000", ms(100)),
    supported("connections.max.idle.ms", &[], "540000", ms(1000)),
    supported("socket.connection.setup.timeout.ms", &[], "10000", ms(100)),
    supported("socket.connection.setup.timeout.max.ms", &[], "30000", ms(100)),
    // Unlike Kafka's default, off: a misspelled topic name must not create a topic.
    supported("allow.auto.create.topics", &[], "false", Kind::Flag),
    unsupported("statistics.interval.ms", &["0"], "call statistics() when you want them"),
    unsupported("debug", &[""], "raise the level of Python's logger \"grete\" to DEBUG"),
    unsupported("interceptor.classes", &[""], "leave it out"),
    unsupported("enable.metrics.push", &["false"], "leave it out"),
    unsupported("receive.buffer.bytes", &["-1", "65536", "32768"], "the kernel tunes socket buffers by itself"),
    unsupported("send.buffer.bytes", &["-1", "131072"], "the kernel tunes socket buffers by itself"),
];

/// Prefixes of settings that are all unsupported for the same reason.
static PREFIXES: &[(&str, Setting)] = &[
    ("ssl.", unsupported("ssl.*", &[], LEAVE_OUT_HINT)),
    ("sasl.kerberos.", unsupported("sasl.kerberos.*", &[], "leave it out")),
    ("sasl.login.", unsupported("sasl.login.*", &[], "leave it out")),
    ("security.", unsupported("security.*", &[], LEAVE_OUT_HINT)),
    ("metrics.", unsupported("metrics.*", &[], "leave it out")),
    ("metric.", unsupported("metric.*", &[], "leave it out")),
];

const RESET: &[(&str, &str)] = &[
    ("earliest", "earliest"),
    ("latest", "latest"),
    ("none", "none"),
    ("smallest", "earliest"),
    ("largest", "latest"),
    ("beginning", "earliest"),
    ("end", "latest"),
    ("error", "none"),
];
const PROTOCOLS: &[(&str, &str)] = &[("classic", "classic"), ("consumer", "consumer"), ("auto", "auto")];
const ISOLATION: &[(&str, &str)] = &[("read_uncommitted", "read_uncommitted"), ("read_committed", "read_committed")];

/// Settings of the consumer. The defaults that differ from Kafka's are group.protocol (auto), auto.offset.reset
/// (earliest), enable.auto.commit (false), the assignor (cooperative-sticky) and max.partition.fetch.bytes (2 MiB). 2 MiB means fewer round trips on a
/// backlog, and is still small enough to stay in the CPU cache.
static CONSUMER: &[Setting] = &[
    supported("group.id", &[], "", Kind::Text),
    supported("group.instance.id", &[], "", Kind::Text),
    supported("group.protocol", &[], "auto", Kind::Choice(PROTOCOLS)),
    supported("group.remote.assignor", &[], "", Kind::Text),
    supported("auto.offset.reset", &[], "earliest", Kind::Choice(RESET)),
    supported("enable.auto.commit", &[], "false", Kind::Flag),
    supported("auto.commit.interval.ms", &[], "5000", ms(1)),
    supported("client.rack", &[], "", Kind::Text),
    supported("isolation.level", &[], "read_uncommitted", Kind::Choice(ISOLATION)),
    supported("partition.assignment.strategy", &[], "cooperative-sticky", Kind::Assignors),
    supported("session.timeout.ms", &[], "45000", ms(1)),
    supported("heartbeat.interval.ms", &[], "3000", ms(1)),
    supported("max.poll.interval.ms", &[], "300000", ms(1)),
    supported("fetch.min.bytes", &[], "1", bytes(0)),
    supported("fetch.max.bytes", &[], "52428800", bytes(1)),
    supported("fetch.max.wait.ms", &["fetch.wait.max.ms"], "500", ms(0)),
    supported("max.partition.fetch.bytes", &["fetch.message.max.bytes"], "2097152", bytes(1)),
    supported("queued_bytes", &[], "67108864", Kind::Number { min: 1 << 16, max: 1 << 40, unit: "bytes" }),
    unsupported("check.crcs", &["true"], "the CRC of every batch is always checked"),
    unsupported("max.poll.records", &[], "set max_messages on the route, or poll(max_messages=...)"),
    unsupported("enable.auto.offset.store", &["true"], "offsets are stored when a handler returns or marks"),
    unsupported("enable.partition.eof", &["false"], "compare a message's offset with messages.high_watermark"),
    unsupported("queued.min.messages", &[], "queued_bytes bounds the memory for prefetched records"),
    unsupported("queued.max.messages.kbytes", &[], "queued_bytes bounds the memory for prefetched records"),
    unsupported("fetch.queue.backoff.ms", &[], "leave it out: fetching continues as soon as there is room"),
    unsupported("key.deserializer", &[], "leave it out: message.key is bytes"),
    unsupported("value.deserializer", &[], "leave it out: message.value is bytes"),
    unsupported("exclude.internal.topics", &["true"], "topics are subscribed to by name"),
];

const ACKS: &[(&str, &str)] = &[("all", "all"), ("-1", "all"), ("0", "0"), ("1", "1")];
const CODECS: &[(&str, &str)] =
    &[("none", "none"), ("gzip", "gzip"), ("snappy", "snappy"), ("lz4", "lz4"), ("zstd", "zstd"), ("", "none")];

const BUFFER: &str = "buffer.memory bounds what waits to be sent, in bytes";
const LEVEL: &str = "set compression.level";
const LINGER: &str = "linger.ms and batch.size say when a batch is sent";
const REPORTS: &str = "give on_delivery= to produce, or check the Delivery that it returns";

/// Settings of the producer. The default that differs from Kafka's is batch.size: 256 KiB, because a batch is cheap to
/// send and its buffer starts small.
static PRODUCER: &[Setting] = &[
    supported("acks", &["request.required.acks"], "all", Kind::Choice(ACKS)),
    supported("enable.idempotence", &[], "true", Kind::Flag),
    supported(
        "max.in.flight.requests.per.connection",
        &["max.in.flight"],
        "5",
        Kind::Number { min: 1, max: 1_000_000, unit: "requests" },
    ),
    supported("linger.ms", &["queue.buffering.max.ms"], "5", ms(0)),
    supported("batch.size", &[], "262144", bytes(0)),
    supported("buffer.memory", &[], "33554432", Kind::Number { min: 1 << 16, max: 1 << 40, unit: "bytes" }),
    supported("max.request.size", &["message.max.bytes"], "1048576", bytes(1)),
    supported("compression.type", &["compression.codec"], "none", Kind::Choice(CODECS)),
    supported("compression.level", &[], "-1", Kind::Number { min: -1, max: 22, unit: "steps" }),
    supported("delivery.timeout.ms", &["message.timeout.ms"], "120000", ms(1)),
    supported("max.block.ms", &[], "60000", ms(0)),
    // librdkafka's name. Its default of 30 s would be the time for which a misspelled topic name stays unnoticed.
    supported("topic.metadata.propagation.max.ms", &[], "1000", ms(0)),
    supported("transactional.id", &[], "", Kind::Text),
    supported("transaction.timeout.ms", &[], "60000", ms(1)),
    Setting {
        aliases: &["message.send.max.retries"],
        ..unsupported(
            "retries",
            &["2147483647"],
            "what may be retried is retried until delivery.timeout.ms is over: set that instead",
        )
    },
    unsupported(
        "partitioner",
        &["", "murmur2", "murmur2_random"],
        "keys are placed as Java's clients place them (murmur2); for another way give Producer(partitioner=...) a function",
    ),
    unsupported(
        "partitioner.class",
        &[""],
        "keys are placed as Java's clients place them; give Producer(partitioner=...)",
    ),
    unsupported("partitioner.ignore.keys", &["false"], "give partition= to produce, or no key"),
    unsupported("partitioner.adaptive.partitioning.enable", &["false"], "leave it out"),
    unsupported("partitioner.availability.timeout.ms", &["0"], "leave it out"),
    unsupported("sticky.partitioning.linger.ms", &[], "records without a key change partition after batch.size bytes"),
    unsupported(
        "transaction.two.phase.commit.enable",
        &["false"],
        "leave it out: a transaction ends with commit or abort",
    ),
    unsupported("queue.buffering.max.messages", &[], BUFFER),
    unsupported("queue.buffering.max.kbytes", &[], BUFFER),
    unsupported("queue.buffering.backpressure.threshold", &[], LINGER),
    unsupported("batch.num.messages", &[], LINGER),
    unsupported("compression.gzip.level", &[], LEVEL),
    unsupported("compression.lz4.level", &[], LEVEL),
    unsupported("compression.zstd.level", &[], LEVEL),
    unsupported("enable.gapless.guarantee", &["false"], "leave it out: the idempotent producer keeps the order"),
    unsupported("metadata.max.idle.ms", &["300000"], "leave it out"),
    unsupported("message.copy.max.bytes", &[], "leave it out: a record is copied once, into its batch"),
    unsupported("delivery.report.only.error", &["false"], REPORTS),
    unsupported("produce.offset.report", &["true"], "a Delivery knows its offset"),
    unsupported("dr_cb", &[], REPORTS),
    unsupported("dr_msg_cb", &[], REPORTS),
    unsupported("delivery.report.enabled", &["true"], REPORTS),
    unsupported("key.serializer", &[], "leave it out: keys are bytes"),
    unsupported("value.serializer", &[], "leave it out: values are bytes"),
];

/// Returns all settings of all roles.
pub(super) fn all_settings() -> impl Iterator<Item = &'static Setting> {
    COMMON.iter().chain(SECURITY).chain(SASL).chain(CONSUMER).chain(PRODUCER)
}

/// Returns the settings that apply to the role.
pub(super) fn settings_of(role: Role) -> impl Iterator<Item = &'static Setting> {
    let own: &'static [Setting] = match role {
        Role::Consumer => CONSUMER,
        Role::Producer => PRODUCER,
        Role::Admin => &[],
    };
    COMMON.iter().chain(SECURITY).chain(SASL).chain(own)
}

/// Finds a setting by name, and returns whether it applies to `role`. Users pass one dict to all their clients, so
/// a setting of another role is not an error.
pub(super) fn find_setting(name: &str, role: Role) -> Option<(&'static Setting, bool)> {
    let named = |setting: &&Setting| setting.name == name || setting.aliases.contains(&name);
    if let Some(setting) = settings_of(role).find(named) {
        return Some((setting, true));
    }
    if let Some(setting) = all_settings().find(named) {
        return Some((setting, false));
    }
    PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, setting)| (setting, true))
}

/// Returns the setting with the most similar name; `None`: no name is similar.
pub(super) fn nearest_name(name: &str) -> Option<&'static str> {
    let fold = |text: &str| text.to_ascii_lowercase().replace(['_', '-'], ".");
    let wanted = fold(name);
    let names = all_settings().flat_map(|setting| std::iter::once(&setting.name).chain(setting.aliases));
    names
        .map(|known| (edit_distance(&wanted, &fold(known)), *known))
        .min()
        .filter(|(distance, known)| is_likely_typo(*distance, known))
        .map(|(_, known)| known)
}
