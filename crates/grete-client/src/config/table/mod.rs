//! The tables of settings: names, other spellings, defaults, what fits. Defaults are Kafka's unless a table says otherwise.

mod common;
mod consumer;
mod producer;

use super::setting::{Kind, Setting, Status};

pub(super) use common::{COMMON, FAMILIES};
pub(super) use consumer::CONSUMER;
pub(super) use producer::PRODUCER;

/// Every setting of every role.
pub(super) fn all() -> impl Iterator<Item = &'static Setting> {
    COMMON.iter().chain(CONSUMER).chain(PRODUCER)
}

const DAY_MS: i64 = 24 * 3600 * 1000;
const MAX_BYTES: i64 = i32::MAX as i64;
const PLAIN: &str = "connect to a PLAINTEXT listener for now";

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
