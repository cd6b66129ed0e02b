//! Encoding of a session's prepared request. Allocates nothing except for the growth of `out`.

use grete_wire::error::WireError;
use grete_wire::fetch::request::encode_body;
use grete_wire::fetch::{FetchParams, FetchPartitionEntry, TopicKey};

use crate::time::Nanos;

use super::config::FetchConfig;
use super::session::{FetchSession, SessionPartition};

/// Iterator that splits a list of changes into runs of the same topic.
struct TopicRuns<'a> {
    session: &'a FetchSession,
    rest: &'a [u32],
    left: usize,
}

/// Returns the entry of a change.
fn entry(session: &FetchSession, change: u32) -> Option<&SessionPartition> {
    session.entries.get(session.changes.get(change as usize)?.at as usize)
}

fn same_topic(session: &FetchSession, a: u32, b: u32) -> bool {
    entry(session, a).zip(entry(session, b)).is_some_and(|(a, b)| a.topic == b.topic)
}

fn topic_runs<'a>(session: &'a FetchSession, list: &'a [u32]) -> TopicRuns<'a> {
    TopicRuns { session, rest: list, left: list.chunk_by(|a, b| same_topic(session, *a, *b)).count() }
}

impl<'a> Iterator for TopicRuns<'a> {
    type Item = (Option<&'a SessionPartition>, &'a [u32]);

    fn next(&mut self) -> Option<Self::Item> {
        let run = self.rest.chunk_by(|a, b| same_topic(self.session, *a, *b)).next()?;
        self.rest = self.rest.get(run.len()..).unwrap_or_default();
        self.left = self.left.saturating_sub(1);
        Some((run.first().and_then(|change| entry(self.session, *change)), run))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for TopicRuns<'_> {}

fn params<'a>(now: Nanos, config: &'a FetchConfig, session: &FetchSession, session_epoch: i32) -> FetchParams<'a> {
    FetchParams {
        max_wait_ms: session.wait_ms(config.max_wait_ms),
        min_bytes: config.min_bytes,
        max_bytes: config.response_bytes(),
        isolation_level: i8::from(config.read_committed),
        session_id: session.id,
        session_epoch,
        rack_id: if now < session.rack_hidden_until { "" } else { &config.rack },
    }
}

fn topic<'a>(session: &'a FetchSession, first: Option<&'a SessionPartition>) -> TopicKey<'a> {
    match first.and_then(|entry| session.topic(entry)) {
        Some(topic) if session.by_id => TopicKey::Id(topic.id),
        topic => TopicKey::Name(topic.map_or("", |topic| &topic.name)),
    }
}

/// Appends the prepared request.
pub(super) fn encode_fetch(
    now: Nanos,
    session: &FetchSession,
    version: i16,
    config: &FetchConfig,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let topics = topic_runs(session, &session.order).map(|(first, run)| {
        let partitions = run.iter().map(|change| {
            let wanted = session.changes.get(*change as usize).and_then(|change| change.params).unwrap_or_default();
            FetchPartitionEntry {
                partition: entry(session, *change).map_or(-1, |entry| entry.partition),
                current_leader_epoch: wanted.current_leader_epoch,
                fetch_offset: wanted.fetch_offset,
                last_fetched_epoch: wanted.last_fetched_epoch,
                log_start_offset: -1,
                max_bytes: wanted.max_bytes,
            }
        });
        (topic(session, first), partitions)
    });
    let forgotten = topic_runs(session, &session.forgotten).map(|(first, run)| {
        (topic(session, first), run.iter().map(|change| entry(session, *change).map_or(-1, |entry| entry.partition)))
    });
    encode_body(version, &params(now, config, session, session.epoch), topics, forgotten, out)
}

/// Appends a request that only closes the session. The request has a normal wait time, because some brokers never
/// answer a request with a zero wait.
pub(super) fn encode_close(session: &FetchSession, config: &FetchConfig, out: &mut Vec<u8>) -> Result<(), WireError> {
    let none = std::iter::empty::<(TopicKey<'_>, std::iter::Empty<FetchPartitionEntry>)>();
    let none_forgotten = std::iter::empty::<(TopicKey<'_>, std::iter::Empty<i32>)>();
    encode_body(session.version, &params(0, config, session, -1), none, none_forgotten, out)
}
