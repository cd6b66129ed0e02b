//! What is scheduled: a lane, or one of its slots.

use super::lane::LaneId;

/// A unit's name. In a lane that is worked on as a whole the slot is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitId {
    /// Its lane.
    pub lane: LaneId,
    /// Which of the lane's slots.
    pub slot: u32,
}
