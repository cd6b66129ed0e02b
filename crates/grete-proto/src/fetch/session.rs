//! Fetch session of one node (KIP-227): the partitions that the broker knows, and the changes for the next request.

use std::collections::HashMap;
use std::sync::Arc;

use grete_wire::fetch::TopicKey;

use crate::backoff::Backoff;
use crate::ids::{NodeId, PartitionHandle};
use crate::partition::table::PartitionTable;
use crate::time::Nanos;

use super::config::FetchConfig;

/// Fields of a partition in a Fetch request. A difference from the fields last sent makes the client send the partition
/// again; this includes the leader epoch (P8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PartitionParams {
    pub current_leader_epoch: i32,
    pub fetch_offset: i64,
    pub last_fetched_epoch: i32,
    pub max_bytes: i32,
}

/// Partition that this node leads, or that the broker still has in the session.
#[derive(Debug, Clone)]
pub(super) struct SessionPartition {
    pub topic_id: u128,
    pub topic: Arc<str>,
    pub partition: i32,
    pub slot: PartitionHandle,
    /// Generation of the position when the last request left; 0 never matches.
    pub generation: u32,
    /// Whether this node leads the partition.
    pub is_led_by_node: bool,
    /// Whether the broker has the partition in the session, as far as the client knows.
    pub in_session: bool,
    /// Fields of the next request; `None`: do not fetch the partition now.
    pub next_params: Option<PartitionParams>,
    /// Fields of the last request.
    pub sent_params: PartitionParams,
    /// Whether the current response names the partition.
    pub in_response: bool,
}

impl SessionPartition {
    fn key(&self) -> (u128, &str, i32) {
        (self.topic_id, &self.topic, self.partition)
    }
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
    /// Sorted by topic id, name and partition.
    pub entries: Vec<SessionPartition>,
    pub in_flight: Option<u32>,
    /// Time after which to request the connection again.
    pub connect_retry_at: Nanos,
    pub backoff: Backoff,
    pub not_before: Nanos,
    /// Whether the last request failed or got an unusable response.
    pub failing: bool,
    /// Consecutive rejected sessions.
    pub session_errors: u32,
    rotation: usize,
    cursor: usize,
    /// Indexes of the entries to name (in this order) and to forget; kept for their capacity.
    pub order: Vec<u32>,
    pub forgotten: Vec<u32>,
}

impl FetchSession {
    pub fn new(node: NodeId, config: &FetchConfig) -> Self {
        Self {
            node,
            id: 0,
            epoch: 0,
            by_id: true,
            version: 0,
            entries: Vec::new(),
            in_flight: None,
            connect_retry_at: 0,
            backoff: Backoff::new(config.retry_backoff, config.retry_backoff_max),
            not_before: 0,
            failing: false,
            session_errors: 0,
            rotation: 0,
            cursor: 0,
            order: Vec::new(),
            forgotten: Vec::new(),
        }
    }

    /// Copies from the table which partitions the node leads now. Runs when the layout has changed, not per request.
    ///
    /// A partition that was removed and assigned again has a new handle but is the same to the broker. The entry
    /// therefore passes to the new handle, because a request must not forget and fetch the same partition. The entry's
    /// generation is cleared, so that a response for the old handle is ignored.
    pub fn sync(&mut self, partitions: &PartitionTable) {
        self.entries.retain(|entry| entry.in_session);
        let mut index: HashMap<(u128, Arc<str>, i32), usize> = HashMap::new();
        for (at, entry) in self.entries.iter_mut().enumerate() {
            entry.is_led_by_node = false;
            let id = if self.by_id { entry.topic_id } else { 0 };
            index.insert((id, Arc::clone(&entry.topic), entry.partition), at);
        }
        for &slot in partitions.live() {
            let Some(tp) = partitions.topic_partition(slot).filter(|_| partitions.leader(slot) == self.node) else {
                continue;
            };
            let topic_id = partitions.topic_id(slot);
            let id = if self.by_id { topic_id } else { 0 };
            let found = index.get(&(id, Arc::clone(&tp.topic), tp.partition));
            if let Some(entry) = found.and_then(|at| self.entries.get_mut(*at)) {
                if entry.slot != slot {
                    entry.slot = slot;
                    entry.generation = 0;
                }
                entry.topic_id = topic_id;
                entry.is_led_by_node = true;
                continue;
            }
            self.entries.push(SessionPartition {
                topic_id,
                topic: Arc::clone(&tp.topic),
                partition: tp.partition,
                slot,
                generation: 0,
                is_led_by_node: true,
                in_session: false,
                next_params: None,
                sent_params: PartitionParams::default(),
                in_response: false,
            });
        }
        self.entries.sort_by(|a, b| a.key().cmp(&b.key()));
        self.cursor = 0;
    }

