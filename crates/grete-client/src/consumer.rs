//! One Kafka client: a group's connections, its network thread, and the calls that users make.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use grete_core::admin::When;
use grete_core::consumer::{ConsumerCore, ConsumerEvent, ConsumerReply};
use grete_core::dispatch::{ClientId, Committable, LaneStatus, RoutePolicy};
use grete_core::ids::TopicPartition;
use grete_core::position::StartAt;
use grete_core::rng::Rng;
use grete_net::EventLoop;

use crate::admin;
use crate::command::{Commands, NoAnswer};
use crate::config::ConsumerConfig;
use crate::dispatcher::{Dispatcher, JobToken, LaneReport, seed};
use crate::driver::{Counters, Driver};
use crate::ending::Ending;
use crate::error::{ClientError, Subject};
use crate::figures::Figures;
use crate::membership::Membership;
use crate::report;

/// One response may not be larger (a Fetch may exceed `fetch.max.bytes` by one batch).
const MAX_FRAME_BYTES: usize = 1 << 30;
/// `assign` and `subscribe` are answered by our own thread, which never blocks.
const OWN_THREAD: Duration = Duration::from_secs(10);

/// Topics that go to one handler.
#[derive(Debug, Clone)]
pub struct Route {
    /// By name.
    pub topics: Vec<String>,
    /// How they are worked on; jobs carry its number.
    pub policy: Arc<RoutePolicy>,
}

/// Where to start a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the group's committed offset, else by `auto.offset.reset`.
    Committed,
    /// At this offset.
    Offset(i64),
    /// At the first record still there.
    Earliest,
    /// At what is written from now on.
    Latest,
    /// At the first record as young as this, in milliseconds since the epoch.
    Timestamp(i64),
}

impl From<Start> for grete_core::consumer::Start {
    fn from(start: Start) -> Self {
        match start {
            Start::Committed => Self::Committed,
            Start::Offset(offset) => Self::At(StartAt::Offset(offset)),
            Start::Earliest => Self::At(StartAt::Earliest),
            Start::Latest => Self::At(StartAt::Latest),
            Start::Timestamp(ms) => Self::At(StartAt::Timestamp(ms)),
        }
    }
}

/// Figures of one client.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// Bytes of record batches that brokers sent.
    pub bytes_received: u64,
    /// Fetch requests sent.
    pub fetches: u64,
    /// Connections that broke.
    pub reconnects: u64,
    /// Bytes that wait to be processed.
    pub queued_bytes: usize,
    /// Bytes under batches that users kept after their job.
    pub pinned_bytes: usize,
}

/// A client. Clones share it.
#[derive(Clone)]
pub struct Consumer {
    shared: Arc<Shared>,
}

struct Shared {
    config: ConsumerConfig,
    dispatcher: Dispatcher,
    client: ClientId,
    /// Offsets are committed by the clock and at the end.
    commits: bool,
    commands: Arc<Commands<ConsumerEvent>>,
    counters: Arc<Counters>,
    thread: Mutex<Option<JoinHandle<()>>>,
    closed: AtomicBool,
    mode: Mutex<Mode>,
    fork_generation: u32,
}

/// How this client comes by its partitions; the group's way and the user's exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Undecided,
    Subscribed,
    Assigned,
}

impl Consumer {
    /// Starts the network thread, which connects when there is something to read.
    ///
    /// # Errors
    /// When the system has no thread, descriptor or randomness to give, or the settings contradict each other.
    pub fn start(config: ConsumerConfig, dispatcher: &Dispatcher, routes: Vec<Route>) -> Result<Self, ClientError> {
        dispatcher.check_fork()?;
        // An App commits what its handlers have earned; a low-level consumer commits by itself only when told to.
        let commits = !routes.is_empty() || config.flag("enable.auto.commit");
        let core = ConsumerCore::new(config.to_core(commits)?, Rng::new(seed()?));
        let client = dispatcher.attach();
        for route in &routes {
            dispatcher.lock().dispatch.add_route(&route.policy);
        }
        let mut commands = None;
        let counters = Arc::new(Counters::default());
        let counted = Arc::clone(&counters);
        let event_loop = EventLoop::new(dispatcher.clock(), dispatcher.slabs(), MAX_FRAME_BYTES, |waker| {
            dispatcher.set_waker(client, Some(waker.clone()));
            let shared = Arc::new(Commands::new(waker));
            commands = Some(Arc::clone(&shared));
            Driver::new(core, dispatcher.clone(), client, shared, counted, &routes)
        });
        let event_loop = event_loop.map_err(|e| ClientError::os("opening a poll descriptor", &e))?;
        let commands = commands.unwrap_or_else(|| unreachable!("the loop makes its protocol before it returns"));
        let ending = Ending { commands: Arc::clone(&commands), dispatcher: dispatcher.clone() };
        let run = move || {
            if let Err(error) = event_loop.run() {
                ending.dispatcher.fail(ClientError::os("waiting for sockets", &error));
            }
        };
        let thread = std::thread::Builder::new().name("grete-net".into()).spawn(run);
        let thread = thread.map_err(|e| ClientError::os("starting the network thread", &e))?;
        Ok(Self {
            shared: Arc::new(Shared {
                config,
                dispatcher: dispatcher.clone(),
                client,
                commits,
                commands,
                counters,
                thread: Mutex::new(Some(thread)),
                closed: AtomicBool::new(false),
                mode: Mutex::new(Mode::Undecided),
                fork_generation: grete_net::fork::generation(),
            }),
        })
    }

