//! The first steps: finding one broker, then all of them.

use super::super::fixture::Fake;
use super::super::*;

#[test]
fn from_a_bootstrap_address_to_every_channel_of_every_broker() {
    let fake = Fake::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
    let cluster = &fake.cluster;
    assert_eq!(cluster.node_ids().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(cluster.leader(&TopicPartition::new("orders", 1)), Some((1, 4)));
    assert_eq!(cluster.leader(&TopicPartition::new("orders", 2)), None);
    assert_eq!(cluster.topic_by_id(7).map(|topic| topic.name.as_ref()), Some("orders"));
    assert_eq!(cluster.api_version(1, Channel::Fetch, ApiKey::Fetch), Some(*ApiKey::Fetch.ours().end()));
    // The bootstrap connection is dropped once a named broker is ready.
    assert!(fake.open.values().all(|(host, _)| host.as_ref() != "boot"), "{:?}", fake.open);
    assert_eq!(fake.open.len(), 6);
}
