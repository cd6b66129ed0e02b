//! Changes of subscriptions and topics.

use super::*;

fn subscribe<'a>(client: &Client, topics: &[&'a str]) -> ConsumerGroupHeartbeatRequest<'a> {
    ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: Some(topics.iter().copied().map(Cow::Borrowed).collect()),
        topic_partitions: Some(client.owned()),
        ..beat(client.id, client.epoch)
    }
}

#[test]
fn a_new_subscription_raises_the_epoch() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders"]);
    let response = h.send(&subscribe(&a, &["bills", "orders"])).unwrap();
    a.learn(&response);
    assert_eq!((a.epoch, a.count(), h.group()), (3, 6, (3, 3, "Stable")));
    // The same topics in another order are the same subscription.
    h.send(&subscribe(&a, &["orders", "bills"])).unwrap();
    assert_eq!(h.group().0, 3);
}

#[test]
fn a_topic_without_subscription_is_given_up_before_the_epoch_changes() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders", "bills"]);
    let response = h.send(&subscribe(&a, &["bills"])).unwrap();
    assert_eq!(response.member_epoch, 2);
    a.learn(&response);
    assert_eq!(a.owned, BTreeMap::from([(BILLS, vec![0, 1])]));
    a.beat(&mut h).unwrap();
    assert_eq!((a.epoch, h.group()), (3, (3, 3, "Stable")));
}

#[test]
fn new_partitions_raise_the_epoch_with_the_next_heartbeat() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders"]);
    h.topics.insert("orders", (ORDERS, 6));
    assert_eq!(h.group().0, 2);
    a.beat(&mut h).unwrap();
    assert_eq!((a.epoch, a.count()), (3, 6));
    h.topics.insert("bills", (BILLS, 9));
    a.beat(&mut h).unwrap();
    assert_eq!(a.epoch, 3, "no member subscribes to bills");
}

#[test]
fn deleted_topics_and_topics_of_the_same_name_are_noticed() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders", "bills"]);
    h.topics.remove("orders");
    settle(&mut h, &mut [&mut a]);
    assert_eq!((a.epoch, a.owned.clone()), (3, BTreeMap::from([(BILLS, vec![0, 1])])));
    h.topics.insert("orders", (77, 1));
    settle(&mut h, &mut [&mut a]);
    assert_eq!((a.epoch, a.owned.clone()), (4, BTreeMap::from([(BILLS, vec![0, 1]), (77, vec![0])])));
}

#[test]
fn a_topic_that_comes_later_is_assigned() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["later"]);
    assert_eq!((a.epoch, a.count(), h.group()), (2, 0, (2, 2, "Stable")));
    h.topics.insert("later", (9, 3));
    a.beat(&mut h).unwrap();
    assert_eq!((a.epoch, a.count()), (3, 3));
}
