//! What threads sleep on while the producer has no room for them, or has not finished what they wait for.

use std::sync::atomic::AtomicU32;

/// Each grows when what it stands for has happened; the actions of the same names say that sleepers are to be woken.
#[derive(Debug, Default)]
pub struct Words {
    /// There is room again.
    pub room: AtomicU32,
    /// What somebody flushed is settled.
    pub progress: AtomicU32,
    /// A topic's partitions, or what is wrong with it, are known.
    pub metadata: AtomicU32,
}
