//! Consumer: one Kafka client of a group, its connections, its network thread, and the calls of users.

mod close;
mod driver;
mod errors;
mod membership;
mod statistics;
mod transactions;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use grete_net::{EventLoop, GateUse};
use grete_proto::admin::OffsetSpec;
use grete_proto::consumer::{ConsumerCore, ConsumerEvent, ConsumerReply, PartitionRecovery};
use grete_proto::dispatch::{ClientId, Committable, LaneStatus, RouteConfig};
use grete_proto::ids::TopicPartition;
use grete_proto::position::StartPosition;
use grete_proto::rng::Rng;
use grete_proto::topic_pattern::TopicPattern;

pub use membership::{GroupMember, Membership};
pub use statistics::{ConsumerNetStats, ConsumerStatistics};
pub use transactions::TransactionReport;

use crate::admin;
use crate::config::{ConsumerConfig, ProducerConfig};
use crate::dispatcher::{Condition, Dispatcher, JobToken, LaneReport, Settling};
use crate::error::{ClientError, Subject};
use crate::random_seed;
use crate::request_queue::{RequestAborted, RequestQueue};
use crate::thread_guard::spawn_network_thread;
use crate::tls::tls_context;
pub(crate) use driver::ConsumerThread;
use driver::{Driver, PublishedState};
use transactions::GroupTransactions;

/// Maximum size of a response in bytes (a Fetch response may exceed `fetch.max.bytes` by one batch).
const MAX_FRAME_BYTES: usize = 1 << 30;
/// Timeout of `assign`: the network thread answers without a broker, and never blocks.
const LOCAL_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Start position of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The group's committed offset, or `auto.offset.reset` if there is none.
    Committed,
    /// This offset.
    Offset(i64),
    /// The first record still in the log.
    Earliest,
    /// The end of the log: only records written from now on.
    Latest,
    /// The first record with at least this timestamp, in milliseconds since the epoch.
    Timestamp(i64),
}

impl From<Start> for grete_proto::consumer::StartOffset {
    fn from(start: Start) -> Self {
        match start {
            Start::Committed => Self::Committed,
            Start::Offset(offset) => Self::At(StartPosition::Offset(offset)),
            Start::Earliest => Self::At(StartPosition::Earliest),
            Start::Latest => Self::At(StartPosition::Latest),
            Start::Timestamp(ms) => Self::At(StartPosition::Timestamp(ms)),
        }
    }
}

/// Topics of one handler.
#[derive(Debug, Clone)]
pub struct Route {
    /// Names of the topics, and patterns (they begin with `^`).
    pub topics: Vec<String>,
    /// Processing settings of the topics; jobs carry the number of the route.
    pub policy: Arc<RouteConfig>,
}

/// Transactions of a client whose jobs are exactly once.
#[derive(Debug, Clone)]
pub struct Transactional {
    /// Settings of the producer, with its `transactional.id`.
    pub producer: ProducerConfig,
    /// Time from the first work that is not committed to its transaction.
    pub interval: Duration,
}

/// Consumer handle. Clones share one client.
#[derive(Clone)]
pub struct Consumer {
    inner: Arc<ConsumerInner>,
}

struct ConsumerInner {
    config: ConsumerConfig,
    dispatcher: Dispatcher,
    client: ClientId,
    /// Whether offsets are committed periodically and at the close.
    auto_commit: bool,
    requests: Arc<RequestQueue<ConsumerEvent>>,
    published: Arc<PublishedState>,
    /// `None`: jobs are at least once.
    transactions: Option<Arc<GroupTransactions>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    closed: AtomicBool,
    /// Whether the group is a share group, whose partitions have no position.
    is_queue: bool,
    /// Whether a static member leaves the group on close.
    leave_on_close: AtomicBool,
    mode: Mutex<AssignmentMode>,
    fork_generation: u32,
}

