//! CPython's C API: the modules of this crate that need `unsafe`, and the guard against use after a fork.
//!
//! - `bool_slot`: the truth of an `EventChannel`.
//! - `buffers`: buffers and Arrow capsules.
//! - `cpython`: calls that PyO3 lacks.
//! - `fork_guarded`: values that a forked child must not touch.

pub(super) mod bool_slot;
pub(super) mod buffers;
pub(super) mod cpython;
pub(super) mod fork_guarded;
