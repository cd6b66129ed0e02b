//! Text that one process publishes in shared memory and another one reads, wait-free.
//!
//! - `mapping`: the shared memory.
//! - `seqlock`: the protocol of writer and reader, a double-buffered seqlock.
//! - `text_segment`: the shared-memory segment, with length, time and text of two buffers.

mod mapping;
pub(super) mod seqlock;
pub(super) mod text_segment;
