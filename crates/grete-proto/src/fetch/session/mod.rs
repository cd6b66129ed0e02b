//! Fetch session of one node (KIP-227): the partitions that the broker knows, and the changes for the next request.
//!
//! Only entries that may have changed are planned again. A request within a session costs what has changed, however many
//! partitions there are.

mod changes;
mod layout;
mod read_replicas;

use std::sync::Arc;

pub(super) use read_replicas::ReadReplicas;

use grete_wire::fetch::TopicKey;

use crate::backoff::Backoff;
use crate::ids::{NodeId, PartitionHandle};
use crate::time::Nanos;

use super::config::FetchConfig;

/// First wait of requests while an entry waits for bytes to be released, in milliseconds.
const SHORT_WAIT_MS: i32 = 8;

/// Fields of a partition in a Fetch request. A difference from the fields last sent makes the client send the partition
/// again; this includes the leader epoch (P8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PartitionParams {
    pub current_leader_epoch: i32,
    pub fetch_offset: i64,
    pub last_fetched_epoch: i32,
    pub max_bytes: i32,
}

/// Topic of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SessionTopic {
    /// Topic id (KIP-516); 0: none.
    pub id: u128,
    /// Topic name.
    pub name: Arc<str>,
}

/// Partition that is fetched from this node, or that the broker still has in the session.
#[derive(Debug, Clone)]
pub(super) struct SessionPartition {
    /// Index of the topic in [`FetchSession::topics`].
    pub topic: u32,
    pub partition: i32,
    pub slot: PartitionHandle,
    /// Generation of the position when the last request left; 0 never matches.
    pub generation: u32,
    /// Number of the last response that names the partition; see [`FetchSession::responses`].
    pub named_in: u32,
    /// Whether the partition is fetched from this node.
    pub is_here: bool,
    /// Whether the broker has the partition in the session, as far as the client knows.
    pub in_session: bool,
    /// Whether the next request fetches the partition.
    pub need: FetchNeed,
    /// Whether the entry is in `dirty`.
    pub is_dirty: bool,
    /// Fields of the last request.
    pub sent_params: PartitionParams,
}

/// Whether the next request fetches a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum FetchNeed {
    /// Not now.
    #[default]
    Held,
    /// Not until bytes are released.
    AwaitsRelease,
    /// Now.
    Wanted,
}

/// Plan of an entry for the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct EntryPlan {
    /// Fields of the next request; `None`: do not fetch the partition now.
    pub params: Option<PartitionParams>,
    /// Plan the entry again with each request: time alone changes the result.
    pub again: bool,
    /// The partition is not fetched until bytes are released.
    pub awaits_release: bool,
}

impl EntryPlan {
    pub fn need(self) -> FetchNeed {
        match self {
            Self { params: Some(_), .. } => FetchNeed::Wanted,
            Self { awaits_release: true, .. } => FetchNeed::AwaitsRelease,
            Self { .. } => FetchNeed::Held,
        }
    }
}

/// Entry as the next request leaves it.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryChange {
    /// Index of the entry.
    pub at: u32,
    /// Fields of the next request; `None`: do not fetch the partition now.
    pub params: Option<PartitionParams>,
}

/// Client side of a fetch session.
#[derive(Debug)]
pub(super) struct FetchSession {
    pub node: NodeId,
    pub id: i32,
    /// Session epoch. 0: the next request names every partition and starts a new session.
    pub epoch: i32,
    /// Whether the session identifies topics by id (v13 and later). One session cannot mix ids and names.
    pub by_id: bool,
    /// Fetch version of the last request.
    pub version: i16,
    /// Sorted by id and name.
    pub topics: Vec<SessionTopic>,
    /// Sorted by topic and partition.
    pub entries: Vec<SessionPartition>,
    pub in_flight: Option<u32>,
    /// Time of the last request.
    pub sent_at: Nanos,
    /// Time after which to request the connection again.
    pub connect_retry_at: Nanos,
    pub backoff: Backoff,
    pub not_before: Nanos,
    /// Whether the last request failed or got an unusable response.
    pub failing: bool,
    /// Requests do not name the rack before this time, so that the leader sends the records itself (KIP-392).
    pub rack_hidden_until: Nanos,
    /// Consecutive rejected sessions.
    pub session_errors: u32,
    /// Number of responses, the current one included; wraps.
    pub responses: u32,
    /// Version for which the entries were planned.
    planned_version: i16,
    /// Entries that wait for bytes to be released.
    awaiting_release: usize,
    /// Requests since an entry began to wait, or bytes of such an entry were released.
    requests_without_release: u32,
    /// Entries that are fetched from this node.
    here: usize,
    /// Entries to fetch now, and those of them whose topic has no id.
    wanted: usize,
    wanted_without_id: usize,
    /// An entry has passed to another handle, which needs all that the broker knows of the partition.
    has_new_handle: bool,
    /// Entries to plan again.
    dirty: Vec<u32>,
    /// Changes for the next request. A later change of an entry replaces an earlier one.
    pub changes: Vec<EntryChange>,
    rotation: usize,
    cursor: usize,
    /// Indexes of the changes that name a partition (in this order), and that forget one; kept for their capacity.
    pub order: Vec<u32>,
    pub forgotten: Vec<u32>,
}

