//! Offsets of a lane: records handed out, marks, and the committable offset.
//!
//! - `tracker`: state machine of one lane's offsets.
//! - `in_flight_range`: records that were handed out together, with their marks.
//! - `acquired_records`: records of a share group, with their acknowledgements.
//! - `shared_tracker`: the tracker behind a mutex, shared with jobs; fencing.
//! - `job_outputs`: records that a job has produced, and the marks that wait for them.

pub(super) mod acquired_records;
pub(super) mod in_flight_range;
pub(super) mod job_outputs;
pub(super) mod shared_tracker;
pub(super) mod tracker;
