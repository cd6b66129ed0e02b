mod faults;
mod hostile;
mod model;
mod sessions;
mod world;

use crate::fetch::FetchAction;
use crate::slot_error::SlotError;
use world::World;

/// The error of the only slot that has failed.
fn failure(world: &World) -> SlotError {
    let mut errors = world.actions.iter().filter_map(|action| match action {
        FetchAction::Failed { error, .. } => Some(error.clone()),
        _ => None,
    });
    let error = errors.next().expect("a slot has failed");
    assert_eq!(errors.next(), None, "only one has");
    error
}

fn failed(world: &World) -> bool {
    world.actions.iter().any(|action| matches!(action, FetchAction::Failed { .. }))
}