impl FetchSession {
    /// Returns the time at which the request in flight is unanswered for `limit`; `None`: no request is in flight.
    pub fn late_at(&self, limit: Nanos) -> Option<Nanos> {
        self.in_flight.map(|_| self.sent_at.saturating_add(limit))
    }

    pub fn new(node: NodeId, config: &FetchConfig) -> Self {
        Self {
            node,
            id: 0,
            epoch: 0,
            by_id: true,
            version: 0,
            topics: Vec::new(),
            entries: Vec::new(),
            in_flight: None,
            sent_at: 0,
            connect_retry_at: 0,
            backoff: Backoff::new(config.retry_backoff, config.retry_backoff_max),
            not_before: 0,
            failing: false,
            rack_hidden_until: 0,
            session_errors: 0,
            responses: 0,
            planned_version: 0,
            awaiting_release: 0,
            requests_without_release: 0,
            here: 0,
            wanted: 0,
            wanted_without_id: 0,
            has_new_handle: false,
            dirty: Vec::new(),
            changes: Vec::new(),
            rotation: 0,
            cursor: 0,
            order: Vec::new(),
            forgotten: Vec::new(),
        }
    }

    /// Returns whether no partition is fetched from this node.
    pub fn is_idle(&self) -> bool {
        self.here == 0
    }

    /// Returns whether a partition is not fetched until bytes are released.
    pub fn awaits_release(&self) -> bool {
        self.awaiting_release > 0
    }

    /// Returns how long the broker may delay the response to the next request, in milliseconds: `longest`
    /// (`fetch.max.wait.ms`), but a short time while an entry waits for bytes to be released. One request is in flight
    /// per node, so only the next one can name the entry again, and its partition would stand still until then if the
    /// others have no data. Doubles with each request until bytes are released, because a handler may be stuck.
    pub fn wait_ms(&self, longest: i32) -> i32 {
        if self.awaiting_release == 0 {
            return longest;
        }
        longest.min(SHORT_WAIT_MS << self.requests_without_release.min(16))
    }

    /// Records that bytes of an entry that waits for them were released.
    pub fn on_awaited_release(&mut self) {
        self.requests_without_release = 0;
    }

    /// Returns whether there is a partition to fetch.
    pub fn has_wanted(&self) -> bool {
        self.wanted > 0
    }

    /// Returns whether the topic of each partition to fetch has an id.
    pub fn has_all_ids(&self) -> bool {
        self.wanted_without_id == 0
    }

    // ---- planning

    /// Plans the entry again with the next request.
    pub fn touch(&mut self, at: u32) {
        if let Some(entry) = self.entries.get_mut(at as usize)
            && !std::mem::replace(&mut entry.is_dirty, true)
        {
            self.dirty.push(at);
        }
    }

    /// Plans all entries again with the next request.
    pub fn plan_all(&mut self) {
        self.changes.clear();
        self.dirty.clear();
        self.dirty.extend((0..).zip(&self.entries).map(|(at, _): (u32, _)| at));
        for entry in &mut self.entries {
            entry.is_dirty = true;
            entry.need = FetchNeed::Held;
        }
        (self.wanted, self.wanted_without_id, self.awaiting_release) = (0, 0, 0);
    }

