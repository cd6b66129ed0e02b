//! Kafka's primitive types: a bounded reader, and functions that write.

pub mod reader;
pub mod writer;

pub use reader::Reader;
