//! OffsetCommit: in order, one request under way, per partition the newest offset wins.
//!
//! Generation and member id are stamped when a request is *sent*, so that a retry after a rebalance carries the new ones;
//! and whether the partition is still ours, under the epoch in which the offset was earned, is checked each time, so that
//! a retry never speaks for a partition that has been given away. With one request under way, a retried old offset cannot
//! overtake a newer one: whatever has been submitted meanwhile replaces it (P27).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use grete_wire::ErrorCode;
use grete_wire::messages::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};

use super::context::{Context, Effect, Located, Verdict};
use super::error::{CommitError, GroupError};
use super::event::{CommitOffset, CommitOutcome, GroupAction, GroupNotice};
use super::member::Stamp;
use super::reconciler::Reconciler;
use crate::ids::TopicPartition;
use crate::request::{Channel, Request, RequestError, Response, Target};
use crate::rng::Backoff;
use crate::time::{Nanos, earlier};

/// Not yet stored.
#[derive(Debug)]
struct Entry {
    commit: CommitOffset,
    /// Who wants to hear of it; 0 is the background.
    waiters: Vec<u32>,
    give_up_at: Nanos,
    /// What went wrong last.
    trouble: String,
}

#[derive(Debug)]
struct Flight {
    token: u32,
    located: Located,
    stamp: Stamp,
    entries: BTreeMap<TopicPartition, Entry>,
}

/// A commit that somebody waits for.
#[derive(Debug, Default)]
struct Waiting {
    left: usize,
    results: Vec<CommitOutcome>,
}

/// How a refused stamp is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// No group was joined: the group has members, and strangers may not commit.
    Standalone,
    /// The stamp is what we still believe to be: so we are out.
    Refuted,
    /// A join is under way: try again with what comes out of it.
    InFlux,
}

/// A group's commits.
#[derive(Debug)]
pub(super) struct Committer {
    pending: BTreeMap<TopicPartition, Entry>,
    flight: Option<Flight>,
    waiting: HashMap<u32, Waiting>,
    /// The broker has refused the metadata for its length; the offsets matter more.
    plain: bool,
    retry_at: Nanos,
    backoff: Backoff,
    /// Offsets that are stored, and those that never will be.
    pub stored: u64,
    pub failed: u64,
}

