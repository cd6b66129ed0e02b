//! Log in memory that a producer of a test writes to.

use std::collections::HashMap;
use std::sync::Arc;

use grete_client::produce::{MemoryLog, WrittenBatch};
use grete_wire::buffer_pool::PooledBuf;
use pyo3::prelude::*;

use crate::consumer::messages::Messages;
use crate::consumer::record_batches;

/// Records that a producer without brokers has written.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct _TestingLog {
    pub(crate) log: Arc<MemoryLog>,
}

#[pymethods]
impl _TestingLog {
    /// `partitions`: number of partitions by topic; other topics have one. `refusals`: number of records that a topic
    /// refuses, the first ones; None: all.
    #[new]
    fn new(partitions: HashMap<String, u32>, refusals: HashMap<String, Option<u64>>) -> Self {
        Self { log: Arc::new(MemoryLog::new(partitions, refusals)) }
    }

    /// Returns the number of records that each topic has refused; a topic without such records is not there.
    fn refused(&self) -> HashMap<String, u64> {
        self.log.refused()
    }

    /// Returns the records that were written since the last call, in the order of writing.
    fn take(&self, py: Python<'_>) -> PyResult<Vec<Messages>> {
        let decode = |batch: WrittenBatch| {
            let refused = i64::from(batch.refused);
            let buffer = PooledBuf::from(record_batches::at_offset(&batch.bytes, batch.offset - refused));
            record_batches::decode(py, buffer, &batch.topic, batch.partition, 0, batch.refused as usize, None)
        };
        self.log.take_written().into_iter().map(decode).collect()
    }
}
