//! Subscriptions by patterns.

use grete_wire::ApiKey;

use super::simulator::*;
use crate::consumer::*;
use crate::time::SECOND;

const MAX_AGE: u64 = 300 * SECOND;

fn subscribed(world: &mut Simulator, topics: &[&str]) -> usize {
    let m = world.add(config());
    world.send_event(m, ConsumerEvent::Subscribe(topics.iter().map(|topic| (*topic).into()).collect()));
    m
}

fn owned(world: &Simulator, m: usize) -> Vec<String> {
    let member = &world.members[m];
    let mut all: Vec<_> = member.dispatch.lane_statuses(None).into_iter().map(|lane| lane.tp.to_string()).collect();
    all.sort();
    all
}

fn matched(world: &Simulator, m: usize) -> Vec<(usize, Vec<String>, Vec<String>)> {
    let texts = |topics: &[std::sync::Arc<str>]| topics.iter().map(ToString::to_string).collect();
    let event = |notice: &ConsumerLogEvent| match notice {
        ConsumerLogEvent::TopicsMatched { topics, added, removed, .. } => Some((*topics, texts(added), texts(removed))),
        _ => None,
    };
    world.members[m].notices.iter().filter_map(event).collect()
}

#[test]
fn topics_that_match_are_read_and_new_ones_when_metadata_is_due() {
    let mut world = Simulator::new(2);
    world.brokers.create("orders.eu", 1);
    world.brokers.create("invoices", 1);
    world.append(1, 5);
    let m = subscribed(&mut world, &[r"^orders(\..*)?"]);
    world.advance(5 * SECOND);
    assert_eq!(owned(&world, m), ["orders.eu[0]", "orders[0]", "orders[1]"]);
    assert_eq!(world.delivered(m, 1).len(), 5);
    world.brokers.create("orders.us", 1);
    world.brokers.create("new-orders", 1);
    world.advance(MAX_AGE);
    assert_eq!(owned(&world, m), ["orders.eu[0]", "orders.us[0]", "orders[0]", "orders[1]"]);
    world.brokers.delete("orders.eu");
    world.advance(MAX_AGE);
    assert_eq!(owned(&world, m), ["orders.us[0]", "orders[0]", "orders[1]"]);
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        matched(&world, m),
        [
            (2, names(&["orders", "orders.eu"]), vec![]),
            (3, names(&["orders.us"]), vec![]),
            (2, vec![], names(&["orders.eu"])),
        ]
    );
}

#[test]
fn names_stand_beside_patterns_and_a_subscription_by_names_ends_the_requests() {
    let mut world = Simulator::new(1);
    world.brokers.create("invoices", 1);
    world.brokers.create("orders.eu", 1);
    let m = subscribed(&mut world, &["invoices", r"^orders\..*"]);
    world.advance(5 * SECOND);
    assert_eq!(owned(&world, m), ["invoices[0]", "orders.eu[0]"]);
    world.subscribe(m);
    world.advance(5 * SECOND);
    assert_eq!(owned(&world, m), ["orders[0]"]);
    world.brokers.create("orders.us", 1);
    world.advance(2 * MAX_AGE);
    assert_eq!(owned(&world, m), ["orders[0]"]);
}

#[test]
fn a_pattern_without_topics_waits_for_the_first_one() {
    let mut world = Simulator::new(1);
    let m = subscribed(&mut world, &["^invoices.*"]);
    assert_eq!(world.members[m].core.membership_status().state, "matching_topics");
    assert!(!world.members[m].core.membership_status().ready);
    world.advance(5 * SECOND);
    let status = world.members[m].core.membership_status();
    assert_eq!((status.state, status.ready, status.partitions), ("no_topics", true, 0));
    assert_eq!(matched(&world, m), [(0, vec![], vec![])]);
    assert_eq!(world.times(m, ApiKey::JoinGroup).len(), 0);
    world.brokers.create("invoices", 2);
    world.advance(MAX_AGE);
    assert_eq!(owned(&world, m), ["invoices[0]", "invoices[1]"]);
    assert_eq!(world.members[m].core.membership_status().state, "stable");
    world.brokers.delete("invoices");
    world.advance(MAX_AGE);
    assert_eq!(owned(&world, m), [""; 0]);
}

/// A failed request says nothing of the topics.
#[test]
fn a_list_that_fails_takes_no_topic_away() {
    let mut world = Simulator::new(2);
    world.brokers.metadata_error = true;
    let m = subscribed(&mut world, &["^orders.*"]);
    world.advance(5 * SECOND);
    assert_eq!(world.members[m].core.membership_status().state, "matching_topics");
    world.brokers.metadata_error = false;
    world.advance(5 * SECOND);
    assert_eq!(owned(&world, m), ["orders[0]", "orders[1]"]);
    world.brokers.metadata_error = true;
    world.advance(MAX_AGE + 5 * SECOND);
    assert_eq!(owned(&world, m), ["orders[0]", "orders[1]"]);
    assert_eq!(matched(&world, m).len(), 1);
    world.brokers.metadata_error = false;
    world.brokers.create("orders.us", 1);
    world.advance(MAX_AGE);
    assert_eq!(owned(&world, m), ["orders.us[0]", "orders[0]", "orders[1]"]);
}

#[test]
fn brokers_that_are_away_only_delay_the_topics() {
    let mut world = Simulator::new(1);
    let m = world.add(config());
    world.brokers.down = world.brokers.nodes.iter().copied().collect();
    world.send_event(m, ConsumerEvent::Subscribe(vec!["^orders.*".into()]));
    world.advance(60 * SECOND);
    assert_eq!(world.members[m].core.membership_status().state, "matching_topics");
    world.brokers.down.clear();
    world.advance(60 * SECOND);
    assert_eq!(owned(&world, m), ["orders[0]"]);
    world.close(m, 5 * SECOND);
    world.advance(6 * SECOND);
    assert!(world.members[m].core.is_closing());
}
