//! Tests of the check whether anything is left to do, and of backoffs that end early.

use std::collections::HashMap;

use super::*;

fn is_settled(world: &Harness, end: i64) -> bool {
    let ends = HashMap::from([(TopicPartition::new("orders", 0), end)]);
    world.dispatch.is_settled(world.client, 1, &ends)
}

#[test]
fn a_lane_is_settled_when_it_has_handed_out_all_and_no_job_is_left() {
    let mut world = Harness::new();
    assert!(!is_settled(&world, 0), "its lane is missing");
    let lane = world.lane(2);
    assert!(is_settled(&world, 0) && world.dispatch.is_assigned(world.client, 1));
    assert!(!is_settled(&world, 3), "the records are not fetched");
    world.push(lane, 0, 3);
    assert!(!is_settled(&world, 0), "records wait");
    let first = world.take(0).expect("a job");
    assert!(!is_settled(&world, 0), "a job runs");
    world.done(first);
    assert_eq!(world.run(), [[2]]);
    assert!(is_settled(&world, 3) && !is_settled(&world, 4));
    world.dispatch.revoke(lane, false);
    assert!(!world.dispatch.is_assigned(world.client, 1));
}

#[test]
fn backoffs_of_slots_end_early_in_their_order() {
    let mut world = Harness::new();
    let lane = world.lane_with(by_key());
    world.push_keys(lane, 0, &["a", "b"]);
    let leases = world.take_all();
    assert_eq!(leases.len(), 2);
    for lease in leases {
        world.end(lease, failed());
    }
    assert!(!is_settled(&world, 2), "backoffs are left");
    assert!(world.take(world.now).is_none());
    assert!(world.dispatch.end_backoffs());
    assert_eq!(world.dispatch.next_deadline(), None);
    let mut rows = world.run().concat();
    rows.sort_unstable();
    assert_eq!(rows, [0, 1]);
    assert!(is_settled(&world, 2) && !world.dispatch.end_backoffs());
    world.assert_empty();
}
