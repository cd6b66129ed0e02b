//! Network thread of the consumer: passes events to the core, and performs the core's actions on connections and lanes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use grete_proto::connection::CloseReason;
use grete_proto::consumer::{ConsumerAction, ConsumerCore, ConsumerCoreConfig, ConsumerEvent};
use grete_proto::dispatch::{
    ClientId, ColumnPool, Dispatch, Failure, LaneFailure, LaneId, LaneSpec, Pool, RouteConfig, TransactionDemand,
};
use grete_proto::ids::{ConnId, PartitionHandle};
use grete_proto::rng::Rng;
use grete_proto::time::{Nanos, earliest};
use grete_wire::Frame;
use grete_wire::buffer_pool::BufferPool;
use grete_wire::records::{DecodeLimits, Decoder};

use super::job::{DeadLetter, RunningJob};
use super::transactions::WantedTransaction;
use super::{Context, Effect, Process, Role, config};
use crate::plan::{INPUT, Plan};

/// Bytes that staged records may take: no job of a plan has more.
const STAGING_LIMIT: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct ConsumerSide {
    pub(super) core: ConsumerCore,
    pub(super) dispatch: Dispatch,
    pub(super) client: ClientId,
    pub(super) policy: Arc<RouteConfig>,
    pub(super) lanes: HashMap<PartitionHandle, LaneId>,
    core_actions: Vec<ConsumerAction>,
    /// Time at which the network thread wakes up by itself.
    wake: Option<Nanos>,
    pub(super) is_finished: bool,
    pub(super) wanted_transactions: VecDeque<WantedTransaction>,
    /// End of the member's session, as far as the process knows.
    pub(crate) session_until: Option<Nanos>,
    pub(super) workers: usize,
    pub(crate) jobs: BTreeMap<u64, RunningJob>,
    pub(super) last_job: u64,
    /// Failures of handlers whose jobs wait for their outputs.
    pub(super) raised: BTreeMap<u64, Failure>,
    /// Dead letters whose acknowledgement did not come in time, by lane and offset.
    pub(super) pending_dead_letters: HashMap<(LaneId, i64), DeadLetter>,
    pub(super) decoder: Decoder,
    pub(super) columns: ColumnPool,
}

pub(super) fn connected(conn: ConnId) -> ConsumerEvent {
    ConsumerEvent::Connected(conn)
}

pub(super) fn frame(conn: ConnId, frame: Frame) -> ConsumerEvent {
    ConsumerEvent::Frame(conn, frame)
}

pub(super) fn closed(conn: ConnId, reason: CloseReason) -> ConsumerEvent {
    ConsumerEvent::Closed(conn, reason)
}

pub(super) fn tick() -> ConsumerEvent {
    ConsumerEvent::Tick
}

impl ConsumerSide {
    pub(super) fn new(plan: &Plan, config: ConsumerCoreConfig, now: Nanos, rng: &mut Rng) -> Self {
        let mut dispatch = Dispatch::new(rng.split());
        let client = dispatch.add_client();
        let policy = Arc::new(config::route(plan));
        dispatch.add_route(&policy);
        if plan.app.exactly_once.is_some() {
            dispatch.set_transactional(client, STAGING_LIMIT);
        }
        let mut core = ConsumerCore::new(config, rng.split());
        let mut core_actions = Vec::new();
        core.step(now, ConsumerEvent::Subscribe(vec![INPUT.into()]), &mut core_actions);
        Self {
            core,
            dispatch,
            client,
            policy,
            lanes: HashMap::new(),
            core_actions,
            wake: Some(now),
            is_finished: false,
            wanted_transactions: VecDeque::new(),
            session_until: None,
            workers: plan.app.workers,
            jobs: BTreeMap::new(),
            last_job: 0,
            raised: BTreeMap::new(),
            pending_dead_letters: HashMap::new(),
            decoder: Decoder::new(BufferPool::new(1 << 20), DecodeLimits::default()),
            columns: ColumnPool::default(),
        }
    }

    pub(super) fn idle_workers(&self) -> usize {
        self.workers.saturating_sub(self.jobs.len())
    }

