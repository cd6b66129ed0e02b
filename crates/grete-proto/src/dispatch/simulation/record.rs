//! Record of a simulated partition, and its effect on a handler.

use grete_wire::records::test_encoder::TestRecord;

/// Behavior of a record in a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordBehavior {
    /// The record is processed.
    Good,
    /// The record fails in each run.
    Poison(FailureMode),
    /// The record fails this many times and is then processed.
    Flaky(u32, FailureMode),
    /// The record is processed alone and fails together with others (only handlers of whole batches notice).
    FailsInBatch,
}

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureMode {
    /// An exception that is retried.
    Raise,
    /// An exception that is not retried.
    GiveUp,
    /// A rejection.
    Reject,
    /// A request for a later retry.
    Later,
}

/// Record with its offset in the log.
#[derive(Debug, Clone)]
pub struct Record {
    pub offset: i64,
    /// Wall-clock time, in milliseconds.
    pub timestamp: i64,
    pub key: Option<u8>,
    pub size: usize,
    pub nature: RecordBehavior,
}

impl Record {
    pub fn key_bytes(&self) -> Option<Vec<u8>> {
        self.key.map(|key| format!("key-{key}").into_bytes())
    }

    /// Returns a value that is unique to the record and at least `size` bytes long.
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
