//! Fetch sessions (KIP-227): partitions that a client names once and then reads with short requests.

mod partitions;

use std::collections::HashMap;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::FetchRequest;

pub(crate) use self::partitions::is_unknown;
pub use self::partitions::{FetchTopicKey, FetchedPartition, WantedPartition, WantedPartitions};
use crate::ids::TopicId;
use crate::rng::Rng;

/// Maximum number of sessions of a broker: Kafka's default of `max.incremental.fetch.session.cache.slots`.
const MAX_SESSIONS: usize = 1000;

/// Session epochs with a meaning of their own.
const INITIAL_EPOCH: i32 = 0;
const FINAL_EPOCH: i32 = -1;

/// How a request uses sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionUse {
    /// The request stands alone.
    None,
    /// The response opens a session.
    New,
    /// The request continues a session: the response leaves out partitions without news.
    Incremental(i32),
}

#[derive(Debug)]
struct FetchSession {
    /// Epoch that the next request must have.
    next_epoch: i32,
    uses_topic_ids: bool,
    /// Shared with the Fetch that reads them.
    partitions: Arc<WantedPartitions>,
    /// Slots of the partitions.
    slots: HashMap<(FetchTopicKey, i32), usize>,
    used_at: u64,
}

/// Sessions of one broker.
#[derive(Debug)]
pub struct FetchSessions {
    sessions: HashMap<i32, FetchSession>,
    rng: Rng,
    /// Counts uses, so that the session that was unused for longest is dropped first.
    uses: u64,
}

