//! Driver of the consumer on the network thread: passes events to the sans-IO core, and performs the core's actions on
//! sockets and lanes.

use std::collections::HashMap;
use std::sync::Arc;

use grete_net::{NetEvent, Protocol, TransportAction};
use grete_proto::consumer::{
    ConsumerAction, ConsumerCore, ConsumerEvent, ConsumerLogEvent, ConsumerReply, MembershipStatus,
};
use grete_proto::dispatch::{ClientId, Dispatch, LaneFailure, LaneId, LaneSpec, RouteConfig, TransactionDemand};
use grete_proto::ids::PartitionHandle;
use grete_proto::principal::Principal;
use grete_proto::time::Nanos;
use grete_proto::topic_pattern::TopicPattern;

use super::Route;
use super::errors;
use super::membership::PublishedMembership;
use super::statistics::ConsumerNetStats;
use super::transactions::{Ended, GroupTransactions, Work};
use crate::dispatcher::Dispatcher;
use crate::dispatcher::lane_events;
use crate::dispatcher::lane_events::LaneEventLog;
use crate::dispatcher::stall_events;
use crate::error::ClientError;
use crate::log_messages;
use crate::published::Published;
use crate::request_queue::{CancellableRequest, RequestQueue};
use crate::thread_guard::NetworkThreadOwner;

impl CancellableRequest for ConsumerEvent {
    type Response = ConsumerReply;

    fn cancel(id: u32) -> Self {
        Self::CancelQuery(id)
    }
}

/// State that other threads read.
#[derive(Debug, Default)]
pub(crate) struct PublishedState {
    pub(crate) stats: Published<ConsumerNetStats>,
    pub(crate) membership: PublishedMembership,
    /// Failure of the last login; `None`: none since a login succeeded.
    pub(crate) login_failure: Published<Option<Arc<str>>>,
    /// ACL on the group that is missing; `None`: none, as far as the client knows.
    pub(crate) authorization_failure: Published<Option<Arc<str>>>,
}

pub(crate) struct Driver {
    core: ConsumerCore,
    dispatcher: Dispatcher,
    client: ClientId,
    commands: Arc<RequestQueue<ConsumerEvent>>,
    /// `None`: offsets are committed without transactions.
    transactions: Option<Arc<GroupTransactions>>,
    counters: Arc<PublishedState>,
    /// Settings by topic.
    routes: HashMap<String, Arc<RouteConfig>>,
    /// Settings of topics without a name in `routes`: those of the first pattern that matches.
    pattern_routes: Vec<(TopicPattern, Arc<RouteConfig>)>,
    /// Settings for topics without a route, which a low-level consumer reads.
    low_level_policy: Arc<RouteConfig>,
    /// The dispatcher hands out no more records, and the core of a share group knows.
    is_quiet: bool,
    is_app: bool,
    /// Principal of the client, for errors.
    principal: Principal,
    /// Whether a partition that cannot be read ends the App.
    stops: bool,
    lanes: HashMap<PartitionHandle, LaneId>,
    core_actions: Vec<ConsumerAction>,
    lane_events: LaneEventLog,
    /// Deadline of the dispatcher that this thread keeps: for jobs that may stall, and for lanes if no worker keeps
    /// theirs.
    deadline: Option<Nanos>,
    /// Shortest time after which a job of any route is reported as too long.
    min_stall_limit: Option<Nanos>,
    /// Shortest `stall_after` of any route.
    min_stall_after: Option<Nanos>,
    /// Time before which the lanes are not checked again.
    next_watch: Nanos,
    /// A lane does not move, or something may have changed since the last check of the lanes.
    is_watch_due: bool,
    /// Status that was published last.
    last_published: Option<MembershipStatus>,
    reconnects: u64,
    finished: bool,
}

