//! Network thread of the producer, the calls that produce, and the jobs that wait for produced records.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grete_proto::connection::CloseReason;
use grete_proto::ids::ConnId;
use grete_proto::producer::{
    Accumulator, AppendAction, AppendError, BatchPromise, ProducerAction, ProducerCore, ProducerCoreConfig,
    ProducerEvent, SharedAccumulator, TopicId,
};
use grete_proto::rng::Rng;
use grete_proto::time::{MILLI, Nanos};
use grete_wire::Frame;
use grete_wire::records::ProducerRecord;

use super::{Context, Effect, Process, ProcessEvent, Role};
use crate::oracle::input_value;
use crate::plan::INPUT;

/// Wait of a thread for memory or metadata before it tries again.
pub(super) const BLOCKED: Nanos = 20 * MILLI;

#[derive(Debug)]
pub(super) struct ProducerSide {
    core: ProducerCore,
    accumulator: SharedAccumulator,
    topics: HashMap<String, TopicId>,
    /// Time at which the network thread wakes up by itself.
    wake: Option<Nanos>,
    pub(super) is_finished: bool,
    /// Batches that jobs and marks wait for, by the address of the promise.
    watched: HashMap<usize, Arc<BatchPromise>>,
    /// Number of the last record.
    pub(super) sequence: u64,
}

/// Record that was appended.
#[derive(Debug, Clone)]
pub(super) struct Appended {
    pub(super) promise: Arc<BatchPromise>,
    pub(super) index: u32,
}

pub(super) fn connected(conn: ConnId) -> ProducerEvent {
    ProducerEvent::Connected(conn)
}

pub(super) fn frame(conn: ConnId, frame: Frame) -> ProducerEvent {
    ProducerEvent::Frame(conn, frame)
}

pub(super) fn closed(conn: ConnId, reason: CloseReason) -> ProducerEvent {
    ProducerEvent::Closed(conn, reason)
}

pub(super) fn tick() -> ProducerEvent {
    ProducerEvent::Tick
}

impl ProducerSide {
    pub(super) fn new(config: ProducerCoreConfig, now: Nanos, rng: &mut Rng) -> Self {
        let accumulator = Arc::new(Mutex::new(Accumulator::new(&config.produce, rng.split())));
        Self {
            core: ProducerCore::new(config, Arc::clone(&accumulator), rng.split()),
            accumulator,
            topics: HashMap::new(),
            wake: Some(now),
            is_finished: false,
            watched: HashMap::new(),
            sequence: 0,
        }
    }

    pub(super) fn wakes_at(&self) -> Option<Nanos> {
        self.wake.filter(|_| !self.is_finished)
    }

    fn accumulator(&self) -> MutexGuard<'_, Accumulator> {
        self.accumulator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to a batch. Returns false if the batch is complete already.
    fn watch(&mut self, promise: &Arc<BatchPromise>) -> bool {
        let key = Arc::as_ptr(promise) as usize;
        let is_open = promise.watch();
        if is_open {
            self.watched.insert(key, Arc::clone(promise));
        }
        is_open
    }
}

impl Process {
    /// Steps the producer's network thread, and reports completed batches to the dispatcher.
    pub(super) fn step_producer(&mut self, context: &mut Context<'_>, event: ProducerEvent) {
        let now = context.now;
        let producer = &mut self.producer;
        if producer.is_finished {
            return;
        }
        let (mut actions, mut completed) = (Vec::new(), Vec::new());
        producer.core.step(now, event, &mut actions);
        producer.wake = producer.core.deadline();
        for action in actions {
            match action {
                ProducerAction::Transport(action) => context.effects.push(Effect::Transport(Role::Producer, action)),
                ProducerAction::Completed(promise) => {
                    let key = Arc::as_ptr(&promise) as usize;
                    if producer.watched.contains_key(&key) {
                        if promise.is_complete() {
                            producer.watched.remove(&key);
                        }
                        completed.push(promise);
                    }
                }
                ProducerAction::LogEvent(event) => context.story.tell(&self.name, || format!("{event:?}")),
                ProducerAction::Fatal(error) => {
                    let name = &self.name;
                    context.oracle.violate(|| format!("the producer of {name} gives up: {error}"));
                }
                ProducerAction::Finished => producer.is_finished = true,
                // Exactly-once jobs have a producer of their own.
                ProducerAction::TransactionDone(..)
                | ProducerAction::StagedCommitDone(..)
                | ProducerAction::MemoryAvailable
                | ProducerAction::FlushCompleted
                | ProducerAction::MetadataAvailable => {}
            }
        }
        if completed.is_empty() {
            return;
        }
        if let Some(consumer) = &mut self.consumer {
            completed.iter().for_each(|promise| consumer.dispatch.on_batch_settled(now, promise));
        }
        self.flush_outputs(context);
    }