/// Source of the partitions. Subscribing to topics and assigning partitions by hand exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AssignmentMode {
    Undecided,
    Subscribed,
    Assigned,
}

impl Consumer {
    /// Starts the network thread, which connects when there is something to read.
    ///
    /// # Errors
    /// Fails if the system has no thread, descriptor or random numbers left, or if the settings contradict each other.
    pub fn start(config: ConsumerConfig, dispatcher: &Dispatcher, routes: Vec<Route>) -> Result<Self, ClientError> {
        Self::start_app(config, dispatcher, routes, false, None, None)
    }

    /// Starts a client of an App: a partition that cannot be read recovers by itself if possible, or ends the App if
    /// `stops`. `transactional`: its jobs are exactly once; `None`: at least once. `queue`: the group is a share group
    /// (KIP-932), and this member processes so many records at once.
    ///
    /// # Errors
    /// The same as [`Consumer::start`].
    pub fn start_app(
        config: ConsumerConfig,
        dispatcher: &Dispatcher,
        routes: Vec<Route>,
        stops: bool,
        transactional: Option<Transactional>,
        queue: Option<usize>,
    ) -> Result<Self, ClientError> {
        dispatcher.check_fork()?;
        // An App commits the processed offsets of its handlers; a low-level consumer commits only with
        // `enable.auto.commit`.
        let commits = !routes.is_empty() || config.flag("enable.auto.commit");
        let mut core_config = match queue {
            Some(concurrency) => config.to_share_core(concurrency)?,
            None => config.to_core(commits)?,
        };
        core_config.partition_recovery = (!routes.is_empty()).then(|| recovery_config(&routes));
        if let Some(transactional) = &transactional {
            core_config.transactional = true;
            core_config.auto_commit = Some(u64::try_from(transactional.interval.as_nanos()).unwrap_or(u64::MAX));
        }
        let queued_bytes = core_config.fetch.queued_bytes;
        let core = ConsumerCore::new(core_config, Rng::new(random_seed()?));
        let log = dispatcher.clone();
        let tls = tls_context(&config, move |event| log.emit(vec![event]))?;
        dispatcher.retain_buffers_for(queued_bytes);
        let client = dispatcher.attach();
        let transactions = transactional
            .map(|transactional| GroupTransactions::start(transactional.producer, dispatcher, client))
            .transpose()?
            .map(Arc::new);
        for route in &routes {
            dispatcher.lock().dispatch.add_route(&route.policy);
        }
        let mut requests = None;
        let published = Arc::new(PublishedState::default());
        let counted = Arc::clone(&published);
        let event_loop = EventLoop::new(dispatcher.clock(), dispatcher.slabs(), MAX_FRAME_BYTES, |waker| {
            dispatcher.set_waker(client, Some(waker.clone()));
            let shared = Arc::new(RequestQueue::new(waker));
            requests = Some(Arc::clone(&shared));
            Driver::new(core, dispatcher.clone(), client, shared, counted, &routes, stops)
                .of_principal(config.principal())
                .with_transactions(transactions.clone())
        });
        let event_loop = event_loop.and_then(|event_loop| event_loop.with_gate(GateUse::EachLead));
        let event_loop = event_loop.map_err(|e| ClientError::os("opening a poll descriptor", &e))?.with_tls(tls);
        let requests = requests.unwrap_or_else(|| unreachable!("the loop makes its protocol before it returns"));
        requests.set_caller_loop(event_loop.handle());
        dispatcher.set_caller_loop(event_loop.handle());
        let owner = ConsumerThread { requests: Arc::clone(&requests), dispatcher: dispatcher.clone() };
        let thread = spawn_network_thread("grete-net", &config, event_loop, owner)?;
        Ok(Self {
            inner: Arc::new(ConsumerInner {
                config,
                dispatcher: dispatcher.clone(),
                client,
                auto_commit: commits,
                requests,
                published,
                transactions,
                thread: Mutex::new(Some(thread)),
                closed: AtomicBool::new(false),
                is_queue: queue.is_some(),
                leave_on_close: AtomicBool::new(false),
                mode: Mutex::new(AssignmentMode::Undecided),
                fork_generation: grete_sys::fork::generation(),
            }),
        })
    }

