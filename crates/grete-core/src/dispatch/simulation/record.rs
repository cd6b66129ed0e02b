//! One record of the world outside, and what it does to whoever handles it.

use grete_wire::records::testing::TestRecord;

/// What a handler makes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// It passes.
    Good,
    /// It fails whenever it is run.
    Poison(Manner),
    /// It fails so many times, then it passes.
    Flaky(u32, Manner),
    /// It passes alone and fails in the company of others (only handlers of whole batches notice).
    Shy,
}

/// How it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// With an exception that is worth another attempt.
    Raise,
    /// With one that is not.
    GiveUp,
    /// With a refusal.
    Reject,
    /// With a wish for a later time.
    Later,
}

/// A record as its producer wrote it, and where it came to lie.
#[derive(Debug, Clone)]
pub struct Record {
    pub offset: i64,
    /// Milliseconds of the wall clock.
    pub timestamp: i64,
    pub key: Option<u8>,
    pub size: usize,
    pub nature: Nature,
}

impl Record {
    pub fn key_bytes(&self) -> Option<Vec<u8>> {
        self.key.map(|key| format!("key-{key}").into_bytes())
    }

    /// Unmistakable, and as long as it is meant to be.
    pub fn value_bytes(&self, partition: i32) -> Vec<u8> {
        let mut value = format!("{partition}/{}:", self.offset).into_bytes();
        value.resize(value.len().max(self.size), b'.');
        value
    }

    pub fn encode(&self, partition: i32) -> TestRecord {
        let value = Some(self.value_bytes(partition));
        TestRecord { timestamp: self.timestamp, key: self.key_bytes(), value, headers: Vec::new() }
    }
}
