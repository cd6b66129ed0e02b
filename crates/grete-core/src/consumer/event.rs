//! What happens to a consumer, and what it wants done.

use std::sync::Arc;

use grete_wire::Outbound;
use grete_wire::error_code::ErrorCode;
use grete_wire::frame::Frame;

use crate::admin::{AdminError, When};
use crate::cluster::ClusterNotice;
use crate::conn::CloseReason;
use crate::dispatch::{Committable, OffsetMap};
use crate::fetch::Chunk;
use crate::fetch_notice::FetchNotice;
use crate::group::{CommitOutcome, GroupError, GroupNotice};
use crate::ids::{ConnId, Slot, TopicPartition};
use crate::position::StartAt;
use crate::request::NotKafka;
use crate::slot_error::SlotError;
use crate::time::Nanos;

/// Where a partition is to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the group's committed offset, else by `auto.offset.reset`.
    Committed,
    /// There.
    At(StartAt),
}

/// How a consumer stands to its partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// For people: `stable`, `joining`, `revoking`, `assigned` (by hand) and so on.
    pub state: &'static str,
    /// Nothing is on its way: the group's assignment is taken in, or the partitions were given by hand.
    pub steady: bool,
    /// The group's generation; -1 outside of it.
    pub generation: i32,
    /// How many partitions it has.
    pub partitions: usize,
}

/// Something happened.
#[derive(Debug)]
pub enum ConsumerEvent {
    /// A deadline has passed, or somebody woke the loop.
    Tick,
    /// A socket is connected.
    Connected(ConnId),
    /// A whole message arrived.
    Frame(ConnId, Frame),
    /// A socket is gone.
    Closed(ConnId, CloseReason),

    /// Read these topics as a member of the group.
    Subscribe(Vec<Arc<str>>),
    /// Read these partitions, and no others, without the group's say.
    Assign {
        /// All of them.
        partitions: Vec<(TopicPartition, Start)>,
        /// The caller's number for it.
        id: u32,
    },
    /// Go on from there.
    Seek(TopicPartition, Start),
    /// Fetch it no more, or again.
    Pause(TopicPartition, bool),
    /// Commit these; answered by [`ConsumerAction::Reply`] unless `id` is 0.
    Commit {
        /// What.
        offsets: Vec<Committable>,
        /// The caller's number for it.
        id: u32,
    },
    /// Answered with the group's committed offsets.
    Committed {
        /// Of these.
        tps: Vec<TopicPartition>,
        /// The caller's number for it.
        id: u32,
    },
    /// Answered with the offsets that these starts come to, in this order.
    ListOffsets {
        /// Of these.
        starts: Vec<(TopicPartition, When)>,
        /// The caller's number for it.
        id: u32,
    },
    /// Answered with the topic's partition count, as soon as the metadata tells.
    CountPartitions {
        /// Of this topic.
        topic: Arc<str>,
        /// The caller's number for it.
        id: u32,
    },
    /// The caller no longer waits for this answer.
    Forget(u32),

    /// Bytes left the queue.
    Released(Slot, usize),
    /// More bytes are held (decompressed ones).
    Charged(Slot, usize),
    /// A batch did not pass its check.
    Corrupt {
        /// Whose.
        slot: Slot,
        /// What the chunk carried.
        generation: u32,
        /// Fetch again from here.
        offset: i64,
    },
    /// A revoked lane has ended.
    Drained(Slot, Option<Committable>),
    /// Commit nothing more by itself, commit `offsets`, leave the group, end the sessions.
    Close {
        /// The last ones. `None`: commit nothing, and nothing of what lanes still bring on their way out either.
        offsets: Option<Vec<Committable>>,
        /// Be done by then.
        deadline: Nanos,
    },
}

