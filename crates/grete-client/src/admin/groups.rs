//! Groups.

use std::sync::Arc;

use grete_core::admin::{AdminError, AdminReply, GroupDescription, GroupListing, GroupProtocol, Operation};
use grete_core::request::RequestError;
use grete_wire::error_code::ErrorCode;

use super::{Admin, Call, Each};
use crate::error::{ClientError, Subject};

/// The groups of the brokers that answered.
#[derive(Debug)]
pub struct GroupList {
    /// By id.
    pub groups: Vec<GroupListing>,
    /// Why the others' groups are not among them.
    pub missing: Option<ClientError>,
}

pub(super) fn group(name: &Arc<str>) -> Subject {
    Subject::Group(name.to_string())
}

impl Admin {
    /// All groups, asked for at every broker; only those in one of these states unless that is empty.
    ///
    /// # Errors
    /// When no broker answers at all.
    pub fn list_groups(&self, call: &Call<'_>, states: &[String]) -> Result<GroupList, ClientError> {
        loop {
            let nodes: Vec<_> = self.describe_cluster(call)?.brokers.into_iter().map(|broker| broker.id).collect();
            let operation = Operation::ListGroups { nodes: nodes.clone(), states: states.to_vec() };
            let results = match self.ask(call, operation)? {
                AdminReply::Groups(results) => results,
                other => return Err(call.misplaced(&other)),
            };
            // A broker has left the cluster meanwhile: its groups have moved, perhaps to one that had answered before.
            if results.iter().any(|result| matches!(result, Err(AdminError::NoBroker(_)))) {
                continue;
            }
            let mut list = GroupList { groups: Vec::new(), missing: None };
            let subjects = nodes.iter().map(|node| Subject::Other(format!("broker {node}")));
            for result in call.each(results, subjects) {
                match result {
                    Ok(groups) => list.groups.extend(groups),
                    Err(error) => list.missing = list.missing.or(Some(error)),
                }
            }
            // One that has just moved may be listed by both of its coordinators.
            list.groups.sort_unstable_by(|a, b| a.group.cmp(&b.group));
            list.groups.dedup_by(|a, b| a.group == b.group);
            return Ok(list);
        }
    }

    /// Groups and their members, of either protocol.
    ///
    /// # Errors
    /// When nobody answers; what there is to say of each group is in the results.
    pub fn describe_groups(
        &self,
        call: &Call<'_>,
        names: Vec<Arc<str>>,
    ) -> Result<Each<GroupDescription>, ClientError> {
        let mut found = self.describe(call, names.clone(), GroupProtocol::Classic)?;
        // Each protocol has its own API, and does not know the other's groups.
        let unknown = |result: &Result<_, AdminError>| {
            matches!(result, Err(AdminError::Refused { code: ErrorCode::GROUP_ID_NOT_FOUND, .. }))
        };
        let open: Vec<usize> =
            (0..).zip(&found).filter(|(_, result)| unknown(result)).map(|(index, _)| index).collect();
        let others: Vec<Arc<str>> = open.iter().filter_map(|&index| names.get(index).cloned()).collect();
        if !others.is_empty() {
            let newer = self.describe(call, others, GroupProtocol::Consumer)?;
            for (index, result) in open.into_iter().zip(newer) {
                // Brokers that do not know the newer protocol have no such groups; 3.7 to 3.9 know it, and have it off.
                let unsupported = matches!(
                    result,
                    Err(AdminError::Request(RequestError::Unsupported { .. })
                        | AdminError::Refused { code: ErrorCode::UNSUPPORTED_VERSION, .. })
                );
                if let Some(place) = found.get_mut(index).filter(|_| !unsupported) {
                    *place = result;
                }
            }
        }
        let plain = |result| match result {
            // The broker's words are about the one protocol that was asked about last.
            Err(AdminError::Refused { code: code @ ErrorCode::GROUP_ID_NOT_FOUND, .. }) => {
                Err(AdminError::Refused { code, message: None })
            }
            result => result,
        };
        Ok(call.each(found.into_iter().map(plain).collect(), names.iter().map(group)))
    }

    fn describe(
        &self,
        call: &Call<'_>,
        groups: Vec<Arc<str>>,
        protocol: GroupProtocol,
    ) -> Result<Vec<Result<GroupDescription, AdminError>>, ClientError> {
        match self.ask(call, Operation::DescribeGroups { groups, protocol })? {
            AdminReply::Described(results) => Ok(results),
            other => Err(call.misplaced(&other)),
        }
    }

    /// Deletes groups without members, their offsets included.
    ///
    /// # Errors
    /// When nobody answers; what became of each group is in the results.
    pub fn delete_groups(&self, call: &Call<'_>, names: Vec<Arc<str>>) -> Result<Each<()>, ClientError> {
        match self.ask(call, Operation::DeleteGroups { groups: names.clone() })? {
            AdminReply::Done(results) => Ok(call.each(results, names.iter().map(group))),
            other => Err(call.misplaced(&other)),
        }
    }

    /// Puts static members out of a group, by their `group.instance.id`s: their partitions go to the others at once.
    ///
    /// # Errors
    /// When nobody answers; what became of each member is in the results.
    pub fn remove_members(
        &self,
        call: &Call<'_>,
        name: &Arc<str>,
        instances: Vec<Arc<str>>,
    ) -> Result<Each<()>, ClientError> {
        let subjects = instances.iter().map(|instance| Subject::Member(name.to_string(), instance.to_string()));
        let subjects: Vec<_> = subjects.collect();
        match self.ask(call, Operation::RemoveMembers { group: name.clone(), instances })? {
            AdminReply::Done(results) => Ok(call.each(results, subjects)),
            other => Err(call.misplaced(&other)),
        }
    }
}