    /// Reads these topics as a member of the group.
    ///
    /// # Errors
    /// Without `group.id`.
    pub fn subscribe(&self, topics: Vec<String>) -> Result<(), ClientError> {
        self.check()?;
        if self.shared.config.group_id().is_none() {
            return Err(ClientError::Invalid(
                "subscribe needs a group: set group.id, or use assign to read partitions without a group".into(),
            ));
        }
        if topics.is_empty() {
            return Err(ClientError::Invalid("subscribe was given no topic".into()));
        }
        self.decide(Mode::Subscribed)?;
        let topics = topics.into_iter().map(Arc::from).collect();
        self.shared.commands.send(ConsumerEvent::Subscribe(topics));
        Ok(())
    }

    /// Reads these partitions and no others, without the group's say.
    ///
    /// # Errors
    /// When a start is the committed offset and there is no group.
    pub fn assign(&self, partitions: Vec<(String, i32, Start)>) -> Result<(), ClientError> {
        self.check()?;
        let committed = partitions.iter().any(|(_, _, start)| *start == Start::Committed);
        if committed && self.shared.config.group_id().is_none() {
            return Err(ClientError::Invalid(
                "a start at the committed offset needs group.id; give an offset, earliest or latest instead".into(),
            ));
        }
        self.decide(Mode::Assigned)?;
        self.shared.dispatcher.forgive_partitions();
        let starts = partitions
            .into_iter()
            .map(|(topic, partition, start)| (TopicPartition::new(topic, partition), start.into()));
        let starts = starts.collect();
        self.ask("assign", OWN_THREAD, |id| ConsumerEvent::Assign { partitions: starts, id }).map(drop)
    }

    /// Commits, and returns when the broker has said yes. `None`: all that was handed out and completed.
    ///
    /// # Errors
    /// Without a group; when the partition belongs to another member by now; what the broker answers.
    pub fn commit(&self, offsets: Option<Vec<(String, i32, i64)>>, timeout: Duration) -> Result<(), ClientError> {
        self.check()?;
        let offsets = match offsets {
            None => {
                let mut state = self.shared.dispatcher.lock();
                let offsets = state.dispatch.committables(self.shared.client, true);
                self.shared.dispatcher.unlock(state); // a lane that waited for marks may go on
                offsets
            }
            Some(offsets) => self.with_epochs(offsets),
        };
        if self.shared.config.group_id().is_none() {
            return Err(ClientError::Invalid("commit needs a group: set group.id".into()));
        }
        if offsets.is_empty() {
            return Ok(());
        }
        match self.ask("commit", timeout, |id| ConsumerEvent::Commit { offsets, id })? {
            // A client that has failed owns nothing any more: why is the better answer.
            ConsumerReply::Commit(results) => {
                report::commit(results).map_err(|error| self.shared.dispatcher.fatal().unwrap_or(error))
            }
            other => Err(report::misplaced(&other)),
        }
    }

    /// Commits what is marked of the job's partition, and returns when the broker has said yes.
    ///
    /// # Errors
    /// [`ClientError::Revoked`] when the partition is not the job's any more; when no broker answers in time.
    pub fn commit_marks(&self, token: &JobToken, timeout: Duration) -> Result<(), ClientError> {
        self.check()?;
        let Some(offset) = self.shared.dispatcher.committable(token)? else { return Ok(()) };
        match self.ask("commit", timeout, |id| ConsumerEvent::Commit { offsets: vec![offset], id })? {
            ConsumerReply::Commit(results) => report::commit_of_job(results),
            other => Err(report::misplaced(&other)),
        }
    }

