//! Simulation of the dispatcher with random faults: retries, dead letters, concurrency, offsets, revocations, seeks,
//! pauses, stops and crashes, mixed by a seed. There are no threads and no clock. A worker is a variable, and time
//! jumps to the next event.
//!
//! `GRETE_SEED=n` runs one seed and traces its events; `GRETE_SEEDS=n` runs `n` seeds.

mod checks;
mod coordinator;
mod faults;
mod handler;
mod network_thread;
mod partition_log;
mod process;
mod produced_records;
mod record;
mod scenario;
mod simulator;
mod workers;

use crate::test_util::for_each_seed;
use crate::time::SECOND;
use record::RecordBehavior;
use simulator::Simulator;

/// Seeds that have failed once.
const REGRESSIONS: [u64; 0] = [];

/// Long enough for any number of retries, and for a process that starts after the other processes have crashed.
const MAX_SIMULATED_TIME: u64 = 3600 * SECOND;

fn simulate(seed: u64, verbose: bool) {
    let mut world = Simulator::new(seed, verbose);
    let rough = world.scenario.rough;
    world.run_until(rough + 120 * SECOND, |world| world.now > rough && world.is_calm());
    world.run_until(MAX_SIMULATED_TIME, Simulator::is_done);
    world.check_outcomes();
    world.replay();
    world.run_until(MAX_SIMULATED_TIME, Simulator::is_done);
    world.check_outcomes();
    world.end();
}

#[test]
fn nothing_is_lost_whatever_happens() {
    for_each_seed(&REGRESSIONS, 120, simulate);
}

impl Simulator {
    /// Checks that each record has an outcome that its behavior allows.
    fn check_outcomes(&self) {
        for partition in &self.partitions {
            for (offset, fate) in &partition.outcomes {
                let nature = partition.log.records[offset].nature;
                assert!(fate.is_settled(), "{} {offset} is lost: {nature:?} {fate:?}", partition.tp);
                match nature {
                    RecordBehavior::Good => {
                        assert!(
                            fate.dead_lettered == 0 || fate.handed_out_once || fate.undelivered,
                            "{} {offset}: {fate:?}",
                            partition.tp
                        )
                    }
                    RecordBehavior::Poison(_) => {
                        assert_eq!(fate.completed, 0, "{} {offset}: {fate:?}", partition.tp);
                    }
                    RecordBehavior::Flaky(..) | RecordBehavior::FailsInBatch => {}
                }
            }
        }
    }

    /// Stops all processes, and checks that they hold no memory.
    fn end(&mut self) {
        // Jobs of ended assignments may still run.
        self.run_until(120 * SECOND, |world| {
            let mut alive = world.processes.iter().filter(|process| process.alive);
            alive.all(|process| process.held_bytes() == 0 && process.jobs.is_empty() && process.waiting.is_empty())
        });
        // By then idle lanes have had ticks, and an `eof` job at their end.
        let soon = self.now + 30 * SECOND;
        self.run_until(60 * SECOND, |world| world.now >= soon);
        for process in 0..self.processes.len() {
            if !self.processes[process].alive {
                continue;
            }
            for seat in self.processes[process].lanes.values().filter(|seat| seat.is_settled(self.now)) {
                let (book, policy) = (&seat.oracle, &seat.policy);
                assert!(policy.tick.is_none() || book.ticks > 0, "{} has no ticks", seat.tp);
                assert!(!policy.eof || book.eofs > 0, "{} had no eof job at its end", seat.tp);
            }
            for status in self.processes[process].dispatch.lane_statuses(None) {
                assert_eq!(status.queued_bytes, 0, "{status:?}");
            }
            self.stop(process);
        }
        self.run_until(60 * SECOND, |world| world.alive().is_empty());
    }
}
