//! One node's fetch session (KIP-227): what the broker believes about our partitions, and what it must be told next.

use std::collections::HashMap;
use std::sync::Arc;

use grete_wire::fetch::TopicKey;

use crate::ids::{NodeId, Slot};
use crate::partitions::Partitions;
use crate::rng::Backoff;
use crate::time::Nanos;

use super::config::FetchConfig;

/// A partition's fields in a Fetch request. Whatever differs from what was sent last is sent again, the leader epoch
/// included (P8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fields {
    pub current_leader_epoch: i32,
    pub fetch_offset: i64,
    pub last_fetched_epoch: i32,
    pub max_bytes: i32,
}

/// A partition that this node leads, or that its broker still has in our session.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub topic_id: u128,
    pub topic: Arc<str>,
    pub partition: i32,
    pub slot: Slot,
    /// The slot's generation when the last request left; 0 never matches.
    pub generation: u32,
    /// The node leads the slot's partition.
    pub member: bool,
    /// The broker has it in the session, as far as we were told.
    pub known: bool,
    /// What to fetch next; `None`: nothing, now.
    pub wanted: Option<Fields>,
    /// What the broker was told last.
    pub sent: Fields,
    /// Named in the answer that is being read.
    pub answered: bool,
}

impl Entry {
    fn key(&self) -> (u128, &str, i32) {
        (self.topic_id, &self.topic, self.partition)
    }
}

/// The client's side of a session.
#[derive(Debug)]
pub(super) struct Session {
    pub node: NodeId,
    pub id: i32,
    /// 0: the next request names every partition and starts a new session.
    pub epoch: i32,
    /// The session names topics by id (v13 and later). One session cannot do both.
    pub by_id: bool,
    /// The last request's.
    pub version: i16,
    /// Sorted by topic id, name and partition.
    pub entries: Vec<Entry>,
    pub in_flight: Option<u32>,
    /// The connection was asked for; ask again after that.
    pub asked_until: Nanos,
    pub backoff: Backoff,
    pub not_before: Nanos,
    /// Refused sessions in a row.
    pub refusals: u32,
    rotation: usize,
    cursor: usize,
    /// Entries to name, in this order, and entries to forget: kept for their capacity.
    pub order: Vec<u32>,
    pub forget: Vec<u32>,
}

impl Session {
    pub fn new(node: NodeId, config: &FetchConfig) -> Self {
        Self {
            node,
            id: 0,
            epoch: 0,
            by_id: true,
            version: 0,
            entries: Vec::new(),
            in_flight: None,
            asked_until: 0,
            backoff: Backoff::new(config.retry_backoff, config.retry_backoff_max),
            not_before: 0,
            refusals: 0,
            rotation: 0,
            cursor: 0,
            order: Vec::new(),
            forget: Vec::new(),
        }
    }

    /// Takes over which slots the node leads now. Runs when the layout changed, not per request.
    ///
    /// A partition that was removed and assigned again has a new slot but is the same to the broker: its entry is handed
    /// over, because a request must not forget and fetch one partition at a time. The entry's generation is cleared, so
    /// that an answer to the old slot is nobody's.
    pub fn sync(&mut self, partitions: &Partitions) {
        self.entries.retain(|entry| entry.known);
        let mut index: HashMap<(u128, Arc<str>, i32), usize> = HashMap::new();
        for (at, entry) in self.entries.iter_mut().enumerate() {
            entry.member = false;
            let id = if self.by_id { entry.topic_id } else { 0 };
            index.insert((id, Arc::clone(&entry.topic), entry.partition), at);
        }
        for &slot in partitions.live() {
            let Some(tp) = partitions.tp(slot).filter(|_| partitions.leader(slot) == self.node) else { continue };
            let topic_id = partitions.topic_id(slot);
            let id = if self.by_id { topic_id } else { 0 };
            let found = index.get(&(id, Arc::clone(&tp.topic), tp.partition));
            if let Some(entry) = found.and_then(|at| self.entries.get_mut(*at)) {
                if entry.slot != slot {
                    entry.slot = slot;
                    entry.generation = 0;
                }
                entry.topic_id = topic_id;
                entry.member = true;
                continue;
            }
            self.entries.push(Entry {
                topic_id,
                topic: Arc::clone(&tp.topic),
                partition: tp.partition,
                slot,
                generation: 0,
                member: true,
                known: false,
                wanted: None,
                sent: Fields::default(),
                answered: false,
            });
        }
        self.entries.sort_by(|a, b| a.key().cmp(&b.key()));
        self.cursor = 0;
    }

    /// Whether no slot is led by this node.
    pub fn is_idle(&self) -> bool {
        !self.entries.iter().any(|entry| entry.member)
    }

    /// Prepares the next request from each entry's `wanted`: fills `order` and `forget`. False when nothing is wanted.
    pub fn prepare(&mut self, by_id: bool) -> bool {
        if self.entries.iter().all(|entry| entry.wanted.is_none()) {
            return false;
        }
        if by_id != self.by_id {
            self.reset();
            self.by_id = by_id;
        }
        self.order.clear();
        self.forget.clear();
        if self.epoch == 0 {
            // A new session: the broker knows nothing, and there is nothing to forget.
            self.entries.iter_mut().for_each(|entry| entry.known = false);
            self.rotate();
            return true;
        }
        for (at, entry) in (0..).zip(&self.entries) {
            match entry.wanted {
                Some(fields) if !entry.known || fields != entry.sent => self.order.push(at),
                None if entry.known => self.forget.push(at),
                _ => {}
            }
        }
        true
    }

    /// Names all wanted entries, each time starting at another topic and another partition of it: brokers fill the answer
    /// in the order of the request. (Within a session the broker rotates by itself.)
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
                if self.entries.get(at).is_some_and(|entry| entry.wanted.is_some()) {
                    self.order.push(u32::try_from(at).unwrap_or(u32::MAX));
                }
            }
        }
    }

    /// The prepared request has left: from now on the broker is taken to know it.
    pub fn sent(&mut self, token: u32, generation: impl Fn(Slot) -> u32) {
        self.in_flight = Some(token);
        self.cursor = 0;
        for entry in &mut self.entries {
            entry.answered = false;
            if let Some(fields) = entry.wanted {
                entry.sent = fields;
                entry.generation = generation(entry.slot);
            }
            entry.known = entry.wanted.is_some();
        }
        self.entries.retain(|entry| entry.known || entry.member);
    }

    /// The answer has no error: moves the session on. Only after the partitions were read.
    pub fn accepted(&mut self, session_id: i32) {
        self.refusals = 0;
        self.backoff.reset();
        if self.epoch == 0 {
            // What a full answer does not name, the broker has not taken in: name it again (P7).
            self.entries.iter_mut().for_each(|entry| entry.known &= entry.answered);
        }
        if session_id == 0 || (self.epoch != 0 && session_id != self.id) {
            // No session: the broker's cache is full, or it has thrown ours out.
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

    /// The entry that an answer names. Answers come mostly in the order of the entries.
    pub fn find(&mut self, topic: &TopicKey<'_>, partition: i32) -> Option<usize> {
        let matches = |entry: &Entry| {
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
