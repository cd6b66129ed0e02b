//! The consumer group.
pub mod assignor;
pub mod subscription;
