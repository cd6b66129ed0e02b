//! State machine of a whole consumer, without I/O: cluster, positions, fetching and group membership, stepped as one.
//!
//! Entry points: [`ConsumerCore::step`] takes a [`ConsumerEvent`] and appends [`ConsumerAction`]s for the driver.
//!
//! Not obvious:
//! - One state machine's action may be another's event. All actions therefore go through one queue until it is empty,
//!   and fetching is planned only then. Otherwise a Fetch would leave with the first of many new partitions and hold up
//!   the others for `fetch.max.wait.ms`.
//! - A [`PartitionHandle`] is never reused. A late event for an old handle matches no partition.

mod assignment;
mod commit;
mod config;
mod end_offsets;
mod event;
mod fetch_waits;
mod partition_failures;
mod queries;
mod revocation;
mod share_group;
#[cfg(test)]
mod tests;
mod topic_patterns;
mod unknown_partitions;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

pub use config::{ConsumerCoreConfig, PartitionRecovery};
pub use event::{
    ConsumerAction, ConsumerEvent, ConsumerFatal, ConsumerLogEvent, ConsumerReply, MembershipStatus, StartOffset,
};

use crate::admin::OperationsEvent;
use crate::cluster::{Cluster, ClusterAction, ClusterEvent, ClusterLogEvent};
use crate::dispatch::OffsetMap;
use crate::fetch::{FetchAction, FetchEvent, Fetcher};
use crate::group::{ConsumerGroup, GroupAction, GroupEvent, GroupStats};
use crate::ids::PartitionHandle;
use crate::partition::error::PartitionError;
use crate::partition::table::{FetchState, PartitionTable};
use crate::position::{OffsetResolver, PositionAction, PositionEvent, StartPosition};
use crate::producer::GroupMetadata;
use crate::request::{Channel, Reply, RequestOwner};
use crate::rng::Rng;
use crate::share::{ShareAcquirer, ShareAction, ShareEvent};
use crate::time::{Nanos, earliest};
use commit::CommitScheduler;
use end_offsets::EndOffsetPoller;
use partition_failures::PartitionFailures;
use queries::PendingQueries;
use revocation::Revocations;
use topic_patterns::TopicPatterns;
use unknown_partitions::UnknownPartitions;

/// Room that the queues of actions keep between two steps.
const KEPT_ACTIONS: usize = 256;

/// Action of one state machine that the core has yet to carry out.
#[derive(Debug)]
enum PendingAction {
    Cluster(ClusterAction),
    Fetch(FetchAction),
    Position(PositionAction),
    Group(GroupAction),
    Share(ShareAction),
}

/// Consumer without I/O; see the module documentation.
#[derive(Debug)]
pub struct ConsumerCore {
    cluster: Cluster,
    partitions: PartitionTable,
    fetch: Fetcher,
    positions: OffsetResolver,
    group: Option<ConsumerGroup>,
    /// `Some`: the group is a share group, and `fetch` and `positions` do nothing.
    share: Option<ShareAcquirer>,
    config: ConsumerCoreConfig,
    topics: assignment::MetadataTopics,
    /// Committed offset and its metadata, for partitions whose position came from the group's commits.
    committed_positions: HashMap<PartitionHandle, (i64, String)>,
    revocations: Revocations,
    commits: CommitScheduler,
    queries: PendingQueries,
    patterns: TopicPatterns,
    patterns_rng: Rng,
    unknown_partitions: UnknownPartitions,
    failures: PartitionFailures,
    end_offsets: EndOffsetPoller,
    manual_epoch: u32,
    pending_actions: VecDeque<PendingAction>,
    /// Start positions from the group, to be looked up in one step.
    pending_starts: Vec<(PartitionHandle, StartPosition, i32)>,
    plan: bool,
    awaited_bytes: Option<usize>,
    recheck_at: Option<Nanos>,
    session: Option<Nanos>,
    closing: Option<Nanos>,
    /// Callers that wait until no acknowledgement is left.
    flushes: Vec<u32>,
    /// A closing member of a share group has left the group.
    left: bool,
    /// Whether a static member closes without LeaveGroup.
    remain_in_group: bool,
    finished: bool,
    cluster_actions: Vec<ClusterAction>,
    fetch_actions: Vec<FetchAction>,
    position_actions: Vec<PositionAction>,
    group_actions: Vec<GroupAction>,
    share_actions: Vec<ShareAction>,
}

