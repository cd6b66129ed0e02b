//! Settings of the consumer. Unlike Kafka's: auto.offset.reset (earliest), enable.auto.commit (false), the assignor
//! (cooperative-sticky) and max.partition.fetch.bytes (2 MiB: fewer round trips on a backlog, and still small enough to
//! stay in the cache).

use super::super::setting::{Kind, Setting};
use super::{built, bytes, later, ms};

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
const ISOLATION: &[(&str, &str)] = &[("read_uncommitted", "read_uncommitted"), ("read_committed", "read_committed")];

pub(in super::super) static CONSUMER: &[Setting] = &[
    built("group.id", &[], "", Kind::Text),
    built("group.instance.id", &[], "", Kind::Text),
    built("auto.offset.reset", &[], "earliest", Kind::Choice(RESET)),
    built("enable.auto.commit", &[], "false", Kind::Flag),
    built("auto.commit.interval.ms", &[], "5000", ms(1)),
    built("isolation.level", &[], "read_uncommitted", Kind::Choice(ISOLATION)),
    built("partition.assignment.strategy", &[], "cooperative-sticky", Kind::Assignors),
    built("session.timeout.ms", &[], "45000", ms(1)),
    built("heartbeat.interval.ms", &[], "3000", ms(1)),
    built("max.poll.interval.ms", &[], "300000", ms(1)),
    built("fetch.min.bytes", &[], "1", bytes(0)),
    built("fetch.max.bytes", &[], "52428800", bytes(1)),
    built("fetch.max.wait.ms", &["fetch.wait.max.ms"], "500", ms(0)),
    built("max.partition.fetch.bytes", &["fetch.message.max.bytes"], "2097152", bytes(1)),
    built("queued_bytes", &[], "67108864", Kind::Number { least: 1 << 16, most: 1 << 40, unit: "bytes" }),
    later("check.crcs", &["true"], "the CRC of every batch is always checked"),
    later("group.protocol", &["classic"], "the classic protocol works with every broker up to 4.3"),
    later("group.remote.assignor", &[""], "set partition.assignment.strategy"),
    later("max.poll.records", &[], "say max_messages on the route, or poll(max_messages=...)"),
    later("enable.auto.offset.store", &["true"], "offsets are stored when a handler returns or marks"),
    later("enable.partition.eof", &["false"], "compare a message's offset with messages.high_watermark"),
    later("queued.min.messages", &[], "queued_bytes bounds the memory for prefetched records"),
    later("queued.max.messages.kbytes", &[], "queued_bytes bounds the memory for prefetched records"),
    later("fetch.queue.backoff.ms", &[], "leave it out: fetching goes on the moment there is room"),
    later("key.deserializer", &[], "leave it out: message.key is bytes"),
    later("value.deserializer", &[], "leave it out: message.value is bytes"),
    later("exclude.internal.topics", &["true"], "topics are subscribed to by name"),
];
