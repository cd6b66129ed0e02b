//! A job on loan to a worker.

use std::sync::Arc;

use grete_wire::records::Decoder;

use super::ClientId;
use super::batch::ColumnsPool;
use super::failure::Trouble;
use super::feed::{Change, Feed, FeedError, Filled, Limits, Source};
use super::job::{Finished, JobKind};
use super::lane::LaneId;
use super::parcel::Parcel;
use super::piece::Piece;
use super::route::{Pool, RoutePolicy};
use super::shared::JobShared;
use super::sieve::Sieve;
use super::spread::part;
use super::unit::UnitId;
use crate::ids::TopicPartition;

/// What a worker takes, runs and gives back.
#[derive(Debug)]
pub struct Lease {
    /// Whose job.
    pub lane: LaneId,
    /// Which of the lane's slots; 0 for jobs of the whole lane.
    pub slot: u32,
    /// Whose lane.
    pub client: ClientId,
    /// The partition.
    pub tp: TopicPartition,
    /// The route's settings.
    pub policy: Arc<RoutePolicy>,
    /// Which hook.
    pub kind: JobKind,
    /// Runs of the first unmarked offset, this one included.
    pub attempt: u32,
    /// Rows and marks, shared with the lane while the job runs.
    pub shared: Arc<JobShared>,
    /// End of the partition as last told.
    pub high_watermark: i64,
    /// For [`JobKind::DeadLetter`]: what to say in the headers.
    pub trouble: Option<Arc<Trouble>>,
    /// Its number among the running jobs.
    pub(super) job: usize,
    /// What the rows are decoded from, unless they are decoded already.
    pub(super) feed: Option<Feed>,
    pub(super) piece: Option<Piece>,
    /// Rows that turned out to be too many for this job.
    pub(super) rest: Vec<Piece>,
    /// Where the job's rows belong.
    pub(super) parcel: Option<Arc<Parcel>>,
    pub(super) sieve: Sieve,
    /// Most rows, as the rate or the window allows.
    pub(super) most: usize,
    /// Rows that the rate limit has granted.
    pub(super) granted: usize,
    /// Held bytes to release whatever becomes of the job.
    pub(super) release: usize,
}

/// What [`Lease::prepare`] came to: tell [`super::Dispatch::prepared`], before the job runs or ends.
#[derive(Debug)]
pub struct Prepared {
    pub(super) change: Change,
    /// Timestamp of the first record that the feed has still, as far as it is known.
    pub(super) left_ms: Option<i64>,
    /// There is nothing to run: complete the lease with this, and take another.
    pub finished: Option<Finished>,
}

impl Lease {
    /// Whose job.
    #[must_use]
    pub fn unit(&self) -> UnitId {
        UnitId { lane: self.lane, slot: self.slot }
    }

    /// Who runs it.
    #[must_use]
    pub fn pool(&self) -> Pool {
        self.policy.pool
    }

    /// Gets the rows ready, on the worker and without a lock: decodes, spreads keys, gathers. `max_rows` is the caller's own
    /// limit, if it has one, in place of the route's.
    pub fn prepare(&mut self, decoder: &mut Decoder, pool: &ColumnsPool, max_rows: Option<usize>) -> Prepared {
        let mut change = Change::default();
        let finished = match self.piece.take() {
            Some(mut piece) => {
                self.parcel = Some(Arc::clone(&piece.parcel));
                if let Some(max) = max_rows.filter(|max| *max < piece.len()) {
                    let head = piece.split_to(max.max(1));
                    self.rest.push(std::mem::replace(&mut piece, head));
                }
                self.set_piece(piece);
                None
            }
            None => self.decode(decoder, pool, max_rows, &mut change),
        };
        self.release += change.released;
        let left_ms = self.feed.as_ref().and_then(Feed::oldest);
        Prepared { change, left_ms, finished }
    }

    fn set_piece(&mut self, piece: Piece) {
        let parcel = Arc::clone(&piece.parcel);
        let mut batch = piece.into_batch();
        if parcel.bytes() > self.policy.max_bytes {
            let rows = batch.rows.len();
            let fitting = batch.fitting(rows, self.policy.max_bytes);
            if fitting < rows {
                let head = batch.split_to(fitting);
                let more = Piece::run(std::mem::replace(&mut batch, head), parcel);
                self.rest.push(more);
            }
        }
        self.shared.set_batch(batch);
    }

    fn decode(
        &mut self,
        decoder: &mut Decoder,
        pool: &ColumnsPool,
        max_rows: Option<usize>,
        change: &mut Change,
    ) -> Option<Finished> {
        let feed = self.feed.as_mut()?;
        let source = Source { tp: &self.tp, high_watermark: self.high_watermark, pool };
        let spreads = self.kind == JobKind::Decode;
        let limits = Limits {
            rows: if spreads { self.most } else { max_rows.unwrap_or(self.policy.max_messages).min(self.most).max(1) },
            bytes: self.policy.max_bytes,
            full: !spreads && self.policy.max_wait > 0,
        };
        match feed.fill(&source, limits, &self.sieve, decoder, change) {
            Ok(Filled::Batch(batch, parcel)) if spreads => Some(Finished::Decoded(part(batch, parcel, &self.policy))),
            Ok(Filled::Batch(batch, parcel)) => {
                self.shared.set_batch(batch);
                self.parcel = Some(parcel);
                None
            }
            Ok(Filled::Skipped(next_offset)) => Some(Finished::Skipped { next_offset }),
            Ok(Filled::NotDue(until_ms)) => Some(Finished::NotDue { until_ms }),
            Ok(Filled::Nothing) => Some(Finished::Nothing),
            Err(FeedError { offset, error }) => Some(Finished::Corrupt { offset, error }),
        }
    }
}