    /// Returns whether this node leads no partition.
    pub fn is_idle(&self) -> bool {
        !self.entries.iter().any(|entry| entry.is_led_by_node)
    }

    /// Prepares the next request from each entry's `next_params`: fills `order` and `forgotten`. Returns false if there
    /// is nothing to fetch.
    pub fn prepare(&mut self, by_id: bool) -> bool {
        if self.entries.iter().all(|entry| entry.next_params.is_none()) {
            return false;
        }
        if by_id != self.by_id {
            self.reset();
            self.by_id = by_id;
        }
        self.order.clear();
        self.forgotten.clear();
        if self.epoch == 0 {
            // The broker knows nothing of a new session, so there is nothing to forget.
            self.entries.iter_mut().for_each(|entry| entry.in_session = false);
            self.rotate();
            return true;
        }
        for (at, entry) in (0..).zip(&self.entries) {
            match entry.next_params {
                Some(fields) if !entry.in_session || fields != entry.sent_params => self.order.push(at),
                None if entry.in_session => self.forgotten.push(at),
                _ => {}
            }
        }
        true
    }

    /// Orders all entries to fetch, each time starting at another topic and another partition: brokers fill the
    /// response in the order of the request. (Within a session the broker rotates by itself.)
    fn rotate(&mut self) {
        self.rotation = self.rotation.wrapping_add(1);
        let topics = self.entries.chunk_by(|a, b| a.topic == b.topic && a.topic_id == b.topic_id).count().max(1);
        let (first, turn) = (self.rotation % topics, self.rotation / topics);
        let mut start = 0;
        let mut groups = self.entries.chunk_by(|a, b| a.topic == b.topic && a.topic_id == b.topic_id).map(|group| {
            start += group.len();
            (start - group.len(), group.len())
        });
        let mut in_order: Vec<(usize, usize)> = groups.by_ref().collect();
        in_order.rotate_left(first);
        for (start, len) in in_order {
            for offset in 0..len {
                let at = start + (offset + turn) % len;
                if self.entries.get(at).is_some_and(|entry| entry.next_params.is_some()) {
                    self.order.push(u32::try_from(at).unwrap_or(u32::MAX));
                }
            }
        }
    }

    /// Records that the prepared request was sent: the client assumes from now on that the broker knows its contents.
    pub fn on_request_sent(&mut self, token: u32, generation: impl Fn(PartitionHandle) -> u32) {
        self.in_flight = Some(token);
        self.cursor = 0;
        for entry in &mut self.entries {
            entry.in_response = false;
            if let Some(fields) = entry.next_params {
                entry.sent_params = fields;
                entry.generation = generation(entry.slot);
            }
            entry.in_session = entry.next_params.is_some();
        }
        self.entries.retain(|entry| entry.in_session || entry.is_led_by_node);
    }

    /// Advances the session after a response without an error. Must run after the partitions were read.
    pub fn on_response_ok(&mut self, session_id: i32) {
        self.session_errors = 0;
        self.failing = false;
        self.backoff.reset();
        if self.epoch == 0 {
            // A partition that is missing from a full response is not in the broker's session: name it again (P7).
            self.entries.iter_mut().for_each(|entry| entry.in_session &= entry.in_response);
        }
        if session_id == 0 || (self.epoch != 0 && session_id != self.id) {
            // No session: the broker's cache is full, or the broker has evicted the session.
            self.id = 0;
            self.epoch = 0;
        } else {
            self.id = session_id;
            self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        }
    }

    /// Starts over with the next request, which also closes the session that the broker may still have.
    pub fn reset(&mut self) {
        self.epoch = 0;
    }

    /// Returns the index of the entry that a response names. Responses mostly follow the order of the entries.
    pub fn find(&mut self, topic: &TopicKey<'_>, partition: i32) -> Option<usize> {
        let matches = |entry: &SessionPartition| {
            entry.partition == partition
                && match topic {
                    TopicKey::Id(id) => entry.topic_id == *id,
                    TopicKey::Name(name) => &*entry.topic == *name,
                }
        };
        let at = if self.entries.get(self.cursor).is_some_and(matches) {
            self.cursor
        } else {
            match topic {
                TopicKey::Id(id) => {
                    self.entries.binary_search_by(|entry| (entry.topic_id, entry.partition).cmp(&(*id, partition))).ok()
                }
                TopicKey::Name(_) => self.entries.iter().position(matches),
            }?
        };
        self.cursor = at + 1;
        Some(at)
    }
}
