//! Fetch side of a lane: data that waits for its decoding, and what is known about the partition's log.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::dispatch::dedup::DuplicateFilter;
use crate::dispatch::ids::LaneId;
use crate::dispatch::queue::timers::{Timer, Timers};
use crate::dispatch::route_config::RouteConfig;
use crate::dispatch::rows::decode_queue::{DecodeQueue, declared_records};
use crate::fetch::CompletedFetch;
use crate::ids::NodeId;
use crate::optional::{OptionalI64, OptionalNanos};
use crate::request::NO_NODE;
use crate::time::Nanos;

/// Fetched data of a lane, and its latest known offsets of the log.
#[derive(Debug)]
pub(in crate::dispatch) struct LaneFetch {
    /// `None`: nothing is queued.
    decode_queue: Option<Box<DecodeQueue>>,
    /// A lease holds the decode queue; `decode_queue` then collects the data that arrives meanwhile.
    leased: bool,
    /// The next row of the decode queue is too young before this time; 0: no row is.
    not_before: Nanos,
    timer: OptionalNanos,
    /// Bytes of fetched and decoded data that wait or are processed.
    queued_bytes: usize,
    high_watermark: i64,
    /// End of the readable data; -1 if unknown.
    readable_end: i64,
    log_start_offset: i64,
    /// Broker that has sent the last fetched data; [`NO_NODE`]: none was fetched.
    source: NodeId,
    /// Timestamp of the first record that is fetched and not handed out; `None`: there is none, or it is unknown.
    oldest_queued_ms: OptionalI64,
    /// Timestamp of the last fetched record, if known.
    newest_ms: OptionalI64,
    /// Generation that fetched data must carry; `None` while the position is unknown.
    generation: Option<NonZeroU32>,
    /// Offset of a corrupt batch: fetching continues there, and all other state stays.
    refetch: OptionalI64,
    /// Filter of duplicates; `None`: the route has none, or the position is unknown.
    duplicates: Option<Arc<DuplicateFilter>>,
    /// The filter has not learned the records before the position yet: nothing is decoded.
    awaits_history: bool,
    /// The `eof` hook was started for the current end of the partition.
    eof_emitted: bool,
}

impl Default for LaneFetch {
    fn default() -> Self {
        Self {
            decode_queue: None,
            leased: false,
            not_before: 0,
            timer: OptionalNanos::NONE,
            queued_bytes: 0,
            high_watermark: -1,
            readable_end: -1,
            log_start_offset: -1,
            source: NO_NODE,
            oldest_queued_ms: OptionalI64::NONE,
            newest_ms: OptionalI64::NONE,
            generation: None,
            refetch: OptionalI64::NONE,
            duplicates: None,
            awaits_history: false,
            eof_emitted: false,
        }
    }
}

impl LaneFetch {
    // ---- fetched data

    /// Adds fetched data, with the offsets of the log that came along.
    pub(in crate::dispatch) fn push(&mut self, now: Nanos, chunk: CompletedFetch, policy: &RouteConfig) {
        self.high_watermark = chunk.high_watermark;
        self.readable_end = chunk.readable_end;
        self.oldest_queued_ms = self.oldest_queued_ms.get().or(chunk.timestamps.oldest).into();
        self.newest_ms = chunk.timestamps.newest.or(self.newest_ms.get()).into();
        self.log_start_offset = chunk.log_start_offset;
        self.source = chunk.source;
        self.queued_bytes += chunk.bytes;
        self.eof_emitted = false;
        let records = if policy.max_wait > 0 { declared_records(&chunk) } else { 0 };
        self.decode_queue.get_or_insert_default().push(chunk, records, now);
    }

    /// Leases the decode queue to a job.
    pub(in crate::dispatch) fn lease_decode_queue(&mut self) -> Box<DecodeQueue> {
        self.leased = true;
        self.decode_queue.take().unwrap_or_default()
    }

    /// Takes back the decode queue from a job, and drops its data unless `keep` is set. Returns the released bytes.
    ///
    /// An empty queue is freed: thousands of lanes may have had records once.
    pub(in crate::dispatch) fn return_decode_queue(&mut self, mut queue: Box<DecodeQueue>, keep: bool) -> usize {
        self.leased = false;
        if !keep {
            return queue.clear();
        }
        if let Some(later) = self.decode_queue.take() {
            queue.append(*later);
        }
        self.decode_queue = Some(queue).filter(|queue| !queue.is_empty());
        0
    }

