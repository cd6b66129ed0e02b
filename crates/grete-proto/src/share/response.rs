//! Responses to ShareFetch and ShareAcknowledge.

use std::collections::BTreeMap;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{ShareAcknowledgeResponse, ShareFetchResponse, share_fetch};

use super::acknowledgement::{AckType, Acknowledgement};
use super::acquirer::ShareAcquirer;
use super::event::{ShareAction, ShareLogEvent};
use super::partition::{AckGroup, LostRecords, PartitionKey};
use super::session::{InFlight, RequestKind};
use crate::fetch::acquired::retain;
use crate::fetch::{AcquiredRange, CompletedFetch, validate_batches};
use crate::ids::NodeId;
use crate::partition::error::PartitionError;
use crate::partition::table::PartitionTable;
use crate::request::{Reply, RequestError, Response};
use crate::time::{MILLI, Nanos};

/// Most records that one response may acquire. A broker acquires what was asked for, or one batch more.
const MAX_ACQUIRED: usize = 1 << 20;

/// Result of a request for one partition: error codes of its acknowledgements.
type AckResults = BTreeMap<PartitionKey, ErrorCode>;

/// Part of a ShareFetch response, about one partition.
struct AnswerPart<'a> {
    now: Nanos,
    /// Index of the session.
    at: usize,
    key: PartitionKey,
    response: &'a Response,
    data: &'a share_fetch::PartitionData<'a>,
}

impl ShareAcquirer {
    pub(super) fn on_reply(
        &mut self,
        now: Nanos,
        reply: &Reply,
        table: &mut PartitionTable,
        out: &mut Vec<ShareAction>,
    ) {
        let id = reply.token.id;
        let of = |flight: &mut InFlight| flight.token == id;
        for at in 0..self.sessions.len() {
            let Some(session) = self.sessions.get_mut(at) else { continue };
            let Some(flight) = session.in_flight.take_if(of) else { continue };
            return match flight.kind {
                RequestKind::Fetch => self.on_fetched(now, at, flight, &reply.result, table, out),
                _ => self.on_acknowledged(now, at, flight, &reply.result, out),
            };
        }
    }

