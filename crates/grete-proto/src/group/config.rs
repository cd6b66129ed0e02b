//! Settings of a group member.

use std::sync::Arc;

use super::assignor::Assignor;
use crate::time::{MILLI, Nanos, SECOND};

/// `group.protocol`: protocol of the membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupProtocol {
    /// JoinGroup and SyncGroup: the leader of the group assigns.
    #[default]
    Classic,
    /// ConsumerGroupHeartbeat (KIP-848): the coordinator assigns.
    Consumer,
    /// ShareGroupHeartbeat (KIP-932): a share group, whose members have partitions in common. Its requests are those of
    /// the consumer protocol with fewer fields: no owned partitions, no offsets, no static members.
    Share,
    /// The consumer protocol if the cluster has finalized `group.version` 1, the group allows it, and no setting needs
    /// the classic one ([`GroupConfig::classic_setting`]); else the classic one.
    Auto,
}

/// Ids of a member of the consumer protocol, made by the supervisor of its process (KIP-1082 lets clients make them).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberIds {
    /// Member id of this member, which no other process has.
    pub member_id: Arc<str>,
    /// Member id of the process before, which is dead for certain. The member gives up the place of the dead one in its
    /// name before it joins, instead of waiting for the session to end. Should the process be alive after all, the
    /// coordinator refuses its heartbeats and commits.
    pub predecessor: Option<Arc<str>>,
}

/// Settings of one group, with Kafka's names and defaults where Kafka has them.
#[derive(Debug, Clone)]
pub struct GroupConfig {
    /// `group.id`.
    pub group_id: Arc<str>,
    /// `group.instance.id` (KIP-345): a process that returns under the same id within the session timeout gets its
    /// partitions back without a rebalance. On close, too, such a member keeps its place for the session timeout.
    pub instance_id: Option<Arc<str>>,
    /// `group.protocol`.
    pub protocol: GroupProtocol,
    /// Setting that the user has given and that only the classic protocol has: with [`GroupProtocol::Auto`], the member
    /// uses that protocol. `None`: the cluster and the group decide.
    pub classic_setting: Option<&'static str>,
    /// `group.remote.assignor`: assignor of the coordinator in the consumer protocol; `None`: the first one that the
    /// brokers are configured with.
    pub remote_assignor: Option<Arc<str>>,
    /// Ids for the consumer protocol; `None`: the member makes its own.
    pub member_ids: Option<MemberIds>,
    /// `client.rack`, for assignors that know racks; `None`: not set.
    pub rack: Option<Arc<str>>,
    /// `session.timeout.ms`, in nanoseconds: time without heartbeats after which the coordinator removes a member. 45
    /// s.
    pub session_timeout: Nanos,
    /// `heartbeat.interval.ms`, in nanoseconds: 3 s.
    pub heartbeat_interval: Nanos,
    /// `max.poll.interval.ms`, in nanoseconds, sent as the rebalance timeout: time for which the other members wait for
    /// a revocation. 300 s.
    pub max_poll_interval: Nanos,
    /// `partition.assignment.strategy`, in order of preference. See [`super::assignor`] for why the default is
    /// cooperative-sticky alone.
    pub assignors: Vec<Assignor>,
    /// `request.timeout.ms`, in nanoseconds, for requests that the coordinator answers at once. 30 s.
    pub request_timeout: Nanos,
    /// `retry.backoff.ms`, in nanoseconds: first wait after a failure. 100 ms.
    pub retry_backoff: Nanos,
    /// `retry.backoff.max.ms`, in nanoseconds: longest wait after failures. 1 s.
    pub retry_backoff_max: Nanos,
    /// Time for which a commit is retried before it fails, in nanoseconds. 60 s (Java: `default.api.timeout.ms`).
    pub commit_timeout: Nanos,
    /// Whether a missing permission for a topic's offsets is retried, instead of failing the group.
    pub retry_authorization_failures: bool,
    /// Whether offsets are committed in transactions, by [`super::GroupAction::CommitTransaction`].
    pub transactional: bool,
}

