//! Share groups (KIP-932): records of a partition are handed to several members, one by one, and acknowledged one by one.
//!
//! A leader *acquires* records for a member: it locks them for a time, sends them, and counts the delivery. The member
//! acknowledges each record: accepted, released (another member gets it), rejected (no member does), or, for a range
//! without a record, as a gap. A lock that is not acknowledged in time ends, and the record is delivered again.
//!
//! | module | holds |
//! |---|---|
//! | `acknowledgement` | acknowledgements, as ranges of offsets |
//! | `held` | records that this member has acquired, and when their locks end |
//! | `partition`, `session` | state of a partition, and of the share session with a leader |
//! | `acquirer` | the state machine: which request is sent, and what its response means |
//! | `request`, `response` | ShareFetch and ShareAcknowledge |
//!
//! Membership is that of the consumer protocol with another request: see
//! [`GroupProtocol::Share`](crate::group::GroupProtocol::Share).
//!
//! Not obvious:
//! - **One request in flight for each leader.** ShareFetch and ShareAcknowledge of one member carry an epoch that grows by
//!   one with each request. A ShareFetch may wait at the broker, and Kafka refuses its answer, with the records in it, if
//!   the epoch has grown meanwhile. An acknowledgement that comes up waits for that answer. A member that holds records
//!   therefore lets the broker wait [`BUSY_WAIT`](acquirer::BUSY_WAIT) at most. Without records to be had, that bounds the
//!   delay of an acknowledgement; with records, or without room for more, no request waits.
//! - **No more records than handlers need.** What one member holds no other member gets. The member holds as many
//!   records as it can run at once, and beyond that as many as it has finished within half a second: slow handlers keep
//!   nothing in reserve, fast ones never wait for a response.
//! - **Locks are renewed** (ShareAcknowledge 2, KIP-1222) after half of their time, for running and for waiting records.
//! - **A record is never handed out twice at once in one process.** A record that is acquired again while the handler
//!   still runs (its lock ended) is the same record under a new lock: only its delivery count and its lock are new.
//! - **One refused acknowledgement refuses all of its partition's in that request.** They are sent again one range at a
//!   time, then one record at a time, until the one whose lock has ended is alone.

pub mod acknowledgement;
pub mod acquirer;
pub mod config;
pub mod event;
mod held;
mod partition;
mod request;
mod response;
mod session;
mod status;
#[cfg(test)]
mod tests;
mod undelivered;

pub use acknowledgement::{AckType, Acknowledgement};
pub use acquirer::ShareAcquirer;
pub use config::ShareConfig;
pub use event::{ShareAction, ShareEvent, ShareLogEvent, ShareStats};