impl Driver {
    pub(crate) fn new(
        core: ConsumerCore,
        dispatcher: Dispatcher,
        client: ClientId,
        commands: Arc<RequestQueue<ConsumerEvent>>,
        counters: Arc<PublishedState>,
        routes: &[Route],
        stops: bool,
    ) -> Self {
        let by_topic = |route: &Route| {
            route.topics.iter().map(|topic| (topic.clone(), Arc::clone(&route.policy))).collect::<Vec<_>>()
        };
        let by_pattern = |route: &Route| {
            let patterns = route.topics.iter().filter(|topic| TopicPattern::is_pattern(topic));
            let parsed = patterns.filter_map(|text| TopicPattern::parse(text).ok());
            parsed.map(|pattern| (pattern, Arc::clone(&route.policy))).collect::<Vec<_>>()
        };
        let low_level_policy = Arc::new(RouteConfig { queue: core.is_shared(), ..RouteConfig::for_polling() });
        Self {
            core,
            dispatcher,
            client,
            commands,
            transactions: None,
            counters,
            routes: routes.iter().flat_map(by_topic).collect(),
            pattern_routes: routes.iter().flat_map(by_pattern).collect(),
            low_level_policy,
            is_quiet: false,
            is_app: !routes.is_empty(),
            principal: Principal::default(),
            stops,
            lanes: HashMap::new(),
            core_actions: Vec::new(),
            lane_events: LaneEventLog::default(),
            deadline: None,
            min_stall_limit: routes
                .iter()
                .flat_map(|route| [route.policy.stall_after, route.policy.handler_timeout])
                .flatten()
                .min(),
            min_stall_after: routes.iter().filter_map(|route| route.policy.stall_after).min(),
            next_watch: 0,
            is_watch_due: false,
            last_published: None,
            reconnects: 0,
            finished: false,
        }
    }

    /// Names the client in errors.
    pub(crate) fn of_principal(self, principal: Principal) -> Self {
        Self { principal, ..self }
    }

    /// Commits offsets in transactions.
    pub(crate) fn with_transactions(self, transactions: Option<Arc<GroupTransactions>>) -> Self {
        Self { transactions, ..self }
    }

    fn begin_transaction(&self, work: Work) {
        if let Some(transactions) = &self.transactions {
            let commands = Arc::clone(&self.commands);
            transactions.begin(work, &move || commands.wake());
        }
    }

    /// Handles the ends of transactions.
    fn take_finished_transactions(&mut self, now: Nanos) {
        let Some(transactions) = self.transactions.clone() else { return };
        let commands = Arc::clone(&self.commands);
        let wake = move || commands.wake();
        for finished in transactions.take_finished() {
            let Some(Ended { number, result, discarded }) = transactions.end(now, &finished, &wake) else { continue };
            let event = ConsumerEvent::TransactionDone { number, result, discarded };
            self.core.step(now, event, &mut self.core_actions);
        }
    }

    /// Processes what workers left in the outbox since the last step. Corrupt batches go before the bytes that they
    /// release. So a partition without queued bytes is one whose batches were all valid.
    fn drain_outbox(&mut self, now: Nanos) {
        let mut state = self.dispatcher.lock();
        let outbox = state.dispatch.take_outbox(self.client);
        state.dispatch.take_pending_wake(self.client);
        let demand = state.dispatch.take_commit_demand(self.client);
        let delayed = if outbox.acks.is_empty() { 0 } else { state.dispatch.delayed_records(self.client) };
        let is_quiet = self.core.is_shared() && state.dispatch.is_quiet();
        drop(state);
        if is_quiet && !std::mem::replace(&mut self.is_quiet, true) {
            // What is acquired from now on would go back, and count as a delivery.
            self.core.step(now, ConsumerEvent::Concurrency(0), &mut self.core_actions);
        }
        if !outbox.acks.is_empty() {
            self.core.step(now, ConsumerEvent::Acknowledge { acks: outbox.acks, delayed }, &mut self.core_actions);
        }
        let log_events =
            outbox.lane_events.iter().filter_map(|remark| self.lane_events.log_event(remark, now)).collect();
        self.dispatcher.emit(log_events);
        for corrupt in outbox.corrupt {
            let log_event = log_messages::corrupt_batch(&corrupt);
            self.dispatcher.emit(vec![log_event]);
            let event =
                ConsumerEvent::Corrupt { slot: corrupt.handle, generation: corrupt.generation, offset: corrupt.offset };
            self.core.step(now, event, &mut self.core_actions);
        }
        for (slot, bytes) in outbox.charged {
            self.core.step(now, ConsumerEvent::Charged(slot, bytes), &mut self.core_actions);
        }
        if !outbox.released.is_empty() {
            self.core.step(now, ConsumerEvent::Released(outbox.released), &mut self.core_actions);
        }
        for drained in outbox.drained {
            self.lanes.remove(&drained.handle);
            self.dispatcher.clear_partition_failure(&drained.tp);
            self.lane_events.forget(&drained.tp);
            self.core.step(now, ConsumerEvent::Drained(drained.handle, drained.commit), &mut self.core_actions);
        }
        self.dispatcher.add_histories(outbox.histories);
        outbox.trials.into_iter().for_each(|trial| self.begin_transaction(Work::Trial(trial)));
        if demand != TransactionDemand::Nothing {
            let at_once = demand == TransactionDemand::AtOnce;
            self.core.step(now, ConsumerEvent::CommitDue { at_once }, &mut self.core_actions);
        }
    }