    /// Sets how many records of a share group this member processes at once. No other member gets records that this one
    /// has acquired, so it acquires no more than that, and what it finishes within half a second.
    ///
    /// # Errors
    /// Fails after the close, and in a forked child.
    pub fn set_concurrency(&self, records: usize) -> Result<(), ClientError> {
        self.check()?;
        self.inner.requests.send(ConsumerEvent::Concurrency(records));
        Ok(())
    }

    /// Subscribes to topics as a member of the group.
    ///
    /// # Errors
    /// Fails without `group.id`.
    pub fn subscribe(&self, topics: Vec<String>) -> Result<(), ClientError> {
        self.check()?;
        if self.inner.config.group_id().is_none() {
            return Err(ClientError::Invalid(
                "subscribe needs a group: set group.id, or use assign to read partitions without a group".into(),
            ));
        }
        if topics.is_empty() {
            return Err(ClientError::Invalid("subscribe was given no topic".into()));
        }
        for text in topics.iter().filter(|topic| TopicPattern::is_pattern(topic)) {
            let no_pattern = |error| ClientError::Invalid(format!("{text:?} is no topic pattern: {error}"));
            TopicPattern::parse(text).map_err(no_pattern)?;
        }
        self.set_mode(AssignmentMode::Subscribed)?;
        let topics = topics.into_iter().map(Arc::from).collect();
        self.inner.requests.send(ConsumerEvent::Subscribe(topics));
        Ok(())
    }

    /// Assigns exactly these partitions, without the group's rebalancing.
    ///
    /// # Errors
    /// Fails if a start is the committed offset and there is no group, or if the group is a share group.
    pub fn assign(&self, partitions: Vec<(String, i32, Start)>) -> Result<(), ClientError> {
        self.check()?;
        self.check_position("assign")?;
        let committed = partitions.iter().any(|(_, _, start)| *start == Start::Committed);
        if committed && self.inner.config.group_id().is_none() {
            return Err(ClientError::Invalid(
                "a start at the committed offset needs group.id; give an offset, earliest or latest instead".into(),
            ));
        }
        self.set_mode(AssignmentMode::Assigned)?;
        self.inner.dispatcher.clear_partition_failures();
        // One allocation for each name, however many partitions a topic has.
        let mut names: HashMap<String, Arc<str>> = HashMap::new();
        let starts = partitions.into_iter().map(|(topic, partition, start)| {
            let name = match names.get(&topic) {
                Some(name) => Arc::clone(name),
                None => Arc::clone(names.entry(topic.clone()).or_insert(topic.into())),
            };
            (TopicPartition::new(name, partition), start.into())
        });
        let starts = starts.collect();
        self.request("assign", LOCAL_REQUEST_TIMEOUT, |id| ConsumerEvent::Assign { partitions: starts, id }).map(drop)
    }

    /// Commits offsets and waits for the broker's response. `None`: commits all records that were handed out and
    /// completed.
    ///
    /// # Errors
    /// Fails without a group, if another member owns the partition by now, or with the broker's error.
    pub fn commit(&self, offsets: Option<Vec<(String, i32, i64)>>, timeout: Duration) -> Result<(), ClientError> {
        self.check()?;
        let offsets = match offsets {
            None => {
                let mut state = self.inner.dispatcher.lock();
                let offsets = state.dispatch.take_committables(self.inner.client, true);
                self.inner.dispatcher.unlock_and_wake(state); // a lane that waited for marks may continue
                offsets
            }
            Some(offsets) => self.with_epochs(offsets),
        };
        if self.inner.config.group_id().is_none() {
            return Err(ClientError::Invalid("commit needs a group: set group.id".into()));
        }
        if offsets.is_empty() {
            return Ok(());
        }
        match self.request("commit", timeout, |id| ConsumerEvent::Commit { offsets, id })? {
            // A failed client owns no partitions any more, so the reason of the failure is the better answer.
            ConsumerReply::Commit(results) => {
                errors::commit_result(results).map_err(|error| self.inner.dispatcher.fatal().unwrap_or(error))
            }
            other => Err(errors::wrong_reply_type(&other)),
        }
    }

