//! Handling of Fetch responses: advances positions by batch headers, and sorts errors into retries, position lookups
//! and failures.

use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;
use grete_wire::fetch::{self, FetchPartition, NodeEndpoint};

use crate::ids::{NodeId, PartitionHandle};
use crate::partition::error::{Corruption, PartitionError};
use crate::partition::log_event::FetchLogEvent;
use crate::partition::table::{FetchState, PartitionTable};
use crate::position::PositionEvent;
use crate::request::{Reply, RequestError, Response};
use crate::time::Nanos;

use super::completed_fetch::CompletedFetch;
use super::event::FetchAction;
use super::fetcher::Fetcher;
use super::session::PartitionParams;
use super::validate::validate_batches;

/// Context of one partition in a response.
struct PartitionContext<'a> {
    now: Nanos,
    session: usize,
    slot: PartitionHandle,
    sent_params: PartitionParams,
    response: &'a Response,
}

impl Fetcher {
    pub(super) fn on_reply(
        &mut self,
        now: Nanos,
        reply: Reply,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        // A reply whose token no session waits for is late: the connection was lost, or the fetcher was closed.
        let Some(at) = self.sessions.iter().position(|session| session.in_flight == Some(reply.token.id)) else {
            return;
        };
        if let Some(session) = self.sessions.get_mut(at) {
            session.in_flight = None;
        }
        let result = match &reply.result {
            Ok(response) => self.on_response(now, at, response, partitions, out).map_err(RequestError::Protocol),
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = result {
            if let RequestError::Protocol(error) = error {
                out.push(FetchAction::LogEvent(FetchLogEvent::BadResponse { node: reply.node, error }));
            }
            self.back_off(now, at, partitions);
        }
    }

    /// Handles a Fetch that failed as a whole: waits, then starts over with a full request. Partitions of which the node
    /// is a follower go back to their leaders.
    fn back_off(&mut self, now: Nanos, at: usize, partitions: &mut PartitionTable) {
        self.needs_metadata = true;
        if let Some(node) = self.sessions.get(at).map(|session| session.node) {
            self.leave_replica(now, node, partitions);
        }
        let Self { sessions, rng, .. } = self;
        if let Some(session) = sessions.get_mut(at) {
            session.reset();
            session.failing = true;
            session.not_before = now.saturating_add(session.backoff.next_delay(rng));
        }
    }

    fn on_response(
        &mut self,
        now: Nanos,
        at: usize,
        response: &Response,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) -> Result<(), WireError> {
        let body = response.body();
        let (head, mut items) = fetch::response::parse(response.version, body)?;
        if head.error_code != ErrorCode::NONE {
            self.on_session_error(now, at, head.error_code, partitions, out);
            return Ok(());
        }
        if let Some(session) = self.sessions.get_mut(at) {
            session.responses = session.responses.wrapping_add(1);
        }
        let (chunks, before) = (self.stats.chunks, out.len());
        for item in &mut items {
            self.on_partition(now, at, &item?, response, partitions, out);
        }
        self.on_unnamed_partitions(at, partitions, out);
        set_leader_endpoints(out.get_mut(before..).unwrap_or_default(), items.node_endpoints());
        self.stats.responses += 1;
        self.stats.empty_responses += u64::from(chunks == self.stats.chunks);
        if let Some(session) = self.sessions.get_mut(at) {
            session.on_response_ok(head.session_id);
        }
        Ok(())
    }

    /// Records success for partitions that a response within a session does not name: they are healthy and without
    /// news. This includes partitions that failed before, whose first good response may have arrived too late to count.
    fn on_unnamed_partitions(&mut self, at: usize, partitions: &PartitionTable, out: &mut Vec<FetchAction>) {
        let Self { partition_states: lanes, sessions, failing, .. } = self;
        let Some(session) = sessions.get(at).filter(|session| session.epoch > 0) else { return };
        failing.retain(|&slot| {
            let Some(lane) = lanes.get_mut(slot.index()).filter(|lane| lane.is_failing()) else { return false };
            let Some(entry) = session.entries.get(lane.place.entry as usize) else { return true };
            let is_unnamed = lane.place.session as usize == at
                && entry.is_here
                && entry.in_session
                && entry.named_in != session.responses;
            let current = partitions.state(slot) == FetchState::Fetching
                && entry.generation == partitions.fetch_generation(slot)
                && entry.sent_params.fetch_offset == partitions.fetch_offset(slot);
            if !is_unnamed || !current || lane.failure().refetched_batch.is_some() {
                return true;
            }
            lane.record_success();
            lane.record_recovery();
            out.push(FetchAction::Recovered { slot });
            false
        });
    }

    /// Handles a rejected session or request. A rejected session is replaced at once, by one full request. If the full
    /// request is rejected, too, the node gets a backoff, so that nothing spins.
    fn on_session_error(
        &mut self,
        now: Nanos,
        at: usize,
        code: ErrorCode,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        let Some(session) = self.sessions.get_mut(at) else { return };
        let session_only = matches!(
            code,
            ErrorCode::FETCH_SESSION_ID_NOT_FOUND
                | ErrorCode::INVALID_FETCH_SESSION_EPOCH
                | ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR
        );
        if code == ErrorCode::FETCH_SESSION_ID_NOT_FOUND {
            session.id = 0;
        }
        session.session_errors = session.session_errors.saturating_add(1);
        // A broker evicts idle sessions from its cache, which alone is not worth a log event.
        if code != ErrorCode::FETCH_SESSION_ID_NOT_FOUND || session.session_errors > 1 {
            out.push(FetchAction::LogEvent(FetchLogEvent::SessionError { node: session.node, code }));
        }
        if session_only && session.session_errors == 1 {
            session.reset();
        } else {
            self.back_off(now, at, partitions);
        }
    }

    fn on_partition(
        &mut self,
        now: Nanos,
        at: usize,
        item: &FetchPartition<'_>,
        response: &Response,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        let Some(session) = self.sessions.get_mut(at) else { return };
        let Some(index) = session.find(&item.topic, item.partition) else { return };
        let (responses, node) = (session.responses, session.node);
        let Some(entry) = session.entries.get_mut(index) else { return };
        entry.named_in = responses;
        let (slot, asked) = (entry.slot, entry.sent_params);
        // The item is stale if the partition was removed, moved or sought since the request left, if another node leads
        // is its source, or if the response names the partition twice. The broker's fetch offset moves only by the
        // client's requests, so nothing is lost.
        if !entry.is_here
            || entry.generation != partitions.fetch_generation(slot)
            || partitions.state(slot) != FetchState::Fetching
            || asked.fetch_offset != partitions.fetch_offset(slot)
        {
            return;
        }
        if let Some((leader, epoch)) = item.current_leader
            && leader >= 0
            && epoch > partitions.leader_epoch(slot)
        {
            out.push(FetchAction::LeaderHint { tp: partitions.name(slot), leader, epoch, endpoint: None });
        }
        let context = PartitionContext { now, session: at, slot, sent_params: asked, response };
        if item.error_code != ErrorCode::NONE {
            self.on_partition_error(&context, item.error_code, partitions, out);
            return;
        }
        if let Some((epoch, end_offset)) =
            item.diverging_epoch.filter(|(epoch, end_offset)| *epoch >= 0 && *end_offset >= 0)
        {
            self.on_position_invalid(&context, PositionEvent::Diverged { slot, epoch, end_offset }, partitions, out);
            return;
        }
        if item.preferred_read_replica >= 0 && item.preferred_read_replica != node && item.records.is_empty() {
            // No records come from here, whatever there is.
            self.replicas.name(at, slot, item.preferred_read_replica);
            return;
        }
        partitions.set_high_watermark(slot, item.high_watermark);
        partitions.set_last_stable_offset(slot, item.last_stable_offset);
        partitions.set_log_start_offset(slot, item.log_start_offset);
        self.on_records(&context, item, partitions, out);
    }

    fn on_records(
        &mut self,
        context: &PartitionContext<'_>,
        item: &FetchPartition<'_>,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        let PartitionContext { slot, sent_params: asked, response, .. } = *context;
        let records = response.body().get(item.records.clone()).unwrap_or_default();
        let validated = validate_batches(records, asked.fetch_offset, item.high_watermark);
        let read_committed = self.config.read_committed;
        let readable_end = if read_committed { item.last_stable_offset } else { item.high_watermark };
        self.partition_state(slot).record_success();
        if validated.bytes == 0 {
            match validated.corruption {
                Some(cause) => self.reject_batch(context, cause, partitions, out),
                None if !records.is_empty() => self.raise_max_bytes(context, partitions, out),
                // A session names a partition without records when its end has moved, or for the first time.
                None => {
                    if !self.partition_state(slot).failure().verifying_refetch {
                        self.partition_state(slot).record_recovery();
                    }
                    out.push(FetchAction::CaughtUp { slot, high_watermark: item.high_watermark, readable_end });
                }
            }
            return;
        }
        // Data behind a corrupt batch is fetched again, and then comes first.
        let generation = partitions.fetch_generation(slot);
        let lane = self.partition_state(slot);
        lane.clear_failure(|failure| (failure.rejected_batch, failure.max_bytes) = (None, 0));
        match lane.failure().refetched_batch {
            // Headers prove nothing about the content.
            Some((offset, of)) if of == generation => {
                lane.failure_mut().verifying_refetch |= offset == asked.fetch_offset;
            }
            _ => lane.record_recovery(),
        }
        let start = response.frame.offset_in_buffer() + response.body + item.records.start;
        let aborted = if read_committed { item.aborted().collect() } else { Vec::new() };
        out.push(FetchAction::Data(CompletedFetch {
            slot,
            assignment_epoch: partitions.assignment_epoch(slot),
            fetch_generation: generation,
            frame: response.frame.buffer().clone(),
            range: start..start + validated.bytes,
            fetch_offset: asked.fetch_offset,
            next_offset: validated.next_offset,
            aborted_transactions: aborted,
            high_watermark: item.high_watermark,
            readable_end,
            log_start_offset: item.log_start_offset,
            bytes: validated.bytes,
            leader_epoch: validated.leader_epoch,
            source: partitions.source(slot),
            timestamps: validated.timestamps,
            acquired: None,
        }));
        partitions.charge(slot, validated.bytes);
        partitions.set_fetch_offset(slot, validated.next_offset);
        // No checksum covers a batch's leader epoch, but an epoch above the leader's own is impossible.
        let epoch = validated.leader_epoch;
        let plausible = asked.current_leader_epoch < 0 || epoch <= asked.current_leader_epoch;
        partitions.set_last_fetched_epoch(slot, if plausible { epoch } else { -1 });
        self.stats.chunks += 1;
        self.stats.bytes = self.stats.bytes.saturating_add(validated.bytes as u64);
        self.stats.records = self.stats.records.saturating_add(validated.records);
    }

    /// Rejects an implausible first batch: the batch is fetched once more, then the partition stops.
    fn reject_batch(
        &mut self,
        context: &PartitionContext<'_>,
        cause: Corruption,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        let PartitionContext { slot, sent_params: asked, .. } = *context;
        let (tp, offset) = (partitions.name(slot), asked.fetch_offset);
        let here = Some((offset, asked.current_leader_epoch));
        // The leader may have the batch as it was written.
        let left = self.leave_failed_replica(context.now, slot, ErrorCode::NONE, partitions, out);
        let lane = self.partition_state(slot);
        if !left && lane.failure().rejected_batch == here {
            self.fail(context.now, slot, PartitionError::Corrupt { tp, offset, cause }, partitions, out);
            return;
        }
        lane.failure_mut().rejected_batch = here;
        if !matches!(cause, Corruption::Beyond { .. }) {
            out.push(FetchAction::LogEvent(FetchLogEvent::CorruptBatch { tp, offset, cause }));
        }
    }

    /// Handles a truncated first batch. Since Fetch v3 brokers send the first batch whole, whatever the limits; a
    /// broker that does not gets a larger limit.
    fn raise_max_bytes(
        &mut self,
        context: &PartitionContext<'_>,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        let PartitionContext { slot, sent_params: asked, .. } = *context;
        let limit = self.config.max_bytes.max(self.config.partition_bytes);
        if asked.max_bytes >= limit {
            let error = PartitionError::BatchTooLarge { tp: partitions.name(slot), offset: asked.fetch_offset, limit };
            self.fail(context.now, slot, error, partitions, out);
            return;
        }
        self.partition_state(slot).failure_mut().max_bytes = asked.max_bytes.max(1).saturating_mul(2).min(limit);
        partitions.touch(slot);
    }

    /// Handles the leader's report that the position is not in its log. The position came from headers, so the report
    /// is trusted only once every queued batch has passed its checksum (no bytes are held). Otherwise a corrupt header
    /// would cause a reset, and the reset a loss. Nor may a truncation overtake batches that the application has yet to
    /// process.
    fn on_position_invalid(
        &mut self,
        context: &PartitionContext<'_>,
        event: PositionEvent,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        let slot = context.slot;
        // A follower may be behind its leader, or not truncated yet.
        if self.leave_failed_replica(context.now, slot, ErrorCode::OFFSET_OUT_OF_RANGE, partitions, out) {
            return;
        }
        if partitions.queued_bytes(slot) > 0 {
            self.partition_state(slot).draining = true;
            partitions.touch(slot);
        } else {
            partitions.set_state(slot, FetchState::Resolving);
            out.push(FetchAction::Position(event));
        }
    }

    fn on_partition_error(
        &mut self,
        context: &PartitionContext<'_>,
        code: ErrorCode,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        let slot = context.slot;
        match code {
            ErrorCode::OFFSET_OUT_OF_RANGE => {
                self.on_position_invalid(context, PositionEvent::OutOfRange { slot }, partitions, out);
                return;
            }
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
                let tp = partitions.name(slot);
                self.fail(context.now, slot, PartitionError::NotAuthorized { tp }, partitions, out);
                return;
            }
            // The leader is known; it only has to advance its high watermark.
            ErrorCode::OFFSET_NOT_AVAILABLE => {}
            _ => self.needs_metadata = true,
        }
        if self.leave_failed_replica(context.now, slot, code, partitions, out) {
            return;
        }
        let node = self.sessions.get(context.session).map_or(partitions.leader(slot), |session| session.node);
        self.back_off_partition(context.now, slot, code, node, partitions, out);
    }