impl ConsumerCore {
    /// Returns whether the consumer is closing. Partitions are then given up because the process ends, and the process
    /// handles late jobs.
    pub fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Creates a consumer. It connects to no broker before a topic or partition is assigned.
    pub fn new(mut config: ConsumerCoreConfig, mut rng: Rng) -> Self {
        let retry_failed = config.partition_recovery.as_ref().map(|healing| healing.retry_backoff_max);
        (config.fetch.fatal_retry_backoff_max, config.position.fatal_retry_backoff_max) = (retry_failed, retry_failed);
        if let Some(group) = &mut config.group {
            group.retry_authorization_failures = retry_failed.is_some();
            group.transactional = config.transactional;
            if config.share.is_some() {
                share_group::adapt(group);
            }
        }
        let mut fork = || Rng::new(rng.next_u64());
        Self {
            cluster: Cluster::new(config.cluster.clone(), fork()),
            partitions: PartitionTable::new(),
            fetch: Fetcher::new(config.fetch.clone(), fork()),
            positions: OffsetResolver::new(config.position.clone(), fork()),
            group: config.group.clone().map(|group| ConsumerGroup::new(group, fork())),
            share: config.share.clone().map(|share| ShareAcquirer::new(share, fork())),
            queries: PendingQueries::new(&config, fork()),
            patterns: TopicPatterns::default(),
            patterns_rng: fork(),
            commits: CommitScheduler::new(config.auto_commit, config.transactional),
            config,
            topics: assignment::MetadataTopics::default(),
            committed_positions: HashMap::new(),
            revocations: Revocations::default(),
            unknown_partitions: UnknownPartitions::default(),
            failures: PartitionFailures::default(),
            end_offsets: EndOffsetPoller::default(),
            manual_epoch: 0,
            pending_actions: VecDeque::new(),
            pending_starts: Vec::new(),
            plan: false,
            awaited_bytes: None,
            recheck_at: None,
            session: None,
            closing: None,
            flushes: Vec::new(),
            left: false,
            remain_in_group: true,
            finished: false,
            cluster_actions: Vec::new(),
            fetch_actions: Vec::new(),
            position_actions: Vec::new(),
            group_actions: Vec::new(),
            share_actions: Vec::new(),
        }
    }

    /// Processes one event and everything that follows from it.
    pub fn step(&mut self, now: Nanos, event: ConsumerEvent, out: &mut Vec<ConsumerAction>) {
        if self.finished {
            return;
        }
        match event {
            ConsumerEvent::Tick => self.tick(now, out),
            ConsumerEvent::Connected(conn) => self.cluster(now, ClusterEvent::Connected(conn)),
            ConsumerEvent::Frame(conn, frame) => self.cluster(now, ClusterEvent::Frame(conn, frame)),
            ConsumerEvent::Closed(conn, reason) => self.cluster(now, ClusterEvent::Closed(conn, reason)),
            ConsumerEvent::Gss(conn, result) => self.cluster(now, ClusterEvent::Gss(conn, result)),
            ConsumerEvent::Subscribe(topics) => self.subscribe(now, topics),
            ConsumerEvent::Assign { partitions, id } => {
                self.assign(now, partitions, out);
                out.push(ConsumerAction::Reply(id, ConsumerReply::Assigned));
            }
            ConsumerEvent::Seek(tp, start) => self.seek(now, &tp, start),
            ConsumerEvent::Pause(tp, paused) => {
                if let Some(slot) = self.partitions.handle(&tp) {
                    match self.is_shared() {
                        true => {
                            self.share(now, if paused { ShareEvent::Pause(slot) } else { ShareEvent::Resume(slot) })
                        }
                        false => {
                            self.fetch(now, if paused { FetchEvent::Pause(slot) } else { FetchEvent::Resume(slot) })
                        }
                    }
                }
            }
            ConsumerEvent::Commit { offsets, id } => self.commit(now, offsets, id, out),
            ConsumerEvent::Committed { tps, id } => self.query_committed(now, tps, id, out),
            ConsumerEvent::ListOffsets { starts, id } => self.query_offsets(now, starts, id, out),
            ConsumerEvent::CountPartitions { topic, id } => self.query_partition_count(now, topic, id, out),
            ConsumerEvent::CancelQuery(id) => self.cancel_query(now, id, out),
            ConsumerEvent::Released(released) if self.is_shared() => self.share(now, ShareEvent::Released(released)),
            ConsumerEvent::Charged(slot, bytes) if self.is_shared() => {
                self.share(now, ShareEvent::Charged { slot, bytes });
            }
            // The lane has given the records back.
            ConsumerEvent::Corrupt { .. } if self.is_shared() => {}
            ConsumerEvent::Acknowledge { acks, delayed } => {
                self.share(now, ShareEvent::Delayed(delayed));
                self.share(now, ShareEvent::Acknowledge(acks));
            }
            ConsumerEvent::FlushAcks { id } => self.flushes.push(id),
            ConsumerEvent::Concurrency(records) => self.share(now, ShareEvent::Concurrency(records)),
            ConsumerEvent::Released(released) => self.fetch(now, FetchEvent::Released(released)),
            ConsumerEvent::Charged(slot, bytes) => self.fetch(now, FetchEvent::Charged { slot, bytes }),
            ConsumerEvent::Corrupt { slot, generation, offset } => {
                self.fetch(now, FetchEvent::Refetch { slot, fetch_generation: generation, offset });
                // If a new generation was drawn, the partition is fetched again; the worker that found the corrupt
                // batch has already emptied the lane. Otherwise the partition has stopped, or a seek came first: the
                // fetch offset then lies behind the corrupt batch, and a `Position` action with that offset would get
                // it committed.
                let drawn = self.partitions.fetch_generation(slot);
                if drawn != generation && self.partitions.fetch_offset(slot) == offset && self.is_fetching(slot) {
                    let (generation, recovered_marks) = (drawn, OffsetMap::default());
                    out.push(ConsumerAction::Position { slot, offset, generation, committed: false, recovered_marks });
                }
            }
            ConsumerEvent::Drained(slot, offset) => self.on_lane_drained(now, slot, offset),
            ConsumerEvent::CommitDue { at_once } => self.on_commit_due(now, at_once, out),
            ConsumerEvent::TransactionDone { number, result, discarded } => {
                self.on_transaction_done(now, number, result, discarded);
            }
            ConsumerEvent::Close { offsets, deadline, remain_in_group: keep_place } => {
                self.remain_in_group = keep_place;
                self.close(now, offsets, deadline, out);
            }
        }
        self.run_pending_actions(now, out);
    }