    /// Sends the acknowledgements of a share group's records, and waits until the leaders have answered.
    ///
    /// # Errors
    /// Fails if a leader does not answer in time.
    pub fn flush_acks(&self, timeout: Duration) -> Result<(), ClientError> {
        self.check()?;
        self.request("commit", timeout, |id| ConsumerEvent::FlushAcks { id }).map(drop)
    }

    /// Commits the marked records of the job's partition and waits for the broker's response.
    ///
    /// # Errors
    /// [`ClientError::Revoked`] if the job has lost the partition; also fails if no broker answers in time.
    pub fn commit_marks(&self, token: &JobToken, timeout: Duration) -> Result<(), ClientError> {
        self.check()?;
        let Some(offset) = self.inner.dispatcher.committable(token)? else { return Ok(()) };
        match self.request("commit", timeout, |id| ConsumerEvent::Commit { offsets: vec![offset], id })? {
            ConsumerReply::Commit(results) => errors::job_commit_result(results),
            other => Err(errors::wrong_reply_type(&other)),
        }
    }

    /// Returns the group's committed offsets, in the order of `partitions`; `None`: the partition has no committed
    /// offset.
    ///
    /// # Errors
    /// Fails without a group, or if no broker answers in time.
    pub fn committed(
        &self,
        partitions: Vec<(String, i32)>,
        timeout: Duration,
    ) -> Result<Vec<Option<i64>>, ClientError> {
        self.check()?;
        if self.inner.config.group_id().is_none() {
            return Err(ClientError::Invalid("committed needs a group: set group.id".into()));
        }
        let tps: Vec<TopicPartition> =
            partitions.into_iter().map(|(topic, partition)| TopicPartition::new(topic, partition)).collect();
        let requested = tps.clone();
        match self.request("committed", timeout, |id| ConsumerEvent::Committed { tps: requested, id })? {
            ConsumerReply::Committed(found) => {
                let group = || Subject::Group(self.inner.config.group_id().unwrap_or_default().to_owned());
                let found = found.map_err(|error| admin::client_error("committed", None, group(), error))?;
                let offset_of =
                    |tp: &TopicPartition| found.iter().find(|(other, _)| other == tp).and_then(|(_, offset)| *offset);
                Ok(tps.iter().map(offset_of).collect())
            }
            other => Err(errors::wrong_reply_type(&other)),
        }
    }

    /// Moves the position of a partition. Records that were fetched and not handed out are dropped at once.
    ///
    /// # Errors
    /// Fails if the partition is not assigned.
    pub fn seek(&self, topic: &str, partition: i32, to: Start) -> Result<(), ClientError> {
        self.check()?;
        self.check_position("seek")?;
        let status = self.lane(topic, partition)?;
        self.inner.dispatcher.clear_partition_failure(&status.tp);
        self.inner.dispatcher.lock().dispatch.reset_lane(status.lane);
        self.inner.requests.send(ConsumerEvent::Seek(status.tp, to.into()));
        Ok(())
    }

    /// Pauses the partitions: no more of their records are handed out.
    ///
    /// # Errors
    /// Fails if a partition is not assigned.
    pub fn pause(&self, partitions: Vec<(String, i32)>) -> Result<(), ClientError> {
        self.set_paused(partitions, true)
    }

    /// Resumes paused partitions.
    ///
    /// # Errors
    /// Fails if a partition is not assigned.
    pub fn resume(&self, partitions: Vec<(String, i32)>) -> Result<(), ClientError> {
        self.set_paused(partitions, false)
    }

