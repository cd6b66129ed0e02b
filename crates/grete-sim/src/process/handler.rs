//! Handlers: each event of a job works on one row, produces its outputs and reports progress.

use std::sync::Arc;

use grete_proto::dispatch::{Failure, FailureKind, JobKind, JobOutcome, StageError};
use grete_proto::producer::{Outcome, StagedRecord};
use grete_proto::time::{MILLI, Nanos, SECOND};

use grete_wire::records::ProducerRecord;

use super::job::{DeadLetter, RunningJob};
use super::producer::BLOCKED;
use super::{Context, Process, ProcessEvent};
use crate::oracle::{Origin, output_value};
use crate::plan::{DEAD_LETTERS, HandlerStyle, OUTPUT};

/// Time that a worker waits for the acknowledgement of a dead letter: a third of the request timeout, as in an App.
const PATIENCE: Nanos = 1300 * MILLI;

impl Process {
    /// Continues a job.
    pub(super) fn step_job(&mut self, context: &mut Context<'_>, id: u64) {
        let Some(job) = self.consumer.as_mut().and_then(|consumer| consumer.jobs.get_mut(&id)) else { return };
        match job.kind {
            JobKind::Consume => self.step_handler(context, id),
            JobKind::DeadLetter => self.step_dead_letter(context, id),
            _ => self.end_job(context, id, JobOutcome::Done),
        }
    }

    fn job_mut(&mut self, id: u64) -> Option<&mut RunningJob> {
        self.consumer.as_mut()?.jobs.get_mut(&id)
    }

    fn step_handler(&mut self, context: &mut Context<'_>, id: u64) {
        let style = context.plan.app.style;
        let Some(job) = self.job_mut(id) else { return };
        let Some(row) = job.rows.get(job.next).cloned() else { return self.end_job(context, id, JobOutcome::Done) };
        let Some(record) = row.record else {
            return context.oracle.violate(|| format!("a handler gets an unknown record at offset {}", row.offset));
        };
        if !job.has_worked {
            if style == HandlerStyle::Each && job.shared.should_yield() {
                return self.end_job(context, id, JobOutcome::Done);
            }
            job.has_worked = true;
            return context.later(record.takes, ProcessEvent::Step(id));
        }
        if job.failing == Some(job.next) {
            let mut failure = Failure::new(FailureKind::Retriable, "ValueError", "the record is bad");
            failure.failed_offset = (style != HandlerStyle::Columns).then_some(row.offset);
            failure.at_ms = context.wall_ms();
            return self.end_job(context, id, JobOutcome::Failed(failure));
        }
        let (partition, offset) = (job.tp.partition, row.offset);
        let shared = Arc::clone(&job.shared);
        if job.produced < record.outputs {
            let origin = Origin { partition, offset, number: job.produced };
            let target = i32::from(record.key.unwrap_or_default()) % context.plan.cluster.outputs;
            let value = output_value(origin, &self.writer, self.producer.sequence);
            if context.plan.app.exactly_once.is_some() {
                return self.stage_output(context, id, &shared, target, record.key, &value);
            }
            match self.append(context, OUTPUT, target, record.key, &value) {
                Ok(Some(appended)) => {
                    self.producer.sequence += 1;
                    let source = (style != HandlerStyle::Columns).then_some(offset);
                    shared.on_produced(&appended.promise, appended.index, 1, source);
                    if let Some(job) = self.job_mut(id) {
                        job.produced += 1;
                    }
                    return context.later(0, ProcessEvent::Step(id));
                }
                Ok(None) => return context.later(BLOCKED, ProcessEvent::Step(id)),
                Err(error) => {
                    // The producer is closed: the process is about to end.
                    let failure = Failure::new(FailureKind::RetryLater(SECOND), "ProducerError", &error.to_string());
                    return self.end_job(context, id, JobOutcome::Failed(failure));
                }
            }
        }
        job.next += 1;
        job.produced = 0;
        job.has_worked = false;
        let (done, lane) = (job.next, job.lane);
        context.oracle.on_handled(partition, offset);
        match style {
            HandlerStyle::Each => shared.set_completed_rows(done),
            HandlerStyle::Marks => self.mark(context, lane, &shared, offset),
            HandlerStyle::Rows | HandlerStyle::Columns => {}
        }
        context.later(0, ProcessEvent::Step(id));
    }