    /// Returns whether the outbox needs another pass now.
    fn needs_drain(&self) -> bool {
        let has_finished = self.transactions.as_ref().is_some_and(|transactions| transactions.has_finished());
        !self.finished && (self.dispatcher.lock().dispatch.take_pending_wake(self.client) || has_finished)
    }

    fn publish_membership(&mut self) {
        let standing = self.core.membership_status();
        if self.last_published != Some(standing) {
            self.last_published = Some(standing);
            let (generation, member_id) = self.core.group_member();
            self.counters.membership.publish_member(generation, member_id);
            self.counters.membership.publish(standing);
            self.dispatcher.wake_settling();
        }
    }

    fn publish_stats(&self) {
        let fetch = self.core.fetch_stats();
        self.counters.stats.publish(ConsumerNetStats {
            fetched_bytes: fetch.bytes,
            fetched_records: fetch.records,
            fetches: fetch.fetches,
            reconnects: self.reconnects,
            connections: self.core.connections(),
            group: self.core.group_stats(),
            share: self.core.share_stats(),
        });
    }

    /// Performs the core's actions until there are none left.
    fn perform(&mut self, now: Nanos, actions: &mut Vec<TransportAction>) {
        let mut log_events = Vec::new();
        while !self.core_actions.is_empty() {
            self.publish_membership(); // before a reply that depends on it
            let core_actions = std::mem::take(&mut self.core_actions);
            let dispatcher = self.dispatcher.clone();
            let mut state = dispatcher.lock();
            for action in core_actions {
                match action {
                    ConsumerAction::Transport(action) => actions.push(action),
                    ConsumerAction::CollectOffsets => {
                        let offsets = state.dispatch.take_committables(self.client, false);
                        self.core.step(now, ConsumerEvent::Commit { offsets, id: 0 }, &mut self.core_actions);
                    }
                    ConsumerAction::CommitTransaction { number, member, offsets } => {
                        drop(state);
                        self.begin_transaction(Work::Commit { number, member, offsets });
                        state = dispatcher.lock();
                    }
                    ConsumerAction::Reply(id, reply) => self.commands.complete(id, reply),
                    ConsumerAction::LogEvent(notice) => {
                        if let ConsumerLogEvent::Cluster(cluster) = &notice
                            && let Some(failure) = log_messages::login_failure(cluster)
                        {
                            self.counters.login_failure.publish(failure);
                        }
                        if let Some(failure) = log_messages::authorization_failure(&notice, &self.principal) {
                            self.counters.authorization_failure.publish(failure);
                        }
                        if log_messages::is_disconnect(&notice) {
                            self.reconnects += 1;
                        }
                        if let Some(fatal) = log_messages::fatal_event(&notice).filter(|_| self.is_app) {
                            drop(state);
                            dispatcher.fail(fatal);
                            state = dispatcher.lock();
                            continue; // the App reports it
                        }
                        // A closing client skips this event: the caller that closes it reports the handlers that did
                        // not end, and knows better why.
                        if !(self.core.is_closing() && log_messages::is_revocation_timeout(&notice)) {
                            log_events.extend(log_messages::consumer_event(&notice, &self.principal));
                        }
                    }
                    ConsumerAction::PartitionFailed { slot, error, since, again } => {
                        self.is_watch_due = true;
                        let failing_for = again.then(|| now.saturating_sub(since));
                        let failed = log_messages::partition_failed(&error, &self.principal, failing_for, self.is_app);
                        log_events.push(failed);
                        if let Some(id) = self.lanes.get(&slot).filter(|_| self.is_app) {
                            let (reason, text) = (error.reason(), self.principal.in_text(&error.to_string()).into());
                            state.dispatch.set_failure(*id, Some(LaneFailure { reason, error: text, since }));
                        }
                        let principal = &self.principal;
                        if let Some(fatal) = errors::fatal_partition_error(&error, principal, self.is_app, self.stops) {
                            drop(state);
                            dispatcher.fail_partition(error.partition().clone(), fatal);
                            state = dispatcher.lock();
                        }
                    }
                    ConsumerAction::PartitionRecovered { slot, error, lasted } => {
                        log_events.push(log_messages::partition_recovered(&error, lasted));
                        if let Some(id) = self.lanes.get(&slot) {
                            state.dispatch.set_failure(*id, None);
                        }
                    }
                    ConsumerAction::Fatal(error) => {
                        drop(state);
                        dispatcher.fail(errors::fatal_error(&error, &self.principal));
                        self.commands.fail_all(); // after the failure is stored, so that callers find it
                        state = dispatcher.lock();
                    }
                    ConsumerAction::Finished => self.finished = true,
                    ConsumerAction::AbandonPartition(slot) => {
                        if let Some(id) = self.lanes.remove(&slot) {
                            let cancelled = state.async_job_ids(id);
                            let running = state.dispatch.abandon(id);
                            dispatcher.cancel_async_jobs(cancelled);
                            if !self.core.is_closing() {
                                log_events.extend(running.iter().map(|job| lane_events::abandoned(job, now)));
                            }
                        }
                    }
                    lane => {
                        self.is_watch_due = true;
                        self.apply_lane_action(now, &mut state.dispatch, lane);
                    }
                }
            }
            dispatcher.unlock_and_wake_for_jobs(state);
        }
        if !log_events.is_empty() {
            self.dispatcher.emit(log_events);
            self.commands.wake_callers();
        }
    }