    /// Returns the time at which to step with `Tick` at the latest.
    pub fn deadline(&self) -> Option<Nanos> {
        let machines = earliest(self.cluster.deadline(), earliest(self.fetch.deadline(), self.positions.deadline()));
        let group = self.group.as_ref().and_then(ConsumerGroup::deadline);
        let machines = earliest(machines, self.share.as_ref().and_then(ShareAcquirer::deadline));
        let questions = earliest(self.queries.deadline(), self.patterns.deadline());
        let own = earliest(self.recheck_at, earliest(self.commits.deadline(), self.closing));
        let own = earliest(own, self.failures.deadline().filter(|_| self.closing.is_none() && self.share.is_none()));
        earliest(earliest(machines, group), earliest(questions, own))
    }

    /// Returns the state of group membership or manual assignment.
    #[must_use]
    pub fn membership_status(&self) -> MembershipStatus {
        let partitions = self.partitions.live().len();
        // A manual assignment needs no group, and a group used only for commits does not know most of the partitions.
        let by_hand = self.manual_epoch > 0;
        match &self.group {
            Some(group) if partitions == 0 && self.closing.is_none() && self.patterns.topics() == Some(0) => {
                MembershipStatus { state: "no_topics", ready: true, generation: group.generation(), partitions }
            }
            Some(group) if !by_hand => MembershipStatus {
                state: if self.patterns.awaits_topics() { "matching_topics" } else { group.state_name() },
                ready: group.is_ready(),
                generation: group.generation(),
                partitions,
            },
            _ if self.closing.is_some() => MembershipStatus { state: "left", ready: false, generation: -1, partitions },
            _ if by_hand => MembershipStatus { state: "assigned", ready: true, generation: -1, partitions },
            _ => MembershipStatus { state: "unjoined", ready: false, generation: -1, partitions },
        }
    }

    /// Returns generation and member id in the group; -1 and empty: no member.
    #[must_use]
    pub fn group_member(&self) -> (i32, &str) {
        match &self.group {
            Some(group) if self.manual_epoch == 0 && group.generation() >= 0 => (group.generation(), group.member_id()),
            _ => (-1, ""),
        }
    }

    /// Returns the counters of the fetcher.
    pub fn fetch_stats(&self) -> crate::fetch::RawFetchStats {
        self.share_stats().map_or_else(|| self.fetch.stats(), Self::share_fetch_stats)
    }

