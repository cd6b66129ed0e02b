//! What a client knows of one broker: ids that the broker gave out. Equal responses keep both sides in step.

use std::collections::BTreeMap;

use crate::tree::Tree;

/// Topic id that no broker has given out.
pub const UNKNOWN_ID: u128 = 0xdead;
/// Smallest producer id that no broker has given out.
pub const UNKNOWN_PRODUCER: i64 = 1 << 40;

/// State that a response changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Learn {
    /// None.
    Nothing,
    /// Member of a slot: JoinGroup.
    Member(usize),
    /// Producer id and epoch of a slot: InitProducerId and EndTxn.
    Producer(usize),
    /// Sequence of a slot's producer in (topic, partition), after this many records.
    Sequence(usize, Vec<(String, i32, i32)>),
    /// Fetch session of a connection, and whether the request names topics by id.
    Session(usize, bool),
}

/// Member of a group, by its last JoinGroup.
#[derive(Debug, Clone, Default)]
pub struct Member {
    /// Member id; empty: not joined yet.
    pub id: String,
    /// Generation.
    pub generation: i32,
    /// Whether the member is the leader.
    pub is_leader: bool,
    /// Member ids that the leader knows.
    pub members: Vec<String>,
}

/// Producer id of a slot.
#[derive(Debug, Clone)]
pub struct Producer {
    /// Producer id; -1: none yet.
    pub id: i64,
    /// Epoch.
    pub epoch: i16,
    /// Next sequence by topic and partition.
    pub sequences: BTreeMap<(String, i32), i32>,
}

/// Number of member slots; each group has half of them.
pub const MEMBERS: usize = 8;
/// Number of producer slots; the first half is transactional.
pub const PRODUCERS: usize = 4;

/// Knowledge about one broker.
#[derive(Debug, Clone)]
pub struct Side {
    /// Prefix of all names of the run.
    pub run: String,
    /// Start of the run in ms since 1970.
    pub start: i64,
    /// Members by slot.
    pub members: Vec<Member>,
    /// Producers by slot.
    pub producers: Vec<Producer>,
    /// (session id, next epoch) by connection.
    pub sessions: Vec<(i32, i32)>,
    /// Whether the session of a connection names topics by id.
    pub session_ids: Vec<bool>,
    /// Topic ids by name; those of deleted topics stay.
    pub topic_ids: BTreeMap<String, u128>,
    /// Ids by kind, in the order of their appearance.
    pub seen: BTreeMap<&'static str, Vec<String>>,
}

impl Side {
    /// Creates the state at the start of a run.
    pub fn new(run: &str, start: i64, connections: usize) -> Self {
        let producer = Producer { id: -1, epoch: -1, sequences: BTreeMap::new() };
        Self {
            run: run.to_owned(),
            start,
            members: vec![Member { generation: -1, ..Member::default() }; MEMBERS],
            producers: vec![producer; PRODUCERS],
            sessions: vec![(0, 0); connections],
            session_ids: vec![false; connections],
            topic_ids: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    /// Takes the ids of a response.
    pub fn learn(&mut self, learn: &Learn, response: &Tree) {
        let ids = &mut self.topic_ids;
        response.visit(&mut |tree| {
            if let (Some(name), Some(id)) = (tree.text("name"), tree.number("topic_id"))
                && id != 0
                && !name.is_empty()
            {
                ids.insert(name.to_owned(), id as u128);
            }
        });
        let error = response.number("error_code").unwrap_or(0);
        match learn {
            Learn::Nothing => {}
            Learn::Member(slot) => {
                let member = &mut self.members[*slot];
                if let Some(id) = response.text("member_id")
                    && [0, 79].contains(&error)
                {
                    member.id = id.to_owned();
                }
                if error == 0 {
                    member.generation = response.number("generation_id").unwrap_or(-1) as i32;
                    member.is_leader = response.text("leader") == Some(&member.id);
                    let ids = response.list("members").iter().filter_map(|member| member.text("member_id"));
                    member.members = ids.map(str::to_owned).collect();
                }
            }
            Learn::Producer(slot) => {
                let producer = &mut self.producers[*slot];
                let id = response.number("producer_id").unwrap_or(-1) as i64;
                let epoch = response.number("producer_epoch").unwrap_or(-1) as i16;
                if error == 0 && id >= 0 && (id, epoch) != (producer.id, producer.epoch) {
                    *producer = Producer { id, epoch, sequences: BTreeMap::new() };
                }
            }
            Learn::Sequence(slot, counts) => {
                let mut outcomes = Vec::new();
                response.visit(&mut |tree| {
                    if tree.get("base_offset").is_some() {
                        outcomes.push((tree.number("index"), tree.number("error_code")));
                    }
                });
                for (topic, partition, count) in counts {
                    if outcomes.contains(&(Some(i128::from(*partition)), Some(0))) {
                        let sequences = &mut self.producers[*slot].sequences;
                        *sequences.entry((topic.clone(), *partition)).or_default() += count;
                    }
                }
            }
            Learn::Session(conn, uses_ids) => {
                if response.number("error_code") == Some(0) && self.sessions[*conn].1 == 0 {
                    self.session_ids[*conn] = *uses_ids;
                }
                let session = &mut self.sessions[*conn];
                let id = response.number("session_id").unwrap_or(0) as i32;
                if error != 0 {
                    *session = (0, 0);
                } else if id != 0 {
                    *session = if id == session.0 { (id, session.1 + 1) } else { (id, 1) };
                }
            }
        }
    }

    /// Returns the number of an id in the order of appearance. `may_add` false: `?` for an id that is new.
    pub fn alias(&mut self, kind: &'static str, id: &str, may_add: bool) -> String {
        let seen = self.seen.entry(kind).or_default();
        match seen.iter().position(|known| known == id) {
            Some(index) => format!("{kind}{index}"),
            None if may_add => {
                seen.push(id.to_owned());
                format!("{kind}{}", seen.len() - 1)
            }
            None => format!("{kind}?"),
        }
    }

    /// Returns the names of all topics that the run can have.
    pub fn topic_names(&self) -> impl Iterator<Item = String> + '_ {
        ["t0", "t1", "t2", "t3", "missing"].into_iter().map(|name| format!("{}{name}", self.run))
    }

    /// Returns the id of a topic.
    pub fn topic_id(&self, name: &str) -> u128 {
        self.topic_ids.get(name).copied().unwrap_or(UNKNOWN_ID)
    }
}
