//! Requests of members of groups, and of admin clients about groups.

use grete_wire::ApiKey;
use grete_wire::messages::*;

use super::{Dice, s};
use crate::message::{Ask, ask};
use crate::side::{Learn, MEMBERS, Member, Side};

/// Asks for both groups of a run.
pub fn describe_groups(side: &Side) -> Ask {
    let groups = (0..2).map(|index| s(format!("{}g{index}", side.run))).collect();
    ask(5, &DescribeGroupsRequest { groups, include_authorized_operations: false }).expect("encodes")
}

/// Asks for all offsets of both groups of a run, also those of open transactions.
pub fn fetch_all_offsets(side: &Side) -> Ask {
    let group = |index| OffsetFetchRequestGroup {
        group_id: s(format!("{}g{index}", side.run)),
        topics: None,
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: (0..2).map(group).collect(), ..Default::default() };
    ask(8, &request).expect("encodes")
}

/// Builds a request. `None`: not an API of this file.
pub fn build(api: ApiKey, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let version = dice.version(api)?;
    let (group, mut group_id) = dice.group(side);
    let is_of_member = [ApiKey::JoinGroup, ApiKey::SyncGroup, ApiKey::Heartbeat, ApiKey::LeaveGroup].contains(&api);
    // Other APIs would share the group of this name with other runs.
    if is_of_member && dice.chance(2) {
        group_id.clear();
    }
    match api {
        ApiKey::JoinGroup => join(version, dice, side, group, group_id),
        ApiKey::SyncGroup => sync(version, dice, side, group, group_id),
        ApiKey::Heartbeat => {
            let (member, instance) = member(dice, side, group, version >= 3);
            let request = HeartbeatRequest {
                group_id: s(group_id),
                generation_id: generation(dice, &member),
                member_id: s(member.id),
                group_instance_id: instance.map(s),
            };
            ask(version, &request)
        }
        ApiKey::LeaveGroup => {
            let mut request = LeaveGroupRequest { group_id: s(group_id), ..Default::default() };
            if version < 3 {
                request.member_id = s(member(dice, side, group, false).0.id);
            } else {
                let key = |x: &MemberIdentity<'_>| (x.member_id.to_string(), x.group_instance_id.is_some());
                request.members = dice.each(2, key, |dice| {
                    let (member, instance) = member(dice, side, group, true);
                    let member_id = if instance.is_some() && dice.chance(50) { String::new() } else { member.id };
                    MemberIdentity { member_id: s(member_id), group_instance_id: instance.map(s), reason: None }
                });
            }
            ask(version, &request)
        }
        ApiKey::OffsetCommit => commit(version, dice, side, group, group_id),
        ApiKey::OffsetFetch => fetch_offsets(version, dice, side, group, group_id),
        ApiKey::DescribeGroups => {
            let groups = dice.distinct(2, |dice| s(dice.group(side).1));
            let request =
                DescribeGroupsRequest { groups, include_authorized_operations: version >= 3 && dice.chance(30) };
            ask(version, &request)
        }
        ApiKey::ListGroups => {
            let mut request = ListGroupsRequest::default();
            if version >= 4 && dice.chance(50) {
                let states =
                    ["Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "stable", "Wrong", "Dead"];
                request.states_filter = dice.distinct(2, |dice| s(dice.pick(&states)));
            }
            if version >= 5 && dice.chance(50) {
                request.types_filter =
                    dice.distinct(2, |dice| s(dice.pick(&["classic", "Classic", "consumer", "wrong"])));
            }
            ask(version, &request)
        }
        ApiKey::DeleteGroups => {
            let groups_names = dice.distinct(2, |dice| s(dice.group(side).1));
            ask(version, &DeleteGroupsRequest { groups_names })
        }
        ApiKey::OffsetDelete => {
            let topics = dice.each(
                2,
                |x: &OffsetDeleteRequestTopic<'_>| x.name.to_string(),
                |dice| OffsetDeleteRequestTopic {
                    name: s(dice.topic(side)),
                    partitions: dice.each(
                        2,
                        |x: &OffsetDeleteRequestPartition| x.partition_index,
                        |dice| OffsetDeleteRequestPartition { partition_index: dice.partition() },
                    ),
                },
            );
            ask(version, &OffsetDeleteRequest { group_id: s(group_id), topics })
        }
        _ => None,
    }
}

/// Returns a member of a group, mostly as it is, and its `group.instance.id`.
fn member(dice: &mut Dice<'_>, side: &Side, group: usize, may_be_static: bool) -> (Member, Option<String>) {
    let slot = slot(dice, group);
    let mut member = side.members[slot].clone();
    if dice.chance(5) {
        member.id = dice.pick(&[String::new(), "nobody".into()]);
    }
    let mut instance = instance_of(slot).filter(|_| may_be_static);
    if may_be_static && dice.chance(5) {
        instance = Some(dice.pick(&["instance3", "unknown"]).into());
    }
    (member, instance)
}

/// Name of a topic, or its id if the request has one.
fn key_of(name: &str, id: u128) -> String {
    if id == 0 { name.to_owned() } else { id.to_string() }
}

fn slot(dice: &mut Dice<'_>, group: usize) -> usize {
    group * MEMBERS / 2 + dice.pick(&[0, 0, 0, 1, 1, 2, 3])
}

/// The last slot of each group is a static member.
fn instance_of(slot: usize) -> Option<String> {
    (slot % (MEMBERS / 2) == 3).then(|| "instance3".to_owned())
}

fn generation(dice: &mut Dice<'_>, member: &Member) -> i32 {
    if dice.chance(8) { dice.pick(&[-1, 0, member.generation + 1, member.generation - 1]) } else { member.generation }
}

fn join(version: i16, dice: &mut Dice<'_>, side: &Side, group: usize, group_id: String) -> Option<Ask> {
    let slot = slot(dice, group);
    let member = &side.members[slot];
    let mut member_id = member.id.clone();
    if dice.chance(4) {
        member_id = dice.pick(&[String::new(), "nobody".into()]);
    }
    let mut instance = instance_of(slot).filter(|_| version >= 5);
    if instance.is_some() && dice.chance(30) {
        // A static member that has restarted.
        member_id.clear();
    }
    if version >= 5 && dice.chance(2) {
        instance = Some(dice.pick(&["", "bad!", "instance3"]).into());
    }
    let metadata = dice.pick(&[vec![0, 1, 2], vec![0, 1, 2], vec![3]]);
    let protocol = |name: &str| JoinGroupRequestProtocol { name: s(name), metadata: metadata.clone().into() };
    let protocols = match dice.below(12) {
        0 => vec![protocol("roundrobin")],
        2 if dice.chance(30) => Vec::new(),
        3 if dice.chance(30) => vec![protocol("sticky")],
        _ => vec![protocol("range"), protocol("roundrobin")],
    };
    let request = JoinGroupRequest {
        group_id: s(group_id),
        session_timeout_ms: if dice.chance(3) { dice.pick(&[1, 0, i32::MAX, -1]) } else { 300_000 },
        rebalance_timeout_ms: if version >= 1 { 300_000 } else { -1 },
        member_id: s(member_id),
        group_instance_id: instance.map(s),
        protocol_type: s(if dice.chance(2) { dice.pick(&["connect", ""]) } else { "consumer" }),
        protocols,
        reason: None,
    };
    let mut ask = ask(version, &request)?;
    ask.learn = Learn::Member(slot);
    Some(ask)
}

fn sync(version: i16, dice: &mut Dice<'_>, side: &Side, group: usize, group_id: String) -> Option<Ask> {
    let (member, instance) = member(dice, side, group, version >= 3);
    let mut assignments = Vec::new();
    if member.is_leader || dice.chance(5) {
        let known = member.members.iter().take(if dice.chance(90) { MEMBERS } else { 0 });
        assignments = known
            .map(|id| {
                // Members have no order, their ids have one by appearance.
                let index = side.seen.get("M").and_then(|seen| seen.iter().position(|known| known == id));
                let assignment = vec![9, index.unwrap_or(0) as u8].into();
                SyncGroupRequestAssignment { member_id: s(id.clone()), assignment }
            })
            .collect();
        if dice.chance(3) {
            assignments.push(SyncGroupRequestAssignment { member_id: s("nobody"), assignment: vec![8].into() });
        }
    }
    let request = SyncGroupRequest {
        group_id: s(group_id),
        generation_id: generation(dice, &member),
        member_id: s(member.id),
        group_instance_id: instance.map(s),
        protocol_type: (version >= 5).then(|| s(if dice.chance(4) { "connect" } else { "consumer" })),
        protocol_name: (version >= 5 && dice.chance(10)).then(|| s(dice.pick(&["range", "roundrobin", "none"]))),
        assignments,
    };
    ask(version, &request)
}

fn commit(version: i16, dice: &mut Dice<'_>, side: &Side, group: usize, group_id: String) -> Option<Ask> {
    let (mut member, mut instance) = member(dice, side, group, version >= 7);
    let mut generation = generation(dice, &member);
    if dice.chance(40) {
        (member.id, generation, instance) = (String::new(), -1, None);
    }
    let topics = dice.each(
        2,
        |x: &OffsetCommitRequestTopic<'_>| key_of(&x.name, x.topic_id),
        |dice| {
            let name = dice.topic(side);
            OffsetCommitRequestTopic {
                topic_id: if version >= 10 { side.topic_id(&name) } else { 0 },
                name: s(name),
                partitions: dice.each(
                    2,
                    |x: &OffsetCommitRequestPartition<'_>| x.partition_index,
                    |dice| OffsetCommitRequestPartition {
                        partition_index: dice.partition(),
                        committed_offset: dice.pick(&[0, 1, 5, 7, 100, -1]),
                        committed_leader_epoch: if version >= 6 { dice.pick(&[-1, 0, 3]) } else { -1 },
                        committed_metadata: match dice.below(10) {
                            0 => None,
                            1 => Some(s("m".repeat(4097))),
                            2 => Some(s("m".repeat(4096))),
                            3..6 => Some(s("where")),
                            _ => Some(s("")),
                        },
                    },
                ),
            }
        },
    );
    let request = OffsetCommitRequest {
        group_id: s(group_id),
        generation_id_or_member_epoch: generation,
        member_id: s(member.id),
        group_instance_id: instance.map(s),
        topics,
        ..Default::default()
    };
    ask(version, &request)
}

fn fetch_offsets(version: i16, dice: &mut Dice<'_>, side: &Side, group: usize, group_id: String) -> Option<Ask> {
    let mut request = OffsetFetchRequest { require_stable: version >= 7 && dice.chance(30), ..Default::default() };
    if version < 8 {
        request.group_id = s(group_id);
        let topics = dice.each(
            2,
            |x: &OffsetFetchRequestTopic<'_>| x.name.to_string(),
            |dice| OffsetFetchRequestTopic {
                name: s(dice.topic(side)),
                partition_indexes: dice.distinct(2, Dice::partition),
            },
        );
        request.topics = (version < 2 || dice.chance(70)).then_some(topics);
        return ask(version, &request);
    }
    let mut ids = vec![group_id];
    if dice.chance(30) {
        let other = dice.group(side).1;
        if !ids.contains(&other) {
            ids.push(other);
        }
    }
    for id in ids {
        let topics = dice.each(
            2,
            |x: &OffsetFetchRequestTopics<'_>| key_of(&x.name, x.topic_id),
            |dice| {
                let name = dice.topic(side);
                OffsetFetchRequestTopics {
                    topic_id: if version >= 10 { side.topic_id(&name) } else { 0 },
                    name: s(name),
                    partition_indexes: dice.distinct(2, Dice::partition),
                }
            },
        );
        let mut entry = OffsetFetchRequestGroup { group_id: s(id), ..Default::default() };
        entry.topics = dice.chance(70).then_some(topics);
        if version >= 9 && dice.chance(30) {
            let (member, _) = member(dice, side, group, false);
            entry.member_epoch = member.generation;
            entry.member_id = Some(s(member.id));
        }
        request.groups.push(entry);
    }
    ask(version, &request)
}
