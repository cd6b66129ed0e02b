//! Groups: list, describe and delete groups, and remove static members.

use std::sync::Arc;

use grete_proto::admin::{AdminError, AdminReply, GroupDescription, GroupListing, GroupProtocol, Operation};
use grete_proto::request::RequestError;
use grete_wire::error_code::ErrorCode;

use super::{Admin, CallContext, ItemResults};
use crate::error::{ClientError, Subject};

/// Groups of the brokers that answered.
#[derive(Debug)]
pub struct GroupList {
    /// Groups, sorted by id.
    pub groups: Vec<GroupListing>,
    /// First error of a broker whose groups are missing; `None`: all brokers answered.
    pub missing: Option<ClientError>,
}

pub(super) fn group_subject(name: &Arc<str>) -> Subject {
    Subject::Group(name.to_string())
}

impl Admin {
    /// Lists the groups of all brokers, or only the groups in one of `states` if that is not empty.
    ///
    /// # Errors
    /// Fails if no broker answers.
    pub fn list_groups(&self, call: &CallContext<'_>, states: &[String]) -> Result<GroupList, ClientError> {
        loop {
            let nodes: Vec<_> = self.describe_cluster(call)?.brokers.into_iter().map(|broker| broker.id).collect();
            let operation = Operation::ListGroups { nodes: nodes.clone(), states: states.to_vec() };
            let results = match self.execute(call, operation)? {
                AdminReply::GroupListings(results) => results,
                other => return Err(call.wrong_reply_type(&other)),
            };
            // A broker has left the cluster meanwhile. Its groups have moved, perhaps to a broker that answered before.
            if results.iter().any(|result| matches!(result, Err(AdminError::NoBroker(_)))) {
                continue;
            }
            let mut list = GroupList { groups: Vec::new(), missing: None };
            let subjects = nodes.iter().map(|node| Subject::Other(format!("broker {node}")));
            for result in call.item_results(results, subjects) {
                match result {
                    Ok(groups) => list.groups.extend(groups),
                    Err(error) => list.missing = list.missing.or(Some(error)),
                }
            }
            // A group that has just moved may be listed by both of its coordinators.
            list.groups.sort_unstable_by(|a, b| a.group.cmp(&b.group));
            list.groups.dedup_by(|a, b| a.group == b.group);
            return Ok(list);
        }
    }

    /// Describes groups and their members, whichever protocol they follow.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single groups are in the results.
    pub fn describe_groups(
        &self,
        call: &CallContext<'_>,
        names: Vec<Arc<str>>,
    ) -> Result<ItemResults<GroupDescription>, ClientError> {
        let mut found = self.describe(call, names.clone(), GroupProtocol::Classic)?;
        // Each protocol has its own API, which does not know the other protocols' groups.
        for protocol in [GroupProtocol::Consumer, GroupProtocol::Share] {
            let unknown = |result: &Result<_, AdminError>| {
                matches!(result, Err(AdminError::Refused { code: ErrorCode::GROUP_ID_NOT_FOUND, .. }))
            };
            let open: Vec<usize> =
                (0..).zip(&found).filter(|(_, result)| unknown(result)).map(|(index, _)| index).collect();
            let others: Vec<Arc<str>> = open.iter().filter_map(|&index| names.get(index).cloned()).collect();
            if others.is_empty() {
                break;
            }
            let newer = self.describe(call, others, protocol)?;
            for (index, result) in open.into_iter().zip(newer) {
                // Brokers without the newer protocol have no such groups; brokers 3.7 to 3.9 know the consumer
                // protocol, but it is disabled.
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
            // The broker's message is about the protocol of the last request only.
            Err(AdminError::Refused { code: code @ ErrorCode::GROUP_ID_NOT_FOUND, .. }) => {
                Err(AdminError::Refused { code, message: None })
            }
            result => result,
        };
        Ok(call.item_results(found.into_iter().map(plain).collect(), names.iter().map(group_subject)))
    }

    fn describe(
        &self,
        call: &CallContext<'_>,
        groups: Vec<Arc<str>>,
        protocol: GroupProtocol,
    ) -> Result<Vec<Result<GroupDescription, AdminError>>, ClientError> {
        match self.execute(call, Operation::DescribeGroups { groups, protocol })? {
            AdminReply::GroupDescriptions(results) => Ok(results),
            other => Err(call.wrong_reply_type(&other)),
        }
    }

    /// Deletes groups without members, including their offsets.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single groups are in the results.
    pub fn delete_groups(&self, call: &CallContext<'_>, names: Vec<Arc<str>>) -> Result<ItemResults<()>, ClientError> {
        match self.execute(call, Operation::DeleteGroups { groups: names.clone() })? {
            AdminReply::Done(results) => Ok(call.item_results(results, names.iter().map(group_subject))),
            other => Err(call.wrong_reply_type(&other)),
        }
    }

    /// Removes static members from a group by `group.instance.id`; their partitions move to other members at once.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single members are in the results.
    pub fn remove_members(
        &self,
        call: &CallContext<'_>,
        name: &Arc<str>,
        instances: Vec<Arc<str>>,
    ) -> Result<ItemResults<()>, ClientError> {
        let subjects = instances.iter().map(|instance| Subject::Member(name.to_string(), instance.to_string()));
        let subjects: Vec<_> = subjects.collect();
        match self.execute(call, Operation::RemoveMembers { group: name.clone(), instances })? {
            AdminReply::Done(results) => Ok(call.item_results(results, subjects)),
            other => Err(call.wrong_reply_type(&other)),
        }
    }
}
