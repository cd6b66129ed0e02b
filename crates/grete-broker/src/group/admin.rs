//! Administration: list, describe and delete groups; and faults.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::describe_groups::{DescribedGroup, DescribedGroupMember};
use grete_wire::messages::list_groups::ListedGroup;

use super::GroupCoordinator;
use super::context::{optional_text, text};
use super::state::{CONSUMER_PROTOCOL, Group, GroupState};
use crate::effects::Effects;
use crate::ids::Millis;

/// Types of groups, in ListGroups.
const CLASSIC: &str = "classic";
const CONSUMER: &str = "consumer";
/// State of a group that does not exist, in DescribeGroups.
const DEAD: &str = "Dead";
/// First version of DescribeGroups that reports an unknown group as an error (KIP-1043).
const FIRST_VERSION_WITH_UNKNOWN_GROUP: i16 = 6;

impl GroupCoordinator {
    /// Lists groups whose state and type are in the filters. The comparison ignores case; an empty filter matches all.
    #[must_use]
    pub fn list(&self, states: &[Cow<'_, str>], types: &[Cow<'_, str>]) -> Vec<ListedGroup<'static>> {
        let matches = |filter: &[Cow<'_, str>], name: &str| {
            filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(name))
        };
        let groups = self.groups.values().filter(|group| matches(types, group.type_name()));
        let groups = groups.filter(|group| self.is_listed(group) && matches(states, &group.state_name()));
        groups.map(Group::listed).collect()
    }

    /// Returns whether there is a group of this id, of either protocol.
    #[must_use]
    pub fn contains(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    fn is_listed(&self, group: &Group) -> bool {
        group.has_records || self.records.of(&group.id) > group.created_after
    }

    /// Describes a group of the classic protocol. Another one does not exist in DescribeGroups. `version`: version of the
    /// request.
    #[must_use]
    pub fn describe(&self, version: i16, group: &str) -> DescribedGroup<'static> {
        if let Some(group) = self.groups.get(group).filter(|group| self.is_listed(group) && group.consumer.is_none()) {
            return group.described();
        }
        let mut dead = DescribedGroup {
            group_id: Cow::Owned(group.to_owned()),
            group_state: Cow::Borrowed(DEAD),
            ..DescribedGroup::default()
        };
        if version >= FIRST_VERSION_WITH_UNKNOWN_GROUP {
            dead.error_code = ErrorCode::GROUP_ID_NOT_FOUND.0;
            dead.error_message = Some(Cow::Owned(format!("Group {group} not found.")));
        }
        dead
    }

    /// Deletes a group with its offsets.
    ///
    /// # Errors
    /// `GROUP_ID_NOT_FOUND`, or `NON_EMPTY_GROUP`: the group has members.
    pub fn delete_group(&mut self, group: &str, effects: &mut Effects) -> Result<(), ErrorCode> {
        let (id, found) = self.groups.get_key_value(group).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        if !found.has_no_members() {
            return Err(ErrorCode::NON_EMPTY_GROUP);
        }
        let id = id.clone();
        self.remove_group(&id, effects);
        Ok(())
    }

    /// Returns the state of a group of the classic protocol. `None`: there is no such group.
    #[must_use]
    pub fn state(&self, group: &str) -> Option<GroupState> {
        self.groups.get(group).filter(|group| group.consumer.is_none()).map(|group| group.state)
    }

    /// Returns the generation id of a group of the classic protocol; 0: no generation has been complete. `None`: there is no such group.
    #[must_use]
    pub fn generation(&self, group: &str) -> Option<i32> {
        self.groups.get(group).filter(|group| group.consumer.is_none()).map(|group| group.generation)
    }

    /// Returns member id and `client.id` of each member of a group, of either protocol.
    #[must_use]
    pub fn members(&self, group: &str) -> Vec<(Arc<str>, Arc<str>)> {
        let Some(group) = self.groups.get(group) else { return Vec::new() };
        if let Some(consumer) = &group.consumer {
            return consumer.member_names();
        }
        group.members.values().map(|member| (Arc::clone(&member.id), Arc::clone(&member.client_id))).collect()
    }

    /// Starts a rebalance, as a leader that joins again does. Returns whether the group exists and has members.
    pub fn force_rebalance(&mut self, now: Millis, group: &str, effects: &mut Effects) -> bool {
        let started = self.with_group(now, group, effects, |group, _, ctx| {
            if let Some(consumer) = group.consumer.as_mut().filter(|consumer| !consumer.is_empty()) {
                consumer.force_rebalance(ctx);
                return true;
            }
            let has_members = !group.members.is_empty();
            if has_members && group.state != GroupState::PreparingRebalance {
                group.prepare_rebalance(ctx);
            }
            has_members
        });
        started.unwrap_or(false)
    }

    /// Removes a member as if its session had ended. `member`: member id, or `group.instance.id` of a static member.
    /// Returns whether the group has such a member.
    pub fn expire_member(&mut self, now: Millis, group: &str, member: &str, effects: &mut Effects) -> bool {
        let removed = self.with_group(now, group, effects, |group, _, ctx| {
            if let Some(consumer) = &mut group.consumer {
                let id = consumer.member_named(member);
                id.iter().for_each(|id| consumer.remove(ctx, id));
                return id.is_some();
            }
            let id = group.statics.get(member).or_else(|| group.members.get_key_value(member).map(|(id, _)| id));
            let Some(id) = id.cloned() else { return false };
            group.remove_and_rebalance(ctx, &id);
            true
        });
        removed.unwrap_or(false)
    }
}

impl Group {
    fn type_name(&self) -> &'static str {
        if self.consumer.is_some() { CONSUMER } else { CLASSIC }
    }

    fn listed(&self) -> ListedGroup<'static> {
        let protocol_type = match self.consumer {
            Some(_) => Cow::Borrowed(CONSUMER_PROTOCOL),
            None => self.protocol_type.as_ref().map(text).unwrap_or_default(),
        };
        ListedGroup {
            group_id: text(&self.id),
            protocol_type,
            group_state: Cow::Owned(self.state_name()),
            group_type: Cow::Borrowed(self.type_name()),
        }
    }

    /// Describes the group. Only a stable group shows its protocol and the metadata of its members.
    fn described(&self) -> DescribedGroup<'static> {
        let protocol = self.protocol.as_ref().filter(|_| self.state == GroupState::Stable);
        let members = self.members.values().map(|member| DescribedGroupMember {
            member_id: text(&member.id),
            group_instance_id: optional_text(member.instance_id.as_ref()),
            client_id: text(&member.client_id),
            client_host: Cow::Owned(format!("/{}", member.client_host)),
            member_metadata: Cow::Owned(member.subscription(protocol.map(|name| &**name)).to_vec()),
            member_assignment: Cow::Owned(member.assignment.to_vec()),
        });
        DescribedGroup {
            group_id: text(&self.id),
            group_state: Cow::Owned(self.state.to_string()),
            protocol_type: self.protocol_type.as_ref().map(text).unwrap_or_default(),
            protocol_data: protocol.map(text).unwrap_or_default(),
            members: members.collect(),
            ..DescribedGroup::default()
        }
    }
}
