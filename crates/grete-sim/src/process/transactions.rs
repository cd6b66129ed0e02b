//! Network thread of the producer of transactions: what exactly-once jobs have staged, and the offsets.

use std::sync::{Arc, Mutex};

use grete_proto::consumer::ConsumerEvent;
use grete_proto::dispatch::TrialRequest;
use grete_proto::group::CommitOffset;
use grete_proto::producer::{
    Accumulator, GroupMetadata, ProducerAction, ProducerCore, ProducerCoreConfig, ProducerEvent, StagedCommit,
    StagedCommitResult, TransactionOffset,
};
use grete_proto::rng::Rng;
use grete_proto::time::Nanos;

use super::shutdown::Stage;
use super::{Context, Effect, Process, Role};

/// Transaction that the group's state machine asks for, or trial that a job waits for.
#[derive(Debug)]
pub(super) enum WantedTransaction {
    Commit { number: u32, member: Arc<GroupMetadata>, offsets: Vec<CommitOffset> },
    Trial(TrialRequest),
}

/// Transaction in flight.
#[derive(Debug, Clone, Copy)]
enum InFlight {
    Commit(u32),
    Trial(u64),
}

#[derive(Debug)]
pub(super) struct TransactionSide {
    config: ProducerCoreConfig,
    core: ProducerCore,
    /// Number of the producer in this process: the connections of those before are not its own.
    pub(super) generation: u32,
    wake: Option<Nanos>,
    in_flight: Option<InFlight>,
    is_finished: bool,
}

impl TransactionSide {
    pub(super) fn new(config: ProducerCoreConfig, now: Nanos, rng: &mut Rng) -> Self {
        let core = new_core(&config, rng);
        Self { config, core, generation: 0, wake: Some(now), in_flight: None, is_finished: false }
    }

    pub(super) fn wakes_at(&self) -> Option<Nanos> {
        self.wake.filter(|_| !self.is_finished)
    }
}

fn new_core(config: &ProducerCoreConfig, rng: &mut Rng) -> ProducerCore {
    let accumulator = Arc::new(Mutex::new(Accumulator::new(&config.produce, rng.split())));
    ProducerCore::new(config.clone(), accumulator, rng.split())
}

impl Process {
    /// Steps the producer of transactions. `generation`: of the producer that the event is for.
    pub(super) fn step_transactions(&mut self, context: &mut Context<'_>, generation: u32, event: ProducerEvent) {
        let Some(side) = self.transactions.as_mut().filter(|side| side.generation == generation) else { return };
        let mut actions = Vec::new();
        side.core.step(context.now, event, &mut actions);
        side.wake = side.core.deadline();
        let mut done = Vec::new();
        for action in actions {
            match action {
                ProducerAction::Transport(action) => {
                    context.effects.push(Effect::Transport(Role::Transactions(generation), action));
                }
                ProducerAction::LogEvent(event) => context.story.tell(&self.name, || format!("{event:?}")),
                ProducerAction::StagedCommitDone(_, result) => done.push(result),
                ProducerAction::Finished => side.is_finished = true,
                ProducerAction::Fatal(error) => context.story.tell(&self.name, || format!("is fenced: {error}")),
                _ => {}
            }
        }
        if self.stage == Stage::EndingTransactions {
            return; // the consumer's thread, which takes the results, has ended
        }
        for result in done {
            match self.transactions.as_mut().and_then(|side| side.in_flight.take()) {
                Some(InFlight::Commit(number)) => self.end_transaction(context, number, &result),
                Some(InFlight::Trial(job)) => self.end_trial(context, job, &result),
                None => {}
            }
        }
    }

    /// Closes the producer. It aborts the transaction that is left open, until `deadline`.
    pub(super) fn close_transactions(&mut self, context: &mut Context<'_>, deadline: Nanos) {
        if let Some(generation) = self.transactions.as_ref().map(|side| side.generation) {
            self.step_transactions(context, generation, ProducerEvent::Close { deadline });
        }
    }

    pub(super) fn has_ended_transactions(&self) -> bool {
        self.transactions.as_ref().is_none_or(|side| side.is_finished)
    }

    /// Begins the transactions that the group's state machine has asked for.
    pub(super) fn begin_transactions(&mut self, context: &mut Context<'_>) -> bool {
        let (Some(consumer), Some(side)) = (&mut self.consumer, &mut self.transactions) else { return false };
        if side.in_flight.is_some() || self.stage == Stage::EndingTransactions {
            return false;
        }
        let (number, member, mut offsets) = match consumer.wanted_transactions.pop_front() {
            None => return false,
            Some(WantedTransaction::Commit { number, member, offsets }) => (number, member, offsets),
            Some(WantedTransaction::Trial(TrialRequest { job, outputs })) => {
                context.story.tell(&self.name, || format!("trial of job {job}"));
                side.in_flight = Some(InFlight::Trial(job));
                let group =
                    GroupMetadata { group_id: "".into(), member_id: "".into(), generation: -1, instance_id: None };
                let (group, outputs) = (Arc::new(group), vec![outputs]);
                let commit = StagedCommit { id: 0, group, offsets: Vec::new(), outputs, is_trial: true };
                let generation = side.generation;
                self.step_transactions(context, generation, ProducerEvent::CommitStaged(Box::new(commit)));
                return true;
            }
        };
        side.in_flight = Some(InFlight::Commit(number));
        let outputs = consumer.dispatch.begin_transaction(consumer.client, number, &mut offsets);
        let position = |offset: &CommitOffset| TransactionOffset {
            tp: offset.tp.clone(),
            position: offset.offset,
            leader_epoch: offset.leader_epoch,
        };
        let positions: Vec<_> = offsets.iter().map(position).collect();
        context.story.tell(&self.name, || {
            let records = outputs.iter().map(|outputs| outputs.records().len()).sum::<usize>();
            format!("transaction {number}, generation {}: {records} records, {positions:?}", member.generation)
        });
        let commit = StagedCommit { id: number, group: member, offsets: positions, outputs, is_trial: false };
        let generation = self.transactions.as_ref().map_or(0, |side| side.generation);
        self.step_transactions(context, generation, ProducerEvent::CommitStaged(Box::new(commit)));
        true
    }

    fn end_transaction(&mut self, context: &mut Context<'_>, number: u32, result: &StagedCommitResult) {
        let Some(consumer) = &mut self.consumer else { return };
        let end = consumer.dispatch.end_transaction(context.now, consumer.client, number, result);
        context.story.tell(&self.name, || format!("transaction {number}: {result:?}, discarded: {:?}", end.discarded));
        if let Some(error) = end.fatal {
            let name = &self.name;
            context.oracle.violate(|| format!("the transactions of {name} end: {error}"));
        }
        if end.needs_producer {
            self.replace_producer(context);
        }
        let event = ConsumerEvent::TransactionDone { number, result: end.result, discarded: end.discarded };
        self.step_consumer(context, event);
    }

    fn replace_producer(&mut self, context: &Context<'_>) {
        if let Some(side) = &mut self.transactions {
            side.core = new_core(&side.config, &mut self.rng);
            side.generation += 1;
            side.wake = Some(context.now);
        }
    }

    fn end_trial(&mut self, context: &mut Context<'_>, job: u64, result: &StagedCommitResult) {
        let Some(consumer) = &mut self.consumer else { return };
        context.story.tell(&self.name, || format!("trial of job {job}: {result:?}"));
        consumer.dispatch.end_trial(context.now, job, result);
        if matches!(result, StagedCommitResult::Failed(_) | StagedCommitResult::Unknown(_)) {
            self.replace_producer(context);
        }
    }
}