    /// Records that a job has decoded. `left_ms`: timestamp of the first record left in the job's decode queue.
    pub(in crate::dispatch) fn on_decoded(&mut self, left_ms: Option<i64>) {
        let queued = || self.decode_queue.as_deref().and_then(DecodeQueue::oldest);
        self.oldest_queued_ms = left_ms.or_else(queued).into();
    }

    /// Drops the queued data. Returns the released bytes.
    pub(in crate::dispatch) fn drop_queued(&mut self) -> usize {
        self.not_before = 0;
        self.oldest_queued_ms = OptionalI64::NONE;
        self.decode_queue.take().map_or(0, |mut queue| queue.clear())
    }

    /// Returns whether no data is queued, apart from data in a leased decode queue.
    pub(in crate::dispatch) fn is_empty(&self) -> bool {
        self.decode_queue.as_deref().is_none_or(DecodeQueue::is_empty)
    }

    /// Returns whether queued data can be taken, as far as limits allow.
    pub(super) fn has_data(&self) -> bool {
        !self.leased && !self.awaits_history && !self.is_empty()
    }

    pub(in crate::dispatch) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Counts bytes that decompression added.
    pub(in crate::dispatch) fn charge(&mut self, bytes: usize) {
        self.queued_bytes += bytes;
    }

    /// Counts released bytes.
    pub(in crate::dispatch) fn release(&mut self, bytes: usize) {
        self.queued_bytes = self.queued_bytes.saturating_sub(bytes);
    }

    // ---- time of decoding

    /// Returns whether the queued data is enough for a job now, and old enough.
    pub(super) fn is_due(&self, now: Nanos, policy: &RouteConfig) -> bool {
        self.has_data()
            && self.not_before <= now
            && (self.is_full(policy) || self.ripe_at(policy).is_none_or(|at| at <= now))
    }

    /// Returns when the queued data becomes due without new data; `None`: now, or never.
    pub(in crate::dispatch) fn next_due_at(&self, now: Nanos, policy: &RouteConfig) -> Option<Nanos> {
        if !self.has_data() {
            return None;
        }
        let ripe = if self.is_full(policy) { None } else { self.ripe_at(policy) };
        Some(ripe.unwrap_or(0).max(self.not_before)).filter(|at| *at > now)
    }

    /// Returns whether the decode queue holds enough for a full job, or an error, so that waiting for more is useless.
    fn is_full(&self, policy: &RouteConfig) -> bool {
        let full = |queue: &DecodeQueue| queue.has_error() || queue.records() >= policy.max_messages;
        self.decode_queue.as_deref().is_some_and(full) || self.queued_bytes >= policy.max_bytes
    }

    /// Returns when the queued data has waited for `max_wait`; `None`: the route has no `max_wait`, or nothing is
    /// queued.
    fn ripe_at(&self, policy: &RouteConfig) -> Option<Nanos> {
        let wait = policy.max_wait;
        if wait == 0 { None } else { self.decode_queue.as_deref()?.since().map(|since| since.saturating_add(wait)) }
    }

    /// Sets the time until which the next row is too young.
    pub(in crate::dispatch) fn set_not_before(&mut self, at: Nanos) {
        self.not_before = at;
    }

    /// Returns the time until which the next row is too young; `None`: no row is.
    pub(in crate::dispatch) fn not_before(&self) -> Option<Nanos> {
        Some(self.not_before).filter(|at| *at > 0)
    }

    /// Sets the timer for the time at which queued data becomes due.
    pub(in crate::dispatch) fn set_timer(
        &mut self,
        timers: &mut Timers,
        lane: LaneId,
        now: Nanos,
        policy: &RouteConfig,
    ) {
        let at = self.next_due_at(now, policy);
        timers.set(Timer::Decode(lane), &mut self.timer, at);
    }

    pub(in crate::dispatch) fn clear_timer(&mut self, timers: &mut Timers, lane: LaneId) {
        timers.set(Timer::Decode(lane), &mut self.timer, None);
    }

    pub(in crate::dispatch) fn on_timer(&mut self, now: Nanos) {
        self.timer = OptionalNanos::NONE;
        self.not_before = if self.not_before > now { self.not_before } else { 0 };
    }