    /// The group's committed offsets; `None` where there is none.
    ///
    /// # Errors
    /// Without a group; when no broker answers in time.
    pub fn committed(
        &self,
        partitions: Vec<(String, i32)>,
        timeout: Duration,
    ) -> Result<Vec<Option<i64>>, ClientError> {
        self.check()?;
        if self.shared.config.group_id().is_none() {
            return Err(ClientError::Invalid("committed needs a group: set group.id".into()));
        }
        let tps: Vec<TopicPartition> =
            partitions.into_iter().map(|(topic, partition)| TopicPartition::new(topic, partition)).collect();
        let asked = tps.clone();
        match self.ask("committed", timeout, |id| ConsumerEvent::Committed { tps: asked, id })? {
            ConsumerReply::Committed(found) => {
                let group = || Subject::Group(self.shared.config.group_id().unwrap_or_default().to_owned());
                let found = found.map_err(|error| admin::failure("committed", group(), error))?;
                let offset_of =
                    |tp: &TopicPartition| found.iter().find(|(other, _)| other == tp).and_then(|(_, offset)| *offset);
                Ok(tps.iter().map(offset_of).collect())
            }
            other => Err(report::misplaced(&other)),
        }
    }

    /// Goes on from there; what was fetched and not handed out is dropped at once.
    ///
    /// # Errors
    /// When the partition is not assigned.
    pub fn seek(&self, topic: &str, partition: i32, to: Start) -> Result<(), ClientError> {
        self.check()?;
        let status = self.lane(topic, partition)?;
        self.shared.dispatcher.forgive(&status.tp);
        self.shared.dispatcher.lock().dispatch.reset_lane(status.lane);
        self.shared.commands.send(ConsumerEvent::Seek(status.tp, to.into()));
        Ok(())
    }

    /// Hands out nothing more of these.
    ///
    /// # Errors
    /// When one is not assigned.
    pub fn pause(&self, partitions: Vec<(String, i32)>) -> Result<(), ClientError> {
        self.set_paused(partitions, true)
    }

    /// Goes on with these.
    ///
    /// # Errors
    /// When one is not assigned.
    pub fn resume(&self, partitions: Vec<(String, i32)>) -> Result<(), ClientError> {
        self.set_paused(partitions, false)
    }

    /// What is assigned now.
    #[must_use]
    pub fn assignment(&self) -> Vec<(String, i32)> {
        let mut tps: Vec<_> =
            self.statuses().into_iter().map(|lane| (lane.tp.topic.to_string(), lane.tp.partition)).collect();
        tps.sort();
        tps
    }

    /// The next offset to be handed out, once it is known.
    #[must_use]
    pub fn position(&self, topic: &str, partition: i32) -> Option<i64> {
        self.lane(topic, partition).ok().and_then(|lane| lane.position)
    }

    /// First offset still there, and end of the partition, as the last fetched data told.
    #[must_use]
    pub fn watermarks(&self, topic: &str, partition: i32) -> Option<(i64, i64)> {
        let lane = self.lane(topic, partition).ok()?;
        (lane.high_watermark >= 0).then_some((lane.log_start_offset, lane.high_watermark))
    }

    /// The topic's partitions.
    ///
    /// # Errors
    /// When the topic does not exist, or no broker answers in time.
    pub fn partitions(&self, topic: &str, timeout: Duration) -> Result<Vec<i32>, ClientError> {
        self.check()?;
        let name: Arc<str> = topic.into();
        match self.ask("partitions", timeout, |id| ConsumerEvent::CountPartitions { topic: name, id })? {
            ConsumerReply::Partitions(Ok(count)) => Ok((0..count).collect()),
            ConsumerReply::Partitions(Err(code)) => {
                Err(admin::refusal("partitions", Subject::Topic(topic.to_owned()), code, None))
            }
            other => Err(report::misplaced(&other)),
        }
    }

