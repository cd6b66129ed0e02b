//! Outcome of a record over all processes.

/// Outcome of a record, over all assignments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordOutcome {
    /// Number of runs that saw the record.
    pub runs: u32,
    /// Number of runs that failed because of the record.
    pub failed: u32,
    /// Number of runs that completed the record.
    pub completed: u32,
    /// Number of dead letters.
    pub dead_lettered: u32,
    /// The record was too old.
    pub expired: bool,
    /// The record was handed out at most once; its outcome is open.
    pub handed_out_once: bool,
    /// A record that was produced from this record was not written.
    pub undelivered: bool,
    /// The user has called seek to an offset beyond the record.
    pub sought: bool,
}

impl RecordOutcome {
    /// Returns whether an offset behind the record may be committed.
    pub fn is_settled(self) -> bool {
        self.completed > 0 || self.dead_lettered > 0 || self.expired || self.handed_out_once || self.sought
    }
}
