//! Start position of each partition, and the new position when the log does not contain the old one.

mod config;
mod event;
mod lookup;
mod requests;
mod resolver;
#[cfg(test)]
mod tests;

pub use config::{PositionConfig, ResetPolicy};
pub use event::{PositionAction, PositionEvent, StartPosition};
pub use resolver::OffsetResolver;
