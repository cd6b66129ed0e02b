//! Fetch sessions (KIP-227): partitions that a client names once and then reads with short requests.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{FetchPartition, FetchRequest, PartitionData};

use crate::ids::TopicId;
use crate::rng::Rng;

/// Maximum number of sessions of a broker: Kafka's default of `max.incremental.fetch.session.cache.slots`.
const MAX_SESSIONS: usize = 1000;

/// Session epochs with a meaning of their own.
const INITIAL_EPOCH: i32 = 0;
const FINAL_EPOCH: i32 = -1;

/// Topic as a Fetch names it: by name until version 12, by id from version 13 on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FetchTopicKey {
    /// Name; empty if the request names the topic by id.
    pub name: Arc<str>,
    /// Id; 0 if the request names the topic by name.
    pub id: TopicId,
}

/// Partition that a Fetch reads.
#[derive(Debug, Clone)]
pub struct WantedPartition {
    /// Topic of the partition.
    pub topic: FetchTopicKey,
    /// Name of the topic if the request names it by id and the topic was there once.
    pub known_name: Option<Arc<str>>,
    /// Position and limits.
    pub fetch: FetchPartition,
    /// High watermark of the latest response; -1: none yet.
    pub last_high_watermark: i64,
    /// Log start offset of the latest response; -1: none yet.
    pub last_log_start_offset: i64,
}

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
    /// In the order in which the next response reads: partitions that had data go to the end.
    partitions: Vec<WantedPartition>,
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

    /// Returns the partitions that a request reads, and how the request uses sessions.
    ///
    /// # Errors
    /// FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR: the client then opens a
    /// new session.
    pub fn begin(
        &mut self,
        version: i16,
        request: &FetchRequest<'_>,
    ) -> Result<(SessionUse, Vec<WantedPartition>), ErrorCode> {
        let uses_topic_ids = version >= 13;
        let is_full = request.session_epoch == INITIAL_EPOCH || request.session_epoch == FINAL_EPOCH;
        if is_full {
            self.sessions.remove(&request.session_id);
            let session = if request.session_epoch == FINAL_EPOCH { SessionUse::None } else { SessionUse::New };
            return Ok((session, listed(request)));
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
            return Ok((SessionUse::None, listed(request)));
        }
        session.next_epoch = if session.next_epoch == i32::MAX { 1 } else { session.next_epoch + 1 };
        self.uses += 1;
        session.used_at = self.uses;
        Ok((SessionUse::Incremental(id), session.partitions.clone()))
    }

    /// Stores what the client learns from a response to a request that [`FetchSessions::begin`] began. Returns the
    /// session's id, 0 if there is no session, and the partitions to send: all in a full response, those with news in an
    /// incremental one.
    pub fn respond(
        &mut self,
        version: i16,
        session: SessionUse,
        partitions: Vec<(WantedPartition, PartitionData<'static>)>,
    ) -> (i32, Vec<(WantedPartition, PartitionData<'static>)>) {
        let is_incremental = matches!(session, SessionUse::Incremental(_));
        let (mut first, mut last, mut sent) = (Vec::new(), Vec::new(), Vec::new());
        for (mut wanted, data) in partitions {
            let has_records = data.records.as_ref().is_some_and(|records| !records.is_empty());
            let is_news = has_records
                || data.error_code != 0
                || data.diverging_epoch.epoch >= 0
                || data.high_watermark != wanted.last_high_watermark
                || data.log_start_offset != wanted.last_log_start_offset;
            // A partition with an error is sent again until the error is gone.
            wanted.last_high_watermark = if data.error_code == 0 { data.high_watermark } else { -1 };
            wanted.last_log_start_offset = data.log_start_offset;
            // The partitions that had data are read last by the next request. A new session keeps the order of its first
            // request, with unknown partitions at the end.
            let is_last = if is_incremental { has_records } else { is_unknown(&data) };
            let order = if is_last { &mut last } else { &mut first };
            order.push(wanted.clone());
            if is_news || !is_incremental {
                sent.push((wanted, data));
            }
        }
        first.append(&mut last);
        match session {
            SessionUse::None => (0, sent),
            SessionUse::New if first.is_empty() => (0, sent),
            SessionUse::New => (self.open(version, first), sent),
            SessionUse::Incremental(id) => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.partitions = first;
                }
                (id, sent)
            }
        }
    }

    /// Returns the partitions of a session; `None`: there is no such session.
    #[must_use]
    pub fn partitions(&self, id: i32) -> Option<&[WantedPartition]> {
        self.sessions.get(&id).map(|session| session.partitions.as_slice())
    }

    /// Opens a session for the partitions of a response. Drops the session that was unused for longest if there are
    /// too many. Returns the id.
    fn open(&mut self, version: i16, partitions: Vec<WantedPartition>) -> i32 {
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
        let session = FetchSession { next_epoch: 1, uses_topic_ids: version >= 13, partitions, used_at: self.uses };
        self.sessions.insert(id, session);
        id
    }
}

