//! Property test with random events in random order: no panic, no deadline that stays in the past, and every record
//! completes.

use grete_wire::Frame;
use proptest::prelude::*;

use super::simulator::*;
use crate::connection::CloseReason;
use crate::ids::ConnId;
use crate::producer::ProduceConfig;
use crate::producer::*;
use crate::time::{MILLI, SECOND};

#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Append(bool, Option<i32>, usize),
    Wait(usize),
    Flush,
    Tick,
    Drain,
    Connected(u32),
    Garbage(u32, Vec<u8>),
    /// Delivers the last response once more on that connection.
    Again(u32),
    Closed(u32),
    Fault,
    Close(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..3000_u64).prop_map(Step::Pass),
        2 => (0..20_000_u64).prop_map(Step::Pass),
        12 => (any::<bool>(), prop::option::of(-1..4_i32), 8..600_usize).prop_map(|(t, p, len)| Step::Append(t, p, len)),
        3 => any::<usize>().prop_map(Step::Wait),
        2 => Just(Step::Flush),
        1 => Just(Step::Tick),
        1 => Just(Step::Drain),
        1 => (0..9_u32).prop_map(Step::Connected),
        1 => (0..9_u32, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(conn, bytes)| Step::Garbage(conn, bytes)),
        1 => (0..9_u32).prop_map(Step::Again),
        1 => (0..9_u32).prop_map(Step::Closed),
        6 => Just(Step::Fault),
        1 => (0..9000_u64).prop_map(Step::Close),
    ]
}

fn act(world: &mut Simulator, step: Step) {
    match step {
        Step::Pass(ms) => world.pass(ms * MILLI),
        Step::Append(known, partition, len) => {
            let _ = world.append(if known { "orders" } else { "missing" }, partition, None, len);
        }
        Step::Wait(at) => {
            if !world.client.rows.is_empty() {
                world.wait((at % world.client.rows.len()) as u64);
            }
        }
        Step::Flush => world.flush(),
        Step::Tick => world.step(ProducerEvent::Tick),
        Step::Drain => world.step(ProducerEvent::Drain),
        Step::Connected(conn) => world.step(ProducerEvent::Connected(ConnId(conn))),
        Step::Garbage(conn, bytes) => world.step(ProducerEvent::Frame(ConnId(conn), Frame::from(bytes))),
        Step::Again(conn) => {
            if let Some(frame) = world.last_answer.clone() {
                world.step(ProducerEvent::Frame(ConnId(conn), frame));
            }
        }
        // The simulator must close its connections itself, so use an unknown one.
        Step::Closed(conn) => world.step(ProducerEvent::Closed(ConnId(conn + 100_000), CloseReason::Eof)),
        Step::Fault => world.fault(),
        Step::Close(ms) => world.close(ms * MILLI),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn random_events_never_panic_and_never_spin(
        steps in prop::collection::vec(step(), 1..80),
        acks in -1..2_i16,
        idempotent in any::<bool>(),
        linger in 0..20_u64,
    ) {
        let idempotent = idempotent && acks == -1;
        let produce = ProduceConfig {
            acks,
            idempotent,
            linger: linger * MILLI,
            batch_size: 1000,
            buffer_memory: 20_000,
            ..config().produce
        };
        let mut world = Simulator::new(ProducerCoreConfig { produce, ..config() });
        for step in steps {
            act(&mut world, step);
            if world.client.finished {
                break;
            }
        }
        world.close(5 * SECOND);
        world.pass(20 * SECOND);
        prop_assert!(world.client.finished);
        prop_assert_eq!(world.client.open(), &[0; 0][..]);
        prop_assert_eq!(world.client.accumulator().pending_records(), 0);
        world.check_logs();
    }
}
