//! Commits of offsets with OffsetCommit: in order, with one request in flight; the newest offset of a partition wins.
//!
//! Generation and member id are set when a request is *sent*, so that a retry after a rebalance carries the new ones.
//! Each time the committer also checks that the member still owns the partition, under the epoch in which the offset
//! was processed; a retry therefore never commits for a partition that was revoked. With one request in flight, the
//! retry of an old offset cannot overtake a newer one, because a newer offset replaces it (P27).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};

use super::context::{Context, CoordinatorRef, Effect, ErrorClass, TopicMetadataView};
use super::error::{CommitError, GroupError};
use super::event::{CommitOffset, CommitOutcome, GroupAction, GroupLogEvent, TransactionResult};
use super::member::{MemberGeneration, StaleCommitCause};
use super::reconciler::Reconciler;
use crate::backoff::Backoff;
use crate::ids::TopicPartition;
use crate::request::{Channel, Request, RequestError, Response, Target};
use crate::time::{Nanos, SECOND, earliest};

/// Commit that is not stored yet.
#[derive(Debug)]
struct PendingCommit {
    commit: CommitOffset,
    /// Request ids that wait for the result; 0 is the background.
    waiters: Vec<u32>,
    expires_at: Nanos,
    /// Last error; empty: none.
    last_error: String,
    /// Time since which the coordinator answers that it does not know the topic; `None`: it does.
    unknown_since: Option<Nanos>,
}

/// Time for which a partition that is being revoked waits for a topic that the coordinator does not know. A coordinator
/// that has just started may learn of the topic within a few seconds; offsets of a deleted topic are of no use.
const UNKNOWN_TOPIC_WAIT: Nanos = 5 * SECOND;

#[derive(Debug)]
struct InFlight {
    token: u32,
    coordinator: CoordinatorRef,
    member: MemberGeneration,
    /// The offsets are committed in a transaction.
    is_transaction: bool,
    entries: BTreeMap<TopicPartition, PendingCommit>,
}

/// Commit request that a caller waits for.
#[derive(Debug, Default)]
struct CommitWaiter {
    remaining: usize,
    results: Vec<CommitOutcome>,
}

/// Commits of a group.
#[derive(Debug)]
pub(super) struct OffsetCommitter {
    pending: BTreeMap<TopicPartition, PendingCommit>,
    in_flight: Option<InFlight>,
    waiters: HashMap<u32, CommitWaiter>,
    /// The broker refused the metadata for its length; the offsets matter more.
    omit_metadata: bool,
    retry_at: Nanos,
    backoff: Backoff,
    /// Offsets that were stored, and offsets that failed for good.
    pub stored: u64,
    pub failed: u64,
}

