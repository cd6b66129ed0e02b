//! Doors for tests: record batches in, `Messages` or jobs out, without a broker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grete_client::{Batch, TestLane};
use grete_core::dispatch::ColumnsPool;
use grete_wire::records::{Columns, DecodeLimits, Decoder, walk};
use grete_wire::slab::{Slab, SlabPool};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::dispatcher::Dispatcher;
use crate::errors;
use crate::handle::Handle;
use crate::messages::Messages;
use crate::route::Route;

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

/// An assigned partition that is fed by hand, for tests and benchmarks of everything behind the network.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct _TestingLane {
    lane: Handle<Mutex<TestLane>>,
}

#[pymethods]
impl _TestingLane {
    #[new]
    #[pyo3(signature = (dispatcher, route, topic, partition, position=0))]
    fn new(dispatcher: &Dispatcher, route: &Route, topic: &str, partition: i32, position: i64) -> PyResult<Self> {
        let policy = Arc::clone(&route.get().policy);
        let lane = TestLane::new(dispatcher.get()?, policy, topic, partition, position);
        Ok(Self { lane: Handle::new(Mutex::new(lane)) })
    }

    /// Whole record batches, as a broker would send them. Raises GreteError for what is none.
    fn push(&self, data: Vec<u8>) -> PyResult<()> {
        self.lane()?.push(data).map_err(errors::client)
    }

    /// The partition goes to another member; `lost`: it has gone.
    #[pyo3(signature = (lost=false))]
    fn revoke(&self, lost: bool) -> PyResult<()> {
        self.lane()?.revoke(lost);
        Ok(())
    }

    /// The time to give the partition up has run out.
    fn abandon(&self) -> PyResult<()> {
        self.lane()?.abandon();
        Ok(())
    }

    /// The offset that could be committed now; `None`: nothing since the last call.
    fn committable(&self) -> PyResult<Option<i64>> {
        Ok(self.lane()?.committable())
    }
}

impl _TestingLane {
    fn lane(&self) -> PyResult<MutexGuard<'_, TestLane>> {
        Ok(self.lane.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