    /// Returns the assigned partitions, sorted.
    pub fn assignment(&self) -> Vec<(String, i32)> {
        let mut tps: Vec<_> =
            self.lane_statuses().into_iter().map(|lane| (lane.tp.topic.to_string(), lane.tp.partition)).collect();
        tps.sort();
        tps
    }

    /// Returns the next offset to hand out; `None`: not assigned, or not known yet.
    pub fn position(&self, topic: &str, partition: i32) -> Option<i64> {
        self.lane(topic, partition).ok().and_then(|lane| lane.position)
    }

    /// Returns log start offset and high watermark of the last Fetch response; `None`: not assigned, or nothing fetched
    /// yet.
    pub fn watermarks(&self, topic: &str, partition: i32) -> Option<(i64, i64)> {
        let lane = self.lane(topic, partition).ok()?;
        (lane.high_watermark >= 0).then_some((lane.log_start_offset, lane.high_watermark))
    }

    /// Returns the partitions of a topic.
    ///
    /// # Errors
    /// Fails if the topic does not exist, or if no broker answers in time.
    pub fn partitions(&self, topic: &str, timeout: Duration) -> Result<Vec<i32>, ClientError> {
        self.check()?;
        let name: Arc<str> = topic.into();
        match self.request("partitions", timeout, |id| ConsumerEvent::CountPartitions { topic: name, id })? {
            ConsumerReply::Partitions(Ok(count)) => Ok((0..count).collect()),
            ConsumerReply::Partitions(Err(code)) => {
                Err(admin::refused_error("partitions", None, Subject::Topic(topic.to_owned()), code, None))
            }
            other => Err(errors::wrong_reply_type(&other)),
        }
    }

    /// Resolves start positions to offsets. A timestamp resolves to the first record at or after it, or to the end if
    /// there is none.
    ///
    /// # Errors
    /// Fails if a partition does not exist or may not be read, or if no broker answers in time.
    pub fn list_offsets(&self, starts: Vec<(String, i32, Start)>, timeout: Duration) -> Result<Vec<i64>, ClientError> {
        self.check()?;
        let mut requested = Vec::new();
        let mut offsets = Vec::with_capacity(starts.len());
        for (topic, partition, start) in starts {
            let when = match start {
                Start::Earliest => OffsetSpec::Earliest,
                Start::Latest => OffsetSpec::Latest,
                Start::Timestamp(ms) => OffsetSpec::Timestamp(ms),
                Start::Offset(offset) => {
                    offsets.push(Some(offset)); // needs no lookup
                    continue;
                }
                Start::Committed => {
                    return Err(ClientError::Invalid("committed offsets are asked for by committed()".into()));
                }
            };
            offsets.push(None);
            requested.push((TopicPartition::new(topic, partition), when));
        }
        if requested.is_empty() {
            return Ok(offsets.into_iter().flatten().collect());
        }
        let subjects: Vec<_> = requested.iter().map(|(tp, _)| admin::partition_subject(tp)).collect();
        let found =
            match self.request("list_offsets", timeout, |id| ConsumerEvent::ListOffsets { starts: requested, id })? {
                ConsumerReply::Offsets(found) => found.into_iter().zip(subjects),
                other => return Err(errors::wrong_reply_type(&other)),
            };
        // In the order of the request, because a partition may occur twice.
        let found =
            found.map(|(offset, subject)| offset.map_err(|error| admin::client_error("offsets", None, subject, error)));
        let mut found = found.collect::<Result<Vec<i64>, _>>()?.into_iter();
        Ok(offsets.into_iter().filter_map(|offset| offset.or_else(|| found.next())).collect())
    }

    /// Returns `client.id`.
    pub fn client_id(&self) -> &str {
        self.inner.config.client_id()
    }