    /// Records a failure of a partition at a node, and waits before the next fetch.
    pub(super) fn back_off_partition(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        code: ErrorCode,
        node: NodeId,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        let source = (partitions.source(slot), partitions.leader_epoch(slot));
        let Self { partition_states: lanes, config, rng, failing, .. } = self;
        let Some(lane) = lanes.get_mut(slot.index()) else { return };
        lane.record_failure(now, source, config, rng);
        lane.failure_mut().last_error = code;
        failing.insert(slot);
        partitions.touch(slot);
        let failures = lane.failure().failures;
        // A leader change settles within a few retries. Longer failures are logged, at growing intervals.
        if failures >= 4 && failures.is_power_of_two() {
            let tp = partitions.name(slot);
            out.push(FetchAction::LogEvent(FetchLogEvent::Retrying { tp, node, code, failures }));
        }
    }
}

/// Copies the endpoints of hinted leaders, which follow the partitions in the response.
fn set_leader_endpoints(actions: &mut [FetchAction], endpoints: &[NodeEndpoint<'_>]) {
    for action in actions {
        if let FetchAction::LeaderHint { leader, endpoint, .. } = action {
            *endpoint = endpoints.iter().find(|node| node.node_id == *leader).and_then(|node| {
                let port = u16::try_from(node.port).ok()?;
                Some((node.host.to_owned(), port))
            });
        }
    }
}
