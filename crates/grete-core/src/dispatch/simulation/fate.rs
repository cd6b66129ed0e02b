//! What became of a record in the end, whoever did it.

/// All of it, over all assignments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fate {
    /// Handlers that got to see it.
    pub runs: u32,
    /// Handlers that failed because of it.
    pub failed: u32,
    /// Handlers that were through with it.
    pub passed: u32,
    /// Dead letters.
    pub dead: u32,
    /// It was too old.
    pub expired: bool,
    /// Handed out at most once, and not passed.
    pub given: bool,
    /// The user has sought beyond it.
    pub sought: bool,
}

impl Fate {
    /// An offset behind it may be committed.
    pub fn is_settled(self) -> bool {
        self.passed > 0 || self.dead > 0 || self.expired || self.given || self.sought
    }
}