    fn policy_of(&self, topic: &str) -> &Arc<RouteConfig> {
        let by_pattern = || self.pattern_routes.iter().find(|(pattern, _)| pattern.matches(topic));
        let named = self.routes.get(topic).or_else(|| by_pattern().map(|(_, policy)| policy));
        named.unwrap_or(&self.low_level_policy)
    }

    fn apply_lane_action(&mut self, now: Nanos, dispatch: &mut Dispatch, action: ConsumerAction) {
        let lane = |slot: &PartitionHandle| self.lanes.get(slot).copied();
        match action {
            ConsumerAction::AddPartition { slot, tp, assignment_epoch } => {
                let policy = Arc::clone(self.policy_of(&tp.topic));
                let spec = LaneSpec { client: self.client, handle: slot, tp, assignment_epoch, policy };
                self.lanes.insert(slot, dispatch.add_lane(spec));
            }
            ConsumerAction::Push(chunk) => match lane(&chunk.slot) {
                Some(id) => drop(dispatch.push(now, id, chunk)),
                None => {
                    dispatch.give_back(self.client, &chunk);
                    dispatch.release(self.client, chunk.slot, chunk.bytes);
                }
            },
            ConsumerAction::HighWatermark { slot, high_watermark, readable_end } => {
                if let Some(id) = lane(&slot) {
                    dispatch.set_end_offsets(id, high_watermark, readable_end);
                }
            }
            ConsumerAction::Position { slot, offset, generation, committed, recovered_marks: already } => {
                if let Some(id) = lane(&slot) {
                    dispatch.set_position(id, offset, generation, committed, already);
                }
            }
            ConsumerAction::InvalidatePosition(slot) => {
                if let Some(id) = lane(&slot) {
                    dispatch.reset_recreated_topic(id);
                }
            }
            ConsumerAction::RevokePartition { slot, lost } => {
                if let Some(id) = lane(&slot) {
                    dispatch.revoke(id, lost);
                }
            }
            ConsumerAction::RemovePartition(slot) => {
                if let Some(id) = self.lanes.remove(&slot) {
                    dispatch.remove_lane(id);
                }
            }
            ConsumerAction::Session(until) => drop(dispatch.set_session(self.client, until)),
            ConsumerAction::AwaitsAcknowledgements(awaits) => dispatch.set_awaiting_acks(self.client, awaits),
            ConsumerAction::AwaitingMemory(starved) => dispatch.set_awaiting_memory(self.client, starved),
            ConsumerAction::CommitFailed(tps) => dispatch.on_commit_failed(self.client, &tps),
            _ => {}
        }
    }

