//! Encoding of a session's prepared request. Allocates nothing except for the growth of `out`.

use grete_wire::error::WireError;
use grete_wire::fetch::request::encode_body;
use grete_wire::fetch::{FetchParams, FetchPartitionEntry, TopicKey};

use super::config::FetchConfig;
use super::session::{FetchSession, SessionPartition};

/// Iterator that splits a list of entries into runs of the same topic.
struct TopicRuns<'a> {
    entries: &'a [SessionPartition],
    rest: &'a [u32],
    left: usize,
}

fn same_topic(entries: &[SessionPartition], a: u32, b: u32) -> bool {
    match (entries.get(a as usize), entries.get(b as usize)) {
        (Some(a), Some(b)) => a.topic_id == b.topic_id && a.topic == b.topic,
        _ => false,
    }
}

fn topic_runs<'a>(entries: &'a [SessionPartition], list: &'a [u32]) -> TopicRuns<'a> {
    TopicRuns { entries, rest: list, left: list.chunk_by(|a, b| same_topic(entries, *a, *b)).count() }
}

impl<'a> Iterator for TopicRuns<'a> {
    type Item = (Option<&'a SessionPartition>, &'a [u32]);

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

impl ExactSizeIterator for TopicRuns<'_> {}

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

fn topic<'a>(session: &FetchSession, first: Option<&'a SessionPartition>) -> TopicKey<'a> {
    match first {
        Some(entry) if session.by_id => TopicKey::Id(entry.topic_id),
        _ => TopicKey::Name(first.map_or("", |entry| &entry.topic)),
    }
}

/// Appends the prepared request.
pub(super) fn encode_fetch(
    session: &FetchSession,
    version: i16,
    config: &FetchConfig,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let entries = session.entries.as_slice();
    let topics = topic_runs(entries, &session.order).map(|(first, run)| {
        let partitions = run.iter().map(|at| {
            let entry = entries.get(*at as usize);
            let wanted = entry.and_then(|entry| entry.next_params).unwrap_or_default();
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
    let forgotten = topic_runs(entries, &session.forgotten).map(|(first, run)| {
        (topic(session, first), run.iter().map(|at| entries.get(*at as usize).map_or(-1, |entry| entry.partition)))
    });
    encode_body(version, &params(config, session.id, session.epoch), topics, forgotten, out)
}

/// Appends a request that only closes the session. The request has a normal wait time, because some brokers never
/// answer a request with a zero wait.
pub(super) fn encode_close(session: &FetchSession, config: &FetchConfig, out: &mut Vec<u8>) -> Result<(), WireError> {
    let none = std::iter::empty::<(TopicKey<'_>, std::iter::Empty<FetchPartitionEntry>)>();
    let none_forgotten = std::iter::empty::<(TopicKey<'_>, std::iter::Empty<i32>)>();
    encode_body(session.version, &params(config, session.id, -1), none, none_forgotten, out)
}