/// What is to be done.
#[derive(Debug)]
pub enum ConsumerAction {
    /// Resolve and connect.
    Connect {
        /// Its name.
        conn: ConnId,
        /// Host.
        host: Arc<str>,
        /// Port.
        port: u16,
    },
    /// Write.
    Write {
        /// To.
        conn: ConnId,
        /// What.
        bytes: Outbound,
    },
    /// Drop the socket.
    CloseConn(ConnId),

    /// A partition was assigned.
    AddLane {
        /// Its slot.
        slot: Slot,
        /// Its name.
        tp: TopicPartition,
        /// Under which assignment.
        assignment_epoch: u32,
    },
    /// What fetched data carries from now on, and where it starts.
    Position {
        /// Whose.
        slot: Slot,
        /// The first offset to be handed out.
        offset: i64,
        /// What its data carries.
        generation: u32,
        /// Whether that offset is what the group has committed.
        committed: bool,
        /// What the commit says to be processed beyond that offset.
        already: OffsetMap,
    },
    /// Data to decode.
    Push(Chunk),
    /// There is nothing more yet, and this is where the partition ends.
    HighWatermark {
        /// Whose.
        slot: Slot,
        /// As the broker told; -1 when unknown.
        high_watermark: i64,
        /// End of what may be read: with read_committed the last stable offset; -1 when unknown.
        readable_end: i64,
    },
    /// The partition leaves: end its job, run its hook, answer with [`ConsumerEvent::Drained`].
    Revoke {
        /// Which.
        slot: Slot,
        /// It is gone already.
        lost: bool,
    },
    /// Its job is past the deadline: what it does from now on does not count.
    Abandon(Slot),
    /// The partition was unassigned by the user.
    Remove(Slot),
    /// Group lanes may run until then (`None`: no session to mind).
    Session(Option<Nanos>),
    /// Bring the offsets that have grown: [`ConsumerEvent::Commit`] with id 0.
    CollectOffsets,
    /// These were not committed after all.
    NotCommitted(Vec<TopicPartition>),
    /// The fetcher waits for memory, or does not.
    Starved(bool),

    /// The answer to a question with this number.
    Reply(u32, ConsumerReply),
    /// Worth telling.
    Notice(ConsumerNotice),
    /// One partition has stopped.
    SlotFailed(SlotError),
    /// Nothing more will come of this client.
    Fatal(ConsumerFatal),
    /// Closed: the loop may end.
    Finished,
}

/// An answer.
#[derive(Debug)]
pub enum ConsumerReply {
    /// The assignment stands.
    Assigned,
    /// The commit came to this, per partition.
    Commit(Vec<CommitOutcome>),
    /// The committed offsets.
    Committed(Result<Vec<(TopicPartition, Option<i64>)>, AdminError>),
    /// The offsets, or what is wrong with a partition, in the order of the question.
    Offsets(Vec<Result<i64, AdminError>>),
    /// The partition count, or why there is none.
    Partitions(Result<i32, ErrorCode>),
}

/// Worth telling.
#[derive(Debug, Clone)]
pub enum ConsumerNotice {
    /// Brokers and metadata.
    Cluster(ClusterNotice),
    /// Positions and fetching.
    Fetch(FetchNotice),
    /// Membership and commits.
    Group(GroupNotice),
    /// A handler outlasted the time to give its partition up.
    Abandoned(TopicPartition),
    /// A topic of which partitions were assigned by hand does not exist, or not yet.
    NoSuchTopic {
        /// Its name.
        topic: Arc<str>,
    },
    /// Partitions were assigned by hand that the topic does not have.
    NoSuchPartitions {
        /// Its name.
        topic: Arc<str>,
        /// Those that it does not have.
        partitions: Vec<i32>,
        /// How many it has.
        count: i32,
    },
}

/// Why the client gives up.
#[derive(Debug, Clone)]
pub enum ConsumerFatal {
    /// No broker anywhere.
    NotKafka(NotKafka),
    /// The group will not have us.
    Group(GroupError),
}