impl FetchSessions {
    /// Creates an empty cache. The seed decides session ids.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { sessions: HashMap::new(), rng: Rng::new(seed), uses: 0 }
    }

    /// Returns the number of open sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns whether no session is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns the partitions that a request reads, and how the request uses sessions. `name_of` returns the name of the
    /// topic with an id.
    ///
    /// # Errors
    /// FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR: the client then opens a
    /// new session.
    pub fn begin(
        &mut self,
        version: i16,
        request: &FetchRequest<'_>,
        name_of: impl Fn(TopicId) -> Option<Arc<str>>,
    ) -> Result<(SessionUse, Arc<WantedPartitions>), ErrorCode> {
        let uses_topic_ids = version >= 13;
        let alone = || {
            let mut wanted = listed(request);
            wanted.iter_mut().filter(|wanted| wanted.is_unnamed()).for_each(|wanted| wanted.learn_name(&name_of));
            Arc::new(wanted.into_iter().collect())
        };
        let is_full = request.session_epoch == INITIAL_EPOCH || request.session_epoch == FINAL_EPOCH;
        if is_full {
            self.sessions.remove(&request.session_id);
            let session = if request.session_epoch == FINAL_EPOCH { SessionUse::None } else { SessionUse::New };
            return Ok((session, alone()));
        }
        let id = request.session_id;
        let session = self.sessions.get_mut(&id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.next_epoch != request.session_epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        if session.uses_topic_ids != uses_topic_ids {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        session.update(request);
        if session.partitions.is_empty() {
            // Nothing is left of the session, so that the request stands alone, even with what it forgets.
            self.sessions.remove(&id);
            return Ok((SessionUse::None, alone()));
        }
        session.learn_names(&name_of);
        session.next_epoch = if session.next_epoch == i32::MAX { 1 } else { session.next_epoch + 1 };
        self.uses += 1;
        session.used_at = self.uses;
        Ok((SessionUse::Incremental(id), Arc::clone(&session.partitions)))
    }

    /// Stores what the client learns from a response to a request that [`FetchSessions::begin`] began. Returns the
    /// session's id, 0 if there is no session, and the partitions to send: all in a full response, those with news in an
    /// incremental one. `read` is the data by slot; an incremental response may leave out partitions without news.
    pub fn respond(
        &mut self,
        version: i16,
        session: SessionUse,
        wanted: Arc<WantedPartitions>,
        read: Vec<(usize, FetchedPartition)>,
    ) -> (i32, Vec<(FetchTopicKey, FetchedPartition)>) {
        let is_incremental = matches!(session, SessionUse::Incremental(_));
        let (mut sent, mut news, mut is_last) = (Vec::new(), Vec::new(), vec![false; wanted.len()]);
        for (slot, fetched) in read {
            let data = &fetched.data;
            let Some(known) = wanted.slots.get(slot) else { continue };
            let is_news = known.is_news(&fetched);
            // A partition with an error is sent again until the error is gone.
            let high_watermark = if data.error_code == 0 { data.high_watermark } else { -1 };
            news.push((slot, high_watermark, data.log_start_offset));
            // The partitions that had data are read last by the next request. A new session keeps the order of its first
            // request, with unknown partitions at the end.
            if let Some(is_last) = is_last.get_mut(slot) {
                *is_last = if is_incremental { fetched.has_records() } else { is_unknown(data) };
            }
            if is_news || !is_incremental {
                sent.push((known.topic.clone(), fetched));
            }
        }
        match session {
            SessionUse::None => (0, sent),
            SessionUse::New if wanted.is_empty() => (0, sent),
            SessionUse::New => {
                let mut partitions = Arc::unwrap_or_clone(wanted);
                partitions.learn(&news, &is_last);
                (self.open(version, partitions), sent)
            }
            SessionUse::Incremental(id) => {
                // Another request of the session may have changed the partitions while this one waited. What this client
                // learned is then sent once more.
                if let Some(session) = self.sessions.get_mut(&id).filter(|of| Arc::ptr_eq(&of.partitions, &wanted)) {
                    drop(wanted);
                    Arc::make_mut(&mut session.partitions).learn(&news, &is_last);
                }
                (id, sent)
            }
        }
    }

    /// Returns the partitions of a session; `None`: there is no such session.
    #[must_use]
    pub fn partitions(&self, id: i32) -> Option<&WantedPartitions> {
        self.sessions.get(&id).map(|session| &*session.partitions)
    }

    /// Opens a session for the partitions of a response. Drops the session that was unused for longest if there are
    /// too many. Returns the id.
    fn open(&mut self, version: i16, partitions: WantedPartitions) -> i32 {
        if self.sessions.len() >= MAX_SESSIONS {
            let oldest = self.sessions.iter().min_by_key(|(_, session)| session.used_at).map(|(id, _)| *id);
            oldest.map(|id| self.sessions.remove(&id));
        }
        let id = loop {
            let id = i32::try_from(self.rng.next_u64() >> 33).unwrap_or(1);
            if id != 0 && !self.sessions.contains_key(&id) {
                break id;
            }
        };
        self.uses += 1;
        let session = FetchSession {
            next_epoch: 1,
            uses_topic_ids: version >= 13,
            slots: slots_of(&partitions),
            partitions: Arc::new(partitions),
            used_at: self.uses,
        };
        self.sessions.insert(id, session);
        id
    }
}

impl FetchSession {
    fn update(&mut self, request: &FetchRequest<'_>) {
        let listed = listed(request);
        if !listed.is_empty() {
            let partitions = Arc::make_mut(&mut self.partitions);
            for wanted in listed {
                let slot = *self.slots.entry(wanted.key()).or_insert(partitions.len());
                match partitions.slots.get_mut(slot) {
                    Some(known) => known.fetch = wanted.fetch,
                    None => partitions.push(wanted),
                }
            }
        }
        let mut is_forgotten = vec![false; self.partitions.len()];
        for topic in &request.forgotten_topics_data {
            let key = FetchTopicKey { name: (&*topic.topic).into(), id: topic.topic_id };
            for partition in &topic.partitions {
                let slot = self.slots.remove(&(key.clone(), *partition));
                slot.and_then(|slot| is_forgotten.get_mut(slot)).into_iter().for_each(|is| *is = true);
            }
        }
        if is_forgotten.contains(&true) {
            let kept = self.partitions.iter().filter(|(slot, _)| is_forgotten.get(*slot) == Some(&false));
            let kept: WantedPartitions = kept.map(|(_, wanted)| wanted.clone()).collect();
            self.slots = slots_of(&kept);
            self.partitions = Arc::new(kept);
        }
    }

    /// Stores the names of topics that the session knows by id alone.
    fn learn_names(&mut self, name_of: &impl Fn(TopicId) -> Option<Arc<str>>) {
        if self.partitions.slots.iter().any(WantedPartition::is_unnamed) {
            let partitions = Arc::make_mut(&mut self.partitions);
            let unnamed = partitions.slots.iter_mut().filter(|wanted| wanted.is_unnamed());
            unnamed.for_each(|wanted| wanted.learn_name(name_of));
        }
    }
}

fn slots_of(partitions: &WantedPartitions) -> HashMap<(FetchTopicKey, i32), usize> {
    partitions.slots.iter().map(WantedPartition::key).zip(0..).collect()
}

fn listed(request: &FetchRequest<'_>) -> Vec<WantedPartition> {
    let mut wanted = Vec::new();
    for topic in &request.topics {
        let key = FetchTopicKey { name: (&*topic.topic).into(), id: topic.topic_id };
        wanted.extend(topic.partitions.iter().map(|fetch| WantedPartition {
            topic: key.clone(),
            known_name: None,
            fetch: fetch.clone(),
            last_high_watermark: -1,
            last_log_start_offset: -1,
        }));
    }
    wanted
}

#[cfg(test)]
mod tests;