    fn on_fetched(
        &mut self,
        now: Nanos,
        at: usize,
        flight: InFlight,
        result: &Result<Response, RequestError>,
        table: &mut PartitionTable,
        out: &mut Vec<ShareAction>,
    ) {
        let decoded = match result {
            Ok(response) => {
                let answer = response.decode(ShareFetchResponse::decode).map_err(RequestError::Protocol);
                answer.map(|answer| (response, answer))
            }
            Err(error) => Err(error.clone()),
        };
        let (response, answer) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => return self.on_failure(now, at, flight, error.is_ambiguous()),
        };
        let code = ErrorCode(answer.error_code);
        if code != ErrorCode::NONE {
            return self.on_session_error(now, at, flight, code, out);
        }
        self.on_session_ok(at, answer.acquisition_lock_timeout_ms);
        let results = answer.responses.iter().flat_map(|topic| {
            let id = topic.topic_id;
            topic
                .partitions
                .iter()
                .map(move |partition| ((id, partition.partition_index), ErrorCode(partition.acknowledge_error_code)))
        });
        // First, because the leader has executed them first: a record that was released may be among the acquired ones.
        let results: AckResults = results.collect();
        self.settle_acks(now, flight.acks, &results, out);
        for topic in &answer.responses {
            for partition in &topic.partitions {
                let key = (topic.topic_id, partition.partition_index);
                let leader = &partition.current_leader;
                let refused = [partition.error_code, partition.acknowledge_error_code];
                if refused.iter().any(|code| is_moved(*code)) {
                    self.on_leader(key, leader.leader_id, leader.leader_epoch, out);
                    let endpoints = answer.node_endpoints.iter();
                    set_leader_endpoint(out, endpoints.map(|node| (node.node_id, node.host.as_ref(), node.port)));
                }
                let part = AnswerPart { now, at, key, response, data: partition };
                self.on_partition(&part, table, out);
            }
        }
    }

    fn on_acknowledged(
        &mut self,
        now: Nanos,
        at: usize,
        flight: InFlight,
        result: &Result<Response, RequestError>,
        out: &mut Vec<ShareAction>,
    ) {
        let answer = match result {
            Ok(response) => response.decode(ShareAcknowledgeResponse::decode).map_err(RequestError::Protocol),
            Err(error) => Err(error.clone()),
        };
        if flight.kind == RequestKind::Close
            && let Some(session) = self.sessions.get_mut(at)
        {
            session.closed = true; // whatever the answer: the locks end by themselves
        }
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.on_failure(now, at, flight, error.is_ambiguous()),
        };
        let code = ErrorCode(answer.error_code);
        if code != ErrorCode::NONE {
            return self.on_session_error(now, at, flight, code, out);
        }
        self.on_session_ok(at, answer.acquisition_lock_timeout_ms);
        let mut results = AckResults::new();
        for topic in &answer.responses {
            for partition in &topic.partitions {
                let key = (topic.topic_id, partition.partition_index);
                results.insert(key, ErrorCode(partition.error_code));
                if is_moved(partition.error_code) {
                    let leader = &partition.current_leader;
                    self.on_leader(key, leader.leader_id, leader.leader_epoch, out);
                    let endpoints = answer.node_endpoints.iter();
                    set_leader_endpoint(out, endpoints.map(|node| (node.node_id, node.host.as_ref(), node.port)));
                }
            }
        }
        self.settle_acks(now, flight.acks, &results, out);
    }

    /// Handles a request without a usable response: its acknowledgements are sent again.
    fn on_failure(&mut self, now: Nanos, at: usize, flight: InFlight, ambiguous: bool) {
        let Self { sessions, rng, needs_metadata, .. } = self;
        if let Some(session) = sessions.get_mut(at) {
            session.not_before = now.saturating_add(session.backoff.next_delay(rng));
            session.refused = Some(ErrorCode::NONE);
            // Which epoch the broker expects is unknown.
            if session.number == flight.session {
                session.reset();
            }
            *needs_metadata = true;
        }
        self.send_again(now, flight.acks, ambiguous);
    }

    fn send_again(&mut self, now: Nanos, acks: Vec<(PartitionKey, AckGroup)>, uncertain: bool) {
        for (key, mut group) in acks {
            let Some(partition) = self.partitions.get_mut(&key) else { continue };
            partition.on_answered();
            // A renewal is due again by itself.
            group.acks.retain(|ack| ack.kind != AckType::Renew);
            group.uncertain |= uncertain;
            if !group.acks.is_empty() {
                partition.send_again(now, group);
                self.undelivered = true;
            }
        }
    }

    /// Handles a refused session or request. A refused session is opened again at once, the first time.
    fn on_session_error(
        &mut self,
        now: Nanos,
        at: usize,
        flight: InFlight,
        code: ErrorCode,
        out: &mut Vec<ShareAction>,
    ) {
        let Self { sessions, rng, needs_metadata, .. } = self;
        let Some(session) = sessions.get_mut(at) else { return };
        let node = session.node;
        let session_only = matches!(code, ErrorCode::SHARE_SESSION_NOT_FOUND | ErrorCode::INVALID_SHARE_SESSION_EPOCH);
        let is_current = session.number == flight.session;
        session.refused = Some(code);
        if is_current {
            session.reset();
            if !session_only || session.backoff.failures() > 0 {
                session.not_before = now.saturating_add(session.backoff.next_delay(rng));
            } else {
                let _ = session.backoff.next_delay(rng); // counts the failure
            }
            *needs_metadata |= !session_only;
            out.push(ShareAction::LogEvent(ShareLogEvent::SessionLost { node, code }));
        }
        if matches!(code, ErrorCode::GROUP_AUTHORIZATION_FAILED | ErrorCode::TOPIC_AUTHORIZATION_FAILED) {
            let led: Vec<PartitionKey> =
                self.sessions.get(at).map(|session| session.led.iter().copied().collect()).unwrap_or_default();
            for key in led {
                if let Some(partition) = self.partitions.get(&key)
                    && let Some(slot) = partition.slot
                {
                    let error = PartitionError::NotAuthorized { tp: partition.tp.clone() };
                    out.push(ShareAction::Failed { slot, error });
                }
            }
        }
        self.send_again(now, flight.acks, false);
    }

    fn on_session_ok(&mut self, at: usize, lock_ms: i32) {
        if let Some(session) = self.sessions.get_mut(at) {
            session.backoff.reset();
            session.refused = None;
        }
        if let Some(lock) = u64::try_from(lock_ms).ok().filter(|lock| *lock > 0) {
            self.lock = lock.saturating_mul(MILLI);
        }
    }

    fn on_leader(&mut self, key: PartitionKey, leader: NodeId, epoch: i32, out: &mut Vec<ShareAction>) {
        let Some(partition) = self.partitions.get(&key) else { return };
        if leader >= 0 && epoch > partition.leader_epoch {
            let tp = partition.tp.clone();
            out.push(ShareAction::LeaderHint { tp, leader, epoch, endpoint: None });
        }
    }

    fn on_partition(&mut self, part: &AnswerPart<'_>, table: &mut PartitionTable, out: &mut Vec<ShareAction>) {
        let AnswerPart { now, key, data, .. } = *part;
        let code = ErrorCode(data.error_code);
        if code != ErrorCode::NONE {
            return self.on_partition_error(now, key, code, out);
        }
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        if matches!(ErrorCode(data.acknowledge_error_code), ErrorCode::NONE | ErrorCode::INVALID_RECORD_STATE) {
            self.refused.remove(&key);
        }
        if partition.backoff.failures() > 0 {
            partition.backoff.reset();
            partition.not_before = 0;
            if let Some(slot) = partition.slot {
                out.push(ShareAction::Recovered { slot });
            }
        }
        if !data.acquired_records.is_empty() {
            self.on_acquired(part, table, out);
        }
    }

    fn on_acquired(&mut self, part: &AnswerPart<'_>, table: &mut PartitionTable, out: &mut Vec<ShareAction>) {
        let AnswerPart { now, at, key, response, data } = *part;
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        let Some(ranges) = acquired_ranges(&data.acquired_records) else {
            let node = self.sessions.get(at).map_or(-1, |session| session.node);
            out.push(ShareAction::LogEvent(ShareLogEvent::ImplausibleResponse { node }));
            return;
        };
        let records: usize = ranges.iter().map(|range| range.offsets().count()).sum();
        let again: usize =
            ranges.iter().filter(|range| range.deliveries > 1).map(|range| range.offsets().count()).sum();
        self.stats.acquired += records as u64;
        self.stats.redelivered += again as u64;
        // A record that is held already is being processed here, so only its lock is new. One whose acknowledgement no
        // request has carried yet is done: the acknowledgement counts under the new lock.
        let done = partition.waiting_offsets();
        let new = retain(&ranges, |offset| !partition.held.contains(offset) && !done.contains(&offset));
        for range in &retain(&ranges, |offset| !done.contains(&offset)) {
            self.held += partition.held.add(range, now, self.lock);
        }
        let Some(first) = new.first().map(|range| range.first) else { return };
        let last = new.last().map_or(first, |range| range.last);
        // Whole batches come first; what cannot be read goes back.
        let lowest = ranges.first().map_or(first, |range| range.first);
        let validated = validate_batches(&data.records, lowest, -1);
        let slot = partition.slot.filter(|slot| table.is_live(*slot));
        let (Some(slot), true) = (slot, validated.bytes > 0) else {
            let give_back = |range: &AcquiredRange| Acknowledgement {
                first: range.first,
                last: range.last,
                kind: AckType::Release,
            };
            for ack in new.iter().map(give_back) {
                for offset in ack.offsets() {
                    self.held -= usize::from(partition.held.remove(offset, now).is_some());
                }
                self.stats.released += ack.len() as u64;
                partition.acknowledge(ack);
            }
            return;
        };
        let start = data.records.as_ptr().addr().wrapping_sub(response.body().as_ptr().addr());
        let start = response.frame.offset_in_buffer() + response.body + start;
        self.stats.bytes += validated.bytes as u64;
        table.charge(slot, validated.bytes);
        out.push(ShareAction::Data(CompletedFetch {
            slot,
            assignment_epoch: table.assignment_epoch(slot),
            fetch_generation: table.fetch_generation(slot),
            frame: response.frame.buffer().clone(),
            range: start..start + validated.bytes,
            fetch_offset: first,
            next_offset: validated.next_offset.max(last.saturating_add(1)),
            aborted_transactions: Vec::new(),
            high_watermark: -1,
            readable_end: -1,
            log_start_offset: -1,
            bytes: validated.bytes,
            leader_epoch: validated.leader_epoch,
            source: table.leader(slot),
            timestamps: validated.timestamps,
            acquired: Some(Arc::from(new)),
        }));
    }

    fn on_partition_error(&mut self, now: Nanos, key: PartitionKey, code: ErrorCode, out: &mut Vec<ShareAction>) {
        self.needs_metadata = true;
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        partition.not_before = now.saturating_add(partition.backoff.next_delay(&mut self.rng));
        if partition.slot.is_some() {
            self.refused.insert(key, code);
        }
        // A leader change settles within a few attempts.
        let lasting = partition.backoff.failures() >= 4;
        let tp = partition.tp.clone();
        let error = match code {
            ErrorCode::TOPIC_AUTHORIZATION_FAILED | ErrorCode::GROUP_AUTHORIZATION_FAILED => {
                PartitionError::NotAuthorized { tp }
            }
            _ if lasting => PartitionError::Unserved { tp, node: partition.node, code },
            _ => return,
        };
        if let Some(slot) = partition.slot {
            out.push(ShareAction::Failed { slot, error });
        }
    }

    /// Applies the results of acknowledgements.
    fn settle_acks(
        &mut self,
        now: Nanos,
        acks: Vec<(PartitionKey, AckGroup)>,
        results: &AckResults,
        out: &mut Vec<ShareAction>,
    ) {
        for (key, group) in acks {
            let Some(partition) = self.partitions.get_mut(&key) else { continue };
            partition.on_answered();
            match results.get(&key).copied().unwrap_or(ErrorCode::NONE) {
                ErrorCode::NONE => {
                    self.refused.remove(&key);
                    if partition.undelivered_since.take().is_some() {
                        partition.backoff.reset();
                        partition.not_before = 0;
                    }
                    let renewed = group.acks.iter().filter(|ack| ack.kind == AckType::Renew);
                    self.stats.renewed += renewed.map(Acknowledgement::len).sum::<usize>() as u64;
                }
                ErrorCode::INVALID_RECORD_STATE => {
                    // The leader has answered: what is sent again waits from now on.
                    partition.undelivered_since = None;
                    let uncertain = group.uncertain;
                    match group.clone().halves() {
                        Some((first, second)) => {
                            partition.send_again(now, second);
                            partition.send_again(now, first);
                        }
                        None => {
                            let first = group.acks.first().map_or(-1, |ack| ack.first);
                            if group.acks.iter().any(|ack| ack.kind == AckType::Renew) {
                                partition.held.set_lost(first); // the handler goes on
                            }
                            self.stats.locks_lost += 1;
                            partition.add_lost(first, uncertain);
                        }
                    }
                }
                // The leader moves: the acknowledgement goes to the next one.
                code => {
                    if partition.slot.is_some() {
                        self.refused.insert(key, code);
                    }
                    let mut group = group;
                    group.acks.retain(|ack| ack.kind != AckType::Renew);
                    if !group.acks.is_empty() {
                        partition.send_again(now, group);
                        partition.not_before = now.saturating_add(partition.backoff.next_delay(&mut self.rng));
                        self.undelivered = true;
                    }
                    self.needs_metadata = true;
                }
            }
            // A group that is refused is halved down to the records whose locks have ended: one line for all of them.
            if let Some(LostRecords { records, first, uncertain }) = partition.take_lost() {
                let tp = partition.tp.clone();
                out.push(ShareAction::LogEvent(ShareLogEvent::LocksLost { tp, records, first, uncertain }));
            }
        }
    }
}

