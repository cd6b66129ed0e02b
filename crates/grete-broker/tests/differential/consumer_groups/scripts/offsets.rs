//! Sequences about offsets of members, and about groups that change their protocol.

use grete_wire::messages::*;

use super::super::{Client, s};

pub(super) fn offsets(client: &mut Client) {
    client.create_topic("t", 4);
    client.commit(9, "", -1, 0);
    client.commit(9, "a", 3, 0);
    client.look();
    client.join("a", &["t"]);
    client.look();
    client.fetch(None, -1);
    client.fetch(Some("a"), 2);
    client.fetch(Some("a"), 0);
    client.fetch(Some("a"), 3);
    client.fetch(Some("b"), 2);
    client.fetch(Some(""), -1);
    for (version, member, epoch) in
        [(9, "a", 2), (9, "a", 3), (9, "a", 0), (9, "b", 2), (9, "", -1), (9, "a", -1), (8, "a", 2), (8, "b", 2)]
    {
        client.commit(version, member, epoch, 0);
    }
    // An older epoch is good for partitions that the member has had since then (KIP-1251).
    client.join("b", &["t"]);
    client.beat("a", 2);
    client.commit(9, "a", 3, 3);
    client.beat_owning("a", 2, &[0, 1]);
    client.beat_owning("b", 3, &[]);
    for (member, epoch, partition) in [("a", 2, 0), ("a", 2, 3), ("a", 0, 0), ("b", 2, 3), ("b", 3, 3), ("b", 3, 0)] {
        client.commit(9, member, epoch, partition);
    }
    client.delete_offsets();
    client.beat("a", -1);
    client.beat("b", -1);
    client.commit(9, "b", 4, 0);
    client.commit(9, "b", -1, 0);
    client.commit(8, "", -1, 0);
    client.delete_offsets();
    client.fetch(Some("a"), 2);
    client.fetch(None, -1);
    client.delete();
    client.fetch(Some("a"), 2);
}

pub(super) fn protocols(client: &mut Client) {
    client.create_topic("t", 2);
    client.join("a", &["t"]);
    let (group, protocol) = (s(client.name("g")), s("a"));
    let heartbeat = HeartbeatRequest {
        group_id: group.clone(),
        generation_id: 2,
        member_id: protocol.clone(),
        group_instance_id: None,
    };
    client.tell(4, &heartbeat);
    let heartbeat = HeartbeatRequest { member_id: s("unknown"), ..heartbeat };
    client.tell(4, &heartbeat);
    let sync = SyncGroupRequest { group_id: group, generation_id: 2, member_id: protocol, ..Default::default() };
    client.tell(3, &sync);
    client.beat("a", -1);
    // An empty group takes the protocol of its next member.
    client.join_classic("unknown");
    client.look();
    client.join_classic("");
    client.look();
    client.beat("a", 2);
    client.beat("a", -1);
}
