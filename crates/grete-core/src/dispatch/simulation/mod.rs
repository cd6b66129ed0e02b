//! The dispatcher in a world of chance: retries, dead letters, concurrency, offsets, revocations, seeks, pauses, stops and
//! deaths, in whatever mixture a seed draws. There are no threads and no clock: a worker is a variable, and time goes to
//! the next thing that happens.
//!
//! `GRETE_SEED=n` runs one seed and tells what happens; `GRETE_SEEDS=n` runs that many.

mod book;
mod count;
mod fate;
mod fault;
mod fetching;
mod figures;
mod group;
mod handler;
mod idle;
mod log;
mod process;
mod queue;
mod rate;
mod record;
mod scenario;
mod work;
mod world;

use crate::testing::each_seed;
use crate::time::SECOND;
use record::Nature;
use world::World;

/// Seeds that have failed once.
const REGRESSIONS: [u64; 0] = [];

/// Long enough for any number of retries, and for a process that starts after the others have died.
const PATIENCE: u64 = 3600 * SECOND;

fn simulate(seed: u64, aloud: bool) {
    let mut world = World::new(seed, aloud);
    let rough = world.scenario.rough;
    world.pass(rough + 120 * SECOND, |world| world.now > rough && world.is_calm());
    world.pass(PATIENCE, World::is_done);
    world.check_fates();
    world.replay();
    world.pass(PATIENCE, World::is_done);
    world.check_fates();
    world.end();
}

#[test]
fn nothing_is_lost_whatever_happens() {
    each_seed(&REGRESSIONS, 300, simulate);
}

impl World {
    /// Each record has come to an end that is right for it.
    fn check_fates(&self) {
        for partition in &self.partitions {
            for (offset, fate) in &partition.fates {
                let nature = partition.log.records[offset].nature;
                assert!(fate.is_settled(), "{} {offset} is lost: {nature:?} {fate:?}", partition.tp);
                match nature {
                    Nature::Good => assert!(fate.dead == 0 || fate.given, "{} {offset}: {fate:?}", partition.tp),
                    Nature::Poison(_) => {
                        assert_eq!(fate.passed, 0, "{} {offset}: {fate:?}", partition.tp);
                    }
                    Nature::Flaky(..) | Nature::Shy => {}
                }
            }
        }
    }

    /// All processes stop, and hold nothing any more.
    fn end(&mut self) {
        // Jobs of assignments that are over may still run.
        self.pass(120 * SECOND, |world| {
            let mut alive = world.processes.iter().filter(|process| process.alive);
            alive.all(|process| process.held_bytes() == 0 && process.jobs.is_empty())
        });
        // Idle lanes have ticks, and have heard of their end.
        let soon = self.now + 30 * SECOND;
        self.pass(60 * SECOND, |world| world.now >= soon);
        for process in 0..self.processes.len() {
            if !self.processes[process].alive {
                continue;
            }
            for seat in self.processes[process].lanes.values().filter(|seat| seat.is_settled(self.now)) {
                let (book, policy) = (&seat.book, &seat.policy);
                assert!(policy.tick.is_none() || book.ticks > 0, "{} has no ticks", seat.tp);
                assert!(!policy.eof || book.eofs > 0, "{} does not hear of its end", seat.tp);
            }
            for status in self.processes[process].dispatch.statuses(None) {
                assert_eq!(status.queued_bytes, 0, "{status:?}");
            }
            self.stop(process);
        }
        self.pass(60 * SECOND, |world| world.alive().is_empty());
    }
}
