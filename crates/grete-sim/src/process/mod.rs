//! Process of the App, or the producer of the input records: what `grete-client` and Python do around the cores.
//!
//! A process reacts to one event at a time. The network threads sleep until they are woken or their deadline passes, as
//! the real ones do, so a lost wake-up shows as a stall.

mod config;
mod consumer;
mod handler;
mod job;
mod producer;
mod shutdown;
mod transactions;
mod workers;

use std::collections::BTreeMap;

use grete_proto::connection::CloseReason;
use grete_proto::ids::ConnId;
use grete_proto::rng::Rng;
use grete_proto::time::{Nanos, earliest};
use grete_proto::transport::TransportAction;
use grete_wire::Frame;

use self::consumer::ConsumerSide;
use self::producer::ProducerSide;
use self::shutdown::Stage;
use self::transactions::TransactionSide;
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::story::Story;

/// Owner of a connection in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Consumer,
    Producer,
    /// Producer of transactions, with its number in the process.
    Transactions(u32),
}

/// Event of a process.
#[derive(Debug)]
pub(crate) enum ProcessEvent {
    Connected(Role, ConnId),
    Frame(Role, ConnId, Frame),
    Closed(Role, ConnId, CloseReason),
    /// A deadline has passed.
    Timer,
    /// The handler of a job goes on.
    Step(u64),
    /// The source produces this record.
    Produce(u64),
    /// SIGTERM.
    Stop,
}

/// Effect of a process on the world.
#[derive(Debug)]
pub(crate) enum Effect {
    Transport(Role, TransportAction),
    Later(Nanos, ProcessEvent),
}

/// World as a process sees it.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: Nanos,
    /// Wall clock at virtual time 0, in milliseconds since 1970.
    pub(crate) epoch_ms: i64,
    pub(crate) plan: &'a Plan,
    pub(crate) oracle: &'a mut Oracle,
    pub(crate) story: &'a mut Story,
    pub(crate) failures: &'a mut BTreeMap<u64, u32>,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Context<'_> {
    pub(crate) fn wall_ms(&self) -> i64 {
        self.epoch_ms + i64::try_from(self.now / grete_proto::time::MILLI).unwrap_or(i64::MAX)
    }

    fn later(&mut self, wait: Nanos, event: ProcessEvent) {
        self.effects.push(Effect::Later(self.now + wait, event));
    }
}

#[derive(Debug)]
pub(crate) struct Process {
    /// Name in the story and in `client.id`.
    pub(crate) name: String,
    /// Name of this session of the producer, in the records that it writes.
    pub(crate) writer: String,
    /// `None`: the process only produces.
    pub(crate) consumer: Option<ConsumerSide>,
    producer: ProducerSide,
    /// `None`: jobs are at least once.
    transactions: Option<TransactionSide>,
    stage: Stage,
    rng: Rng,
}

impl Process {
    /// Creates a process of the App. `incarnation`: number of its start, from 1.
    pub(crate) fn app(plan: &Plan, id: usize, incarnation: u32, now: Nanos) -> Self {
        let seed = plan.seed ^ ((id as u64) << 32) ^ (u64::from(incarnation) << 48);
        let mut rng = Rng::new(seed);
        let name = format!("app-{id}");
        let producer = ProducerSide::new(config::producer(plan, &name), now, &mut rng);
        let consumer = Some(ConsumerSide::new(plan, config::consumer(plan, &name), now, &mut rng));
        let transactions = plan.app.exactly_once.as_ref();
        let transactions =
            transactions.map(|own| TransactionSide::new(config::transactions(plan, own, &name), now, &mut rng));
        let writer = format!("{name}.{incarnation}");
        Self { writer, name, consumer, producer, transactions, stage: Stage::Running, rng }
    }

    /// Creates the producer of the input records.
    pub(crate) fn source(plan: &Plan, now: Nanos) -> Self {
        let mut rng = Rng::new(plan.seed ^ 0x50_0c3e);
        let producer = ProducerSide::new(config::source(plan), now, &mut rng);
        let name = "source".to_owned();
        let writer = format!("{name}.1");
        Self { writer, name, consumer: None, producer, transactions: None, stage: Stage::Running, rng }
    }

    /// Returns when the process acts without an event; `None`: never.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        let consumer = self.consumer.as_ref().and_then(ConsumerSide::deadline);
        let transactions = self.transactions.as_ref().and_then(TransactionSide::wakes_at);
        earliest(earliest(consumer, self.producer.wakes_at()), transactions)
    }

    /// Returns whether the process has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Handles an event and everything that follows at once.
    pub(crate) fn step(&mut self, context: &mut Context<'_>, event: ProcessEvent) {
        match event {
            ProcessEvent::Connected(Role::Consumer, conn) => self.step_consumer(context, consumer::connected(conn)),
            ProcessEvent::Frame(Role::Consumer, conn, frame) => {
                self.step_consumer(context, consumer::frame(conn, frame));
            }
            ProcessEvent::Closed(Role::Consumer, conn, reason) => {
                self.step_consumer(context, consumer::closed(conn, reason));
            }
            ProcessEvent::Connected(Role::Producer, conn) => self.step_producer(context, producer::connected(conn)),
            ProcessEvent::Frame(Role::Producer, conn, frame) => {
                self.step_producer(context, producer::frame(conn, frame));
            }
            ProcessEvent::Closed(Role::Producer, conn, reason) => {
                self.step_producer(context, producer::closed(conn, reason));
            }
            ProcessEvent::Connected(Role::Transactions(generation), conn) => {
                self.step_transactions(context, generation, producer::connected(conn));
            }
            ProcessEvent::Frame(Role::Transactions(generation), conn, frame) => {
                self.step_transactions(context, generation, producer::frame(conn, frame));
            }
            ProcessEvent::Closed(Role::Transactions(generation), conn, reason) => {
                self.step_transactions(context, generation, producer::closed(conn, reason));
            }
            ProcessEvent::Timer => {
                if self.consumer.as_ref().is_some_and(|consumer| consumer.is_due(context.now)) {
                    self.step_consumer(context, consumer::tick());
                }
                if self.producer.wakes_at().is_some_and(|at| at <= context.now) {
                    self.step_producer(context, producer::tick());
                }
                let due = self.transactions.as_ref().filter(|side| side.wakes_at().is_some_and(|at| at <= context.now));
                if let Some(generation) = due.map(|side| side.generation) {
                    self.step_transactions(context, generation, producer::tick());
                }
            }
            ProcessEvent::Step(job) => self.step_job(context, job),
            ProcessEvent::Produce(id) => self.produce_input(context, id),
            ProcessEvent::Stop => self.begin_stop(context),
        }
        self.pump(context);
        self.advance_shutdown(context);
    }
}
