//! Tests of the acquirer, against a leader that answers as it is told, and against one that keeps locks.

mod leader;
mod scripted;
mod simulation;
