//! Cluster of virtual brokers: a sans-IO machine that a driver steps.
//!
//! The brokers share all state. Each request runs to its end in the step in which its turn comes, except those that
//! wait by design: a Fetch for bytes, a JoinGroup and a SyncGroup for other members, and requests that a fault delays.

mod access;
mod api;
pub mod config;
mod connection;
mod dispatch;
mod error_response;
pub mod event;
mod faulty;
mod idle;
mod inspect;
mod logs;
mod placement;
pub mod release;
mod request_log;
mod suspension;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use grete_wire::Frame;

use self::api::fetch::WaitingFetch;
use self::api::share::WaitingShareFetch;
pub use self::config::{BrokerAddress, ClusterConfig};
use self::connection::Connection;
pub use self::connection::{MAX_QUEUED_BYTES, MAX_QUEUED_CONNECTION_BYTES, MAX_QUEUED_REQUESTS, RequestContext};
pub use self::event::{Action, Event};
pub use self::release::Release;
pub use self::request_log::LoggedRequest;
use self::request_log::RequestLog;
use self::suspension::Suspensions;
use self::waiting::WaitingRequests;
use crate::acl::Authorizer;
use crate::effects::{Change, Effects};
use crate::fault::{FaultAction, FaultRule, Faults};
use crate::fetch_session::FetchSessions;
use crate::group::GroupCoordinator;
use crate::group::config::GroupConfig;
use crate::ids::{BrokerId, ConnId, Millis, RequestId, TopicId};
use crate::log::Codecs;
use crate::message::Response;
use crate::rng::Rng;
use crate::share::ShareCoordinator;
use crate::topics::Topics;
use crate::transaction::{TransactionConfig, TransactionCoordinator};

/// Cluster of virtual brokers.
#[derive(Debug)]
pub struct Cluster {
    config: ClusterConfig,
    cluster_id: Arc<str>,
    rng: Rng,
    /// Latest time that the driver passed.
    now: Millis,
    /// Brokers that are up.
    live: BTreeSet<BrokerId>,
    /// Brokers that hang.
    suspensions: Suspensions,
    connections: BTreeMap<ConnId, Connection>,
    /// Requests in progress.
    requests: HashMap<RequestId, RequestContext>,
    last_request: u64,
    /// Bytes of the requests in the queues of all connections.
    queued_bytes: usize,
    /// Connections whose next request can begin.
    ready: VecDeque<ConnId>,
    topics: Topics,
    groups: GroupCoordinator,
    share: ShareCoordinator,
    transactions: TransactionCoordinator,
    authorizer: Authorizer,
    /// Refused parts of requests in progress, which wait for the response of the rest.
    refusals: HashMap<RequestId, Vec<Response>>,
    codecs: Codecs,
    faults: Faults,
    /// Rule that gives errors to partitions of the request in progress.
    partition_fault: Option<FaultRule>,
    /// Requests whose response a fault damages.
    damaged: HashMap<RequestId, FaultAction>,
    /// Requests that a fault delays, by the time at which they begin.
    delayed: BTreeMap<(Millis, RequestId), (RequestContext, Frame)>,
    /// Added to the driver's time.
    clock_offset: Millis,
    /// Brokers by which the coordinators are moved.
    coordinator_shift: usize,
    fetch_sessions: BTreeMap<BrokerId, FetchSessions>,
    waiting_fetches: WaitingRequests<WaitingFetch>,
    waiting_share_fetches: WaitingRequests<WaitingShareFetch>,
    request_log: RequestLog,
    effects: Effects,
    /// Bytes of record batches in all partitions.
    log_bytes: usize,
    /// Whether the log says that writes are refused, because `log_bytes` reaches its limit.
    is_memory_full: bool,
    next_retention_check: Millis,
    /// Time of the next compaction; `None`: no topic was ever compacted.
    next_cleaning: Option<Millis>,
    /// Time of the next look for idle connections; `None`: there are no connections.
    next_idle_check: Option<Millis>,
    /// Whether changes were restored and the first step is still to come.
    is_restored: bool,
}