    /// Plans the entries that may have changed, for a request of this version. Returns their number.
    pub fn plan(&mut self, version: i16, mut plan: impl FnMut(&SessionPartition) -> EntryPlan) -> usize {
        if std::mem::replace(&mut self.planned_version, version) != version {
            self.plan_all();
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        let planned = dirty.len();
        dirty.retain(|&at| {
            let Some(entry) = self.entries.get_mut(at as usize) else { return false };
            let entry_plan = plan(entry);
            let EntryPlan { params, again, .. } = entry_plan;
            entry.is_dirty = again;
            let need = entry_plan.need();
            let before = std::mem::replace(&mut entry.need, need);
            if before != need {
                let without_id = self.topics.get(entry.topic as usize).is_some_and(|topic| topic.id == 0);
                match before {
                    FetchNeed::Held => {}
                    FetchNeed::AwaitsRelease => self.awaiting_release -= 1,
                    FetchNeed::Wanted => {
                        self.wanted -= 1;
                        self.wanted_without_id -= usize::from(without_id);
                    }
                }
                match need {
                    FetchNeed::Held => {}
                    FetchNeed::AwaitsRelease => {
                        self.awaiting_release += 1;
                        self.requests_without_release = 0;
                    }
                    FetchNeed::Wanted => {
                        self.wanted += 1;
                        self.wanted_without_id += usize::from(without_id);
                    }
                }
            }
            // Even with equal fields: the position may have a new generation.
            self.changes.push(EntryChange { at, params });
            again
        });
        self.dirty = dirty;
        if self.changes.len() > 2 * self.entries.len() {
            self.sort_changes();
        }
        planned
    }

    /// Panics if these numbers of entries differ from those that were counted along the way.
    #[cfg(any(test, debug_assertions))]
    pub fn check_counts(&self, here: usize, wanted: usize, wanted_without_id: usize, awaiting_release: usize) {
        assert_eq!(
            (self.here, self.wanted, self.wanted_without_id, self.awaiting_release),
            (here, wanted, wanted_without_id, awaiting_release),
            "entries that are here, wanted, wanted without an id, and that wait for memory"
        );
        let dirty = self.entries.iter().filter(|entry| entry.is_dirty).count();
        assert_eq!(self.dirty.len(), dirty, "each entry to plan again is listed once");
    }

    /// Advances the session after a response without an error. Must run after the partitions were read.
    pub fn on_response_ok(&mut self, session_id: i32) {
        self.session_errors = 0;
        self.failing = false;
        self.backoff.reset();
        let was_full = self.epoch == 0;
        if session_id == 0 || (!was_full && session_id != self.id) {
            // No session: the broker's cache is full, or the broker has evicted the session.
            self.id = 0;
            self.reset();
        } else {
            self.id = session_id;
            self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        }
        if was_full {
            // A partition that is missing from a full response is not in the broker's session: name it again (P7).
            for at in 0..u32::try_from(self.entries.len()).unwrap_or(u32::MAX) {
                let Some(entry) = self.entries.get_mut(at as usize) else { break };
                if entry.in_session && entry.named_in != self.responses {
                    entry.in_session = false;
                    self.touch(at);
                }
            }
        }
    }

    /// Starts over with the next request, which also closes the session that the broker may still have.
    pub fn reset(&mut self) {
        self.epoch = 0;
        self.plan_all();
    }

    /// Starts over if an entry has passed to another handle. Must run while no request is in flight.
    pub fn reset_for_new_handles(&mut self) {
        if std::mem::take(&mut self.has_new_handle) {
            self.reset();
        }
    }

    /// Returns the topic of an entry.
    pub fn topic(&self, entry: &SessionPartition) -> Option<&SessionTopic> {
        self.topics.get(entry.topic as usize)
    }

    /// Returns the index of the entry that a response names. Responses mostly follow the order of the entries.
    pub fn find(&mut self, topic: &TopicKey<'_>, partition: i32) -> Option<usize> {
        let is_named = |known: &SessionTopic| match topic {
            TopicKey::Id(id) => known.id == *id,
            TopicKey::Name(name) => *known.name == **name,
        };
        let matches = |entry: &SessionPartition| {
            entry.partition == partition && self.topics.get(entry.topic as usize).is_some_and(is_named)
        };
        let at = if self.entries.get(self.cursor).is_some_and(matches) {
            self.cursor
        } else {
            let entry_of = |number: usize| {
                let key = (u32::try_from(number).ok()?, partition);
                self.entries.binary_search_by_key(&key, |entry| (entry.topic, entry.partition)).ok()
            };
            match topic {
                TopicKey::Id(id) => entry_of(self.topics.binary_search_by_key(id, |known| known.id).ok()?)?,
                // A topic is there twice while only some of its partitions have learned its id.
                TopicKey::Name(_) => {
                    let named = self.topics.iter().enumerate().filter(|(_, known)| is_named(known));
                    named.map(|(number, _)| number).find_map(entry_of)?
                }
            }
        };
        self.cursor = at + 1;
        Some(at)
    }
}
