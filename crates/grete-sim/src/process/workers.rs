//! Workers: they take jobs while there are any, and complete them.

use grete_proto::dispatch::{Decision, Failure, FailureKind, FinishResult, JobKind, JobOutcome, Pool};
use grete_proto::time::MILLI;

use super::job::RunningJob;
use super::{Context, Process, ProcessEvent};
use crate::plan::Nature;

impl Process {
    /// Runs idle workers until no job is ready, and the network thread when it is woken.
    pub(super) fn pump(&mut self, context: &mut Context<'_>) {
        loop {
            let mut has_moved = self.wake_consumer(context) | self.begin_transactions(context);
            while self.consumer.as_ref().is_some_and(|consumer| consumer.idle_workers() > 0) {
                if !self.take_failed_job(context) && !self.take_job(context) {
                    break;
                }
                has_moved = true;
            }
            if !has_moved {
                return;
            }
        }
    }

    /// Completes a job that has failed after its handler returned. Returns whether there was one.
    fn take_failed_job(&mut self, context: &mut Context<'_>) -> bool {
        let Some(consumer) = &mut self.consumer else { return false };
        let Some((id, lease)) = consumer.dispatch.take_failed_job(Pool::Threads) else { return false };
        let mut failure = consumer
            .raised
            .remove(&id)
            .unwrap_or_else(|| Failure::new(FailureKind::Retriable, "DeliveryError", "an output was not written"));
        if let Some(undelivered) = lease.shared.undelivered() {
            failure.failed_offset = undelivered.source;
        }
        let _ = consumer.dispatch.finish(context.now, id, lease, JobOutcome::Failed(failure));
        self.flush_outputs(context);
        true
    }

    /// Takes and begins a job. Returns whether there was one.
    fn take_job(&mut self, context: &mut Context<'_>) -> bool {
        let now = context.now;
        let Some(consumer) = &mut self.consumer else { return false };
        let is_awake = consumer.has_work(now);
        consumer.dispatch.set_wall_clock_offset(context.epoch_ms);
        let Some(mut lease) = consumer.dispatch.take(now, "worker", Pool::Threads) else { return false };
        if !is_awake {
            context.oracle.violate(|| format!("a worker sleeps beside a ready job of {}", lease.tp));
        }
        let prepared = lease.prepare(&mut consumer.decoder, &consumer.columns, None);
        consumer.dispatch.on_prepared(now, &lease, &prepared);
        if let Some(outcome) = prepared.outcome {
            consumer.dispatch.complete(now, lease, outcome);
            return true;
        }
        let mut job = RunningJob::new(lease, |id| context.oracle.record(id).cloned());
        if job.kind == JobKind::Consume {
            job.failing = failing_row(&job, context);
        }
        consumer.last_job += 1;
        let id = consumer.last_job;
        context.story.tell(&self.name, || {
            let rows = job.rows.iter().map(|row| row.offset);
            let (kind, tp, attempt) = (job.kind, &job.tp, job.lease.attempt);
            format!("job {id}: {kind:?} {tp} attempt {attempt} {:?}", rows.collect::<Vec<_>>())
        });
        consumer.jobs.insert(id, job);
        context.later(self.rng.below(2) * MILLI, ProcessEvent::Step(id));
        true
    }

    /// Ends a job whose handler has returned or raised.
    pub(super) fn end_job(&mut self, context: &mut Context<'_>, id: u64, outcome: JobOutcome) {
        let now = context.now;
        let Some(consumer) = &mut self.consumer else { return };
        let Some(job) = consumer.jobs.remove(&id) else { return };
        context.story.tell(&self.name, || match &outcome {
            JobOutcome::Failed(failure) => {
                format!("job {id} fails at {:?}: {}", failure.failed_offset, failure.message)
            }
            _ => format!("job {id} ends"),
        });
        let mut lease = job.lease;
        if let JobOutcome::Failed(failure) = &outcome {
            match consumer.dispatch.suspend_raised(now, id, lease) {
                Ok(()) => {
                    consumer.raised.insert(id, failure.clone());
                    return self.flush_outputs(context);
                }
                Err(back) => lease = back,
            }
        }
        let finished = consumer.dispatch.finish(now, id, lease, outcome);
        if let FinishResult::Completed(_, Some(decision)) = finished {
            context.story.tell(&self.name, || format!("job {id}: {decision:?}"));
            if decision == Decision::Halt && !job.is_void && !consumer.dispatch.is_stopping() {
                // The lane is leaving, so its next owner processes the records.
                context.story.tell(&self.name, || format!("job {id} leaves its records to the next owner"));
            }
        }
        self.flush_outputs(context);
    }
}

/// Returns the row at which the handler raises this time.
fn failing_row(job: &RunningJob, context: &mut Context<'_>) -> Option<usize> {
    for (index, row) in job.rows.iter().enumerate() {
        let Some(record) = &row.record else { continue };
        match record.nature {
            Nature::Good => {}
            Nature::Poison => return Some(index),
            Nature::Flaky(times) => {
                let failures = context.failures.entry(record.id).or_default();
                if *failures < times {
                    *failures += 1;
                    return Some(index);
                }
            }
        }
    }
    None
}
