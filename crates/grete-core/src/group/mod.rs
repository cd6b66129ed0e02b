//! The consumer group: membership, assignment, committed offsets. Sans-IO, like everything on this floor.
//!
//! | machine | knows |
//! |---|---|
//! | `coordinator` | which broker coordinates the group, and when to doubt it |
//! | `member` | the classic protocol: who we are, which generation |
//! | [`assignor`] | pure functions that the leader runs |
//! | `reconciler` | what is ours, what is on its way out; two-phase revocation, assignment epochs |
//! | `committer` | offsets on their way to the coordinator |
//! | `loader` | positions on their way back |
//! | [`GroupMachine`] | how these act on each other |
//!
//! Reconciler, committer and loader know nothing of JoinGroup, so that a member of the KIP-848 protocol can stand in for
//! the classic one. Every request has a token that its machine remembers for as long as it wants the answer; whatever
//! makes an answer unwanted (a new generation, another coordinator, a fence) forgets the token.
//!
//! **Revocation.** [`GroupAction::Revoke`] goes out, the application finishes and commits, [`GroupEvent::RevokeAcked`]
//! comes back; until then, and until commits under way have ended, the partition is ours, its commits count, and
//! heartbeats go on. Only then does the member join again (or leave). A revocation that nobody acknowledges ends at its deadline: `max.poll.interval.ms` less one heartbeat,
//! so that the JoinGroup still arrives before the coordinator drops us.

pub mod assignor;
mod committer;
pub mod config;
mod context;
mod coordinator;
pub mod error;
pub mod event;
mod loader;
mod machine;
mod member;
mod reconciler;
pub mod subscription;
#[cfg(test)]
pub(crate) mod tests;

pub use assignor::Assignor;
pub use config::{GroupConfig, GroupConfigError};
pub use context::ClusterView;
pub use error::{CommitError, GroupError};
pub use event::{CommitOffset, CommitOutcome, GroupAction, GroupEvent, GroupNotice, GroupStats, LostReason};
pub use machine::GroupMachine;
