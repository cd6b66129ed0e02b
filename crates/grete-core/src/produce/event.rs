//! What goes into the produce machine, and what comes out.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::error::{FatalError, LastError};
use super::receipt::Receipt;
use crate::ids::{NodeId, TopicPartition};
use crate::request::{Outgoing, Reply};
use crate::time::Nanos;

/// Something happened. Each event ends in a look at what can be sent now.
#[derive(Debug, Clone)]
pub enum ProduceEvent {
    /// The deadline has passed.
    Tick,
    /// Records were appended, or are wanted out.
    Drain,
    /// An answer to one of our requests.
    Reply(Reply),
    /// Partitions, leaders or topic errors are not what they were.
    MetadataChanged,
    /// The node's produce connection can be used.
    NodeReady(NodeId),
    /// The node's produce connection is gone, or did not come about.
    NodeLost(NodeId),
    /// The node hears again.
    Unmuted(NodeId),
    /// Take no more records, send what is there, and give up what is left at the deadline.
    Close {
        /// When.
        deadline: Nanos,
    },
    /// Nothing will be sent any more: everything is settled now.
    Fatal(FatalError),
}

/// Why records are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GiveUp {
    /// `delivery.timeout.ms` was over.
    Expired,
    /// The producer was closed, and its deadline was over.
    Closed,
    /// The producer has failed.
    Fatal,
    /// A broker refused them for good.
    Refused(ErrorCode),
}

/// Records of one partition that were given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Where they were to go.
    pub tp: TopicPartition,
    /// In how many batches.
    pub batches: u32,
    /// How many.
    pub records: u64,
    /// Of these, those that may have been written.
    pub unknown: u64,
}

/// What has to be done.
#[derive(Debug)]
pub enum ProduceAction {
    /// Send it through the cluster.
    Send(Outgoing),
    /// The node's produce connection is needed and not there.
    NeedNode(NodeId),
    /// The metadata is stale.
    RefreshMetadata,
    /// The topics whose metadata is wanted have changed: [`super::Accumulator::interest`].
    Interest,
    /// A broker told who leads now (KIP-951).
    LeaderHint {
        /// Which partition.
        tp: TopicPartition,
        /// Who leads it.
        leader: NodeId,
        /// Since which epoch.
        epoch: i32,
        /// Where that node listens, if the broker said so (host, port).
        endpoint: Option<(String, i32)>,
    },
    /// The broker asks for silence (KIP-219).
    Throttled {
        /// Who.
        node: NodeId,
        /// For so many milliseconds.
        millis: i32,
    },
    /// Somebody waits for this receipt or watches it, and some of it, or all, is settled.
    Settled(Arc<Receipt>),
    /// There is room again: wake who waits on [`super::Words::room`].
    Room,
    /// What somebody flushed is settled: wake who waits on [`super::Words::progress`].
    Progress,
    /// Partitions of a topic are known, or what is wrong with it: wake who waits on [`super::Words::metadata`].
    TopicKnown,
    /// Worth telling.
    Notice(ProduceNotice),
    /// Nothing more will come of this producer; everything is settled.
    Fatal(FatalError),
    /// Closed, everything is settled, and no answer is waited for.
    Finished,
}

/// Worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProduceNotice {
    /// Batches of one request are sent again.
    Retried {
        /// Where the first of them goes.
        tp: TopicPartition,
        /// How many.
        batches: u32,
        /// Their records.
        records: u64,
        /// Why the first of them is.
        cause: LastError,
    },
    /// A batch was too large for the topic and goes in halves.
    Split {
        /// Where to.
        tp: TopicPartition,
        /// Its records.
        records: u32,
        /// What the broker said.
        code: ErrorCode,
    },
    /// Records were given up; those of a step are told together.
    GivenUp {
        /// Why.
        why: GiveUp,
        /// Whose; not empty.
        lost: Vec<Lost>,
    },
    /// The producer has an identity (KIP-98), or another one (KIP-360).
    Identity {
        /// Its id.
        producer_id: i64,
        /// Its epoch.
        epoch: i16,
    },
    /// No identity could be had; asked again after a backoff.
    NoIdentity(LastError),
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProduceStats {
    /// Produce requests sent.
    pub requests: u64,
    /// Batches sent, each time they were.
    pub batches: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Of the batches, those sent again.
    pub retries: u64,
    /// Batches that were halved.
    pub splits: u64,
    /// Records written.
    pub written: u64,
    /// Records not written.
    pub not_written: u64,
    /// Records of which nobody knows.
    pub unknown: u64,
}
