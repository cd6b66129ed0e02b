//! Shutdown of a process: its jobs end, its outputs are delivered, its offsets are committed, its group is left,
//! its transaction is aborted.

use grete_proto::consumer::ConsumerEvent;
use grete_proto::time::{Nanos, SECOND};

use super::{Context, Process};

/// Time for handlers to end, and for outputs to be delivered.
const GRACE: Nanos = 10 * SECOND;

/// Time for the end of the transaction that is left open.
const TRANSACTIONS_GRACE: Nanos = SECOND;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Running,
    /// Handlers end, until then.
    Stopping {
        until: Nanos,
    },
    /// The producer delivers what is left.
    Delivering,
    /// The consumer commits and leaves the group.
    Leaving,
    /// The producer of transactions ends what is left open.
    EndingTransactions,
    Ended,
}

impl Process {
    /// Begins the shutdown.
    pub(super) fn begin_stop(&mut self, context: &mut Context<'_>) {
        if self.stage != Stage::Running {
            return;
        }
        context.story.tell(&self.name, || "begins to stop".to_owned());
        let until = context.now + GRACE;
        self.stage = Stage::Stopping { until };
        if let Some(consumer) = &mut self.consumer {
            consumer.dispatch.stop();
        }
        context.later(GRACE, super::ProcessEvent::Timer);
    }

    /// Continues the shutdown when a stage is over.
    pub(super) fn advance_shutdown(&mut self, context: &mut Context<'_>) {
        if let Stage::Stopping { until } = self.stage
            && (context.now >= until || self.consumer.as_ref().is_none_or(|consumer| consumer.dispatch.is_stopped()))
        {
            self.stage = Stage::Delivering;
            self.close_producer(context, context.now + GRACE);
        }
        if self.stage == Stage::Delivering && self.producer.is_finished {
            self.stage = Stage::Leaving;
            if let Some(consumer) = &mut self.consumer {
                consumer.dispatch.on_producer_closed(context.now);
                let offsets = Some(consumer.dispatch.take_committables(consumer.client, false));
                let deadline = context.now + GRACE;
                let close = ConsumerEvent::Close { offsets, deadline, remain_in_group: true };
                self.step_consumer(context, close);
            }
        }
        if self.stage == Stage::Leaving && self.consumer.as_ref().is_none_or(|consumer| consumer.is_finished) {
            self.stage = Stage::EndingTransactions;
            self.close_transactions(context, context.now + TRANSACTIONS_GRACE);
        }
        if self.stage == Stage::EndingTransactions && self.has_ended_transactions() {
            self.stage = Stage::Ended;
            context.story.tell(&self.name, || "has stopped".to_owned());
        }
    }
}
