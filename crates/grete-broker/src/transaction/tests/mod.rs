//! A coordinator with the changes that it made, shared by the tests.

mod api;
mod end;
mod init;
mod property;

use grete_wire::ErrorCode;

use super::{
    Ended, Initialized, Marker, Producer, Transaction, TransactionChange, TransactionConfig, TransactionCoordinator,
    TransactionState,
};
use crate::ids::{Millis, TopicPartition};

const TIMEOUT_MS: i32 = 60_000;

/// Coordinator, its changes, and the time of its requests.
struct Bench {
    coordinator: TransactionCoordinator,
    changes: Vec<TransactionChange>,
    now: Millis,
}

impl Bench {
    fn new(version: i16) -> Self {
        let config = TransactionConfig { version, ..Default::default() };
        Self { coordinator: TransactionCoordinator::new(config), changes: Vec::new(), now: 1_000_000 }
    }

    fn init(&mut self, id: &str, expected: Option<Producer>) -> Initialized {
        self.coordinator.init_producer_id(self.now, Some(id), TIMEOUT_MS, expected, &mut self.changes)
    }

    /// Begins an epoch where nothing is in the way.
    fn producer(&mut self, id: &str) -> Producer {
        self.init(id, None).result.unwrap()
    }

    fn add(&mut self, id: &str, producer: Producer, partition: i32) -> Result<(), ErrorCode> {
        self.coordinator.add_partitions(self.now, id, producer, &[orders(partition)], &mut self.changes)
    }

    fn add_group(&mut self, id: &str, producer: Producer, group: &str) -> Result<(), ErrorCode> {
        self.coordinator.add_group(self.now, id, producer, group, &mut self.changes)
    }

    fn end(&mut self, id: &str, producer: Producer, commit: bool, bump_epoch: bool) -> Result<Ended, ErrorCode> {
        self.coordinator.end(self.now, id, producer, commit, bump_epoch, &mut self.changes)
    }

    /// Completes the transaction of a marker.
    fn write(&mut self, marker: &Marker) {
        self.coordinator.complete(self.now, &marker.transactional_id, &mut self.changes);
    }

    fn tick(&mut self, now: Millis) -> Vec<Marker> {
        self.now = now;
        self.coordinator.tick(now, &mut self.changes)
    }

    fn state(&self, id: &str) -> TransactionState {
        self.transaction(id).state
    }

    fn transaction(&self, id: &str) -> &Transaction {
        self.coordinator.transaction(id).unwrap()
    }

    /// Returns a coordinator that has all changes of this one, through their stored form.
    fn restored(&self) -> TransactionCoordinator {
        let mut restored = TransactionCoordinator::new(self.coordinator.config().clone());
        for change in &self.changes {
            let bytes = postcard::to_stdvec(change).unwrap();
            restored.restore(postcard::from_bytes(&bytes).unwrap());
        }
        restored
    }

    /// Sets the epoch of a producer, as if it had ended many transactions.
    fn set_epoch(&mut self, id: &str, epoch: i16) -> Producer {
        let mut state = self.transaction(id).clone();
        state.producer.epoch = epoch;
        let producer = state.producer;
        let change = TransactionChange::State { id: id.into(), state: Box::new(state) };
        self.changes.push(change.clone());
        self.coordinator.restore(change);
        producer
    }
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}