impl Cluster {
    /// Creates a cluster without topics. All brokers are up.
    #[must_use]
    pub fn new(config: ClusterConfig) -> Self {
        let mut rng = Rng::new(config.seed);
        let cluster_id = config.cluster_id.clone().unwrap_or_else(|| format!("{:022x}", rng.uuid() >> 40).into());
        let groups = GroupConfig {
            initial_rebalance_delay_ms: config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms: config.group_min_session_timeout_ms,
            consumer: config.consumer_groups.clone(),
            ..GroupConfig::default()
        };
        Self {
            cluster_id,
            now: 0,
            suspensions: Suspensions::default(),
            live: config.brokers.iter().map(|broker| broker.id).collect(),
            connections: BTreeMap::new(),
            requests: HashMap::new(),
            last_request: 0,
            queued_bytes: 0,
            ready: VecDeque::new(),
            topics: Topics::new(config.topic_defaults.clone()),
            groups: GroupCoordinator::new(groups, rng.next_u64()),
            share: ShareCoordinator::new(config.share_groups.clone()),
            authorizer: Authorizer::default(),
            refusals: HashMap::new(),
            codecs: Codecs::new(),
            faults: Faults::default(),
            partition_fault: None,
            damaged: HashMap::new(),
            delayed: BTreeMap::new(),
            clock_offset: 0,
            coordinator_shift: 0,
            fetch_sessions: BTreeMap::new(),
            transactions: TransactionCoordinator::new(TransactionConfig {
                version: config.release.transaction_version(),
                ..TransactionConfig::default()
            }),
            waiting_fetches: WaitingRequests::default(),
            waiting_share_fetches: WaitingRequests::default(),
            request_log: RequestLog::new(config.max_logged_requests),
            effects: Effects::default(),
            log_bytes: 0,
            is_memory_full: false,
            next_retention_check: Millis::MIN,
            next_cleaning: None,
            next_idle_check: None,
            is_restored: false,
            rng,
            config,
        }
    }

    /// Handles an event at `now`, and appends the actions that the driver performs in order.
    pub fn step(&mut self, now: Millis, event: Event, actions: &mut Vec<Action>) {
        self.now = self.now.max(now.saturating_add(self.clock_offset));
        if std::mem::take(&mut self.is_restored) {
            self.resume();
        }
        match event {
            Event::Accepted { conn, broker, client_host } => self.accept(conn, broker, client_host, actions),
            Event::Identified { conn, principal } => self.identify(conn, principal),
            Event::Frame { conn, frame } => self.enqueue(conn, frame, actions),
            Event::Closed { conn } => self.forget_connection(conn),
            Event::Tick => self.tick(actions),
        }
        self.settle(actions);
    }