impl FetchSession {
    fn update(&mut self, request: &FetchRequest<'_>) {
        let listed = listed(request);
        if !listed.is_empty() {
            let key = |wanted: &WantedPartition| (wanted.topic.clone(), wanted.fetch.partition);
            let mut places: HashMap<_, _> = self.partitions.iter().map(key).zip(0..).collect();
            for wanted in listed {
                let place = *places.entry(key(&wanted)).or_insert(self.partitions.len());
                match self.partitions.get_mut(place) {
                    Some(known) => known.fetch = wanted.fetch,
                    None => self.partitions.push(wanted),
                }
            }
        }
        for topic in &request.forgotten_topics_data {
            let forgotten: HashSet<i32> = topic.partitions.iter().copied().collect();
            self.partitions.retain(|known| {
                let is_topic = *known.topic.name == *topic.topic && known.topic.id == topic.topic_id;
                !(is_topic && forgotten.contains(&known.fetch.partition))
            });
        }
    }
}

/// Returns whether the partition or its topic does not exist.
pub(crate) fn is_unknown(data: &PartitionData<'_>) -> bool {
    const UNREAD: [ErrorCode; 3] =
        [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::UNKNOWN_TOPIC_ID, ErrorCode::TOPIC_AUTHORIZATION_FAILED];
    UNREAD.contains(&ErrorCode(data.error_code))
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
mod tests {
    use std::borrow::Cow;

    use grete_wire::messages::{FetchTopic, ForgottenTopic};

    use super::*;

    fn request(session_id: i32, session_epoch: i32, partitions: &[i32]) -> FetchRequest<'static> {
        let partition = |&partition: &i32| FetchPartition { partition, ..FetchPartition::default() };
        FetchRequest {
            session_id,
            session_epoch,
            topics: vec![FetchTopic {
                topic: Cow::Borrowed("orders"),
                topic_id: 0,
                partitions: partitions.iter().map(partition).collect(),
            }],
            ..FetchRequest::default()
        }
    }

    fn indexes(wanted: &[WantedPartition]) -> Vec<i32> {
        wanted.iter().map(|partition| partition.fetch.partition).collect()
    }

    #[test]
    fn a_session_remembers_its_partitions() {
        let mut sessions = FetchSessions::new(1);
        let (session, wanted) = sessions.begin(12, &request(0, 0, &[0, 1])).unwrap();
        assert_eq!((session, indexes(&wanted)), (SessionUse::New, vec![0, 1]));
        let id = sessions.open(12, wanted);
        let mut next = request(id, 1, &[2]);
        next.forgotten_topics_data =
            vec![ForgottenTopic { topic: Cow::Borrowed("orders"), topic_id: 0, partitions: vec![0] }];
        let (session, wanted) = sessions.begin(12, &next).unwrap();
        assert_eq!((session, indexes(&wanted)), (SessionUse::Incremental(id), vec![1, 2]));
        // A repeated epoch is refused, and so is another way to name topics.
        assert_eq!(sessions.begin(12, &next).unwrap_err(), ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        assert_eq!(sessions.begin(13, &request(id, 2, &[])).unwrap_err(), ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
    }

    #[test]
    fn full_requests_end_the_session_they_name() {
        let mut sessions = FetchSessions::new(1);
        let id = sessions.open(12, Vec::new());
        assert_eq!(sessions.begin(12, &request(id, -1, &[0])).unwrap().0, SessionUse::None);
        assert!(sessions.is_empty());
        assert_eq!(sessions.begin(12, &request(id, 1, &[])).unwrap_err(), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    }

    #[test]
    fn a_session_that_forgets_all_partitions_ends_and_reads_those_of_the_request() {
        let mut sessions = FetchSessions::new(1);
        let id = sessions.open(12, listed(&request(0, 0, &[0])));
        let mut last = request(id, 1, &[1]);
        last.forgotten_topics_data =
            vec![ForgottenTopic { topic: Cow::Borrowed("orders"), topic_id: 0, partitions: vec![0, 1] }];
        let (session, wanted) = sessions.begin(12, &last).unwrap();
        assert_eq!((session, indexes(&wanted), sessions.len()), (SessionUse::None, vec![1], 0));
    }

    #[test]
    fn the_session_unused_for_longest_is_dropped() {
        let mut sessions = FetchSessions::new(1);
        let ids: Vec<i32> = (0..MAX_SESSIONS).map(|_| sessions.open(12, listed(&request(0, 0, &[0])))).collect();
        sessions.begin(12, &request(ids[0], 1, &[])).unwrap();
        sessions.open(12, Vec::new());
        assert_eq!(sessions.len(), MAX_SESSIONS);
        assert!(sessions.begin(12, &request(ids[0], 2, &[])).is_ok());
        assert_eq!(sessions.begin(12, &request(ids[1], 1, &[])).unwrap_err(), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    }
}
