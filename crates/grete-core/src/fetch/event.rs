//! What goes into the fetch machine, and what comes out.

use crate::fetch::Chunk;
use crate::fetch_notice::FetchNotice;
use crate::ids::{NodeId, Slot, TopicPartition};
use crate::request::{Outgoing, Reply};
use crate::slot_error::SlotError;

/// Something happened. Each event ends in a look at what can be fetched now, so a burst of changes (an assignment with
/// many positions) should be applied first and told by one [`FetchEvent::Plan`]: a Fetch that left with the first
/// partition alone would hold up the others for `fetch.max.wait.ms`.
#[derive(Debug, Clone)]
pub enum FetchEvent {
    /// The deadline has passed.
    Tick,
    /// Slots became ready, metadata has changed, or a muted node hears again.
    Plan,
    /// An answer to one of our requests.
    Reply(Reply),
    /// The node's fetch connection can be used.
    NodeReady(NodeId),
    /// The node's fetch connection is gone.
    NodeLost(NodeId),
    /// Bytes of a chunk were decoded and are not held any more. Comes after the `Refetch` of a corrupt batch in the same
    /// chunk, if there is one: a slot without held bytes is one whose batches were all good.
    Released {
        /// Whose chunk.
        slot: Slot,
        /// How many.
        bytes: usize,
    },
    /// More bytes are held for the slot (decompressed ones).
    Charged {
        /// Whose.
        slot: Slot,
        /// How many.
        bytes: usize,
    },
    /// Fetch the slot no more, for now.
    Pause(Slot),
    /// Fetch it again.
    Resume(Slot),
    /// A batch was corrupt: throw away what was fetched from `offset` on and fetch it once more.
    Refetch {
        /// Whose batch.
        slot: Slot,
        /// The chunk's.
        fetch_generation: u32,
        /// Where the batches before it end: what its own header says is not proven.
        offset: i64,
    },
    /// The slot is not assigned any more.
    SlotRemoved(Slot),
    /// The client ends: frees the brokers' sessions, fetches nothing more.
    Close,
}

/// What the driver has to do.
#[derive(Debug, Clone)]
pub enum FetchAction {
    /// Send it through the cluster.
    Send(Outgoing),
    /// The node's fetch connection is needed and not there.
    NeedNode(NodeId),
    /// Batches to be decoded.
    Data(Chunk),
    /// There is nothing more yet.
    Nothing {
        /// Which slot.
        slot: Slot,
        /// End of what is replicated; -1 when unknown.
        high_watermark: i64,
        /// End of what may be read: with read_committed the last stable offset; -1 when unknown.
        readable_end: i64,
    },
    /// The leader does not have the offset: for the position machine. The slot is not fetched until it is ready again.
    OutOfRange {
        /// Which slot.
        slot: Slot,
        /// The answer came from a follower (which may lag): the leader has to be asked.
        follower: bool,
    },
    /// The leader's log went another way before our position (KIP-320): for the position machine.
    Diverged {
        /// Which slot.
        slot: Slot,
        /// The last epoch that both have in common.
        epoch: i32,
        /// Where it ends.
        end_offset: i64,
    },
    /// The position was read under an older leader, and this node's Fetch cannot check it (before v12): for the position
    /// machine.
    Validate {
        /// Which slot.
        slot: Slot,
    },
    /// The metadata is stale.
    RefreshMetadata,
    /// A broker told who leads now (KIP-951).
    LeaderHint {
        /// Which partition.
        tp: TopicPartition,
        /// Who leads it.
        leader: NodeId,
        /// Since which epoch.
        epoch: i32,
        /// Where that node listens, if the broker said so (host, port).
        endpoint: Option<(String, u16)>,
    },
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

/// Counts since the start; for figures and for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawFetchStats {
    /// Requests sent.
    pub fetches: u64,
    /// Of these, requests that named every partition.
    pub full_fetches: u64,
    /// Answers without an error.
    pub responses: u64,
    /// Answers without any batch.
    pub empty_responses: u64,
    /// Chunks handed on.
    pub chunks: u64,
    /// Bytes of batches handed on.
    pub bytes: u64,
    /// Records in them, as their headers say.
    pub records: u64,
}
