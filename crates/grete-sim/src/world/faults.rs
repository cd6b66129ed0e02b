//! Faults of a plan, and their end.

use grete_broker::fault::FaultRule;
use grete_proto::time::{MILLI, Nanos};

use super::World;
use super::clock::WorldEvent;
use crate::plan::{Fault, FaultedClient};
use crate::process::ProcessEvent;

impl World<'_> {
    pub(super) fn begin_fault(&mut self, number: usize) {
        let plan = self.plan;
        let Some(planned) = plan.faults.get(number) else { return };
        self.story.tell("fault", || planned.fault.to_string());
        match planned.fault.clone() {
            Fault::Crash { process, down } => self.crash(process, down),
            Fault::Stop { process, .. } => self.stop(process),
            Fault::Sleep { process, time } => {
                if let Some(slot) = self.slot_of(process) {
                    self.slots[slot].asleep_until = self.now + time;
                }
            }
            Fault::Cut { process, broker } => {
                let Some(slot) = self.slot_of(process) else { return };
                let links = self.links_where(|link| link.slot == slot && link.broker == broker);
                links.into_iter().for_each(|link| self.cut(link));
            }
            Fault::StopBroker { broker, time } => self.stop_broker(broker, time),
            Fault::StopCluster { time } => self.stop_cluster(time),
            Fault::MoveLeader { topic, partition, to } => {
                if let Some(cluster) = &mut self.cluster {
                    // A broker that is down cannot lead.
                    let _ = cluster.move_leader(topic, partition, to);
                }
                self.step_cluster(grete_broker::cluster::Event::Tick);
            }
            Fault::MoveCoordinators => {
                let mut actions = Vec::new();
                if let Some(cluster) = &mut self.cluster {
                    cluster.move_coordinators(&mut actions);
                }
                self.perform(actions);
                self.step_cluster(grete_broker::cluster::Event::Tick);
            }
            Fault::ForgetSessions { broker } => {
                if let Some(cluster) = &mut self.cluster {
                    cluster.forget_fetch_sessions(broker);
                }
            }
            Fault::Requests { api, client, skip, times, action } => {
                let client_id = match client {
                    FaultedClient::Any => None,
                    FaultedClient::Process(id) => Some(format!("app-{id}").into()),
                    FaultedClient::Source => Some("source".into()),
                };
                if let Some(cluster) = &mut self.cluster {
                    cluster.add_fault(FaultRule { client_id, skip, times: Some(times), ..FaultRule::new(api, action) });
                }
            }
        }
    }

    /// Ends a process at once. Its connections end, too.
    fn crash(&mut self, id: usize, down: Nanos) {
        let Some(slot) = self.slot_of(id).filter(|slot| self.slots[*slot].process.is_some()) else { return };
        self.end_process(slot);
        self.post(self.now + down, WorldEvent::Start(slot));
    }

    pub(super) fn end_process(&mut self, slot: usize) {
        self.slots[slot].process = None;
        for link in self.links_where(|link| link.slot == slot) {
            self.drop_link(link);
        }
        let planned = |fault: &crate::plan::PlannedFault| match fault.fault {
            Fault::Stop { process, down } if process == self.slots[slot].id => Some(down),
            _ => None,
        };
        // A process that was stopped comes back.
        if let Some(down) = self.plan.faults.iter().find_map(planned) {
            self.post(self.now + down, WorldEvent::Start(slot));
        }
    }

    /// Sends SIGTERM.
    pub(super) fn stop(&mut self, id: usize) {
        let Some(slot) = self.slot_of(id) else { return };
        let incarnation = self.slots[slot].incarnation;
        self.pass(slot, incarnation, ProcessEvent::Stop);
    }

    fn stop_broker(&mut self, broker: i32, time: Nanos) {
        let mut actions = Vec::new();
        let Some(cluster) = &mut self.cluster else { return };
        if cluster.stop_broker(broker, &mut actions).is_ok() {
            self.down.insert(broker);
            self.perform(actions);
            self.post(self.now + time, WorldEvent::StartBroker(broker));
        }
    }

    pub(super) fn start_broker(&mut self, broker: i32) {
        let mut actions = Vec::new();
        let Some(cluster) = &mut self.cluster else { return };
        if cluster.start_broker(broker, &mut actions).is_ok() {
            if self.down.remove(&broker) {
                self.story.tell("broker", || format!("broker {broker} is up"));
            }
            self.perform(actions);
        }
    }

    /// Ends all brokers. What they have stored is their changes, or a snapshot of their state.
    fn stop_cluster(&mut self, time: Nanos) {
        let Some(cluster) = self.cluster.take() else { return };
        if self.rng.below(2) == 0 {
            self.stored = cluster.snapshot();
        }
        for link in self.links_where(|_| true) {
            self.close_from_broker(link);
        }
        self.post(self.now + time, WorldEvent::StartCluster);
    }

    pub(super) fn restart_cluster(&mut self) {
        if self.cluster.is_none() {
            self.story.tell("broker", || "all brokers are up".to_owned());
            self.start_cluster();
        }
    }

    /// Ends all faults.
    pub(super) fn calm(&mut self) {
        self.story.tell("world", || "all faults end".to_owned());
        self.is_calm = true;
        self.restart_cluster();
        if let Some(cluster) = &mut self.cluster {
            cluster.clear_faults();
        }
        for broker in 1..=self.plan.cluster.brokers {
            self.start_broker(broker);
        }
        for slot in 0..self.slots.len() {
            // A process that is about to stop is started again later.
            self.post(self.now + MILLI, WorldEvent::Start(slot));
        }
    }
}
