//! Mechanisms by which threads of a producer sleep and are woken.

pub(in crate::producer) mod step_gate;
pub(in crate::producer) mod wait_outcome;
pub(in crate::producer) mod wake_flag;