    /// Returns whether the lane belongs to a partition of this client.
    pub fn owns_lane(&self, lane: &LaneReport) -> bool {
        lane.client == self.inner.client
    }

    /// Registers a callback for changes of [`Membership::ready`]. The network thread calls it outside all locks, so the
    /// callback must not wait. Only the first registered callback is used.
    pub fn on_ready_change(&self, call: impl Fn() + Send + Sync + 'static) {
        self.inner.published.membership.on_ready_change(Box::new(call));
    }

    /// Returns the membership that the network thread published last. Waits for no other thread.
    pub fn membership(&self) -> Membership {
        let (standing, since) = self.inner.published.membership.get();
        Membership {
            group: self.inner.config.group_id().unwrap_or_default().to_owned(),
            state: standing.state,
            since,
            ready: standing.ready,
            generation: standing.generation,
            partitions: standing.partitions,
            instance: self.inner.config.instance_id().map(str::to_owned),
        }
    }

    /// Returns the identity of this client in its group. Waits for no other thread.
    pub fn group_member(&self) -> GroupMember {
        let (generation, member_id) = self.inner.published.membership.member();
        GroupMember {
            group: self.inner.config.group_id().unwrap_or_default().to_owned(),
            member_id,
            generation,
            instance: self.inner.config.instance_id().map(str::to_owned),
        }
    }

    /// Returns the state of the client's transactions; `None`: its jobs are at least once. Waits for no other thread.
    pub fn transactions(&self) -> Option<TransactionReport> {
        self.inner.transactions.as_ref().map(|transactions| transactions.report())
    }

    /// Waits until this client has its assignment and has processed it: each partition is read up to its offset in
    /// `ends`, no job runs, and no record waits for a job, a backoff, a delay or the end of a pause. Records that were
    /// handed out and not marked may remain.
    ///
    /// `end_backoffs`: backoffs end at once. `timeout`: `None` waits without a limit.
    ///
    /// # Errors
    /// Fails with the error that ended the client, or if the client was closed.
    pub fn wait_until_settled(
        &self,
        ends: &HashMap<TopicPartition, i64>,
        timeout: Option<Duration>,
        end_backoffs: bool,
    ) -> Result<Settling, ClientError> {
        self.check()?;
        self.wait_for(Condition::Settled { ends, end_backoffs }, timeout)
    }

    /// Waits until this client has its assignment, and the position of each of its partitions. `timeout`: `None` waits
    /// without a limit.
    ///
    /// # Errors
    /// The same as [`Consumer::wait_until_settled`].
    pub fn wait_until_assigned(&self, timeout: Option<Duration>) -> Result<Settling, ClientError> {
        self.check()?;
        self.wait_for(Condition::Assigned, timeout)
    }

    fn wait_for(&self, condition: Condition<'_>, timeout: Option<Duration>) -> Result<Settling, ClientError> {
        let membership = &self.inner.published.membership;
        let lanes = || Some(membership.get().0).filter(|standing| standing.ready).map(|standing| standing.partitions);
        self.inner.dispatcher.wait_for(self.inner.client, lanes, condition, timeout)
    }

    /// Returns the group of this client; `None`: it has none.
    pub(crate) fn group_id(&self) -> Option<&str> {
        self.inner.config.group_id()
    }

    // ---- internal

    fn check(&self) -> Result<(), ClientError> {
        if self.inner.fork_generation != grete_sys::fork::generation() {
            return Err(ClientError::Forked { what: "consumer" });
        }
        if self.inner.closed.load(Ordering::Acquire) {
            return Err(ClientError::Closed { what: "consumer" });
        }
        Ok(())
    }

    /// Refuses an operation on positions, which a share group does not have.
    fn check_position(&self, operation: &str) -> Result<(), ClientError> {
        if !self.inner.is_queue {
            return Ok(());
        }
        Err(ClientError::Invalid(format!(
            "{operation} needs a position, and a queue has none: its brokers know which records are due; move the start of \
             an empty group with `grete groups reset`"
        )))
    }

