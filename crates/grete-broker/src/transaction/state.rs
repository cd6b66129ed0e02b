//! State of a transactional id, and the transitions between the states.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{Millis, TopicPartition};

/// Producer id that stands for none.
pub(super) const NO_PRODUCER_ID: i64 = -1;
/// Producer epoch that stands for none.
pub(super) const NO_EPOCH: i16 = -1;
/// Highest epoch that a producer gets. The next one is left for fencing.
pub(super) const LAST_EPOCH: i16 = i16::MAX - 1;

/// Producer id with epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Producer {
    /// Producer id. -1: none.
    pub id: i64,
    /// Producer epoch. -1: none.
    pub epoch: i16,
}

impl Producer {
    /// No producer, as responses with an error have it.
    pub const NONE: Self = Self { id: NO_PRODUCER_ID, epoch: NO_EPOCH };
}

/// State of a transactional id, as in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionState {
    /// The producer has an epoch, and no transaction since.
    Empty,
    /// The transaction has partitions or groups.
    Ongoing,
    /// The transaction commits; its markers are being written.
    PrepareCommit,
    /// The transaction aborts; its markers are being written.
    PrepareAbort,
    /// The last transaction is committed.
    CompleteCommit,
    /// The last transaction is aborted.
    CompleteAbort,
}

impl TransactionState {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
    ];

    /// Returns Kafka's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    /// Returns whether markers are being written.
    #[must_use]
    pub const fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }
}

/// Everything that the coordinator knows of a transactional id. All of it is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// Current producer. Requests of other producers are refused.
    pub producer: Producer,
    /// Producer id before the last change of the state.
    pub previous_producer_id: i64,
    /// Epoch before the current one, for repeated requests. -1: none.
    pub previous_epoch: i16,
    /// Producer id that replaces the current one when the markers are written, because the epochs are used up. -1: none.
    pub next_producer_id: i64,
    /// Time in milliseconds after which an open transaction is aborted, from 1.
    pub timeout_ms: i32,
    /// Current state.
    pub state: TransactionState,
    /// Partitions of the transaction.
    pub partitions: BTreeSet<TopicPartition>,
    /// Groups whose offsets the transaction commits.
    pub groups: BTreeSet<Arc<str>>,
    /// Start of the transaction. -1: none since the producer's epoch began.
    pub started: Millis,
    /// Last change.
    pub updated: Millis,
}

impl Transaction {
    /// Creates the state of a new transactional id, which has a producer id and no epoch yet.
    pub(super) fn new(producer_id: i64, timeout_ms: i32, now: Millis) -> Self {
        Self {
            producer: Producer { id: producer_id, epoch: NO_EPOCH },
            previous_producer_id: NO_PRODUCER_ID,
            previous_epoch: NO_EPOCH,
            next_producer_id: NO_PRODUCER_ID,
            timeout_ms,
            state: TransactionState::Empty,
            partitions: BTreeSet::new(),
            groups: BTreeSet::new(),
            started: -1,
            updated: now,
        }
    }

    /// Returns whether the producer cannot get a higher epoch.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.producer.epoch >= LAST_EPOCH
    }

    /// Begins an epoch: no transaction, and the producer's new timeout.
    pub(super) fn initialize(&mut self, now: Millis, producer: Producer, previous_epoch: i16, timeout_ms: i32) {
        self.transit(now, TransactionState::Empty);
        self.producer = producer;
        self.previous_epoch = previous_epoch;
        self.timeout_ms = timeout_ms;
        self.started = -1;
        self.clear();
    }

    /// Begins a transaction unless one is open.
    pub(super) fn open(&mut self, now: Millis) {
        if self.state != TransactionState::Ongoing {
            self.started = now;
        }
        self.transit(now, TransactionState::Ongoing);
    }

    /// Decides the transaction. The markers have the producer of this state.
    pub(super) fn prepare(&mut self, now: Millis, commit: bool) {
        if self.state != TransactionState::Ongoing {
            self.started = now;
        }
        self.transit(now, if commit { TransactionState::PrepareCommit } else { TransactionState::PrepareAbort });
    }

    /// Raises the epoch by one, and remembers the old one for a repeated request.
    pub(super) fn bump_epoch(&mut self) {
        self.previous_epoch = self.producer.epoch;
        self.producer.epoch = self.producer.epoch.saturating_add(1);
    }

    /// Ends the prepared transaction. Returns `false` if none is prepared.
    pub(super) fn complete(&mut self, now: Millis) -> bool {
        let state = match self.state {
            TransactionState::PrepareCommit => TransactionState::CompleteCommit,
            TransactionState::PrepareAbort => TransactionState::CompleteAbort,
            _ => return false,
        };
        self.transit(now, state);
        if self.next_producer_id != NO_PRODUCER_ID {
            self.producer = Producer { id: self.next_producer_id, epoch: 0 };
            self.next_producer_id = NO_PRODUCER_ID;
        }
        self.clear();
        true
    }

    fn transit(&mut self, now: Millis, state: TransactionState) {
        self.previous_producer_id = self.producer.id;
        self.updated = now;
        self.state = state;
    }

    fn clear(&mut self) {
        self.partitions.clear();
        self.groups.clear();
    }
}