    /// Subscribes to the batches that jobs have begun to wait for, and sends these batches.
    pub(super) fn flush_outputs(&mut self, context: &mut Context<'_>) {
        let mut send = Vec::new();
        loop {
            let Some(consumer) = &mut self.consumer else { return };
            let actions = consumer.dispatch.take_delivery_actions();
            if actions.is_empty() {
                break;
            }
            send.extend(actions.flush);
            for promise in actions.watch {
                if !self.producer.watch(&promise) {
                    consumer.dispatch.on_batch_settled(context.now, &promise);
                }
            }
        }
        self.send_now(context, &send);
    }

    /// Sends batches without linger.
    pub(super) fn send_now(&mut self, context: &mut Context<'_>, promises: &[Arc<BatchPromise>]) {
        let mut accumulator = self.producer.accumulator();
        let mut drain = false;
        for promise in promises {
            drain |= accumulator.end_linger(promise);
        }
        drop(accumulator);
        if drain {
            self.step_producer(context, ProducerEvent::Drain);
        }
    }

    /// Appends a record. `None`: the thread is blocked, and tries again after [`BLOCKED`].
    ///
    /// # Errors
    /// The producer refuses the record.
    pub(super) fn append(
        &mut self,
        context: &mut Context<'_>,
        topic: &str,
        partition: i32,
        key: Option<u8>,
        value: &[u8],
    ) -> Result<Option<Appended>, AppendError> {
        let producer = &mut self.producer;
        let id = match producer.topics.get(topic) {
            Some(id) => *id,
            None => {
                let id = producer.accumulator().topic(topic);
                producer.topics.insert(topic.to_owned(), id);
                id
            }
        };
        let key = key.map(|key| format!("key-{key}"));
        let key = key.as_ref().map(String::as_bytes);
        let record = ProducerRecord { timestamp: context.wall_ms(), key, value: Some(value), headers: &[] };
        let mut accumulator = producer.accumulator();
        let appended = accumulator.append(context.now, id, Some(partition), &record);
        let appended =
            appended.map(|new| (Appended { promise: Arc::clone(new.promise), index: new.index }, new.action));
        drop(accumulator);
        match appended {
            Ok((appended, action)) => {
                match action {
                    AppendAction::Nothing => {}
                    AppendAction::Rearm => self.step_producer(context, ProducerEvent::Tick),
                    AppendAction::Drain => self.step_producer(context, ProducerEvent::Drain),
                }
                Ok(Some(appended))
            }
            Err(AppendError::NoMetadata | AppendError::BufferFull) => {
                self.step_producer(context, ProducerEvent::Drain);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn close_producer(&mut self, context: &mut Context<'_>, deadline: Nanos) {
        self.step_producer(context, ProducerEvent::Close { deadline });
    }

    /// Produces a record of the input topic. Records are produced in order: a blocked one blocks the later ones.
    pub(super) fn produce_input(&mut self, context: &mut Context<'_>, id: u64) {
        let Some(record) = context.oracle.record(id).cloned() else { return };
        let later = context.plan.records.iter().find(|other| other.id > id).map(|other| (other.id, other.at));
        match self.append(context, INPUT, record.partition, record.key, &input_value(id)) {
            Ok(Some(_)) => {
                if let Some((next, at)) = later {
                    context.later(at.saturating_sub(context.now), ProcessEvent::Produce(next));
                }
            }
            Ok(None) => context.later(BLOCKED, ProcessEvent::Produce(id)),
            Err(error) => context.oracle.violate(|| format!("the source cannot produce: {error}")),
        }
    }
}
