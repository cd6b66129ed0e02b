//! Floor 0: bytes to meaning and back. No I/O, no clock, no threads, no unsafe.
#![forbid(unsafe_code)]

pub mod slab;