    /// Runs due timers and computes the next deadline.
    fn update_deadline(&mut self, now: Nanos) {
        let due = self.dispatcher.run_timers(now, self.client);
        // A job that begins while this thread sleeps stalls no earlier than this.
        let next_look = self.min_stall_limit.filter(|_| !self.lanes.is_empty()).map(|limit| now.saturating_add(limit));
        let next_watch = self.watch_lanes(now).filter(|_| !self.lanes.is_empty());
        self.deadline = [due, next_look, next_watch].into_iter().flatten().min();
    }

    /// Checks the lanes if that is due, and reports those that have not moved for `stall_after`. Returns the time of
    /// the next check; `None`: not before something changes.
    fn watch_lanes(&mut self, now: Nanos) -> Option<Nanos> {
        let is_due = self.is_watch_due || self.core.has_failing_partitions(now);
        if !is_due || now < self.next_watch {
            return is_due.then_some(self.next_watch);
        }
        let waits = self.core.fetch_waits(now);
        let found = self.dispatcher.lock().dispatch.watch_lanes(now, self.client, waits);
        self.dispatcher.emit(stall_events::log_events(&found.reports, now));
        self.is_watch_due = found.again;
        self.next_watch = now.saturating_add(Dispatch::watch_interval(self.min_stall_after));
        self.is_watch_due.then_some(self.next_watch)
    }
}

impl Protocol for Driver {
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<TransportAction>) {
        self.take_finished_transactions(now);
        self.drain_outbox(now);
        let event = match event {
            NetEvent::Connected(conn) => ConsumerEvent::Connected(conn),
            NetEvent::Frame(conn, frame) => ConsumerEvent::Frame(conn, frame),
            NetEvent::Closed(conn, reason) => ConsumerEvent::Closed(conn, reason),
            NetEvent::Gss(conn, result) => ConsumerEvent::Gss(conn, result),
            NetEvent::Tick => {
                for command in self.commands.drain() {
                    self.core.step(now, command, &mut self.core_actions);
                }
                ConsumerEvent::Tick
            }
        };
        self.core.step(now, event, &mut self.core_actions);
        self.perform(now, actions);
        // The actions above may have filled the outbox at once: a lane without a job drains when it is revoked. A
        // worker may also have released memory before the dispatcher knew that a client waits for memory. No other
        // thread would wake this one.
        while self.needs_drain() {
            self.take_finished_transactions(now);
            self.drain_outbox(now);
            self.core.step(now, ConsumerEvent::Tick, &mut self.core_actions);
            self.perform(now, actions);
        }
        self.update_deadline(now);
        self.publish_stats();
        self.publish_membership();
    }

    fn deadline(&self) -> Option<Nanos> {
        [self.core.deadline(), self.deadline].into_iter().flatten().min()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

/// State that the network thread fails and closes at its end.
pub(crate) struct ConsumerThread {
    pub(crate) requests: Arc<RequestQueue<ConsumerEvent>>,
    pub(crate) dispatcher: Dispatcher,
}

impl NetworkThreadOwner for ConsumerThread {
    fn fail(&self, error: ClientError) {
        self.dispatcher.fail(error);
    }

    fn finish(&self) {
        self.requests.close();
    }
}
