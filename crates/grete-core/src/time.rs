//! Time as the machines see it: nanoseconds on a monotonic clock that only the driver reads.

/// Nanoseconds since an arbitrary start; a test or a simulator can make one out of thin air.
pub type Nanos = u64;

/// One microsecond.
pub const MICRO: Nanos = 1_000;
/// One millisecond.
pub const MILLI: Nanos = 1_000_000;
/// One second.
pub const SECOND: Nanos = 1_000_000_000;

/// The earlier of two optional deadlines.
#[must_use]
pub fn earlier(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