    fn set_mode(&self, mode: AssignmentMode) -> Result<(), ClientError> {
        let mut decided = self.inner.mode.lock().unwrap_or_else(PoisonError::into_inner);
        if *decided != AssignmentMode::Undecided && *decided != mode {
            return Err(ClientError::Invalid(
                "subscribe and assign exclude each other: a group assigns its members' partitions; use a second consumer".into(),
            ));
        }
        *decided = mode;
        Ok(())
    }

    fn request(
        &self,
        operation: &str,
        timeout: Duration,
        build: impl FnOnce(u32) -> ConsumerEvent,
    ) -> Result<ConsumerReply, ClientError> {
        match self.inner.requests.request(timeout, |_| self.inner.dispatcher.log_events().write_pending(), build) {
            Ok(reply) => Ok(reply),
            Err(RequestAborted::Closed) => {
                Err(self.inner.dispatcher.fatal().unwrap_or(ClientError::Closed { what: "consumer" }))
            }
            Err(RequestAborted::TimedOut | RequestAborted::Interrupted) => {
                Err(self.inner.dispatcher.fatal().unwrap_or_else(|| self.timed_out(operation, timeout)))
            }
        }
    }

    fn timed_out(&self, operation: &str, timeout: Duration) -> ClientError {
        ClientError::TimedOut {
            operation: operation.to_owned(),
            seconds: timeout.as_secs_f64(),
            hint: "check that a broker of bootstrap.servers can be reached; the log has the connection errors",
        }
    }

    fn lane_statuses(&self) -> Vec<LaneStatus> {
        self.inner.dispatcher.lock().dispatch.lane_statuses(Some(self.inner.client))
    }

    fn lane(&self, topic: &str, partition: i32) -> Result<LaneStatus, ClientError> {
        let found =
            self.lane_statuses().into_iter().find(|lane| &*lane.tp.topic == topic && lane.tp.partition == partition);
        let topic = topic.to_owned();
        found.ok_or(ClientError::NotAssigned { topic, partition, owner: "this consumer" })
    }

    fn set_paused(&self, partitions: Vec<(String, i32)>, paused: bool) -> Result<(), ClientError> {
        self.check()?;
        let lanes = partitions.iter().map(|(topic, partition)| self.lane(topic, *partition));
        for lane in lanes.collect::<Result<Vec<_>, _>>()? {
            let mut state = self.inner.dispatcher.lock();
            if paused {
                state.dispatch.pause(lane.lane, None);
            } else {
                state.dispatch.resume(lane.lane);
            }
            self.inner.dispatcher.unlock_and_wake(state);
            self.inner.requests.send(ConsumerEvent::Pause(lane.tp, paused));
        }
        Ok(())
    }

    fn with_epochs(&self, offsets: Vec<(String, i32, i64)>) -> Vec<Committable> {
        let statuses = self.lane_statuses();
        let epoch_of =
            |tp: &TopicPartition| statuses.iter().find(|lane| lane.tp == *tp).map_or(0, |lane| lane.assignment_epoch);
        let committable = |(topic, partition, offset): (String, i32, i64)| {
            let tp = TopicPartition::new(topic, partition);
            let assignment_epoch = epoch_of(&tp);
            let metadata = String::new();
            Committable { assignment_epoch, tp, offset, leader_epoch: -1, generation: None, metadata }
        };
        offsets.into_iter().map(committable).collect()
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("client", &self.inner.client).finish_non_exhaustive()
    }
}

/// Returns the settings of partition recovery. A lasting failure is logged again as often as the shortest `stall_after`
/// of the routes.
fn recovery_config(routes: &[Route]) -> PartitionRecovery {
    let repeat_after = routes.iter().filter_map(|route| route.policy.stall_after).min();
    PartitionRecovery { repeat_after, ..PartitionRecovery::default() }
}
