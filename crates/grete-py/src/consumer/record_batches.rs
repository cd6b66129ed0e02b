//! Record batches from records, and `Messages` from record batches.

use std::sync::Arc;

use grete_client::DecodedBatch;
use grete_proto::dispatch::ColumnPool;
use grete_wire::buffer_pool::{BufferPool, PooledBuf};
use grete_wire::records::{
    BatchBuilder, Columns, Compression, Compressor, DecodeLimits, Decoder, ProducerHeader, ProducerRecord, iter_batches,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::PyBytes;

use crate::consumer::messages::Messages;

/// Offset, timestamp in milliseconds, key, value, headers.
type Record = (i64, i64, Option<PyBackedBytes>, Option<PyBackedBytes>, Vec<(PyBackedStr, Option<PyBackedBytes>)>);

/// Encodes records with ascending offsets, in the form that a broker sends. Raises ValueError for records that no
/// producer can send.
#[pyfunction]
pub(crate) fn _testing_encode(py: Python<'_>, records: Vec<Record>) -> PyResult<Bound<'_, PyBytes>> {
    let mut bytes = Vec::new();
    let mut compressor = Compressor::new();
    for run in records.chunk_by(|one, next| one.0.checked_add(1) == Some(next.0)) {
        let mut builder = BatchBuilder::new(Vec::new());
        for (_, timestamp, key, value, headers) in run {
            let headers: Vec<_> =
                headers.iter().map(|(key, value)| ProducerHeader { key, value: value.as_deref() }).collect();
            builder
                .append(&ProducerRecord {
                    timestamp: *timestamp,
                    key: key.as_deref(),
                    value: value.as_deref(),
                    headers: &headers,
                })
                .map_err(value_error)?;
        }
        let mut batch = builder.finish(Compression::None, None, &mut compressor).map_err(value_error)?;
        batch.set_producer_info(-1, -1, -1);
        let base_offset = run.first().map_or(0, |record| record.0);
        bytes.extend_from_slice(&at_offset(batch.bytes(), base_offset));
    }
    Ok(PyBytes::new(py, &bytes))
}

/// Decodes the record batches in `data` in the way of a worker, for tests and for inspecting log segments. `payloads`:
/// the payloads of the records, which are not decoded then; None in the list: this record is decoded. Raises ValueError
/// for data that does not decode.
#[pyfunction]
#[pyo3(signature = (data, topic, partition, high_watermark=0, decoder=None, payloads=None))]
pub(crate) fn _testing_decode(
    py: Python<'_>,
    data: &[u8],
    topic: &str,
    partition: i32,
    high_watermark: i64,
    decoder: Option<Py<PyAny>>,
    payloads: Option<Vec<Option<Py<PyAny>>>>,
) -> PyResult<Messages> {
    let messages = decode(py, PooledBuf::from(data.to_vec()), topic, partition, high_watermark, 0, decoder)?;
    if let Some(payloads) = payloads {
        messages.job_batch().preset_payloads(py, payloads)?;
    }
    Ok(messages)
}

/// Decodes all batches of `buffer`, without the first `skipped` records.
pub(crate) fn decode(
    py: Python<'_>,
    buffer: PooledBuf,
    topic: &str,
    partition: i32,
    high_watermark: i64,
    skipped: usize,
    decoder: Option<Py<PyAny>>,
) -> PyResult<Messages> {
    let mut batch_decoder = Decoder::new(BufferPool::new(0), DecodeLimits::default());
    let mut columns = Columns::default();
    let mut next_offset = 0;
    for batch in iter_batches(&buffer) {
        let (header, range) = batch.map_err(value_error)?;
        next_offset = header.next_offset();
        batch_decoder.decode(&buffer, range, &header, 0, &mut columns).map_err(value_error)?;
    }
    let rows = skipped.min(columns.len())..columns.len();
    let batch = DecodedBatch {
        columns: ColumnPool::default().share(columns),
        rows,
        topic: Arc::from(topic),
        partition,
        high_watermark,
        next_offset,
        leader_epoch: -1,
    };
    Ok(Messages::new(py, batch, decoder))
}

/// Returns an encoded batch with another base offset, which its checksum does not cover.
pub(crate) fn at_offset(batch: &[u8], base_offset: i64) -> Vec<u8> {
    let mut bytes = batch.to_vec();
    if let Some(place) = bytes.first_chunk_mut::<8>() {
        *place = base_offset.to_be_bytes();
    }
    bytes
}

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
