//! Kafka's primitive types: a bounded reader, and the functions that write.

pub mod reader;
pub mod writer;

pub use reader::Reader;