impl Committer {
    pub fn new(retry_backoff: Nanos, retry_backoff_max: Nanos) -> Self {
        Self {
            pending: BTreeMap::new(),
            flight: None,
            waiting: HashMap::new(),
            plain: false,
            retry_at: 0,
            backoff: Backoff::new(retry_backoff, retry_backoff_max),
            stored: 0,
            failed: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.flight.is_none()
    }

    /// Whether an offset of the partition is on its way.
    pub fn holds(&self, tp: &TopicPartition) -> bool {
        self.pending.contains_key(tp) || self.flight.as_ref().is_some_and(|flight| flight.entries.contains_key(tp))
    }

    /// Takes offsets in; what is not ours is refused at once.
    pub fn submit(&mut self, ctx: &mut Context<'_>, reconciler: &Reconciler, offsets: Vec<CommitOffset>, id: u32) {
        if id != 0 {
            self.waiting.entry(id).or_default().left += offsets.len();
        }
        let give_up_at = ctx.now.saturating_add(ctx.config().commit_timeout);
        let mut done = Vec::new();
        for commit in offsets {
            let mut entry = Entry { commit, waiters: vec![id], give_up_at, trouble: String::new() };
            if is_stale(&entry, reconciler) {
                done.push((entry, Err(CommitError::StaleAssignment)));
                continue;
            }
            let tp = entry.commit.tp.clone();
            if let Some(older) = self.pending.remove(&tp) {
                entry.absorb(older);
            }
            self.pending.insert(tp, entry);
        }
        self.finish(ctx, done, &[id]);
    }

    /// Fails what is no longer ours, and what has been tried for too long.
    pub fn weed(&mut self, ctx: &mut Context<'_>, reconciler: &Reconciler) {
        let now = ctx.now;
        let out = self.pending.extract_if(.., |_, entry| is_stale(entry, reconciler) || entry.give_up_at <= now);
        let done = out.map(|(_, entry)| {
            let error = if is_stale(&entry, reconciler) {
                CommitError::StaleAssignment
            } else {
                CommitError::TimedOut(entry.trouble())
            };
            (entry, Err(error))
        });
        let done: Vec<_> = done.collect();
        self.finish(ctx, done, &[]);
    }

    /// Sends what is pending, unless a request is under way.
    pub fn tick(&mut self, ctx: &mut Context<'_>, stamp: Option<Stamp>) {
        if self.flight.is_some() || self.pending.is_empty() || ctx.now < self.retry_at {
            return;
        }
        let (Some(located), Some(stamp)) = (ctx.coordinator, stamp) else { return };
        let mut entries = std::mem::take(&mut self.pending);
        if self.plain {
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
            match topics.last_mut().filter(|topic| *topic.name == *tp.topic) {
                Some(topic) => topic.partitions.push(partition),
                None => topics.push(OffsetCommitRequestTopic {
                    name: Cow::Owned(tp.topic.to_string()),
                    partitions: vec![partition],
                    ..OffsetCommitRequestTopic::default()
                }),
            }
        }
        let request = OffsetCommitRequest {
            group_id: Cow::Owned(ctx.config().group_id.to_string()),
            generation_id_or_member_epoch: stamp.generation,
            member_id: Cow::Owned(stamp.member_id.clone()),
            // A stranger to the group has no place in it that could be somebody else's.
            group_instance_id: ctx.instance_id().filter(|_| stamp.generation >= 0),
            topics,
            ..OffsetCommitRequest::default()
        };
        let timeout = ctx.config().request_timeout;
        let request = Request::OffsetCommit(request);
        let token = ctx.send(Target::Node(located.node), Channel::Control, request, timeout);
        self.flight = Some(Flight { token, located, stamp, entries });
    }

    /// When something is to be sent or given up.
    pub fn deadline(&self, can_send: bool) -> Option<Nanos> {
        let give_up = self.pending.values().map(|entry| entry.give_up_at).min()?;
        let send = (can_send && self.flight.is_none()).then_some(self.retry_at);
        earlier(Some(give_up), send)
    }

    /// The stamp of the request whose answer this is; `None` if the token is not ours.
    pub fn awaited(&self, token: u32) -> Option<&Stamp> {
        self.flight.as_ref().filter(|flight| flight.token == token).map(|flight| &flight.stamp)
    }

    /// The answer to the request under way.
    pub fn on_reply(
        &mut self,
        ctx: &mut Context<'_>,
        reconciler: &Reconciler,
        result: &Result<Response, RequestError>,
        standing: Standing,
    ) {
        let Some(mut flight) = self.flight.take() else { return };
        let answer = match result {
            Ok(response) => response.decode(OffsetCommitResponse::decode).map_err(RequestError::Protocol),
            Err(error) => Err(error.clone()),
        };
        let mut done = Vec::new();
        match answer {
            Ok(answer) => {
                for topic in &answer.topics {
                    for partition in &topic.partitions {
                        let tp = TopicPartition::new(topic.name.as_ref(), partition.partition_index);
                        let Some(mut entry) = flight.entries.remove(&tp) else { continue };
                        let code = ErrorCode(partition.error_code);
                        let bytes = entry.commit.metadata.len();
                        if code == ErrorCode::OFFSET_METADATA_TOO_LARGE && bytes > 0 {
                            if !std::mem::replace(&mut self.plain, true) {
                                ctx.notice(GroupNotice::MetadataRefused { bytes });
                            }
                            entry.trouble = code.to_string();
                            flight.entries.insert(tp, entry);
                            continue;
                        }
                        match judge(ctx, flight.located.lookup, code, standing, &tp) {
                            Some(result) => done.push((entry, result)),
                            None => {
                                entry.trouble = code.to_string();
                                flight.entries.insert(tp, entry);
                            }
                        }
                    }
                }
            }
            Err(error) => {
                ctx.unanswered(flight.located.lookup, &error);
                for entry in flight.entries.values_mut() {
                    entry.trouble = error.to_string();
                }
            }
        }
        if flight.entries.is_empty() {
            self.backoff.reset();
            self.retry_at = ctx.now;
        } else {
            // What the answer left out counts as not stored, too.
            self.retry_at = ctx.now + self.backoff.next(&mut ctx.shared.rng);
            self.requeue(flight.entries);
        }
        self.finish(ctx, done, &[]);
        self.weed(ctx, reconciler);
    }

    /// Back in line; a newer offset of the same partition takes the place of the old one, and its waiters with it.
    fn requeue(&mut self, entries: BTreeMap<TopicPartition, Entry>) {
        for (tp, entry) in entries {
            match self.pending.get_mut(&tp) {
                Some(newer) => newer.absorb(entry),
                None => {
                    self.pending.insert(tp, entry);
                }
            }
        }
    }

    /// Fails everything: nobody will store it any more.
    pub fn close(&mut self, ctx: &mut Context<'_>) {
        if let Some(flight) = self.flight.take() {
            self.requeue(flight.entries);
        }
        let done = std::mem::take(&mut self.pending).into_values().map(|entry| (entry, Err(CommitError::Closed)));
        let done: Vec<_> = done.collect();
        self.finish(ctx, done, &[]);
    }

    /// Tells the waiters; `check` names commits that may be complete without any entry.
    fn finish(&mut self, ctx: &mut Context<'_>, done: Vec<(Entry, Result<(), CommitError>)>, check: &[u32]) {
        let mut background = Vec::new();
        let mut touched = check.to_vec();
        for (entry, result) in done {
            match &result {
                Ok(()) => self.stored += 1,
                Err(CommitError::StaleAssignment) => {}
                Err(_) => self.failed += 1,
            }
            let CommitOffset { tp, offset, .. } = entry.commit;
            let unattended = background.len();
            for id in entry.waiters {
                let outcome = CommitOutcome { tp: tp.clone(), offset, result: result.clone() };
                if let Some(waiting) = self.waiting.get_mut(&id) {
                    waiting.left = waiting.left.saturating_sub(1);
                    waiting.results.push(outcome);
                    touched.push(id);
                } else {
                    background.push(outcome);
                }
            }
            // A stale offset in the background is an everyday thing after a rebalance.
            if let Err(error) = result
                && background.len() > unattended
                && error != CommitError::StaleAssignment
            {
                ctx.notice(GroupNotice::CommitFailed { tp, offset, error });
            }
        }
        if !background.is_empty() {
            ctx.actions.push(GroupAction::CommitResult { id: 0, results: background });
        }
        touched.sort_unstable();
        touched.dedup();
        for id in touched {
            if self.waiting.get(&id).is_some_and(|waiting| waiting.left == 0)
                && let Some(waiting) = self.waiting.remove(&id)
            {
                ctx.actions.push(GroupAction::CommitResult { id, results: waiting.results });
            }
        }
    }
}

impl Entry {
    /// Takes the place of an older commit of the same partition.
    fn absorb(&mut self, older: Entry) {
        let new = older.waiters.into_iter().filter(|id| *id != 0 || !self.waiters.contains(id));
        let new: Vec<u32> = new.collect();
        self.waiters.extend(new);
        // Whoever has waited longest decides how long it is tried; the background can wait.
        if self.waiters.iter().any(|id| *id != 0) {
            self.give_up_at = self.give_up_at.min(older.give_up_at);
        }
        if self.trouble.is_empty() {
            self.trouble = older.trouble;
        }
    }