/// Returns whether the code says that another node leads the partition. Only then the response names the leader.
fn is_moved(code: i16) -> bool {
    matches!(ErrorCode(code), ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH)
}

/// Returns the acquired ranges, ascending; `None`: they overlap, or are too many.
fn acquired_ranges(acquired: &[share_fetch::AcquiredRecords]) -> Option<Vec<AcquiredRange>> {
    let mut ranges: Vec<AcquiredRange> = acquired
        .iter()
        .map(|range| AcquiredRange {
            first: range.first_offset,
            last: range.last_offset,
            deliveries: u16::try_from(range.delivery_count).unwrap_or(1).max(1),
        })
        .collect();
    ranges.sort_unstable_by_key(|range| range.first);
    let mut records = 0_usize;
    for range in &ranges {
        let len = range.last.checked_sub(range.first).filter(|len| *len >= 0 && range.first >= 0)?;
        records = records.checked_add(usize::try_from(len).ok()?.checked_add(1)?)?;
        if records > MAX_ACQUIRED {
            return None;
        }
    }
    ranges.is_sorted_by(|a, b| a.last < b.first).then_some(ranges)
}

/// Adds the endpoint to the last leader hint.
fn set_leader_endpoint<'a>(out: &mut [ShareAction], mut endpoints: impl Iterator<Item = (NodeId, &'a str, i32)>) {
    if let Some(ShareAction::LeaderHint { leader, endpoint, .. }) = out.last_mut()
        && endpoint.is_none()
    {
        let found = endpoints.find(|(node, ..)| node == leader);
        *endpoint = found.and_then(|(_, host, port)| Some((host.to_owned(), u16::try_from(port).ok()?)));
    }
}
