//! What is scheduled: a lane, or one of its slots.

use std::collections::VecDeque;

use super::lane::LaneId;
use super::piece::Piece;
use super::trouble::Attempts;
use crate::time::Nanos;

/// A unit's name. In a lane that is worked on as a whole the slot is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitId {
    /// Its lane.
    pub lane: LaneId,
    /// Which of the lane's slots.
    pub slot: u32,
}

/// A slot that has something to do.
#[derive(Debug, Default)]
pub(super) struct Unit {
    /// Rows for it, ascending; what a failed job has left is in front.
    pub(super) waiting: VecDeque<Piece>,
    pub(super) attempts: Attempts,
    pub(super) running: bool,
    /// It has its place in the order.
    pub(super) queued: bool,
    /// Nothing more of it until the lane leaves.
    pub(super) held: bool,
    /// A failure is waited out until then.
    pub(super) until: Option<Nanos>,
}

impl Unit {
    /// Whether nobody would miss it.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.running && !self.queued && !self.held && self.until.is_none()
    }

    /// Whether it could run rows of its own now.
    pub(super) fn is_due(&self) -> bool {
        !self.waiting.is_empty() && self.is_free()
    }

    /// Whether nothing keeps it from running.
    pub(super) fn is_free(&self) -> bool {
        !self.running && !self.held && self.until.is_none()
    }

    /// Rows that are left over go to where their offsets belong.
    pub(super) fn put_back(&mut self, piece: Piece) {
        let Some(first) = piece.offset(0) else { return };
        let at = self.waiting.partition_point(|other| other.offset(0).is_some_and(|offset| offset < first));
        self.waiting.insert(at, piece);
    }

    /// Takes the row with that offset out.
    pub(super) fn take_row(&mut self, offset: i64) -> Option<Piece> {
        let at = self
            .waiting
            .partition_point(|piece| piece.offset(piece.len().saturating_sub(1)).is_some_and(|last| last < offset));
        let mut piece = self.waiting.remove(at)?;
        let index = piece.offsets().position(|other| other == offset);
        let Some(index) = index else {
            self.waiting.insert(at, piece);
            return None;
        };
        let before = piece.split_to(index);
        let row = piece.split_to(1);
        for rest in [piece, before] {
            if rest.len() > 0 {
                self.waiting.insert(at, rest);
            }
        }
        Some(row)
    }
}
