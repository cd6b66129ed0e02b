//! ACLs: list, add and remove.

use grete_proto::admin::{AclBinding, AclFilter, AdminReply, Operation};

use super::{Admin, CallContext, ItemResults};
use crate::error::{ClientError, Subject};

impl Admin {
    /// Returns the ACLs that a filter finds.
    ///
    /// # Errors
    /// Fails if no broker answers, the brokers have no authorizer, or the client may not describe the cluster.
    pub fn describe_acls(&self, call: &CallContext<'_>, filter: AclFilter) -> Result<Vec<AclBinding>, ClientError> {
        match self.execute(call, Operation::DescribeAcls { filter })? {
            AdminReply::Acls(results) => call.single_result(results, Subject::Acls),
            other => Err(call.wrong_reply_type(&other)),
        }
    }

    /// Adds ACLs. One that exists already stays as it is.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single ACLs are in the results.
    pub fn create_acls(&self, call: &CallContext<'_>, acls: Vec<AclBinding>) -> Result<ItemResults<()>, ClientError> {
        let subjects: Vec<Subject> = acls.iter().map(|acl| Subject::Acl(acl.to_string())).collect();
        match self.execute(call, Operation::CreateAcls { acls })? {
            AdminReply::CreatedAcls(results) => {
                Ok(call.item_results(call.single_result(results, Subject::Acls)?, subjects))
            }
            other => Err(call.wrong_reply_type(&other)),
        }
    }

    /// Removes the ACLs that filters find. Returns those of each filter.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single filters are in the results.
    pub fn delete_acls(
        &self,
        call: &CallContext<'_>,
        filters: Vec<AclFilter>,
    ) -> Result<ItemResults<Vec<AclBinding>>, ClientError> {
        let subjects: Vec<Subject> = filters.iter().map(|_| Subject::Acls).collect();
        match self.execute(call, Operation::DeleteAcls { filters })? {
            AdminReply::DeletedAcls(results) => {
                Ok(call.item_results(call.single_result(results, Subject::Acls)?, subjects))
            }
            other => Err(call.wrong_reply_type(&other)),
        }
    }
}
