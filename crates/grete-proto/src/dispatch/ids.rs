//! Identifiers of clients, lanes and units.

/// Number of a client (one group's connections) that feeds lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId(pub u32);

/// Identifier of a lane, unique per assignment of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl LaneId {
    /// Returns the identifier as one number.
    #[must_use]
    pub fn as_u64(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.index)
    }
}

/// Identifier of a unit. In a lane without slots, `slot` is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitId {
    /// Lane of the unit.
    pub lane: LaneId,
    /// Slot within the lane.
    pub slot: u32,
}
