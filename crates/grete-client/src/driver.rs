//! The network thread's side of a client: carries events to the sans-IO core, and the core's wishes to sockets and lanes.

use std::collections::HashMap;
use std::sync::Arc;

use grete_core::consumer::{ConsumerAction, ConsumerCore, ConsumerEvent, ConsumerReply, Standing};
use grete_core::dispatch::{ClientId, Dispatch, LaneId, LaneSpec, RoutePolicy};
use grete_core::ids::Slot;
use grete_core::time::Nanos;
use grete_net::{NetAction, NetEvent, Protocol};

use crate::command::{Commands, Question};
use crate::consumer::Route;
use crate::dispatcher::Dispatcher;
use crate::figures::{Figures, Left};
use crate::membership::Told;
use crate::remarks::{self, Remarks};
use crate::report;

impl Question for ConsumerEvent {
    type Answer = ConsumerReply;

    fn forget(id: u32) -> Self {
        Self::Forget(id)
    }
}

/// Figures that other threads read.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) figures: Left,
    pub(crate) membership: Told,
}

pub(crate) struct Driver {
    core: ConsumerCore,
    dispatcher: Dispatcher,
    client: ClientId,
    commands: Arc<Commands<ConsumerEvent>>,
    counters: Arc<Counters>,
    /// By topic.
    routes: HashMap<String, Arc<RoutePolicy>>,
    /// For topics without a route: a low-level consumer's.
    low_level: Arc<RoutePolicy>,
    hooks: bool,
    lanes: HashMap<Slot, LaneId>,
    wishes: Vec<ConsumerAction>,
    remarks: Remarks,
    /// The dispatcher's deadlines that this thread keeps: of jobs that may stall, and of lanes if no worker keeps them.
    deadline: Option<Nanos>,
    /// The shortest time after which a job of any route is told as too long.
    shortest_stall: Option<Nanos>,
    /// What was told last.
    standing: Option<Standing>,
    reconnects: u64,
    finished: bool,
}

impl Driver {
    pub(crate) fn new(
        core: ConsumerCore,
        dispatcher: Dispatcher,
        client: ClientId,
        commands: Arc<Commands<ConsumerEvent>>,
        counters: Arc<Counters>,
        routes: &[Route],
    ) -> Self {
        let by_topic = |route: &Route| {
            route.topics.iter().map(|topic| (topic.clone(), Arc::clone(&route.policy))).collect::<Vec<_>>()
        };
        Self {
            core,
            dispatcher,
            client,
            commands,
            counters,
            routes: routes.iter().flat_map(by_topic).collect(),
            low_level: Arc::new(RoutePolicy::low_level()),
            hooks: !routes.is_empty(),
            lanes: HashMap::new(),
            wishes: Vec::new(),
            remarks: Remarks::default(),
            deadline: None,
            shortest_stall: routes
                .iter()
                .flat_map(|route| [route.policy.stall_after, route.policy.handler_timeout])
                .flatten()
                .min(),
            standing: None,
            reconnects: 0,
            finished: false,
        }
    }

    /// What workers left since the last step. Corrupt batches go before the bytes that they release: a slot without held
    /// bytes is one whose batches were all good.
    fn take_outbox(&mut self, now: Nanos) {
        let mut state = self.dispatcher.lock();
        let outbox = state.dispatch.take_outbox(self.client);
        state.dispatch.take_wake(self.client);
        drop(state);
        let notices = outbox.remarks.iter().filter_map(|remark| self.remarks.notice(remark, now)).collect();
        self.dispatcher.notify(notices);
        for corrupt in outbox.corrupt {
            let notice = report::corrupt(&corrupt);
            self.dispatcher.notify(vec![notice]);
            let event =
                ConsumerEvent::Corrupt { slot: corrupt.slot, generation: corrupt.generation, offset: corrupt.offset };
            self.core.step(now, event, &mut self.wishes);
        }
        for (slot, bytes) in outbox.charged {
            self.core.step(now, ConsumerEvent::Charged(slot, bytes), &mut self.wishes);
        }
        for (slot, bytes) in outbox.released {
            self.core.step(now, ConsumerEvent::Released(slot, bytes), &mut self.wishes);
        }
        for drained in outbox.drained {
            self.lanes.remove(&drained.slot);
            self.dispatcher.forgive(&drained.tp);
            self.remarks.forget(&drained.tp);
            self.core.step(now, ConsumerEvent::Drained(drained.slot, drained.commit), &mut self.wishes);
        }
    }