    /// The offset that each start comes to: the first record at or after a timestamp, the end if there is none.
    ///
    /// # Errors
    /// When a partition does not exist or may not be read, or no broker answers in time.
    pub fn list_offsets(&self, starts: Vec<(String, i32, Start)>, timeout: Duration) -> Result<Vec<i64>, ClientError> {
        self.check()?;
        let mut asked = Vec::new();
        let mut offsets = Vec::with_capacity(starts.len());
        for (topic, partition, start) in starts {
            let when = match start {
                Start::Earliest => When::Earliest,
                Start::Latest => When::Latest,
                Start::Timestamp(ms) => When::Timestamp(ms),
                Start::Offset(offset) => {
                    offsets.push(Some(offset)); // means itself
                    continue;
                }
                Start::Committed => {
                    return Err(ClientError::Invalid("committed offsets are asked for by committed()".into()));
                }
            };
            offsets.push(None);
            asked.push((TopicPartition::new(topic, partition), when));
        }
        if asked.is_empty() {
            return Ok(offsets.into_iter().flatten().collect());
        }
        let subjects: Vec<_> = asked.iter().map(|(tp, _)| admin::partition(tp)).collect();
        let found = match self.ask("list_offsets", timeout, |id| ConsumerEvent::ListOffsets { starts: asked, id })? {
            ConsumerReply::Offsets(found) => found.into_iter().zip(subjects),
            other => return Err(report::misplaced(&other)),
        };
        // In the order of the question: the same partition may be asked for twice.
        let found = found.map(|(offset, subject)| offset.map_err(|error| admin::failure("offsets", subject, error)));
        let mut found = found.collect::<Result<Vec<i64>, _>>()?.into_iter();
        Ok(offsets.into_iter().filter_map(|offset| offset.or_else(|| found.next())).collect())
    }