    /// Returns the counters of the group; `None` without a group.
    pub fn group_stats(&self) -> Option<GroupStats> {
        self.group.as_ref().map(ConsumerGroup::stats)
    }

    /// Returns the number of ready connections.
    pub fn connections(&self) -> usize {
        if self.finished { 0 } else { self.cluster.ready_connections() }
    }

    fn is_fetching(&self, slot: PartitionHandle) -> bool {
        self.partitions.state(slot) == FetchState::Fetching
    }

    // ---- stepping the state machines

    fn cluster(&mut self, now: Nanos, event: ClusterEvent) {
        self.cluster.step(now, event, &mut self.cluster_actions);
        self.pending_actions.extend(self.cluster_actions.drain(..).map(PendingAction::Cluster));
    }

    fn fetch(&mut self, now: Nanos, event: FetchEvent) {
        self.fetch.step(now, event, &self.cluster, &mut self.partitions, &mut self.fetch_actions);
        self.pending_actions.extend(self.fetch_actions.drain(..).map(PendingAction::Fetch));
    }

    fn positions(&mut self, now: Nanos, event: PositionEvent) {
        self.positions.step(now, event, &self.cluster, &mut self.partitions, &mut self.position_actions);
        self.pending_actions.extend(self.position_actions.drain(..).map(PendingAction::Position));
    }

    fn group(&mut self, now: Nanos, event: GroupEvent) {
        if let Some(group) = &mut self.group {
            group.step(now, event, &self.cluster, &mut self.group_actions);
            self.pending_actions.extend(self.group_actions.drain(..).map(PendingAction::Group));
        }
    }

    fn tick(&mut self, now: Nanos, out: &mut Vec<ConsumerAction>) {
        self.recheck_at = None;
        self.cluster(now, ClusterEvent::Tick);
        self.group(now, GroupEvent::Tick);
        self.positions(now, PositionEvent::Tick);
        self.step_queries(now, OperationsEvent::Tick, out);
        self.request_topics(now);
        if self.is_shared() {
            self.share(now, ShareEvent::Tick);
        } else {
            self.fetch(now, FetchEvent::Tick);
            self.check_partitions(now, out);
            self.poll_end_offsets(now, out);
        }
        if self.commits.poll_due(now) {
            out.push(ConsumerAction::CollectOffsets);
        }
        if self.closing.is_some_and(|deadline| deadline <= now) {
            self.finish(out);
        }
    }

    /// Carries out the queued actions until none is left, then plans fetching.
    fn run_pending_actions(&mut self, now: Nanos, out: &mut Vec<ConsumerAction>) {
        loop {
            match self.pending_actions.pop_front() {
                Some(PendingAction::Cluster(action)) => self.on_cluster(now, action, out),
                Some(PendingAction::Fetch(action)) => self.on_fetch(now, action, out),
                Some(PendingAction::Position(action)) => self.on_position(now, action, out),
                Some(PendingAction::Group(action)) => self.on_group(now, action, out),
                Some(PendingAction::Share(action)) => self.on_share(now, action, out),
                None if !self.pending_starts.is_empty() => {
                    let starts = std::mem::take(&mut self.pending_starts);
                    self.positions(now, PositionEvent::StartMany(starts));
                }
                None if self.plan => {
                    self.plan = false;
                    match self.is_shared() {
                        true => self.share(now, ShareEvent::Plan),
                        false => self.fetch(now, FetchEvent::Plan),
                    }
                }
                None => break,
            }
        }
        self.reply_flushed(out);
        // An assignment of thousands of partitions fills the queues once; other steps need few entries.
        self.pending_actions.shrink_to(KEPT_ACTIONS);
        self.fetch_actions.shrink_to(KEPT_ACTIONS);
        self.position_actions.shrink_to(KEPT_ACTIONS);
        self.group_actions.shrink_to(KEPT_ACTIONS);
        if !self.topics.queried.is_empty() {
            self.drop_queried_topics();
        }
        // While a partition or node waits for bytes to be released, the release of so many bytes wakes the network
        // thread. All other releases are collected with the next event.
        let awaited_bytes = self.fetch.awaited_bytes();
        if awaited_bytes != self.awaited_bytes {
            // A release just before this action took effect woke no thread, so check once more.
            self.recheck_at = awaited_bytes.filter(|_| self.awaited_bytes.is_none()).map(|_| now).or(self.recheck_at);
            self.awaited_bytes = awaited_bytes;
            out.push(ConsumerAction::AwaitingMemory(awaited_bytes));
        }
        let session = self.session_deadline();
        if session != self.session {
            self.session = session;
            out.push(ConsumerAction::Session(session));
        }
    }

