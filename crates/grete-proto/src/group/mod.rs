//! Consumer group: membership, assignment and committed offsets. Sans-IO, like the whole crate.
//!
//! | module | responsibility |
//! |---|---|
//! | `coordinator` | finds the broker that coordinates the group, and drops it when it fails |
//! | `member` | the classic protocol, and the consumer protocol (KIP-848): member id, generation or epoch, heartbeats |
//! | [`assignor`] | pure functions that the group leader runs |
//! | `reconciler` | owned partitions, two-phase revocation, assignment epochs |
//! | `offset_committer` | offsets to store at the coordinator |
//! | `offset_fetcher` | committed offsets to read from the coordinator |
//! | [`ConsumerGroup`] | the interaction of these |
//!
//! Reconciler, committer and fetcher know nothing of JoinGroup, so that both protocols share them. Every request has a token, which its state machine remembers for as long as it needs the response.
//! An event that makes the response obsolete (a new generation, another coordinator, fencing) clears the token.
//!
//! **Revocation.** The group emits [`GroupAction::Revoke`], the application finishes and commits, and
//! [`GroupEvent::RevocationAcked`] comes back. Until then, and until commits in flight have ended, the member owns the
//! partition: its commits count, and heartbeats continue. Only then does the member join again (or leave). A revocation
//! without acknowledgement ends at its deadline, `max.poll.interval.ms` minus one heartbeat interval, so that the
//! JoinGroup still arrives before the coordinator removes the member.

pub mod assignor;
pub mod config;
mod consumer_group;
pub mod consumer_protocol;
mod context;
mod coordinator;
pub mod error;
pub mod event;
mod member;
mod offset_committer;
mod offset_fetcher;
mod reconciler;
#[cfg(test)]
pub(crate) mod tests;

pub use assignor::Assignor;
pub use config::{GroupConfig, GroupConfigError, GroupProtocol, MemberIds};
pub use consumer_group::ConsumerGroup;
pub use context::TopicMetadataView;
pub use error::{CommitError, GroupError};
pub use event::{
    CommitOffset, CommitOutcome, GroupAction, GroupEvent, GroupLogEvent, GroupStats, LostReason, TransactionResult,
};