    /// Whether something in the outbox is worth another look now.
    fn left_behind(&self) -> bool {
        !self.finished && self.dispatcher.lock().dispatch.take_wake(self.client)
    }

    fn tell_standing(&mut self) {
        let standing = self.core.standing();
        if self.standing != Some(standing) {
            self.standing = Some(standing);
            self.counters.membership.tell(standing);
        }
    }

    fn leave_figures(&self) {
        let fetch = self.core.fetch_stats();
        self.counters.figures.leave(Figures {
            fetched_bytes: fetch.bytes,
            fetched_records: fetch.records,
            fetches: fetch.fetches,
            reconnects: self.reconnects,
            connections: self.core.connections(),
            group: self.core.group_stats(),
        });
    }

    /// Carries out what the core wishes, until it wishes nothing more.
    fn perform(&mut self, now: Nanos, actions: &mut Vec<NetAction>) {
        let mut notices = Vec::new();
        while !self.wishes.is_empty() {
            self.tell_standing(); // before an answer that says it
            let wishes = std::mem::take(&mut self.wishes);
            let dispatcher = self.dispatcher.clone();
            let mut state = dispatcher.lock();
            for wish in wishes {
                match wish {
                    ConsumerAction::Connect { conn, host, port } => {
                        actions.push(NetAction::Connect { conn, host, port });
                    }
                    ConsumerAction::Write { conn, bytes } => actions.push(NetAction::Write { conn, bytes }),
                    ConsumerAction::CloseConn(conn) => actions.push(NetAction::Close { conn }),
                    ConsumerAction::CollectOffsets => {
                        let offsets = state.dispatch.committables(self.client, false);
                        self.core.step(now, ConsumerEvent::Commit { offsets, id: 0 }, &mut self.wishes);
                    }
                    ConsumerAction::Reply(id, reply) => self.commands.answer(id, reply),
                    ConsumerAction::Notice(notice) => {
                        if report::is_disconnect(&notice) {
                            self.reconnects += 1;
                        }
                        if let Some(fatal) = report::fatal_notice(&notice).filter(|_| self.hooks) {
                            drop(state);
                            dispatcher.fail(fatal);
                            state = dispatcher.lock();
                            continue; // the App says it
                        }
                        // Whoever closes it reports what did not end in time, and knows better why.
                        if !(self.core.is_closing() && report::is_expired_revocation(&notice)) {
                            notices.extend(report::notice(&notice));
                        }
                    }
                    ConsumerAction::SlotFailed(error) => {
                        notices.push(report::slot_failed(&error));
                        if let Some(fatal) = report::fatal_slot(&error, self.hooks) {
                            drop(state);
                            dispatcher.fail_partition(error.partition().clone(), fatal);
                            state = dispatcher.lock();
                        }
                    }
                    ConsumerAction::Fatal(error) => {
                        drop(state);
                        dispatcher.fail(report::fatal(&error));
                        self.commands.give_up(); // after the failure is there to be told
                        state = dispatcher.lock();
                    }
                    ConsumerAction::Finished => self.finished = true,
                    ConsumerAction::Abandon(slot) => {
                        if let Some(id) = self.lanes.remove(&slot) {
                            let cancelled = state.loop_jobs(id);
                            let running = state.dispatch.abandon(id);
                            dispatcher.cancel_loop_jobs(cancelled);
                            if !self.core.is_closing() {
                                notices.extend(running.iter().map(|job| remarks::abandoned(job, now)));
                            }
                        }
                    }
                    lane => self.on_lane(now, &mut state.dispatch, lane),
                }
            }
            dispatcher.unlock_for_jobs(state);
        }
        self.dispatcher.notify(notices);
    }