    /// Returns the time at which the next [`Event::Tick`] is due. `None`: nothing waits for time.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        let retention = (!self.topics.is_empty()).then_some(self.next_retention_check);
        let delayed = self.delayed.keys().next().map(|(due, _)| *due);
        let timers = [
            self.groups.deadline(),
            self.share.deadline(),
            self.transactions.deadline(),
            self.waiting_fetches.deadline(),
            self.waiting_share_fetches.deadline(),
            self.suspensions.deadline(),
            self.next_cleaning,
            self.next_idle_check,
            delayed,
            retention,
        ];
        timers.into_iter().flatten().min().map(|due| due.saturating_sub(self.clock_offset))
    }

    /// Applies a change that was stored before a restart. All changes are applied before the first step.
    pub fn restore(&mut self, change: &Change) {
        self.is_restored = true;
        match change {
            Change::Topic(change) => self.topics.apply(change),
            Change::Log { topic, partition, change } => self.restore_log(*topic, *partition, change),
            Change::Group(change) => self.groups.restore(change.clone()),
            Change::Transaction(change) => self.transactions.restore(change.clone()),
            Change::Acl(change) => self.authorizer.apply(change),
            Change::Share(change) => self.share.restore(change.clone()),
        }
    }

    /// Continues after a restart: markers that were possibly not written are written, partitions move to brokers that
    /// the cluster has now, and leaders that are down are replaced.
    fn resume(&mut self) {
        for marker in self.transactions.prepared() {
            self.write_marker(&marker);
        }
        self.reassign_unknown_replicas();
        self.elect_all();
        let topics: Vec<TopicId> = self.topics.iter().map(|topic| topic.id).collect();
        topics.into_iter().for_each(|topic| self.expect_cleaning(topic));
    }

    fn accept(&mut self, conn: ConnId, broker: BrokerId, client_host: Arc<str>, actions: &mut Vec<Action>) {
        if self.live.contains(&broker) || self.suspensions.contains(broker) {
            self.connections.insert(conn, Connection::new(broker, client_host, self.now));
            self.plan_idle_check();
        } else {
            actions.push(Action::Close { conn });
        }
    }

    /// Keeps the principal of a client's certificate.
    fn identify(&mut self, conn: ConnId, principal: Arc<str>) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.certified = Some(principal);
        }
    }

    /// Appends a request to its connection's queue. Beyond the limit of all waiting requests, the connection is closed.
    fn enqueue(&mut self, conn: ConnId, frame: Frame, actions: &mut Vec<Action>) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let waits = connection.in_progress.is_some();
        if waits && self.queued_bytes.saturating_add(frame.len()) > MAX_QUEUED_BYTES {
            let line = format!(
                "connection of {} closed: the requests of all connections that wait for the one before them have \
                 {MAX_QUEUED_BYTES} bytes",
                connection.client_host
            );
            actions.push(Action::Log(line));
            return self.close_connection(conn, actions);
        }
        self.queued_bytes += frame.len();
        connection.queued_bytes += frame.len();
        connection.queue.push_back(frame);
        connection.used_at = self.now;
        if waits && connection.is_full() && !connection.is_paused {
            connection.is_paused = true;
            actions.push(Action::PauseReading(conn));
        }
        self.ready.push_back(conn);
    }

    /// Drops a connection with its queue. Requests in progress go on, and their responses are dropped: a member that
    /// joins stays a member until its session times out.
    fn forget_connection(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.remove(&conn) else { return };
        for session in self.share.disconnect(conn) {
            self.release_session(&session);
        }
        self.queued_bytes = self.queued_bytes.saturating_sub(connection.queued_bytes);
        if let Some(request) = connection.in_progress {
            self.requests.remove(&request);
            self.refusals.remove(&request);
            self.waiting_fetches.remove(request);
            self.waiting_share_fetches.remove(request);
            self.delayed.retain(|(_, delayed), _| *delayed != request);
        }
    }

    fn close_connection(&mut self, conn: ConnId, actions: &mut Vec<Action>) {
        self.forget_connection(conn);
        actions.push(Action::Close { conn });
    }

    fn tick(&mut self, actions: &mut Vec<Action>) {
        self.close_idle(actions);
        self.fence_suspended();
        self.groups.tick(self.now, &mut self.effects);
        for (topic, partition) in self.share.tick(self.now, &mut self.effects) {
            self.complete_share_fetches(topic, partition, false);
        }
        self.expire_fetches();
        self.expire_share_fetches();
        self.expire_transactions();
        self.begin_delayed();
        if self.next_cleaning.is_some_and(|due| due <= self.now) {
            self.clean_logs();
        }
        if self.now >= self.next_retention_check {
            self.next_retention_check = self.now.saturating_add(self.config.retention_check_interval_ms);
            self.enforce_retention();
        }
    }

    /// Sends responses and begins the requests behind them, until nothing more can happen at this time.
    fn settle(&mut self, actions: &mut Vec<Action>) {
        loop {
            self.flush_effects(actions);
            let Some(conn) = self.ready.pop_front() else { break };
            self.begin_next(conn, actions);
        }
    }

    /// Turns effects into actions: changes first, because a response promises what was stored.
    fn flush_effects(&mut self, actions: &mut Vec<Action>) {
        actions.extend(self.effects.changes.drain(..).map(Action::Persist));
        actions.extend(self.effects.log.drain(..).map(Action::Log));
        for (request, response) in std::mem::take(&mut self.effects.replies) {
            self.respond(request, response, actions);
        }
        for request in std::mem::take(&mut self.effects.unanswered) {
            self.finish_request(request, actions);
        }
    }

    /// Adds a fault rule.
    pub fn add_fault(&mut self, rule: FaultRule) {
        self.faults.add(rule);
    }

    /// Ends all fault rules. Requests that were never answered stay without an answer.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Moves the clock of the cluster forward: sessions, long polls, retention and transactions see the new time.
    pub fn advance_clock(&mut self, ms: Millis, actions: &mut Vec<Action>) {
        self.clock_offset = self.clock_offset.saturating_add(ms.max(0));
        self.now = self.now.saturating_add(ms.max(0));
        self.tick(actions);
        self.settle(actions);
    }

    /// Returns the settings of the cluster.
    #[must_use]
    pub fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// Returns the topics.
    #[must_use]
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// Returns the latest requests, the oldest first.
    pub fn logged_requests(&self) -> impl Iterator<Item = &LoggedRequest> {
        self.request_log.iter()
    }

    fn next_request_id(&mut self) -> RequestId {
        self.last_request += 1;
        RequestId(self.last_request)
    }
}