    fn on_cluster(&mut self, now: Nanos, action: ClusterAction, out: &mut Vec<ConsumerAction>) {
        match action {
            ClusterAction::Transport(action) => out.push(ConsumerAction::Transport(action)),
            ClusterAction::Reply(reply) => self.on_reply(now, reply, out),
            ClusterAction::MetadataChanged => {
                self.group(now, GroupEvent::MetadataChanged);
                self.positions(now, PositionEvent::MetadataChanged);
                self.plan = true;
            }
            ClusterAction::MetadataRefreshed => {
                self.reply_partition_counts(out);
                self.check_unknown_partitions(now, out);
                self.step_queries(now, OperationsEvent::MetadataRefreshed, out);
            }
            ClusterAction::NodeReady { node, channel: Channel::Fetch } if self.is_shared() => {
                self.share(now, ShareEvent::NodeReady(node));
            }
            ClusterAction::NodeLost { node, channel: Channel::Fetch } if self.is_shared() => {
                self.share(now, ShareEvent::NodeLost(node));
            }
            ClusterAction::NodeReady { node, channel: Channel::Fetch } => self.fetch(now, FetchEvent::NodeReady(node)),
            ClusterAction::NodeLost { node, channel: Channel::Fetch } => self.fetch(now, FetchEvent::NodeLost(node)),
            ClusterAction::NodeReady { .. } | ClusterAction::NodeLost { .. } => {}
            ClusterAction::Unmuted { .. } => self.plan = true,
            ClusterAction::LogEvent(ClusterLogEvent::Fatal(fault)) => {
                out.push(ConsumerAction::Fatal(ConsumerFatal::Unusable(fault)));
            }
            // The error of a topic that is only looked up goes to the caller.
            ClusterAction::LogEvent(ClusterLogEvent::TopicError { topic, .. }) if !self.topics.reads(&topic) => {}
            ClusterAction::LogEvent(notice) => out.push(ConsumerAction::LogEvent(ConsumerLogEvent::Cluster(notice))),
        }
    }

    fn on_reply(&mut self, now: Nanos, reply: Reply, out: &mut Vec<ConsumerAction>) {
        match reply.token.owner {
            RequestOwner::Fetch => self.fetch(now, FetchEvent::Reply(reply)),
            RequestOwner::Position => self.positions(now, PositionEvent::Reply(reply)),
            RequestOwner::Group => self.group(now, GroupEvent::Reply(reply)),
            RequestOwner::Share => self.share(now, ShareEvent::Reply(reply)),
            RequestOwner::Patterns => self.on_topics(now, &reply, out),
            RequestOwner::Client => self.step_queries(now, OperationsEvent::Reply(reply), out),
            // A consumer has no such state machines.
            RequestOwner::Cluster | RequestOwner::Produce | RequestOwner::Transaction | RequestOwner::Admin => {}
        }
    }

    fn on_fetch(&mut self, now: Nanos, action: FetchAction, out: &mut Vec<ConsumerAction>) {
        match action {
            FetchAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
            FetchAction::NeedNode(node) => self.cluster(now, ClusterEvent::NeedNode(node, Channel::Fetch)),
            FetchAction::Data(chunk) => {
                self.on_partition_served(now, chunk.slot, true, out);
                out.push(ConsumerAction::Push(chunk));
            }
            FetchAction::Recovered { slot } => self.on_partition_healthy(now, slot, out),
            FetchAction::CaughtUp { slot, high_watermark, readable_end } => {
                self.on_partition_served(now, slot, false, out);
                out.push(ConsumerAction::HighWatermark { slot, high_watermark, readable_end });
            }
            FetchAction::Position(event) => self.positions(now, event),
            FetchAction::RefreshMetadata => self.cluster(now, ClusterEvent::RefreshMetadata),
            FetchAction::LeaderHint { tp, leader, epoch, endpoint } => {
                if let Some((host, port)) = endpoint {
                    self.cluster.learn_node(leader, &host, i32::from(port));
                }
                self.cluster.update_leader(&tp, leader, epoch);
                self.plan = true;
            }
            FetchAction::Failed { slot, error } => self.on_partition_failed(now, slot, error, out),
            FetchAction::LogEvent(notice) => out.push(ConsumerAction::LogEvent(ConsumerLogEvent::Fetch(notice))),
        }
    }

