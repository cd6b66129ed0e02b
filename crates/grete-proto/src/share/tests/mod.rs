//! Tests of the acquirer, against scripted leaders, and against leaders that keep locks.

mod leader;
mod scripted;
mod simulation;
mod status;