    fn trouble(&self) -> String {
        if self.trouble.is_empty() { "the coordinator was not reached".to_owned() } else { self.trouble.clone() }
    }
}

fn is_stale(entry: &Entry, reconciler: &Reconciler) -> bool {
    reconciler.epoch_of(&entry.commit.tp) != Some(entry.commit.epoch)
}

/// What one partition's code means; `None` is: try again.
fn judge(
    ctx: &mut Context<'_>,
    lookup: u32,
    code: ErrorCode,
    standing: Standing,
    tp: &TopicPartition,
) -> Option<Result<(), CommitError>> {
    match ctx.verdict(lookup, code) {
        Verdict::Ok => Some(Ok(())),
        Verdict::Retry => None,
        // Some brokers answer so when the write to the offsets topic timed out.
        Verdict::Error(code @ (ErrorCode::REQUEST_TIMED_OUT | ErrorCode::NOT_ENOUGH_REPLICAS)) => {
            ctx.effect(Effect::Suspect { lookup, reason: code.to_string() });
            None
        }
        Verdict::Error(ErrorCode::REBALANCE_IN_PROGRESS) => {
            ctx.effect(Effect::CommitSawRebalance);
            None
        }
        Verdict::Error(code @ (ErrorCode::ILLEGAL_GENERATION | ErrorCode::UNKNOWN_MEMBER_ID)) => match standing {
            Standing::Standalone => Some(Err(CommitError::HasMembers(code))),
            Standing::Refuted => {
                ctx.effect(Effect::CommitFenced(code));
                Some(Err(CommitError::Fenced(code)))
            }
            Standing::InFlux => None,
        },
        Verdict::Error(code @ ErrorCode::FENCED_INSTANCE_ID) => match standing {
            Standing::Standalone => Some(Err(CommitError::Fenced(code))),
            Standing::Refuted => {
                ctx.effect(Effect::CommitInstanceFenced);
                Some(Err(CommitError::Fenced(code)))
            }
            // Perhaps fenced by ourselves: the join under way may have replaced the id that the commit carried.
            Standing::InFlux => None,
        },
        Verdict::Error(ErrorCode::GROUP_AUTHORIZATION_FAILED) => {
            let group = ctx.config().group_id.clone();
            ctx.effect(Effect::Fatal(GroupError::GroupAuthorization { group }));
            Some(Err(CommitError::Refused(ErrorCode::GROUP_AUTHORIZATION_FAILED)))
        }
        Verdict::Error(ErrorCode::TOPIC_AUTHORIZATION_FAILED) => {
            ctx.effect(Effect::Fatal(GroupError::TopicAuthorization { topic: tp.topic.clone() }));
            Some(Err(CommitError::Refused(ErrorCode::TOPIC_AUTHORIZATION_FAILED)))
        }
        Verdict::Error(code) if code.is_retriable() => None,
        Verdict::Error(code) => Some(Err(CommitError::Refused(code))),
    }
}
