//! Settings of the producer. Unlike Kafka's: batch.size (256 KiB: a batch is cheap to send and its buffer starts small).

use super::super::setting::{Kind, Setting};
use super::{built, bytes, later, ms};

const ACKS: &[(&str, &str)] = &[("all", "all"), ("-1", "all"), ("0", "0"), ("1", "1")];
const CODECS: &[(&str, &str)] =
    &[("none", "none"), ("gzip", "gzip"), ("snappy", "snappy"), ("lz4", "lz4"), ("zstd", "zstd"), ("", "none")];

const BUFFER: &str = "buffer.memory bounds what waits to be sent, in bytes";
const LEVEL: &str = "set compression.level";
const LINGER: &str = "linger.ms and batch.size say when a batch is sent";
const REPORTS: &str = "give on_delivery= to produce, or look at the Delivery that it returns";
const TRANSACTIONS: &str =
    "the idempotent producer writes each record once per produce; transactions are not there yet";

pub(in super::super) static PRODUCER: &[Setting] = &[
    built("acks", &["request.required.acks"], "all", Kind::Choice(ACKS)),
    built("enable.idempotence", &[], "true", Kind::Flag),
    built(
        "max.in.flight.requests.per.connection",
        &["max.in.flight"],
        "5",
        Kind::Number { least: 1, most: 1_000_000, unit: "requests" },
    ),
    built("linger.ms", &["queue.buffering.max.ms"], "5", ms(0)),
    built("batch.size", &[], "262144", bytes(0)),
    built("buffer.memory", &[], "33554432", Kind::Number { least: 1 << 16, most: 1 << 40, unit: "bytes" }),
    built("max.request.size", &["message.max.bytes"], "1048576", bytes(1)),
    built("compression.type", &["compression.codec"], "none", Kind::Choice(CODECS)),
    built("compression.level", &[], "-1", Kind::Number { least: -1, most: 22, unit: "steps" }),
    built("delivery.timeout.ms", &["message.timeout.ms"], "120000", ms(1)),
    built("max.block.ms", &[], "60000", ms(0)),
    Setting {
        aliases: &["message.send.max.retries"],
        ..later(
            "retries",
            &["2147483647"],
            "what may be retried is retried until delivery.timeout.ms is over: set that instead",
        )
    },
    later(
        "partitioner",
        &["", "murmur2", "murmur2_random"],
        "keys are placed as Java's clients place them (murmur2); for another way give Producer(partitioner=...) a function",
    ),
    later("partitioner.class", &[""], "keys are placed as Java's clients place them; give Producer(partitioner=...)"),
    later("partitioner.ignore.keys", &["false"], "give partition= to produce, or no key"),
    later("partitioner.adaptive.partitioning.enable", &["false"], "leave it out"),
    later("partitioner.availability.timeout.ms", &["0"], "leave it out"),
    later("sticky.partitioning.linger.ms", &[], "records without a key change partition after batch.size bytes"),
    later("transactional.id", &[""], TRANSACTIONS),
    later("transaction.timeout.ms", &[], TRANSACTIONS),
    later("transaction.two.phase.commit.enable", &["false"], TRANSACTIONS),
    later("queue.buffering.max.messages", &[], BUFFER),
    later("queue.buffering.max.kbytes", &[], BUFFER),
    later("queue.buffering.backpressure.threshold", &[], LINGER),
    later("batch.num.messages", &[], LINGER),
    later("compression.gzip.level", &[], LEVEL),
    later("compression.lz4.level", &[], LEVEL),
    later("compression.zstd.level", &[], LEVEL),
    later("enable.gapless.guarantee", &["false"], "leave it out: the idempotent producer keeps the order"),
    later("metadata.max.idle.ms", &["300000"], "leave it out"),
    later("message.copy.max.bytes", &[], "leave it out: a record is copied once, into its batch"),
    later("delivery.report.only.error", &["false"], REPORTS),
    later("produce.offset.report", &["true"], "a Delivery knows its offset"),
    later("dr_cb", &[], REPORTS),
    later("dr_msg_cb", &[], REPORTS),
    later("delivery.report.enabled", &["true"], REPORTS),
    later("key.serializer", &[], "leave it out: keys are bytes"),
    later("value.serializer", &[], "leave it out: values are bytes"),
];
