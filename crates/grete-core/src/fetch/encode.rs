//! A session's prepared request as bytes; allocates nothing but what `out` grows by.

use grete_wire::error::WireError;
use grete_wire::fetch::request::encode_body;
use grete_wire::fetch::{FetchParams, FetchPartitionEntry, TopicKey};

use super::config::FetchConfig;
use super::session::{Entry, Session};

/// Cuts a list of entries where the topic changes.
struct Runs<'a> {
    entries: &'a [Entry],
    rest: &'a [u32],
    left: usize,
}

fn same_topic(entries: &[Entry], a: u32, b: u32) -> bool {
    match (entries.get(a as usize), entries.get(b as usize)) {
        (Some(a), Some(b)) => a.topic_id == b.topic_id && a.topic == b.topic,
        _ => false,
    }
}

fn runs<'a>(entries: &'a [Entry], list: &'a [u32]) -> Runs<'a> {
    Runs { entries, rest: list, left: list.chunk_by(|a, b| same_topic(entries, *a, *b)).count() }
}

impl<'a> Iterator for Runs<'a> {
    type Item = (Option<&'a Entry>, &'a [u32]);

    fn next(&mut self) -> Option<Self::Item> {
        let run = self.rest.chunk_by(|a, b| same_topic(self.entries, *a, *b)).next()?;
        self.rest = self.rest.get(run.len()..).unwrap_or_default();
        self.left = self.left.saturating_sub(1);
        Some((run.first().and_then(|at| self.entries.get(*at as usize)), run))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Runs<'_> {}

fn params(config: &FetchConfig, session_id: i32, session_epoch: i32) -> FetchParams<'static> {
    FetchParams {
        max_wait_ms: config.max_wait_ms,
        min_bytes: config.min_bytes,
        max_bytes: config.max_bytes,
        isolation_level: i8::from(config.read_committed),
        session_id,
        session_epoch,
        rack_id: "",
    }
}

fn topic<'a>(session: &Session, first: Option<&'a Entry>) -> TopicKey<'a> {
    match first {
        Some(entry) if session.by_id => TopicKey::Id(entry.topic_id),
        _ => TopicKey::Name(first.map_or("", |entry| &entry.topic)),
    }
}

/// Appends the request that was prepared.
pub(super) fn fetch(session: &Session, version: i16, config: &FetchConfig, out: &mut Vec<u8>) -> Result<(), WireError> {
    let entries = session.entries.as_slice();
    let topics = runs(entries, &session.order).map(|(first, run)| {
        let partitions = run.iter().map(|at| {
            let entry = entries.get(*at as usize);
            let wanted = entry.and_then(|entry| entry.wanted).unwrap_or_default();
            FetchPartitionEntry {
                partition: entry.map_or(-1, |entry| entry.partition),
                current_leader_epoch: wanted.current_leader_epoch,
                fetch_offset: wanted.fetch_offset,
                last_fetched_epoch: wanted.last_fetched_epoch,
                log_start_offset: -1,
                max_bytes: wanted.max_bytes,
            }
        });
        (topic(session, first), partitions)
    });
    let forgotten = runs(entries, &session.forget).map(|(first, run)| {
        (topic(session, first), run.iter().map(|at| entries.get(*at as usize).map_or(-1, |entry| entry.partition)))
    });
    encode_body(version, &params(config, session.id, session.epoch), topics, forgotten, out)
}

/// Appends a request that only ends the session. It waits like any other: there are brokers that never answer a request
/// with a zero wait.
pub(super) fn close(session: &Session, config: &FetchConfig, out: &mut Vec<u8>) -> Result<(), WireError> {
    let none = std::iter::empty::<(TopicKey<'_>, std::iter::Empty<FetchPartitionEntry>)>();
    let none_forgotten = std::iter::empty::<(TopicKey<'_>, std::iter::Empty<i32>)>();
    encode_body(session.version, &params(config, session.id, -1), none, none_forgotten, out)
}