    // ---- position of the fetcher

    pub(in crate::dispatch) fn generation(&self) -> Option<u32> {
        self.generation.map(NonZeroU32::get)
    }

    /// Sets the generation that fetched data must carry from now on.
    pub(in crate::dispatch) fn set_generation(&mut self, generation: u32) {
        self.generation = NonZeroU32::new(generation);
    }

    /// Refuses fetched data until the fetcher continues at this offset. Returns the generation up to now; `None`: data
    /// was refused already.
    pub(in crate::dispatch) fn refetch(&mut self, offset: i64) -> Option<u32> {
        let generation = self.generation.take()?;
        self.refetch = Some(offset).into();
        Some(generation.get())
    }

    /// Returns the offset of the last [`LaneFetch::refetch`], and clears it.
    pub(in crate::dispatch) fn take_refetch(&mut self) -> Option<i64> {
        self.refetch.replace(None)
    }

    /// Forgets the position: fetched data is refused until the next one is set.
    pub(in crate::dispatch) fn reset_position(&mut self) {
        self.generation = None;
        self.refetch = OptionalI64::NONE;
        self.newest_ms = OptionalI64::NONE;
        self.eof_emitted = false;
        self.duplicates = None;
        self.awaits_history = false;
    }

    // ---- duplicates

    /// Sets the filter of duplicates. `awaits_history`: nothing is decoded before [`LaneFetch::end_history`].
    pub(in crate::dispatch) fn set_duplicates(&mut self, filter: Arc<DuplicateFilter>, awaits_history: bool) {
        self.duplicates = Some(filter);
        self.awaits_history = awaits_history;
    }

    pub(in crate::dispatch) fn duplicates(&self) -> Option<Arc<DuplicateFilter>> {
        self.duplicates.clone()
    }

    /// Returns whether this filter is still the lane's, and learns.
    pub(in crate::dispatch) fn awaits_history(&self, filter: &Arc<DuplicateFilter>) -> bool {
        self.awaits_history && self.duplicates.as_ref().is_some_and(|own| Arc::ptr_eq(own, filter))
    }

    pub(in crate::dispatch) fn end_history(&mut self) {
        self.awaits_history = false;
    }

    /// Returns whether the lane waits for its history.
    pub(in crate::dispatch) fn is_awaiting_history(&self) -> bool {
        self.awaits_history
    }

    // ---- offsets of the log

    pub(in crate::dispatch) fn set_end_offsets(&mut self, high_watermark: i64, readable_end: i64) {
        (self.high_watermark, self.readable_end) = (high_watermark, readable_end);
    }

    /// Forgets all offsets of the log.
    pub(in crate::dispatch) fn forget_log_offsets(&mut self) {
        (self.high_watermark, self.readable_end, self.log_start_offset) = (-1, -1, -1);
    }

    /// Returns the latest known high watermark; -1 if unknown.
    pub(in crate::dispatch) fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// Returns the latest known log start offset; -1 if unknown.
    pub(in crate::dispatch) fn log_start_offset(&self) -> i64 {
        self.log_start_offset
    }

    /// Returns the broker that has sent the last fetched data; `None`: none was fetched.
    pub(in crate::dispatch) fn source(&self) -> Option<NodeId> {
        Some(self.source).filter(|node| *node != NO_NODE)
    }

    /// Returns the end of the readable data; `None`: unknown.
    pub(in crate::dispatch) fn readable_end(&self) -> Option<i64> {
        [self.readable_end, self.high_watermark].into_iter().filter(|end| *end >= 0).min()
    }

    /// Returns about the timestamp of the first record that is not handed out; `None`: unknown. Behind the fetched
    /// data, that is the timestamp of the last fetched record.
    pub(in crate::dispatch) fn oldest_ms(&self) -> Option<i64> {
        self.oldest_queued_ms.get().or(self.newest_ms.get())
    }

    /// Returns whether the `eof` hook is due at this position.
    pub(super) fn is_eof_due(&self, position: Option<i64>) -> bool {
        let at_end = position.is_some_and(|position| self.high_watermark >= 0 && position >= self.high_watermark);
        !self.eof_emitted && at_end
    }

    pub(in crate::dispatch) fn on_eof_started(&mut self) {
        self.eof_emitted = true;
    }
}
