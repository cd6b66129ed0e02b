//! Where each slot starts, and where it goes when its position is not in the log.

mod ask;
mod config;
mod event;
mod machine;
mod task;
#[cfg(test)]
mod tests;

pub use config::{PositionConfig, ResetPolicy};
pub use event::{PositionAction, PositionEvent, StartAt};
pub use machine::PositionMachine;