impl GroupConfig {
    /// Returns the default settings for a group.
    pub fn new(group_id: impl Into<Arc<str>>) -> Self {
        Self {
            group_id: group_id.into(),
            instance_id: None,
            protocol: GroupProtocol::Classic,
            classic_setting: None,
            remote_assignor: None,
            member_ids: None,
            rack: None,
            session_timeout: 45 * SECOND,
            heartbeat_interval: 3 * SECOND,
            max_poll_interval: 300 * SECOND,
            assignors: vec![Assignor::CooperativeSticky],
            request_timeout: 30 * SECOND,
            retry_backoff: 100 * MILLI,
            retry_backoff_max: SECOND,
            commit_timeout: 60 * SECOND,
            retry_authorization_failures: false,
            transactional: false,
        }
    }

    /// Checks the settings before a connection is opened.
    ///
    /// # Errors
    /// The first invalid setting, with advice.
    pub fn check(&self) -> Result<(), GroupConfigError> {
        if self.group_id.is_empty() {
            return Err(GroupConfigError::NoGroupId);
        }
        if let Some(id) = self.instance_id.as_deref().filter(|id| !is_legal_instance_id(id)) {
            return Err(GroupConfigError::InstanceId { id: id.to_owned() });
        }
        if self.assignors.is_empty() {
            return Err(GroupConfigError::NoAssignors);
        }
        if matches!(self.protocol, GroupProtocol::Consumer | GroupProtocol::Share) {
            return Ok(()); // the coordinator names the interval
        }
        if self.heartbeat_interval == 0 || self.heartbeat_interval >= self.session_timeout {
            return Err(GroupConfigError::Heartbeat {
                heartbeat: self.heartbeat_interval / MILLI,
                session: self.session_timeout / MILLI,
            });
        }
        if self.max_poll_interval <= self.heartbeat_interval {
            return Err(GroupConfigError::PollInterval {
                poll: self.max_poll_interval / MILLI,
                heartbeat: self.heartbeat_interval / MILLI,
            });
        }
        Ok(())
    }
}

/// Returns whether brokers accept the id: `group.instance.id` follows the rules for topic names.
fn is_legal_instance_id(id: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&id.len()) && id != "." && id != ".." && id.bytes().all(legal)
}

/// Invalid setting of a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupConfigError {
    /// `group.id` is empty.
    #[error("group.id is empty: give the group a name")]
    NoGroupId,
    /// Brokers would refuse the `group.instance.id`.
    #[error(
        "group.instance.id={id:?} is refused by brokers: give 1 to 249 letters, digits, dots, underscores and hyphens (and \
         neither \".\" nor \"..\")"
    )]
    InstanceId {
        /// Invalid `group.instance.id`.
        id: String,
    },
    /// The list of assignors is empty.
    #[error("partition.assignment.strategy is empty: set cooperative-sticky, range or both")]
    NoAssignors,
    /// The heartbeat interval is 0, or not below the session timeout.
    #[error(
        "heartbeat.interval.ms={heartbeat} must be above 0 and below session.timeout.ms={session}: a third of it or less is usual"
    )]
    Heartbeat {
        /// `heartbeat.interval.ms`.
        heartbeat: u64,
        /// `session.timeout.ms`.
        session: u64,
    },
    /// The poll interval leaves no time to revoke.
    #[error("max.poll.interval.ms={poll} must be above heartbeat.interval.ms={heartbeat}")]
    PollInterval {
        /// `max.poll.interval.ms`.
        poll: u64,
        /// `heartbeat.interval.ms`.
        heartbeat: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_work_and_nonsense_is_named() {
        let good = GroupConfig::new("g");
        assert_eq!(good.check(), Ok(()));
        assert_eq!(GroupConfig::new("").check(), Err(GroupConfigError::NoGroupId));
        let bad = GroupConfig { session_timeout: 2 * SECOND, ..good.clone() };
        assert!(bad.check().unwrap_err().to_string().contains("heartbeat.interval.ms=3000"));
        let bad = GroupConfig { assignors: Vec::new(), ..good.clone() };
        assert_eq!(bad.check(), Err(GroupConfigError::NoAssignors));
        for id in ["", ".", "..", "a b", "gr\u{fc}n", "{hostname}", &"x".repeat(250)] {
            let bad = GroupConfig { instance_id: Some(id.into()), ..good.clone() };
            assert_eq!(bad.check(), Err(GroupConfigError::InstanceId { id: id.to_owned() }));
        }
        let fine = GroupConfig { instance_id: Some("host-1.example_7".into()), ..good.clone() };
        assert_eq!(fine.check(), Ok(()));
        let bad = GroupConfig { max_poll_interval: SECOND, ..good };
        assert!(matches!(bad.check(), Err(GroupConfigError::PollInterval { .. })));
    }
}