    /// Returns when a thread acts without being woken. An idle worker keeps the dispatcher's timers.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        let timers = self.dispatch.next_deadline().filter(|_| self.idle_workers() > 0);
        earliest(self.wake.filter(|_| !self.is_finished), timers)
    }

    pub(super) fn is_due(&self, now: Nanos) -> bool {
        !self.is_finished && self.wake.is_some_and(|at| at <= now)
    }

    /// Returns whether the process works on a partition, and is allowed to as far as the process knows.
    pub(crate) fn works_on(&self, partition: i32, now: Nanos) -> bool {
        self.session_until.is_some_and(|until| until >= now)
            && self.jobs.values().any(|job| job.tp.partition == partition && job.touches_records() && !job.is_void)
    }

    /// Drains the dispatcher's outbox, as the driver does before each event.
    fn drain_outbox(&mut self, now: Nanos) {
        let outbox = self.dispatch.take_outbox(self.client);
        self.dispatch.take_pending_wake(self.client);
        if !outbox.acks.is_empty() {
            let delayed = self.dispatch.delayed_records(self.client);
            let acknowledged = ConsumerEvent::Acknowledge { acks: outbox.acks, delayed };
            self.core.step(now, acknowledged, &mut self.core_actions);
        }
        for corrupt in outbox.corrupt {
            let (slot, generation, offset) = (corrupt.handle, corrupt.generation, corrupt.offset);
            self.core.step(now, ConsumerEvent::Corrupt { slot, generation, offset }, &mut self.core_actions);
        }
        for (slot, bytes) in outbox.charged {
            self.core.step(now, ConsumerEvent::Charged(slot, bytes), &mut self.core_actions);
        }
        if !outbox.released.is_empty() {
            self.core.step(now, ConsumerEvent::Released(outbox.released), &mut self.core_actions);
        }
        for drained in outbox.drained {
            self.lanes.remove(&drained.handle);
            self.pending_dead_letters.retain(|(lane, _), _| *lane != drained.lane);
            self.core.step(now, ConsumerEvent::Drained(drained.handle, drained.commit), &mut self.core_actions);
        }
        self.wanted_transactions.extend(outbox.trials.into_iter().map(WantedTransaction::Trial));
        let demand = self.dispatch.take_commit_demand(self.client);
        if demand != TransactionDemand::Nothing {
            let at_once = demand == TransactionDemand::AtOnce;
            self.core.step(now, ConsumerEvent::CommitDue { at_once }, &mut self.core_actions);
        }
    }
}

impl Process {
    /// Steps the consumer's network thread.
    pub(super) fn step_consumer(&mut self, context: &mut Context<'_>, event: ConsumerEvent) {
        let now = context.now;
        let Some(consumer) = self.consumer.as_mut().filter(|consumer| !consumer.is_finished) else { return };
        consumer.drain_outbox(now);
        consumer.core.step(now, event, &mut consumer.core_actions);
        consumer.perform(&self.name, context);
        while !consumer.is_finished && consumer.dispatch.take_pending_wake(consumer.client) {
            consumer.drain_outbox(now);
            consumer.core.step(now, ConsumerEvent::Tick, &mut consumer.core_actions);
            consumer.perform(&self.name, context);
        }
        consumer.update_deadline(context);
    }

    /// Wakes the network thread if the dispatcher asks for it.
    pub(super) fn wake_consumer(&mut self, context: &mut Context<'_>) -> bool {
        let Some(consumer) = self.consumer.as_mut().filter(|consumer| !consumer.is_finished) else { return false };
        let is_woken = consumer.dispatch.take_pending_wake(consumer.client);
        if is_woken {
            self.step_consumer(context, ConsumerEvent::Tick);
        }
        is_woken
    }
}

impl ConsumerSide {
    fn perform(&mut self, name: &str, context: &mut Context<'_>) {
        let now = context.now;
        while !self.core_actions.is_empty() {
            for action in std::mem::take(&mut self.core_actions) {
                match action {
                    ConsumerAction::Transport(action) => {
                        context.effects.push(Effect::Transport(Role::Consumer, action));
                    }
                    ConsumerAction::CollectOffsets => {
                        let offsets = self.dispatch.take_committables(self.client, false);
                        self.core.step(now, ConsumerEvent::Commit { offsets, id: 0 }, &mut self.core_actions);
                    }
                    ConsumerAction::LogEvent(event) => context.story.tell(name, || format!("{event:?}")),
                    ConsumerAction::PartitionFailed { slot, error, since, .. } => {
                        context.story.tell(name, || error.to_string());
                        if let Some(id) = self.lanes.get(&slot) {
                            let failure =
                                LaneFailure { reason: error.reason(), error: error.to_string().into(), since };
                            self.dispatch.set_failure(*id, Some(failure));
                        }
                    }
                    ConsumerAction::PartitionRecovered { slot, .. } => {
                        if let Some(id) = self.lanes.get(&slot) {
                            self.dispatch.set_failure(*id, None);
                        }
                    }
                    ConsumerAction::Fatal(error) => {
                        context.oracle.violate(|| format!("the consumer of {name} gives up: {error:?}"));
                    }
                    ConsumerAction::Finished => self.is_finished = true,
                    ConsumerAction::CommitTransaction { number, member, offsets } => {
                        let wanted = WantedTransaction::Commit { number, member, offsets };
                        self.wanted_transactions.push_back(wanted);
                    }
                    ConsumerAction::Reply(..) => {}
                    action => self.apply_lane_action(name, context, action),
                }
            }
        }
    }