impl OffsetCommitter {
    pub fn new(retry_backoff: Nanos, retry_backoff_max: Nanos) -> Self {
        Self {
            pending: BTreeMap::new(),
            in_flight: None,
            waiters: HashMap::new(),
            omit_metadata: false,
            retry_at: 0,
            backoff: Backoff::new(retry_backoff, retry_backoff_max),
            stored: 0,
            failed: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.in_flight.is_none()
    }

    /// Returns whether an offset of the partition is pending or in flight.
    pub fn contains(&self, tp: &TopicPartition) -> bool {
        self.pending.contains_key(tp) || self.in_flight.as_ref().is_some_and(|flight| flight.entries.contains_key(tp))
    }

    /// Returns whether the transaction in flight has an offset of the partition. The committed offset is not known before
    /// that transaction ends, because its TxnOffsetCommit may be on its way or due again: a member that considers its
    /// session expired may come back with the same id and in the same generation, so that the coordinator takes the
    /// offset although the partition was lost meanwhile.
    pub fn is_in_transaction(&self, tp: &TopicPartition) -> bool {
        self.in_flight.as_ref().is_some_and(|flight| flight.is_transaction && flight.entries.contains_key(tp))
    }

    /// Adds offsets to commit; offsets of partitions that the member does not own fail at once.
    pub fn submit(&mut self, ctx: &mut Context<'_>, reconciler: &Reconciler, offsets: Vec<CommitOffset>, id: u32) {
        if id != 0 {
            self.waiters.entry(id).or_default().remaining += offsets.len();
        }
        let give_up_at = ctx.now.saturating_add(ctx.config().commit_timeout);
        let mut done = Vec::new();
        for commit in offsets {
            let mut entry = PendingCommit {
                commit,
                waiters: vec![id],
                expires_at: give_up_at,
                last_error: String::new(),
                unknown_since: None,
            };
            if is_stale(&entry, reconciler) {
                done.push((entry, Err(CommitError::StaleAssignment)));
                continue;
            }
            let tp = entry.commit.tp.clone();
            if let Some(older) = self.pending.remove(&tp) {
                entry.supersede(older);
            }
            self.pending.insert(tp, entry);
        }
        self.complete(ctx, done, &[id]);
    }

    /// Marks pending offsets whose topic was deleted and created again meanwhile.
    pub fn check_topic_ids(&mut self, view: &dyn TopicMetadataView) {
        for (tp, entry) in &mut self.pending {
            let id = &mut entry.commit.topic_id;
            if *id != 0 && view.topic_id(&tp.topic).is_some_and(|now| now != *id) {
                *id = CommitOffset::DELETED_TOPIC;
            }
        }
    }

    /// Fails commits of revoked partitions, and commits that have reached their time limit.
    pub fn fail_revoked_and_expired(&mut self, ctx: &mut Context<'_>, reconciler: &Reconciler) {
        let now = ctx.now;
        let out = self.pending.extract_if(.., |_, entry| is_stale(entry, reconciler) || entry.expires_at <= now);
        let done = out.map(|(_, entry)| {
            let error = if is_stale(&entry, reconciler) {
                CommitError::StaleAssignment
            } else {
                CommitError::TimedOut(entry.describe_last_error())
            };
            (entry, Err(error))
        });
        let done: Vec<_> = done.collect();
        self.complete(ctx, done, &[]);
    }

    /// Sends the pending commits, unless a request is in flight.
    pub fn tick(&mut self, ctx: &mut Context<'_>, stamp: Option<MemberGeneration>) {
        if self.in_flight.is_some() || self.pending.is_empty() || ctx.now < self.retry_at {
            return;
        }
        let (Some(located), Some(stamp)) = (ctx.coordinator, stamp) else { return };
        // A single topic without an id would send all topics by name. Topics without an id go with the next request.
        let named = ctx.config().transactional || self.pending.values().all(|entry| entry.commit.topic_id == 0);
        let now = self.pending.extract_if(.., |_, entry| named || entry.commit.topic_id != 0);
        let mut entries: BTreeMap<TopicPartition, PendingCommit> = now.collect();
        if ctx.config().transactional {
            return self.transact(ctx, located, stamp, entries);
        }
        if self.omit_metadata {
            entries.values_mut().for_each(|entry| entry.commit.metadata.clear());
        }
        let mut topics: Vec<OffsetCommitRequestTopic<'static>> = Vec::new();
        for (tp, entry) in &entries {
            let partition = OffsetCommitRequestPartition {
                partition_index: tp.partition,
                committed_offset: entry.commit.offset,
                committed_leader_epoch: entry.commit.leader_epoch,
                committed_metadata: Some(Cow::Owned(entry.commit.metadata.clone())),
            };
            let topic_id = entry.commit.topic_id;
            match topics.last_mut().filter(|topic| *topic.name == *tp.topic && topic.topic_id == topic_id) {
                Some(topic) => topic.partitions.push(partition),
                None => topics.push(OffsetCommitRequestTopic {
                    name: Cow::Owned(tp.topic.to_string()),
                    topic_id,
                    partitions: vec![partition],
                }),
            }
        }
        let request = OffsetCommitRequest {
            group_id: Cow::Owned(ctx.config().group_id.to_string()),
            generation_id_or_member_epoch: stamp.generation,
            member_id: Cow::Owned(stamp.member_id.clone()),
            // Outside the group the instance id must not be sent: it may belong to a member.
            group_instance_id: ctx.instance_id().filter(|_| stamp.generation >= 0),
            topics,
            ..OffsetCommitRequest::default()
        };
        let timeout = ctx.config().request_timeout;
        let request = Request::OffsetCommit(request);
        let token = ctx.send(Target::Node(located.node), Channel::Control, request, timeout);
        self.in_flight = Some(InFlight { token, coordinator: located, member: stamp, is_transaction: false, entries });
    }

    /// Asks for a transaction with the offsets. TxnOffsetCommit has them, with this generation of the member (KIP-447).
    fn transact(
        &mut self,
        ctx: &mut Context<'_>,
        coordinator: CoordinatorRef,
        member: MemberGeneration,
        entries: BTreeMap<TopicPartition, PendingCommit>,
    ) {
        let number = ctx.shared.next_token;
        ctx.shared.next_token = number.wrapping_add(1).max(1);
        let offsets = entries.values().map(|entry| entry.commit.clone()).collect();
        let (generation, member_id) = (member.generation, member.member_id.clone());
        ctx.actions.push(GroupAction::CommitTransaction { number, generation, member_id, offsets });
        self.in_flight = Some(InFlight { token: number, coordinator, member, is_transaction: true, entries });
    }

    /// Handles the result of the transaction in flight.
    pub fn on_transaction_done(
        &mut self,
        ctx: &mut Context<'_>,
        reconciler: &Reconciler,
        result: &TransactionResult,
        standing: StaleCommitCause,
    ) {
        let Some(mut flight) = self.in_flight.take() else { return };
        let lookup = flight.coordinator.lookup;
        let mut done = Vec::new();
        for (tp, entry) in std::mem::take(&mut flight.entries) {
            let (outcome, error) = match result {
                TransactionResult::Committed => {
                    ctx.on_authorized();
                    (Some(Ok(())), String::new())
                }
                TransactionResult::MemberReplaced(code) => {
                    (partition_outcome(ctx, lookup, *code, standing, &tp), code.to_string())
                }
                TransactionResult::Aborted(cause) => (None, cause.clone()),
                TransactionResult::Failed(code) => (Some(Err(CommitError::Refused(*code))), code.to_string()),
            };
            match outcome {
                Some(outcome) => done.push((entry, outcome)),
                None => {
                    flight.entries.insert(tp, PendingCommit { last_error: error, ..entry });
                }
            }
        }
        if flight.entries.is_empty() {
            self.backoff.reset();
            self.retry_at = ctx.now;
        } else {
            self.retry_at = ctx.now + self.backoff.next_delay(&mut ctx.shared.rng);
            self.requeue(flight.entries);
        }
        self.complete(ctx, done, &[]);
        self.fail_revoked_and_expired(ctx, reconciler);
    }

    /// Fails the offsets of partitions whose work does not count. The transaction in flight has ended, and its result
    /// follows.
    pub fn discard(&mut self, ctx: &mut Context<'_>, tps: &[TopicPartition]) {
        let in_flight = self.in_flight.as_mut().map(|flight| &mut flight.entries);
        let gone = std::iter::once(&mut self.pending).chain(in_flight);
        let gone = gone.flat_map(|entries| entries.extract_if(.., |tp, _| tps.contains(tp)));
        let done: Vec<_> = gone.map(|(_, entry)| (entry, Err(CommitError::Discarded))).collect();
        self.complete(ctx, done, &[]);
    }

    /// Returns the time at which a commit must be sent or failed; `None`: nothing is pending.
    pub fn deadline(&self, can_send: bool) -> Option<Nanos> {
        let give_up = self.pending.values().map(|entry| entry.expires_at).min()?;
        let send = (can_send && self.in_flight.is_none()).then_some(self.retry_at);
        earliest(Some(give_up), send)
    }

    /// Returns the generation of the request with this token; `None` if the token belongs to no commit.
    pub fn in_flight_member(&self, token: u32) -> Option<&MemberGeneration> {
        self.in_flight.as_ref().filter(|flight| flight.token == token).map(|flight| &flight.member)
    }

    /// Handles the reply to the request in flight.
    pub fn on_reply(
        &mut self,
        ctx: &mut Context<'_>,
        reconciler: &Reconciler,
        result: &Result<Response, RequestError>,
        standing: StaleCommitCause,
    ) {
        let Some(mut flight) = self.in_flight.take() else { return };
        let answer = match result {
            Ok(response) => response.decode(OffsetCommitResponse::decode).map_err(RequestError::Protocol),
            Err(error) => Err(error.clone()),
        };
        let mut done = Vec::new();
        match answer {
            Ok(answer) => {
                for topic in &answer.topics {
                    // The response identifies topics like the request: by id in version 10.
                    let name = match topic.topic_id {
                        0 => Arc::from(topic.name.as_ref()),
                        id => {
                            let asked = flight.entries.iter().find(|(_, entry)| entry.commit.topic_id == id);
                            let Some((tp, _)) = asked else { continue };
                            Arc::clone(&tp.topic)
                        }
                    };
                    for partition in &topic.partitions {
                        let tp = TopicPartition { topic: Arc::clone(&name), partition: partition.partition_index };
                        let Some(mut entry) = flight.entries.remove(&tp) else { continue };
                        let code = ErrorCode(partition.error_code);
                        let bytes = entry.commit.metadata.len();
                        if code == ErrorCode::OFFSET_METADATA_TOO_LARGE && bytes > 0 {
                            if !std::mem::replace(&mut self.omit_metadata, true) {
                                ctx.log_event(GroupLogEvent::CommitMetadataRejected { bytes });
                            }
                            entry.last_error = code.to_string();
                            flight.entries.insert(tp, entry);
                            continue;
                        }
                        match partition_outcome(ctx, flight.coordinator.lookup, code, standing, &tp) {
                            Some(result) => done.push((entry, result)),
                            None => {
                                let unknown =
                                    matches!(code, ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
                                entry.unknown_since = unknown.then(|| entry.unknown_since.unwrap_or(ctx.now));
                                let since = entry.unknown_since.unwrap_or(ctx.now);
                                if ctx.now.saturating_sub(since) >= UNKNOWN_TOPIC_WAIT && reconciler.is_revoking(&tp) {
                                    done.push((entry, Err(CommitError::Refused(code))));
                                    continue;
                                }
                                entry.last_error = code.to_string();
                                flight.entries.insert(tp, entry);
                            }
                        }
                    }
                }
            }
            Err(error) => {
                ctx.on_request_failed(flight.coordinator.lookup, &error);
                for entry in flight.entries.values_mut() {
                    entry.last_error = error.to_string();
                }
            }
        }
        if flight.entries.is_empty() {
            self.backoff.reset();
            self.retry_at = ctx.now;
        } else {
            // Partitions that are missing from the response count as not stored, too.
            self.retry_at = ctx.now + self.backoff.next_delay(&mut ctx.shared.rng);
            self.requeue(flight.entries);
        }
        self.complete(ctx, done, &[]);
        self.fail_revoked_and_expired(ctx, reconciler);
    }

    /// Queues commits again. A newer offset of the same partition replaces the old one and takes over its waiters.
    fn requeue(&mut self, entries: BTreeMap<TopicPartition, PendingCommit>) {
        for (tp, entry) in entries {
            match self.pending.get_mut(&tp) {
                Some(newer) => newer.supersede(entry),
                None => {
                    self.pending.insert(tp, entry);
                }
            }
        }
    }

    /// Ends the wait between two attempts.
    pub fn retry_now(&mut self, now: Nanos) {
        self.retry_at = self.retry_at.min(now);
    }

    /// Fails the pending commits with the broker's answer to other requests of the group.
    pub fn refuse_pending(&mut self, ctx: &mut Context<'_>, code: ErrorCode) {
        let done =
            std::mem::take(&mut self.pending).into_values().map(|entry| (entry, Err(CommitError::Refused(code))));
        let done: Vec<_> = done.collect();
        self.complete(ctx, done, &[]);
    }

    /// Fails all commits, because no request will store them any more.
    pub fn close(&mut self, ctx: &mut Context<'_>) {
        if let Some(flight) = self.in_flight.take() {
            self.requeue(flight.entries);
        }
        let done = std::mem::take(&mut self.pending).into_values().map(|entry| (entry, Err(CommitError::Closed)));
        let done: Vec<_> = done.collect();
        self.complete(ctx, done, &[]);
    }

    /// Reports results to the waiters. `check` lists commit ids that may be complete without any entry.
    fn complete(&mut self, ctx: &mut Context<'_>, done: Vec<(PendingCommit, Result<(), CommitError>)>, check: &[u32]) {
        let (mut background, mut failed) = (Vec::new(), Vec::new());
        let mut touched = check.to_vec();
        for (entry, result) in done {
            match &result {
                Ok(()) => self.stored += 1,
                Err(CommitError::StaleAssignment | CommitError::Discarded) => {}
                Err(_) => self.failed += 1,
            }
            let CommitOffset { tp, offset, .. } = entry.commit;
            let unattended = background.len();
            for id in entry.waiters {
                let outcome = CommitOutcome { tp: tp.clone(), offset, result: result.clone() };
                if let Some(waiting) = self.waiters.get_mut(&id) {
                    waiting.remaining = waiting.remaining.saturating_sub(1);
                    waiting.results.push(outcome);
                    touched.push(id);
                } else {
                    background.push(outcome);
                }
            }
            // A stale background offset is normal after a rebalance.
            if let Err(error) = result
                && background.len() > unattended
                && !matches!(error, CommitError::StaleAssignment | CommitError::Discarded)
            {
                // One line for all partitions that fail alike.
                match failed.iter_mut().find(|(_, _, of, _)| *of == error) {
                    Some((.., others)) => *others += 1,
                    None => failed.push((tp, offset, error, 0)),
                }
            }
        }
        for (tp, offset, error, others) in failed {
            ctx.log_event(GroupLogEvent::CommitFailed { tp, offset, error, others });
        }
        if !background.is_empty() {
            ctx.actions.push(GroupAction::CommitResult { id: 0, results: background });
        }
        touched.sort_unstable();
        touched.dedup();
        for id in touched {
            if self.waiters.get(&id).is_some_and(|waiting| waiting.remaining == 0)
                && let Some(waiting) = self.waiters.remove(&id)
            {
                ctx.actions.push(GroupAction::CommitResult { id, results: waiting.results });
            }
        }
    }
}

impl PendingCommit {
    /// Replaces an older commit of the same partition.
    fn supersede(&mut self, older: PendingCommit) {
        let new = older.waiters.into_iter().filter(|id| *id != 0 || !self.waiters.contains(id));
        let new: Vec<u32> = new.collect();
        self.waiters.extend(new);
        // The oldest waiting caller decides the time limit; background commits have no say.
        if self.waiters.iter().any(|id| *id != 0) {
            self.expires_at = self.expires_at.min(older.expires_at);
        }
        if self.last_error.is_empty() {
            self.last_error = older.last_error;
        }
        self.unknown_since = self.unknown_since.or(older.unknown_since);
    }

    fn describe_last_error(&self) -> String {
        if self.last_error.is_empty() { "the coordinator was not reached".to_owned() } else { self.last_error.clone() }
    }
}

fn is_stale(entry: &PendingCommit, reconciler: &Reconciler) -> bool {
    entry.commit.topic_id == CommitOffset::DELETED_TOPIC
        || reconciler.epoch_of(&entry.commit.tp) != Some(entry.commit.epoch)
}

/// Returns the meaning of a partition's error code; `None`: retry.
fn partition_outcome(
    ctx: &mut Context<'_>,
    lookup: u32,
    code: ErrorCode,
    standing: StaleCommitCause,
    tp: &TopicPartition,
) -> Option<Result<(), CommitError>> {
    match ctx.classify(lookup, code) {
        ErrorClass::Ok => {
            ctx.on_authorized();
            Some(Ok(()))
        }
        ErrorClass::Retry => None,
        // Some brokers return these codes when the write to the offsets topic timed out.
        ErrorClass::Error(code @ (ErrorCode::REQUEST_TIMED_OUT | ErrorCode::NOT_ENOUGH_REPLICAS)) => {
            ctx.push_effect(Effect::Suspect { lookup, reason: code.to_string() });
            None
        }
        ErrorClass::Error(ErrorCode::REBALANCE_IN_PROGRESS) => {
            ctx.push_effect(Effect::CommitDuringRebalance);
            None
        }
        ErrorClass::Error(
            code @ (ErrorCode::ILLEGAL_GENERATION | ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::STALE_MEMBER_EPOCH),
        ) => match standing {
            StaleCommitCause::Standalone => Some(Err(CommitError::HasMembers(code))),
            StaleCommitCause::EpochBehind if code != ErrorCode::UNKNOWN_MEMBER_ID => {
                ctx.push_effect(Effect::CommitDuringRebalance);
                None
            }
            StaleCommitCause::Evicted | StaleCommitCause::EpochBehind => {
                ctx.push_effect(Effect::CommitFenced(code));
                Some(Err(CommitError::Fenced(code)))
            }
            StaleCommitCause::Rejoining => None,
        },
        ErrorClass::Error(code @ ErrorCode::FENCED_INSTANCE_ID) => match standing {
            StaleCommitCause::Standalone => Some(Err(CommitError::Fenced(code))),
            StaleCommitCause::Evicted | StaleCommitCause::EpochBehind => {
                ctx.push_effect(Effect::CommitInstanceFenced);
                Some(Err(CommitError::Fenced(code)))
            }
            // The member may have fenced itself: the join in progress may have replaced the id that the commit carried.
            StaleCommitCause::Rejoining => None,
        },
        ErrorClass::Error(ErrorCode::GROUP_AUTHORIZATION_FAILED) => {
            // A stop does not wait for the ACL: the records are read again.
            let again = ctx.on_unauthorized() && !ctx.shared.leaving;
            (!again).then_some(Err(CommitError::Refused(ErrorCode::GROUP_AUTHORIZATION_FAILED)))
        }
        // OffsetFetch needs the same permission, and reports the missing permission.
        ErrorClass::Error(code @ ErrorCode::TOPIC_AUTHORIZATION_FAILED)
            if ctx.config().retry_authorization_failures =>
        {
            ctx.shared.leaving.then_some(Err(CommitError::Refused(code)))
        }
        ErrorClass::Error(ErrorCode::TOPIC_AUTHORIZATION_FAILED) => {
            ctx.push_effect(Effect::Fatal(GroupError::TopicAuthorization { topic: tp.topic.clone() }));
            Some(Err(CommitError::Refused(ErrorCode::TOPIC_AUTHORIZATION_FAILED)))
        }
        // The topic was deleted, and perhaps created again. New metadata decides whether the offset belongs to the
        // current topic.
        ErrorClass::Error(ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => {
            ctx.actions.push(GroupAction::RefreshMetadata);
            None
        }
        ErrorClass::Error(code) if code.is_retriable() => None,
        ErrorClass::Error(code) => Some(Err(CommitError::Refused(code))),
    }
}
