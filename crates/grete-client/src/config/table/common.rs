//! Settings that every client has.

use super::super::setting::{Kind, Setting};
use super::{PLAIN, built, later, ms};

pub(in super::super) static COMMON: &[Setting] = &[
    built("bootstrap.servers", &["metadata.broker.list"], "", Kind::Text),
    built("client.id", &[], "grete", Kind::Text),
    built("request.timeout.ms", &["socket.timeout.ms"], "30000", ms(100)),
    built("default.api.timeout.ms", &[], "60000", ms(1)),
    built("reconnect.backoff.ms", &[], "50", ms(1)),
    built("reconnect.backoff.max.ms", &[], "1000", ms(1)),
    built("retry.backoff.ms", &[], "100", ms(1)),
    built("retry.backoff.max.ms", &[], "1000", ms(1)),
    built("metadata.max.age.ms", &["topic.metadata.refresh.interval.ms"], "300000", ms(100)),
    built("connections.max.idle.ms", &[], "540000", ms(1000)),
    built("socket.connection.setup.timeout.ms", &[], "10000", ms(100)),
    built("socket.connection.setup.timeout.max.ms", &[], "30000", ms(100)),
    // Unlike Kafka's, off: a typing mistake in a topic's name should not become a topic.
    built("allow.auto.create.topics", &[], "false", Kind::Flag),
    later("security.protocol", &["plaintext"], PLAIN),
    later("client.rack", &[""], "records are read from the leader"),
    later("statistics.interval.ms", &["0"], "call statistics() when you want them"),
    later("debug", &[""], "raise the level of Python's logger \"grete\" to DEBUG"),
    later("interceptor.classes", &[""], "leave it out"),
    later("enable.metrics.push", &["false"], "leave it out"),
    later("receive.buffer.bytes", &["-1", "65536", "32768"], "the kernel tunes socket buffers by itself"),
    later("send.buffer.bytes", &["-1", "131072"], "the kernel tunes socket buffers by itself"),
];

/// Settings that come in families, all of one fate.
pub(in super::super) static FAMILIES: &[(&str, Setting)] = &[
    ("ssl.", later("ssl.*", &[], PLAIN)),
    ("sasl.", later("sasl.*", &[], PLAIN)),
    ("security.", later("security.*", &[], PLAIN)),
    ("metrics.", later("metrics.*", &[], "leave it out")),
    ("metric.", later("metric.*", &[], "leave it out")),
];