    /// Stages an output of an exactly-once job.
    fn stage_output(
        &mut self,
        context: &mut Context<'_>,
        id: u64,
        shared: &Arc<grete_proto::dispatch::JobState>,
        target: i32,
        key: Option<u8>,
        value: &[u8],
    ) {
        if let Err(error) = stage(context, shared, OUTPUT, target, key, value) {
            let failure = Failure::new(FailureKind::RetryLater(SECOND), "BufferFullError", &format!("{error:?}"));
            return self.end_job(context, id, JobOutcome::Failed(failure));
        }
        self.producer.sequence += 1;
        if let Some(job) = self.job_mut(id) {
            job.produced += 1;
        }
        context.later(0, ProcessEvent::Step(id));
    }

    /// Marks a record, as a handler does.
    fn mark(
        &mut self,
        context: &mut Context<'_>,
        lane: grete_proto::dispatch::LaneId,
        shared: &Arc<grete_proto::dispatch::JobState>,
        offset: i64,
    ) {
        // A refused mark does not count: the record comes again.
        let _ = shared.mark(offset, offset);
        let Some(consumer) = &mut self.consumer else { return };
        if shared.take_resumed() {
            consumer.dispatch.on_marks_resumed(lane);
        }
        if shared.pending_outputs() > 0 {
            consumer.dispatch.watch_held_marks(lane, shared);
            self.flush_outputs(context);
        }
    }

    /// Writes a dead letter and waits for the acknowledgement, for a while. A later attempt waits for the same
    /// record.
    fn step_dead_letter(&mut self, context: &mut Context<'_>, id: u64) {
        let now = context.now;
        let Some(job) = self.job_mut(id) else { return };
        let Some(row) = job.rows.first().cloned() else { return self.end_job(context, id, JobOutcome::Done) };
        let (lane, partition) = (job.lane, job.tp.partition);
        if context.plan.app.exactly_once.is_some() {
            let shared = Arc::clone(&job.shared);
            let origin = Origin { partition, offset: row.offset, number: 0 };
            let value = output_value(origin, &self.writer, self.producer.sequence);
            self.producer.sequence += 1;
            return match stage(context, &shared, DEAD_LETTERS, 0, None, &value) {
                Ok(()) => self.end_job(context, id, JobOutcome::Done),
                Err(error) => self.fail_dead_letter(context, id, &format!("{error:?}")),
            };
        }
        let Some(letter) = job.dead_letter.clone() else {
            let pending = self.consumer.as_mut().and_then(|side| side.pending_dead_letters.remove(&(lane, row.offset)));
            let appended = match pending {
                Some(letter) => letter.appended,
                None => {
                    let origin = Origin { partition, offset: row.offset, number: 0 };
                    let value = output_value(origin, &self.writer, self.producer.sequence);
                    match self.append(context, DEAD_LETTERS, 0, None, &value) {
                        Ok(Some(appended)) => {
                            self.producer.sequence += 1;
                            appended
                        }
                        Ok(None) => return context.later(BLOCKED, ProcessEvent::Step(id)),
                        Err(error) => return self.fail_dead_letter(context, id, &error.to_string()),
                    }
                }
            };
            self.send_now(context, &[Arc::clone(&appended.promise)]);
            if let Some(job) = self.job_mut(id) {
                job.dead_letter = Some(DeadLetter { appended, until: now + PATIENCE });
            }
            return context.later(MILLI, ProcessEvent::Step(id));
        };
        match letter.appended.promise.result(letter.appended.index).map(|result| result.outcome) {
            Some(Outcome::Written) => self.end_job(context, id, JobOutcome::Done),
            Some(outcome) => self.fail_dead_letter(context, id, &format!("{outcome:?}")),
            None if now >= letter.until => {
                if let Some(consumer) = &mut self.consumer {
                    consumer.pending_dead_letters.insert((lane, row.offset), letter);
                }
                self.fail_dead_letter(context, id, "no acknowledgement in time");
            }
            None => context.later(BLOCKED, ProcessEvent::Step(id)),
        }
    }

    fn fail_dead_letter(&mut self, context: &mut Context<'_>, id: u64, message: &str) {
        let mut failure = Failure::new(FailureKind::Retriable, "DeadLetterError", message);
        failure.at_ms = context.wall_ms();
        self.end_job(context, id, JobOutcome::Failed(failure));
    }
}

/// Stages a record in an exactly-once job.
fn stage(
    context: &Context<'_>,
    shared: &grete_proto::dispatch::JobState,
    topic: &str,
    partition: i32,
    key: Option<u8>,
    value: &[u8],
) -> Result<(), StageError> {
    let key = key.map(|key| format!("key-{key}"));
    let key = key.as_ref().map(String::as_bytes);
    let record = ProducerRecord { timestamp: context.wall_ms(), key, value: Some(value), headers: &[] };
    let topic = topic.into();
    let staged =
        StagedRecord { topic: &topic, partition: Some(partition), record: &record, encoded: value.len() + 100 };
    shared.stage(&staged, false).map(drop)
}
