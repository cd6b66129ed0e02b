//! One partition: what of it is on its way, and how the next batch is numbered.

use std::collections::VecDeque;

use super::piece::Piece;
use super::sequence;
use crate::ids::{NodeId, TopicPartition};
use crate::request::NO_NODE;
use crate::time::{Nanos, SECOND};

/// A broker remembers so many batches of a producer and partition: as many may be on their way at once (KIP-98).
pub(super) const REMEMBERED: usize = 5;

/// A producer that has sent nothing for so long is perhaps forgotten: `producer.id.expiration.ms` is a day where nobody has
/// set it.
const FORGOTTEN: Nanos = 600 * SECOND;

/// A producer's id and epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub id: i64,
    pub epoch: i16,
}

impl Identity {
    /// Of a producer without idempotence.
    pub const NONE: Self = Self { id: -1, epoch: -1 };
}

#[derive(Debug)]
pub(super) struct Lane {
    pub tp: TopicPartition,
    /// The topic's; 0 while it is not known. Another one is another topic.
    pub topic_id: u128,
    /// The leader; `NO_NODE` while there is none.
    pub leader: NodeId,
    /// The accumulator has something to send.
    pub ready: bool,
    /// It stands in its leader's queue.
    pub queued: bool,
    /// It stands among those who wait out a backoff.
    pub asleep: bool,
    pub not_before: Nanos,
    pub failures: u32,
    /// To be sent again, in order.
    pub retry: VecDeque<Piece>,
    /// Something was sent again, or is to be, and is not resolved: one batch at a time.
    pub careful: bool,
    /// On their way, in the order of sending.
    pub flight: Vec<(u64, u32)>,
    /// Where they are.
    pub flight_node: NodeId,
    /// Whose numbers these are.
    pub identity: Identity,
    /// The number of the next record.
    pub next: i32,
    /// The number after the last record of which a broker has said that it is written.
    pub written: i32,
    /// The topic has taken a batch of this identity. Until then there is one batch on its way at a time: a leader that
    /// knows nothing of a producer takes any number from it, so that a second batch could overtake a first one that is
    /// refused.
    pub proven: bool,
    /// When a broker last said that something is written.
    pub heard: Nanos,
    /// Some numbers will never be used: what follows them gets other ones, once nothing ambiguous is left.
    pub hole: bool,
    /// The first batch whose numbers have certainly not been used, and will not be: nothing behind it can be written.
    pub gap: Option<(u64, u32)>,
    /// It is not known whether some numbers were used: only another identity can go on.
    pub broken: bool,
}

impl Lane {
    pub fn new(tp: TopicPartition) -> Self {
        Self {
            tp,
            topic_id: 0,
            leader: NO_NODE,
            ready: false,
            queued: false,
            asleep: false,
            not_before: 0,
            failures: 0,
            retry: VecDeque::new(),
            careful: false,
            flight: Vec::new(),
            flight_node: NO_NODE,
            identity: Identity::NONE,
            next: 0,
            written: 0,
            proven: false,
            heard: 0,
            hole: false,
            gap: None,
            broken: false,
        }
    }

    /// Whether there is something to send.
    pub fn wants(&self) -> bool {
        self.ready || !self.retry.is_empty()
    }

    /// Whether some batch may have been written, or may still be, and nobody has said.
    pub fn is_ambiguous(&self) -> bool {
        !self.flight.is_empty() || self.retry.iter().any(Piece::is_doubtful)
    }

    /// Whether a batch before this one is not resolved: then the broker has to find this one out of order.
    pub fn has_earlier(&self, key: (u64, u32)) -> bool {
        self.flight.iter().any(|&other| other < key) || self.retry.front().is_some_and(|piece| piece.key() < key)
    }

    /// Back in line, in order.
    pub fn requeue(&mut self, piece: Piece) {
        self.careful = true;
        let at = self.retry.partition_point(|other| other.key() < piece.key());
        self.retry.insert(at, piece);
    }

    /// The topic's id. One that was made anew knows nobody, whatever the old one still answers.
    pub fn found(&mut self, topic_id: u128) {
        if topic_id != 0 && topic_id != self.topic_id {
            self.topic_id = topic_id;
            self.proven = false;
        }
    }

    /// How many new batches may be on their way at once, if the numbers matter.
    pub fn window(&mut self, now: Nanos) -> usize {
        if self.flight.is_empty() && now.saturating_sub(self.heard) >= FORGOTTEN {
            self.proven = false;
        }
        if self.proven { REMEMBERED } else { 1 }
    }

    /// The batch will not be sent again.
    pub fn give_up(&mut self, piece: &Piece) {
        self.hole = true;
        if piece.is_doubtful() {
            self.broken = true;
        } else {
            self.gap = Some(self.gap.map_or(piece.key(), |gap| gap.min(piece.key())));
        }
    }

    /// The records of a batch are written.
    pub fn acknowledge(&mut self, now: Nanos, piece: &Piece) {
        self.heard = now;
        self.failures = 0;
        self.proven |= piece.topic_id == self.topic_id;
        let Some(base) = piece.sequence else { return };
        let end = sequence::after(base, piece.batch.count());
        if sequence::is_later(end, self.written) {
            self.written = end;
        }
    }

    /// A part of a split batch is written under the numbers that it had in the whole. A broker that had the whole would
    /// have found that out of order: so it does not, and the other parts are sure again, but for attempts of their own.
    pub fn clear_doubts(&mut self, written: &Piece) {
        for piece in self.retry.iter_mut().filter(|piece| piece.number == written.number) {
            piece.doubts.retain(|whole| !whole.contains(&written.first));
        }
    }

    /// Numbers start anew under another identity; nothing is ambiguous.
    pub fn adopt(&mut self, identity: Identity) {
        self.identity = identity;
        self.written = 0;
        self.proven = false;
        self.renumber();
    }

    /// What was refused gets numbers anew, from behind what is written; nothing is ambiguous.
    pub fn renumber(&mut self) {
        self.next = self.written;
        (self.hole, self.gap, self.broken) = (false, None, false);
        for piece in &mut self.retry {
            piece.sequence = None;
        }
    }
}
