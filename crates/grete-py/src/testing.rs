//! A door for tests: record batches in, `Messages` out, without a broker.

use std::sync::Arc;

use grete_client::Batch;
use grete_core::dispatch::ColumnsPool;
use grete_wire::records::{Columns, DecodeLimits, Decoder, walk};
use grete_wire::slab::{Slab, SlabPool};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::messages::Messages;

/// Decodes the record batches in `data` as a worker would, for tests and for looking into log segments.
/// Raises ValueError for what does not decode.
#[pyfunction]
#[pyo3(signature = (data, topic, partition, high_watermark=0, decoder=None))]
pub(crate) fn _testing_decode(
    py: Python<'_>,
    data: &[u8],
    topic: &str,
    partition: i32,
    high_watermark: i64,
    decoder: Option<Py<PyAny>>,
) -> PyResult<Messages> {
    let slab = Slab::from(data.to_vec());
    let mut wire = Decoder::new(SlabPool::new(0), DecodeLimits::default());
    let mut columns = Columns::default();
    let mut next_offset = 0;
    for batch in walk(&slab) {
        let (header, range) = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
        next_offset = header.next_offset();
        wire.decode(&slab, range, &header, 0, &mut columns)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    let rows = 0..columns.len();
    let batch = Batch {
        columns: ColumnsPool::default().share(columns),
        rows,
        topic: Arc::from(topic),
        partition,
        high_watermark,
        next_offset,
        leader_epoch: -1,
    };
    Ok(Messages::new(py, batch, decoder))
}
