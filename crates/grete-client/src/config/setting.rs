//! The table of settings: names, other spellings, defaults, what fits.

/// What a value must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number { least: i64, most: i64, unit: &'static str },
    Flag,
    Choice(&'static [&'static str]),
    Assignors,
}

/// Whether Grete has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Built,
    /// Refused, but for the values that mean "off".
    NotBuilt {
        unless: &'static [&'static str],
        cure: &'static str,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) default: &'static str,
    pub(super) kind: Kind,
    pub(super) status: Status,
}

impl Setting {
    /// Settings that come in families, all of one fate.
    pub(super) fn family(name: &str) -> Option<&'static Setting> {
        FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, setting)| setting)
    }
}

const DAY_MS: i64 = 24 * 3600 * 1000;
const MAX_BYTES: i64 = i32::MAX as i64;

const fn built(name: &'static str, aliases: &'static [&'static str], default: &'static str, kind: Kind) -> Setting {
    Setting { name, aliases, default, kind, status: Status::Built }
}

const fn later(name: &'static str, unless: &'static [&'static str], cure: &'static str) -> Setting {
    Setting { name, aliases: &[], default: "", kind: Kind::Text, status: Status::NotBuilt { unless, cure } }
}

const fn ms(least: i64) -> Kind {
    Kind::Number { least, most: DAY_MS, unit: "milliseconds" }
}

const fn bytes(least: i64) -> Kind {
    Kind::Number { least, most: MAX_BYTES, unit: "bytes" }
}

const PLAIN: &str = "connect to a PLAINTEXT listener for now";

/// Defaults are Kafka's, but for auto.offset.reset (earliest), enable.auto.commit (false), the assignor (cooperative-sticky)
/// and max.partition.fetch.bytes (2 MiB: fewer round trips on a backlog, and still small enough to stay in the cache).
pub(super) static SETTINGS: &[Setting] = &[
    built("bootstrap.servers", &["metadata.broker.list"], "", Kind::Text),
    built("client.id", &[], "grete", Kind::Text),
    built("group.id", &[], "", Kind::Text),
    built(
        "auto.offset.reset",
        &[],
        "earliest",
        Kind::Choice(&["earliest", "latest", "none", "smallest", "largest", "beginning", "end", "error"]),
    ),
    built("enable.auto.commit", &[], "false", Kind::Flag),
    built("auto.commit.interval.ms", &[], "5000", ms(1)),
    built("isolation.level", &[], "read_uncommitted", Kind::Choice(&["read_uncommitted", "read_committed"])),
    built("partition.assignment.strategy", &[], "cooperative-sticky", Kind::Assignors),
    built("session.timeout.ms", &[], "45000", ms(1)),
    built("heartbeat.interval.ms", &[], "3000", ms(1)),
    built("max.poll.interval.ms", &[], "300000", ms(1)),
    built("fetch.min.bytes", &[], "1", bytes(0)),
    built("fetch.max.bytes", &[], "52428800", bytes(1)),
    built("fetch.max.wait.ms", &["fetch.wait.max.ms"], "500", ms(0)),
    built("max.partition.fetch.bytes", &["fetch.message.max.bytes"], "2097152", bytes(1)),
    built("queued_bytes", &[], "67108864", Kind::Number { least: 1 << 16, most: 1 << 40, unit: "bytes" }),
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
    built("allow.auto.create.topics", &[], "false", Kind::Flag),
    later("check.crcs", &["true"], "the CRC of every batch is always checked"),
    later("security.protocol", &["plaintext"], PLAIN),
    later("group.instance.id", &[""], "leave it out: the group then rebalances when a member restarts"),
    later("group.protocol", &["classic"], "the classic protocol works with every broker up to 4.3"),
    later("group.remote.assignor", &[""], "set partition.assignment.strategy"),
    later("client.rack", &[""], "records are read from the leader"),
    later("max.poll.records", &[], "say max_messages on the route, or poll(max_messages=...)"),
    later("enable.auto.offset.store", &["true"], "offsets are stored when a handler returns or marks"),
    later("enable.partition.eof", &["false"], "compare a message's offset with messages.high_watermark"),
    later("statistics.interval.ms", &["0"], "leave it out"),
    later("debug", &[""], "raise the level of Python's logger \"grete\" to DEBUG"),
    later("interceptor.classes", &[""], "leave it out"),
    later("queued.min.messages", &[], "queued_bytes bounds the memory for prefetched records"),
    later("queued.max.messages.kbytes", &[], "queued_bytes bounds the memory for prefetched records"),
    later("fetch.queue.backoff.ms", &[], "leave it out: fetching goes on the moment there is room"),
    later("key.deserializer", &[], "leave it out: message.key is bytes"),
    later("value.deserializer", &[], "leave it out: message.value is bytes"),
    later("exclude.internal.topics", &["true"], "topics are subscribed to by name"),
    later("receive.buffer.bytes", &["-1", "65536"], "the kernel tunes socket buffers by itself"),
    later("send.buffer.bytes", &["-1", "131072"], "the kernel tunes socket buffers by itself"),
];

static FAMILIES: &[(&str, Setting)] = &[
    ("ssl.", later("ssl.*", &[], PLAIN)),
    ("sasl.", later("sasl.*", &[], PLAIN)),
    ("security.", later("security.*", &[], PLAIN)),
    ("metrics.", later("metrics.*", &[], "leave it out")),
    ("metric.", later("metric.*", &[], "leave it out")),
];

/// The setting whose name looks most like this one, if any looks like it at all.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let fold = |text: &str| text.to_ascii_lowercase().replace(['_', '-'], ".");
    let wanted = fold(name);
    let names = SETTINGS.iter().flat_map(|setting| std::iter::once(&setting.name).chain(setting.aliases));
    names
        .map(|known| (distance(&wanted, &fold(known)), *known))
        .min()
        .filter(|(distance, known)| *distance <= known.len() / 3)
        .map(|(_, known)| known)
}

/// Levenshtein's edit distance over bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let best = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = best;
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