    fn on_lane(&mut self, now: Nanos, dispatch: &mut Dispatch, wish: ConsumerAction) {
        let lane = |slot: &Slot| self.lanes.get(slot).copied();
        match wish {
            ConsumerAction::AddLane { slot, tp, assignment_epoch } => {
                let policy = Arc::clone(self.routes.get(&*tp.topic).unwrap_or(&self.low_level));
                let spec = LaneSpec { client: self.client, slot, tp, assignment_epoch, policy };
                self.lanes.insert(slot, dispatch.add_lane(spec));
            }
            ConsumerAction::Push(chunk) => match lane(&chunk.slot) {
                Some(id) => drop(dispatch.push(now, id, chunk)),
                None => dispatch.release(self.client, chunk.slot, chunk.bytes),
            },
            ConsumerAction::HighWatermark { slot, high_watermark, readable_end } => {
                if let Some(id) = lane(&slot) {
                    dispatch.set_end(id, high_watermark, readable_end);
                }
            }
            ConsumerAction::Position { slot, offset, generation, committed, already } => {
                if let Some(id) = lane(&slot) {
                    dispatch.set_position(id, offset, generation, committed, already);
                }
            }
            ConsumerAction::Revoke { slot, lost } => {
                if let Some(id) = lane(&slot) {
                    dispatch.revoke(id, lost);
                }
            }
            ConsumerAction::Remove(slot) => {
                if let Some(id) = self.lanes.remove(&slot) {
                    dispatch.remove_lane(id);
                }
            }
            ConsumerAction::Session(until) => drop(dispatch.set_session(self.client, until)),
            ConsumerAction::Starved(starved) => dispatch.set_starved(self.client, starved),
            ConsumerAction::NotCommitted(tps) => dispatch.forget_committed(self.client, &tps),
            _ => {}
        }
    }

    /// Does what is due by now, and looks when the next of that is.
    fn keep_time(&mut self, now: Nanos) {
        let due = self.dispatcher.tell_time(now, self.client);
        // A job that begins while this thread sleeps stalls no earlier than this.
        let next_look = self.shortest_stall.filter(|_| !self.lanes.is_empty()).map(|limit| now.saturating_add(limit));
        self.deadline = [due, next_look].into_iter().flatten().min();
    }
}

impl Protocol for Driver {
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<NetAction>) {
        self.take_outbox(now);
        let event = match event {
            NetEvent::Connected(conn) => ConsumerEvent::Connected(conn),
            NetEvent::Frame(conn, frame) => ConsumerEvent::Frame(conn, frame),
            NetEvent::Closed(conn, reason) => ConsumerEvent::Closed(conn, reason),
            NetEvent::Tick => {
                for command in self.commands.take() {
                    self.core.step(now, command, &mut self.wishes);
                }
                ConsumerEvent::Tick
            }
        };
        self.core.step(now, event, &mut self.wishes);
        self.perform(now, actions);
        // What was just carried out may have left news at once (a lane without a job is drained when it is revoked), and a
        // worker may have released memory before the dispatcher heard that somebody waits for it: nobody else wakes us.
        while self.left_behind() {
            self.take_outbox(now);
            self.core.step(now, ConsumerEvent::Tick, &mut self.wishes);
            self.perform(now, actions);
        }
        self.keep_time(now);
        self.leave_figures();
        self.tell_standing();
    }

    fn deadline(&self) -> Option<Nanos> {
        [self.core.deadline(), self.deadline].into_iter().flatten().min()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}
