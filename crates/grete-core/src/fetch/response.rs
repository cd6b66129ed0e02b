//! Reads Fetch responses: moves positions on by batch headers, sorts errors into retries, questions and failures.

use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;
use grete_wire::fetch::{self, FetchPartition, NodeEndpoint};

use crate::fetch_notice::FetchNotice;
use crate::ids::Slot;
use crate::partitions::{Partitions, SlotState};
use crate::request::{Reply, RequestError, Response};
use crate::slot_error::{Corruption, SlotError};
use crate::time::Nanos;

use super::chunk::Chunk;
use super::event::FetchAction;
use super::machine::{FetchMachine, fail};
use super::session::Fields;
use super::walk::walk_records;

/// What one partition of a response is read with.
struct Context<'a> {
    now: Nanos,
    session: usize,
    slot: Slot,
    asked: Fields,
    response: &'a Response,
}

impl FetchMachine {
    pub(super) fn on_reply(
        &mut self,
        now: Nanos,
        reply: Reply,
        partitions: &mut Partitions,
        out: &mut Vec<FetchAction>,
    ) {
        // A reply whose token no session waits for is late: the connection was lost, or the machine was closed.
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
                out.push(FetchAction::Notice(FetchNotice::BadResponse { node: reply.node, error }));
            }
            self.hold_back(now, at);
        }
    }

    /// The node could not serve a whole Fetch: wait, then start over with a full request.
    fn hold_back(&mut self, now: Nanos, at: usize) {
        self.stale_metadata = true;
        let Self { sessions, rng, .. } = self;
        if let Some(session) = sessions.get_mut(at) {
            session.reset();
            session.not_before = now.saturating_add(session.backoff.next(rng));
        }
    }

    fn on_response(
        &mut self,
        now: Nanos,
        at: usize,
        response: &Response,
        partitions: &mut Partitions,
        out: &mut Vec<FetchAction>,
    ) -> Result<(), WireError> {
        let body = response.body();
        let (head, mut items) = fetch::response::parse(response.version, body)?;
        if head.error_code != ErrorCode::NONE {
            self.on_session_error(now, at, head.error_code, out);
            return Ok(());
        }
        let (chunks, before) = (self.stats.chunks, out.len());
        for item in &mut items {
            self.on_partition(now, at, &item?, response, partitions, out);
        }
        name_endpoints(out.get_mut(before..).unwrap_or_default(), items.node_endpoints());
        self.stats.responses += 1;
        self.stats.empty_responses += u64::from(chunks == self.stats.chunks);
        if let Some(session) = self.sessions.get_mut(at) {
            session.accepted(head.session_id);
        }
        Ok(())
    }

    /// The broker refuses the session or the request. A refused session is replaced at once, by one full request; if that
    /// is refused, too, the node is held back: nothing spins.
    fn on_session_error(&mut self, now: Nanos, at: usize, code: ErrorCode, out: &mut Vec<FetchAction>) {
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
        session.refusals = session.refusals.saturating_add(1);
        // The broker's cache forgets idle sessions: that alone is no news.
        if code != ErrorCode::FETCH_SESSION_ID_NOT_FOUND || session.refusals > 1 {
            out.push(FetchAction::Notice(FetchNotice::SessionError { node: session.node, code }));
        }
        if session_only && session.refusals == 1 {
            session.reset();
        } else {
            self.hold_back(now, at);
        }
    }

    fn on_partition(
        &mut self,
        now: Nanos,
        at: usize,
        item: &FetchPartition<'_>,
        response: &Response,
        partitions: &mut Partitions,
        out: &mut Vec<FetchAction>,
    ) {
        let Some(session) = self.sessions.get_mut(at) else { return };
        let Some(index) = session.find(&item.topic, item.partition) else { return };
        let Some(entry) = session.entries.get_mut(index) else { return };
        entry.answered = true;
        let (slot, asked) = (entry.slot, entry.sent);
        // Late by construction: the slot was removed, moved or sought since the request left, another node leads it, or
        // the response names it twice. The broker's own offset moves only by our requests, so nothing is lost.
        if !entry.member
            || entry.generation != partitions.fetch_generation(slot)
            || partitions.state(slot) != SlotState::Fetching
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
        let context = Context { now, session: at, slot, asked, response };
        if item.error_code != ErrorCode::NONE {
            self.on_partition_error(&context, item.error_code, partitions, out);
            return;
        }
        if let Some((epoch, end_offset)) =
            item.diverging_epoch.filter(|(epoch, end_offset)| *epoch >= 0 && *end_offset >= 0)
        {
            self.on_position_doubt(&context, FetchAction::Diverged { slot, epoch, end_offset }, partitions, out);
            return;
        }
        partitions.set_high_watermark(slot, item.high_watermark);
        partitions.set_last_stable_offset(slot, item.last_stable_offset);
        partitions.set_log_start_offset(slot, item.log_start_offset);
        self.on_records(&context, item, partitions, out);
    }

    fn on_records(
        &mut self,
        context: &Context<'_>,
        item: &FetchPartition<'_>,
        partitions: &mut Partitions,
        out: &mut Vec<FetchAction>,
    ) {
        let Context { slot, asked, response, .. } = *context;
        let records = response.body().get(item.records.clone()).unwrap_or_default();
        let walked = walk_records(records, asked.fetch_offset, item.high_watermark);
        let read_committed = self.config.read_committed;
        let readable_end = if read_committed { item.last_stable_offset } else { item.high_watermark };
        self.lane(slot).succeeded();
        if walked.bytes == 0 {
            match walked.fault {
                Some(cause) => self.strike(context, cause, partitions, out),
                None if !records.is_empty() => self.grow(context, partitions, out),
                // A session names a partition without records when its end has moved, or for the first time.
                None => {
                    out.push(FetchAction::Nothing { slot, high_watermark: item.high_watermark, readable_end });
                }
            }
            return;
        }
        // What follows a fault is fetched again, and then comes first.
        let lane = self.lane(slot);
        lane.struck = None;
        lane.max_bytes = 0;
        let start = response.frame.offset_in_slab() + response.body + item.records.start;
        let aborted = if read_committed { item.aborted().collect() } else { Vec::new() };
        out.push(FetchAction::Data(Chunk {
            slot,
            assignment_epoch: partitions.assignment_epoch(slot),
            fetch_generation: partitions.fetch_generation(slot),
            frame: response.frame.slab().clone(),
            range: start..start + walked.bytes,
            fetch_offset: asked.fetch_offset,
            next_offset: walked.next_offset,
            aborted,
            high_watermark: item.high_watermark,
            readable_end,
            log_start_offset: item.log_start_offset,
            bytes: walked.bytes,
            leader_epoch: walked.leader_epoch,
            times: walked.times,
        }));
        partitions.charge(slot, walked.bytes);
        partitions.set_fetch_offset(slot, walked.next_offset);
        // No checksum covers a batch's leader epoch; one beyond the leader's own cannot be.
        let epoch = walked.leader_epoch;
        let plausible = asked.current_leader_epoch < 0 || epoch <= asked.current_leader_epoch;
        partitions.set_last_fetched_epoch(slot, if plausible { epoch } else { -1 });
        self.stats.chunks += 1;
        self.stats.bytes = self.stats.bytes.saturating_add(walked.bytes as u64);
        self.stats.records = self.stats.records.saturating_add(walked.records);
    }

    /// The first batch cannot be believed: fetch it once more, then stop.
    fn strike(
        &mut self,
        context: &Context<'_>,
        cause: Corruption,
        partitions: &mut Partitions,
        out: &mut Vec<FetchAction>,
    ) {
        let Context { slot, asked, .. } = *context;
        let (tp, offset) = (partitions.name(slot), asked.fetch_offset);
        let here = Some((offset, asked.current_leader_epoch));
        let lane = self.lane(slot);
        if lane.struck == here {
            fail(slot, SlotError::Corrupt { tp, offset, cause }, partitions, out);
            return;
        }
        lane.struck = here;
        if !matches!(cause, Corruption::Beyond { .. }) {
            out.push(FetchAction::Notice(FetchNotice::CorruptBatch { tp, offset, cause }));
        }
    }

    /// The first batch is cut off. Brokers have sent it whole since Fetch v3, whatever the limits say; one that does not
    /// gets a larger limit.
    fn grow(&mut self, context: &Context<'_>, partitions: &mut Partitions, out: &mut Vec<FetchAction>) {
        let Context { slot, asked, .. } = *context;
        let limit = self.config.max_bytes.max(self.config.partition_bytes);
        if asked.max_bytes >= limit {
            let error = SlotError::BatchTooLarge { tp: partitions.name(slot), offset: asked.fetch_offset, limit };
            fail(slot, error, partitions, out);
            return;
        }
        self.lane(slot).max_bytes = asked.max_bytes.max(1).saturating_mul(2).min(limit);
    }

    /// The leader says that our position is not in its log. The position came from headers, so it is believed only once
    /// every queued batch has passed its checksum (nothing is held any more): a corrupt header would become a reset, and
    /// a reset a loss. Nor may a truncation overtake batches that the app has yet to see.
    fn on_position_doubt(
        &mut self,
        context: &Context<'_>,
        question: FetchAction,
        partitions: &mut Partitions,
        out: &mut Vec<FetchAction>,
    ) {
        let slot = context.slot;
        if partitions.queued_bytes(slot) > 0 {
            self.lane(slot).draining = true;
        } else {
            partitions.set_state(slot, SlotState::Resolving);
            out.push(question);
        }
    }

    fn on_partition_error(
        &mut self,
        context: &Context<'_>,
        code: ErrorCode,
        partitions: &mut Partitions,
        out: &mut Vec<FetchAction>,
    ) {
        let slot = context.slot;
        match code {
            ErrorCode::OFFSET_OUT_OF_RANGE => {
                let question = FetchAction::OutOfRange { slot, follower: false };
                self.on_position_doubt(context, question, partitions, out);
                return;
            }
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
                let tp = partitions.name(slot);
                fail(slot, SlotError::NotAuthorized { tp }, partitions, out);
                return;
            }
            // The leader is known, it only has to catch up with itself.
            ErrorCode::OFFSET_NOT_AVAILABLE => {}
            _ => self.stale_metadata = true,
        }
        let leader = (partitions.leader(slot), partitions.leader_epoch(slot));
        let Self { lanes, config, rng, sessions, .. } = self;
        let Some(lane) = lanes.get_mut(slot.index()) else { return };
        lane.failed(context.now, leader, config, rng);
        let node = sessions.get(context.session).map_or(leader.0, |session| session.node);
        // Leaders move now and then, and that settles within a few tries; what does not is worth telling, ever more rarely.
        if lane.failures >= 4 && lane.failures.is_power_of_two() {
            let (tp, failures) = (partitions.name(slot), lane.failures);
            out.push(FetchAction::Notice(FetchNotice::Retrying { tp, node, code, failures }));
        }
    }
}

/// Where the hinted leaders listen stands behind the partitions that name them.
fn name_endpoints(actions: &mut [FetchAction], endpoints: &[NodeEndpoint<'_>]) {
    for action in actions {
        if let FetchAction::LeaderHint { leader, endpoint, .. } = action {
            *endpoint = endpoints.iter().find(|node| node.node_id == *leader).and_then(|node| {
                let port = u16::try_from(node.port).ok()?;
                Some((node.host.to_owned(), port))
            });
        }
    }
}
