//! What goes into the position machine, and what comes out.

use crate::fetch_notice::FetchNotice;
use crate::ids::Slot;
use crate::request::{Outgoing, Reply};
use crate::slot_error::SlotError;

/// Where to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// At that offset.
    Offset(i64),
    /// At the first offset of the log.
    Earliest,
    /// At its end.
    Latest,
    /// At the first record with that timestamp (milliseconds since 1970) or a later one; at the end if there is none.
    Timestamp(i64),
    /// There is no committed offset: where `auto.offset.reset` says.
    Reset,
}

/// Something happened. A burst of starts should be followed by one `Tick`-like event only if nothing else comes: each
/// event sends what is ready to be sent, and [`PositionEvent::Starts`] takes many at once.
#[derive(Debug, Clone)]
pub enum PositionEvent {
    /// A new position: first one, seek. What is queued or in flight for the slot becomes stale.
    Start {
        /// Which slot.
        slot: Slot,
        /// Where.
        at: StartAt,
        /// Leader epoch of the record before the offset, as it was committed; -1 when unknown.
        leader_epoch: i32,
    },
    /// A new position will come, from elsewhere: what is queued or in flight for the slot becomes stale.
    Hold {
        /// Which slot.
        slot: Slot,
    },
    /// Many new positions, looked up together.
    Starts(Vec<(Slot, StartAt, i32)>),
    /// From the fetch machine: the offset is not in the log.
    OutOfRange {
        /// Which slot.
        slot: Slot,
    },
    /// From the fetch machine: the leader's log diverges from what was read (KIP-320).
    Diverged {
        /// Which slot.
        slot: Slot,
        /// The last common epoch; -1 when undefined.
        epoch: i32,
        /// Where it ends; -1 when undefined.
        end_offset: i64,
    },
    /// From the fetch machine: compare the position with the new leader's log.
    Validate {
        /// Which slot.
        slot: Slot,
    },
    /// An answer to one of our requests.
    Reply(Reply),
    /// Metadata has changed.
    LeaderChanged,
    /// The deadline has passed.
    Tick,
}

/// What the driver has to do.
#[derive(Debug, Clone)]
pub enum PositionAction {
    /// Send it through the cluster.
    Send(Outgoing),
    /// The slot can be fetched: tell the fetch machine to plan, once after all actions.
    Ready {
        /// Which slot.
        slot: Slot,
        /// From where.
        offset: i64,
    },
    /// The metadata is stale.
    RefreshMetadata,
    /// The slot has stopped.
    Failed {
        /// Which slot.
        slot: Slot,
        /// Why.
        error: SlotError,
    },
    /// Worth telling.
    Notice(FetchNotice),
}
