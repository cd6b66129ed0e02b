//! Tests of a topic that does not exist: how long a call waits for the topic, and which responses end the wait.

use grete_wire::error_code::ErrorCode;

use super::harness::{Harness, config};
use crate::producer::{ProduceConfig, SenderAction, SenderEvent};
use crate::time::{MILLI, SECOND};

/// Applies a response that reports the topic as unknown.
fn deny(rig: &mut Harness, topic: &str) {
    rig.metadata.topics.insert(topic.to_owned(), Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    rig.metadata.missing.insert(topic.to_owned(), rig.now);
    rig.step(SenderEvent::MetadataChanged);
}

fn woken(rig: &mut Harness) -> bool {
    let woken = rig.has(|action| matches!(action, SenderAction::MetadataAvailable));
    rig.actions.clear();
    woken
}

#[test]
fn an_answer_that_comes_a_second_after_the_call_ends_its_wait() {
    let mut rig = Harness::new(config());
    let topic = rig.topic("invoicez");
    let since = rig.now;
    rig.lock().await_metadata();
    deny(&mut rig, "invoicez");
    assert!(woken(&mut rig), "the first answer is news");
    assert!(!rig.lock().is_topic_missing(topic, since), "other brokers may have heard of the topic");
    rig.now += 999 * MILLI;
    rig.lock().await_metadata();
    deny(&mut rig, "invoicez");
    assert!(woken(&mut rig), "and so is each other one");
    assert!(!rig.lock().is_topic_missing(topic, since));
    rig.now += MILLI;
    rig.lock().await_metadata();
    assert!(!woken(&mut rig));
    deny(&mut rig, "invoicez");
    assert!(woken(&mut rig));
    assert!(rig.lock().is_topic_missing(topic, since));
    assert!(!rig.lock().is_topic_missing(topic, since + 1), "a call that began later waits for an answer of its own");
}

#[test]
fn an_answer_with_partitions_takes_it_back() {
    let mut rig = Harness::new(config());
    let topic = rig.topic("orders");
    let since = rig.now;
    rig.now += SECOND;
    deny(&mut rig, "orders");
    assert!(rig.lock().is_topic_missing(topic, since));
    rig.metadata.missing.clear();
    rig.lead("orders", &[1]);
    assert!(!rig.lock().is_topic_missing(topic, since));
    assert_eq!(rig.lock().partitions(topic), Some(Ok(1)));
}

#[test]
fn a_call_in_a_hurry_needs_one_answer() {
    let mut rig = Harness::new(config());
    let topic = rig.topic("invoicez");
    let since = rig.now;
    deny(&mut rig, "invoicez");
    assert!(!rig.lock().is_topic_missing(topic, since));
    let now = rig.now;
    rig.lock().expedite(now);
    assert!(rig.lock().is_topic_missing(topic, since));
    assert!(!rig.lock().is_topic_missing(topic, since + 1), "of its own");
}

#[test]
fn where_topics_are_made_on_the_way_a_call_waits_as_long_as_for_anything() {
    let mut rig = Harness::new(ProduceConfig { metadata_propagation: None, ..config() });
    let topic = rig.topic("orders");
    let since = rig.now;
    rig.now += 3600 * SECOND;
    deny(&mut rig, "orders");
    assert!(!rig.lock().is_topic_missing(topic, since));
}

#[test]
fn records_of_a_topic_that_has_gone_keep_their_time() {
    let mut rig = Harness::ready(config(), &[1]);
    let (receipt, _) = rig.produce(0, "a");
    // As in the cluster's metadata: known partitions outlive the topic.
    rig.metadata.missing.insert("orders".to_owned(), rig.now + 2 * SECOND);
    rig.step(SenderEvent::MetadataChanged);
    assert!(!receipt.is_complete());
}

#[test]
fn a_topic_with_a_similar_name_is_suggested() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.topic("invoicez");
    let accumulator = rig.lock();
    assert_eq!(accumulator.similar_topic("ordesr").map(|name| &**name), Some("orders"));
    assert_eq!(accumulator.similar_topic("orders"), None, "not itself");
    assert_eq!(accumulator.similar_topic("invoices"), None, "not one that is missing, too");
}
