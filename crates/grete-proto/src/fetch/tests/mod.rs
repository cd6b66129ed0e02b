mod faults;
mod malformed;
mod model;
mod read_replicas;
mod sessions;
mod simulator;

use crate::fetch::FetchAction;
use crate::partition::error::PartitionError;
use simulator::Simulator;

/// Returns the error of the only failed partition.
fn failure(world: &Simulator) -> PartitionError {
    let mut errors = world.actions.iter().filter_map(|action| match action {
        FetchAction::Failed { error, .. } => Some(error.clone()),
        _ => None,
    });
    let error = errors.next().expect("a slot has failed");
    assert_eq!(errors.next(), None, "only one has");
    error
}

fn failed(world: &Simulator) -> bool {
    world.actions.iter().any(|action| matches!(action, FetchAction::Failed { .. }))
}