    /// Figures as of now.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let figures = self.figures();
        Statistics {
            bytes_received: figures.fetched_bytes,
            fetches: figures.fetches,
            reconnects: figures.reconnects,
            queued_bytes: self.statuses().iter().map(|lane| lane.queued_bytes).sum(),
            pinned_bytes: self.shared.dispatcher.pinned_bytes(),
        }
    }

    /// What the network thread has counted, as it told last. Waits for nobody.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.shared.counters.figures.look()
    }

    /// `client.id`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.config.client_id()
    }

    /// Whether the lane is one of its partitions.
    #[must_use]
    pub fn has(&self, lane: &LaneReport) -> bool {
        lane.client == self.shared.client
    }

    /// Has this called by the network thread, outside of all locks, whenever the client has become steady or is it no more:
    /// it must not wait for anything. The first call of this counts.
    pub fn when_steadiness_turns(&self, call: impl Fn() + Send + Sync + 'static) {
        self.shared.counters.membership.when_turned(Box::new(call));
    }

    /// What the client is to its group, as the network thread told last. Waits for nobody.
    #[must_use]
    pub fn membership(&self) -> Membership {
        let (standing, since) = self.shared.counters.membership.look();
        Membership {
            group: self.shared.config.group_id().unwrap_or_default().to_owned(),
            state: standing.state,
            since,
            steady: standing.steady,
            generation: standing.generation,
            partitions: standing.partitions,
            instance: self.shared.config.instance_id().map(str::to_owned),
        }
    }

    /// Commits what may be committed (unless `enable.auto.commit` is false and nothing here commits by itself), leaves the
    /// group, ends the network thread. A second call waits for the end of the first.
    ///
    /// # Errors
    /// When the group could not be left within `timeout`; the thread then ends on its own.
    pub fn close(&self, timeout: Duration) -> Result<(), ClientError> {
        self.begin_close(true, timeout)?;
        self.await_close(timeout)
    }

    /// The first half of [`Consumer::close`]. With `commit` false what was processed since the last commit is left to be
    /// processed again.
    pub(crate) fn begin_close(&self, commit: bool, timeout: Duration) -> Result<(), ClientError> {
        let shared = &*self.shared;
        if shared.fork_generation != grete_net::fork::generation() {
            return Err(ClientError::Forked { what: "consumer" });
        }
        if shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let commit = shared.commits && commit;
        let offsets = commit.then(|| shared.dispatcher.lock().dispatch.committables(shared.client, false));
        let deadline = shared.dispatcher.clock().now() + u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX / 2);
        shared.commands.send(ConsumerEvent::Close { offsets, deadline });
        Ok(())
    }

    /// The second half.
    pub(crate) fn await_close(&self, timeout: Duration) -> Result<(), ClientError> {
        let shared = &*self.shared;
        // The core keeps the deadline; the margin is for its thread to get the processor.
        let ended = shared.commands.wait_for_end(timeout + Duration::from_secs(1));
        shared.dispatcher.set_waker(shared.client, None);
        let thread = shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !ended {
            return Err(self.timed_out("close", timeout));
        }
        if let Some(thread) = thread {
            // It has said its last word: a panic in it was reported as the client's failure.
            let _ = thread.join();
        }
        Ok(())
    }

    /// Its group, if it has one.
    pub(crate) fn group_id(&self) -> Option<&str> {
        self.shared.config.group_id()
    }

    // ---- inside

    fn check(&self) -> Result<(), ClientError> {
        if self.shared.fork_generation != grete_net::fork::generation() {
            return Err(ClientError::Forked { what: "consumer" });
        }
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(ClientError::Closed { what: "consumer" });
        }
        Ok(())
    }

    fn decide(&self, mode: Mode) -> Result<(), ClientError> {
        let mut decided = self.shared.mode.lock().unwrap_or_else(PoisonError::into_inner);
        if *decided != Mode::Undecided && *decided != mode {
            return Err(ClientError::Invalid(
                "subscribe and assign exclude each other: a group assigns its members' partitions; use a second consumer".into(),
            ));
        }
        *decided = mode;
        Ok(())
    }

    fn ask(
        &self,
        operation: &str,
        timeout: Duration,
        question: impl FnOnce(u32) -> ConsumerEvent,
    ) -> Result<ConsumerReply, ClientError> {
        match self.shared.commands.ask(timeout, || false, question) {
            Ok(reply) => Ok(reply),
            Err(NoAnswer::Ended) => {
                Err(self.shared.dispatcher.fatal().unwrap_or(ClientError::Closed { what: "consumer" }))
            }
            Err(NoAnswer::TimedOut | NoAnswer::Interrupted) => {
                Err(self.shared.dispatcher.fatal().unwrap_or_else(|| self.timed_out(operation, timeout)))
            }
        }
    }

    fn timed_out(&self, operation: &str, timeout: Duration) -> ClientError {
        ClientError::TimedOut {
            operation: operation.to_owned(),
            seconds: timeout.as_secs_f64(),
            hint: "check that a broker of bootstrap.servers can be reached; notices in the log say what was tried",
        }
    }

    fn statuses(&self) -> Vec<LaneStatus> {
        self.shared.dispatcher.lock().dispatch.statuses(Some(self.shared.client))
    }

    fn lane(&self, topic: &str, partition: i32) -> Result<LaneStatus, ClientError> {
        let found = self.statuses().into_iter().find(|lane| &*lane.tp.topic == topic && lane.tp.partition == partition);
        found.ok_or_else(|| ClientError::Invalid(format!("{topic}[{partition}] is not assigned to this consumer")))
    }

    fn set_paused(&self, partitions: Vec<(String, i32)>, paused: bool) -> Result<(), ClientError> {
        self.check()?;
        let lanes = partitions.iter().map(|(topic, partition)| self.lane(topic, *partition));
        for lane in lanes.collect::<Result<Vec<_>, _>>()? {
            let mut state = self.shared.dispatcher.lock();
            if paused {
                state.dispatch.pause(lane.lane, None);
            } else {
                state.dispatch.resume(lane.lane);
            }
            self.shared.dispatcher.unlock(state);
            self.shared.commands.send(ConsumerEvent::Pause(lane.tp, paused));
        }
        Ok(())
    }

    fn with_epochs(&self, offsets: Vec<(String, i32, i64)>) -> Vec<Committable> {
        let statuses = self.statuses();
        let epoch_of =
            |tp: &TopicPartition| statuses.iter().find(|lane| lane.tp == *tp).map_or(0, |lane| lane.assignment_epoch);
        let committable = |(topic, partition, offset): (String, i32, i64)| {
            let tp = TopicPartition::new(topic, partition);
            Committable { assignment_epoch: epoch_of(&tp), tp, offset, leader_epoch: -1, metadata: String::new() }
        };
        offsets.into_iter().map(committable).collect()
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("client", &self.shared.client).finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.fork_generation != grete_net::fork::generation() {
            // The thread is the parent's; joining, waking or freeing what it uses is not ours to do.
            std::mem::forget(self.thread.lock().unwrap_or_else(PoisonError::into_inner).take());
            return;
        }
        if !self.closed.load(Ordering::Acquire) {
            // Dropped without close: the thread ends at once, the group learns by the session's end.
            self.commands.send(ConsumerEvent::Close { offsets: None, deadline: 0 });
        }
    }
}