    fn apply_lane_action(&mut self, name: &str, context: &mut Context<'_>, action: ConsumerAction) {
        let now = context.now;
        let lane = |slot: &PartitionHandle| self.lanes.get(slot).copied();
        match action {
            ConsumerAction::AddPartition { slot, tp, assignment_epoch } => {
                context.story.tell(name, || format!("is assigned {tp}"));
                let policy = Arc::clone(&self.policy);
                let spec = LaneSpec { client: self.client, handle: slot, tp, assignment_epoch, policy };
                self.lanes.insert(slot, self.dispatch.add_lane(spec));
            }
            ConsumerAction::Push(chunk) => match lane(&chunk.slot) {
                Some(id) => drop(self.dispatch.push(now, id, chunk)),
                None => self.dispatch.release(self.client, chunk.slot, chunk.bytes),
            },
            ConsumerAction::HighWatermark { slot, high_watermark, readable_end } => {
                if let Some(id) = lane(&slot) {
                    self.dispatch.set_end_offsets(id, high_watermark, readable_end);
                }
            }
            ConsumerAction::Position { slot, offset, generation, committed, recovered_marks } => {
                if let Some(id) = lane(&slot) {
                    context.story.tell(name, || format!("reads {id:?} from offset {offset}, committed: {committed}"));
                    self.dispatch.set_position(id, offset, generation, committed, recovered_marks);
                }
            }
            ConsumerAction::InvalidatePosition(slot) => {
                if let Some(id) = lane(&slot) {
                    self.dispatch.reset_recreated_topic(id);
                }
            }
            ConsumerAction::RevokePartition { slot, lost } => {
                if let Some(id) = lane(&slot) {
                    context.story.tell(name, || format!("gives up {id:?}, lost: {lost}"));
                    self.dispatch.revoke(id, lost);
                    self.void_jobs(id, lost);
                }
            }
            ConsumerAction::AbandonPartition(slot) => {
                if let Some(id) = self.lanes.remove(&slot) {
                    context.story.tell(name, || format!("abandons {id:?}"));
                    self.dispatch.abandon(id);
                    self.void_jobs(id, true);
                }
            }
            ConsumerAction::RemovePartition(slot) => {
                if let Some(id) = self.lanes.remove(&slot) {
                    self.dispatch.remove_lane(id);
                    self.void_jobs(id, true);
                }
            }
            ConsumerAction::Session(until) => {
                self.session_until = until;
                self.dispatch.set_session(self.client, until);
            }
            ConsumerAction::AwaitsAcknowledgements(awaits) => self.dispatch.set_awaiting_acks(self.client, awaits),
            ConsumerAction::AwaitingMemory(starved) => self.dispatch.set_awaiting_memory(self.client, starved),
            ConsumerAction::CommitFailed(tps) => {
                context.story.tell(name, || format!("the commit of {tps:?} failed"));
                self.dispatch.on_commit_failed(self.client, &tps);
            }
            _ => {}
        }
    }

    fn void_jobs(&mut self, lane: LaneId, is_void: bool) {
        let jobs = self.jobs.values_mut().filter(|job| job.lane == lane);
        jobs.for_each(|job| job.is_void |= is_void);
    }

    /// Runs due timers and computes the next deadline of the network thread.
    fn update_deadline(&mut self, context: &Context<'_>) {
        let now = context.now;
        self.dispatch.set_wall_clock_offset(context.epoch_ms);
        self.dispatch.advance(now);
        let _ = self.dispatch.take_stalled_jobs(now, self.client);
        // The network thread keeps the timers that no worker keeps.
        let timers = self.dispatch.next_deadline().filter(|_| self.idle_workers() == 0);
        let stalls = self.dispatch.next_stall_check(self.client);
        self.wake = earliest(self.core.deadline(), earliest(timers, stalls));
    }

    /// Returns whether a worker should run: a job is ready, or a timer is due.
    pub(super) fn has_work(&self, now: Nanos) -> bool {
        self.dispatch.has_ready(Pool::Threads) || self.dispatch.next_deadline().is_some_and(|due| due <= now)
    }
}
