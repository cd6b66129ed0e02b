//! Share sessions: what a member reads from one broker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grete_wire::ErrorCode;

use crate::ids::{BrokerId, ConnId, TopicId};

/// Epoch of a request that begins a session.
pub const FIRST_EPOCH: i32 = 0;
/// Epoch of a request that ends a session.
pub const FINAL_EPOCH: i32 = -1;

/// Session, by broker, group and member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey {
    /// Broker.
    pub broker: BrokerId,
    /// `group.id`.
    pub group: Arc<str>,
    /// Member id.
    pub member: Arc<str>,
}

#[derive(Debug)]
struct ShareSession {
    /// Epoch of the next request.
    epoch: i32,
    /// Connection that began the session: its end ends the session.
    conn: ConnId,
    /// Partitions in the order in which they are asked.
    partitions: Vec<(TopicId, i32)>,
}

/// Sessions of all brokers.
#[derive(Debug, Default)]
pub struct ShareSessions {
    sessions: BTreeMap<SessionKey, ShareSession>,
}

impl ShareSessions {
    /// Begins a session, with the partitions of the request. Returns whether another one of the member had to end.
    ///
    /// # Errors
    /// `SHARE_SESSION_LIMIT_REACHED`: the broker has `limit` sessions.
    pub fn begin(
        &mut self,
        key: SessionKey,
        conn: ConnId,
        partitions: Vec<(TopicId, i32)>,
        limit: usize,
    ) -> Result<bool, ErrorCode> {
        let is_replaced = self.sessions.remove(&key).is_some();
        if self.sessions.keys().filter(|session| session.broker == key.broker).count() >= limit {
            return Err(ErrorCode::SHARE_SESSION_LIMIT_REACHED);
        }
        self.sessions.insert(key, ShareSession { epoch: FIRST_EPOCH + 1, conn, partitions });
        Ok(is_replaced)
    }

    /// Continues a session: checks the epoch of a request, and counts it.
    ///
    /// # Errors
    /// `SHARE_SESSION_NOT_FOUND` or `INVALID_SHARE_SESSION_EPOCH`.
    pub fn advance(&mut self, key: &SessionKey, epoch: i32) -> Result<(), ErrorCode> {
        let session = self.sessions.get_mut(key).ok_or(ErrorCode::SHARE_SESSION_NOT_FOUND)?;
        if epoch != session.epoch {
            return Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH);
        }
        session.epoch = epoch.checked_add(1).unwrap_or(1);
        Ok(())
    }

    /// Adds partitions to a session, and removes others.
    pub fn change(&mut self, key: &SessionKey, added: Vec<(TopicId, i32)>, removed: &[(TopicId, i32)]) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let removed: BTreeSet<_> = removed.iter().collect();
        session.partitions.retain(|partition| !removed.contains(partition));
        let mut known: BTreeSet<_> = session.partitions.iter().copied().collect();
        session.partitions.extend(added.into_iter().filter(|one| !removed.contains(one) && known.insert(*one)));
    }

    /// Returns the partitions of a session, and lets the next call begin with another one: a busy partition does not keep
    /// the others waiting.
    pub fn rotate(&mut self, key: &SessionKey) -> Vec<(TopicId, i32)> {
        let Some(session) = self.sessions.get_mut(key) else { return Vec::new() };
        let partitions = session.partitions.clone();
        if !session.partitions.is_empty() {
            session.partitions.rotate_left(1);
        }
        partitions
    }

    /// Returns whether there is such a session.
    #[must_use]
    pub fn contains(&self, key: &SessionKey) -> bool {
        self.sessions.contains_key(key)
    }

    /// Returns whether the session is as it was after the request of this epoch.
    #[must_use]
    pub fn is_current(&self, key: &SessionKey, epoch: i32) -> bool {
        self.sessions.get(key).is_some_and(|session| session.epoch == epoch.checked_add(1).unwrap_or(1))
    }

    /// Ends a session. Returns whether there was one.
    pub fn end(&mut self, key: &SessionKey) -> bool {
        self.sessions.remove(key).is_some()
    }

    /// Returns the sessions of a broker.
    #[must_use]
    pub fn of_broker(&self, broker: BrokerId) -> Vec<SessionKey> {
        self.sessions.keys().filter(|session| session.broker == broker).cloned().collect()
    }

    /// Ends the sessions of a connection that has ended. Returns them.
    pub fn disconnect(&mut self, conn: ConnId) -> Vec<SessionKey> {
        self.sessions.extract_if(.., |_, session| session.conn == conn).map(|(key, _)| key).collect()
    }
}