    fn on_position(&mut self, now: Nanos, action: PositionAction, out: &mut Vec<ConsumerAction>) {
        match action {
            PositionAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
            PositionAction::Ready { slot, offset } => {
                // If the position changed (truncated, out of range), the commit's metadata is obsolete, too.
                let commit = self.committed_positions.remove(&slot).filter(|(start, _)| *start == offset);
                let recovered_marks = commit.as_ref().map(|(_, metadata)| OffsetMap::decode(offset, metadata));
                let (committed, recovered_marks) = (commit.is_some(), recovered_marks.unwrap_or_default());
                let generation = self.partitions.fetch_generation(slot);
                self.on_position_set(now, slot, offset, out);
                out.push(ConsumerAction::Position { slot, offset, generation, committed, recovered_marks });
                self.plan = true;
            }
            PositionAction::RefreshMetadata => self.cluster(now, ClusterEvent::RefreshMetadata),
            PositionAction::Failed { slot, error } => self.on_partition_failed(now, slot, error, out),
            PositionAction::LogEvent(notice) => out.push(ConsumerAction::LogEvent(ConsumerLogEvent::Fetch(notice))),
        }
    }

    fn on_group(&mut self, now: Nanos, action: GroupAction, out: &mut Vec<ConsumerAction>) {
        match action {
            GroupAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
            GroupAction::LearnNode { node, host, port } => {
                self.cluster.learn_node(node, &host, i32::from(port));
            }
            GroupAction::WatchTopics { topics } => {
                self.topics.watched = topics;
                self.update_metadata_topics(now);
            }
            GroupAction::Assign { tps, epoch } => self.on_group_assigned(now, tps, epoch, out),
            GroupAction::Position { tp, epoch, start, leader_epoch, metadata } => {
                if let Some(slot) = self.partitions.handle(&tp)
                    && self.partitions.assignment_epoch(slot) == epoch
                    && !self.failures.is_commit_outdated(slot)
                {
                    self.on_committed_offset(slot, start);
                    let at = start.map_or(StartPosition::Reset, StartPosition::Offset);
                    if let Some(offset) = start {
                        self.committed_positions.insert(slot, (offset, metadata));
                    }
                    self.pending_starts.push((slot, at, leader_epoch));
                }
            }
            GroupAction::RefreshMetadata => self.cluster(now, ClusterEvent::RefreshMetadata),
            GroupAction::NotAuthorized { tp } => {
                if let Some(slot) = self.partitions.handle(&tp) {
                    self.on_partition_failed(now, slot, PartitionError::NotAuthorized { tp }, out);
                }
            }
            GroupAction::Revoke { tps, epoch, .. } => self.revoke(now, tps, epoch, out),
            GroupAction::RevocationExpired { tps, epoch } => self.on_revocation_expired(&tps, epoch, out),
            GroupAction::Lost { tps } => self.on_partitions_lost(now, &tps, out),
            GroupAction::CommitResult { id, results } => self.on_commit_result(now, id, results, out),
            GroupAction::CommitTransaction { number, generation, member_id, offsets } => {
                let group = self.config.group.as_ref();
                let member = GroupMetadata {
                    group_id: group.map(|group| Arc::clone(&group.group_id)).unwrap_or_default(),
                    member_id: member_id.into(),
                    generation,
                    instance_id: group.and_then(|group| group.instance_id.clone()).filter(|_| generation >= 0),
                };
                out.push(ConsumerAction::CommitTransaction { number, member: Arc::new(member), offsets });
            }
            GroupAction::Left => self.on_group_left(now, out),
            GroupAction::LogEvent(notice) => out.push(ConsumerAction::LogEvent(ConsumerLogEvent::Group(notice))),
            GroupAction::Fatal(error) => out.push(ConsumerAction::Fatal(ConsumerFatal::Group(error))),
        }
    }

    /// Returns the time until which the coordinator counts this member in, as far as the client knows. A coordinator
    /// removes a member without heartbeats for a session timeout, and a member that does not join a rebalance in time.
    fn session_deadline(&self) -> Option<Nanos> {
        let group = self.group.as_ref().filter(|group| group.generation() >= 0 && self.share.is_none())?;
        let session = group.last_heartbeat_ack() + group.config().session_timeout;
        earliest(Some(session), group.revocation_deadline())
    }

    fn finish(&mut self, out: &mut Vec<ConsumerAction>) {
        if !self.finished {
            self.finished = true;
            out.push(ConsumerAction::Finished);
        }
    }
}
