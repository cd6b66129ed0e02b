//! DescribeAcls, CreateAcls and DeleteAcls.
//!
//! The responses name no ACL, but have the order of the request. All ACLs of an operation are therefore one item, which
//! is asked for again as a whole: an ACL that is created twice exists once.

use grete_wire::counted;
use grete_wire::error_code::ErrorCode;
use grete_wire::messages::create_acls::AclCreation;
use grete_wire::messages::delete_acls::DeleteAclsFilter;
use grete_wire::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
    DescribeAclsResponse,
};

use super::super::error::AdminError;
use super::super::handler::{ApiHandler, ItemResult, ItemResults};
use super::super::reply::{AdminReply, PerItem};
use super::super::types::{AclBinding, AclFilter};
use super::items::OnlyItem;
use super::util::owned;
use crate::cluster::Cluster;
use crate::request::Request;

#[derive(Debug)]
pub(crate) struct DescribeAcls {
    pub filter: AclFilter,
}

impl ApiHandler for DescribeAcls {
    type Api = DescribeAclsRequest<'static>;
    type Item = OnlyItem;
    type Value = Vec<AclBinding>;

    const REPLY: fn(PerItem<Vec<AclBinding>>) -> AdminReply = AdminReply::Acls;

    fn build_request(&self, _items: &[&OnlyItem], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let filter = &self.filter;
        Request::from_message(DescribeAclsRequest {
            resource_type_filter: filter.resource_type,
            resource_name_filter: filter.name.as_deref().map(owned),
            pattern_type_filter: filter.pattern,
            principal_filter: filter.principal.as_deref().map(owned),
            host_filter: filter.host.as_deref().map(owned),
            operation: filter.operation,
            permission_type: filter.permission,
        })
    }

    fn parse_response(&self, response: &DescribeAclsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let bindings = response.resources.iter().flat_map(|resource| {
            resource.acls.iter().map(|acl| AclBinding {
                resource_type: resource.resource_type,
                name: resource.resource_name.to_string(),
                pattern: resource.pattern_type,
                principal: acl.principal.to_string(),
                host: acl.host.to_string(),
                operation: acl.operation,
                permission: acl.permission_type,
            })
        });
        let found = || bindings.collect();
        results.set_only(ItemResult::new(response.error_code, response.error_message.as_deref(), found));
    }
}

#[derive(Debug)]
pub(crate) struct CreateAcls {
    pub acls: Vec<AclBinding>,
}

impl ApiHandler for CreateAcls {
    type Api = CreateAclsRequest<'static>;
    type Item = OnlyItem;
    type Value = PerItem<()>;

    const REPLY: fn(PerItem<PerItem<()>>) -> AdminReply = AdminReply::CreatedAcls;

    fn build_request(&self, _items: &[&OnlyItem], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let creation = |acl: &AclBinding| AclCreation {
            resource_type: acl.resource_type,
            resource_name: owned(&acl.name),
            resource_pattern_type: acl.pattern,
            principal: owned(&acl.principal),
            host: owned(&acl.host),
            operation: acl.operation,
            permission_type: acl.permission,
        };
        Request::from_message(CreateAclsRequest { creations: self.acls.iter().map(creation).collect() })
    }

    fn parse_response(&self, response: &CreateAclsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let parts = response.results.iter().map(|part| (part.error_code, part.error_message.as_deref(), ()));
        results.set_only(joined(parts.collect(), self.acls.len()));
    }
}

#[derive(Debug)]
pub(crate) struct DeleteAcls {
    pub filters: Vec<AclFilter>,
}

impl ApiHandler for DeleteAcls {
    type Api = DeleteAclsRequest<'static>;
    type Item = OnlyItem;
    type Value = PerItem<Vec<AclBinding>>;

    const REPLY: fn(PerItem<PerItem<Vec<AclBinding>>>) -> AdminReply = AdminReply::DeletedAcls;

    fn build_request(&self, _items: &[&OnlyItem], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let filter = |filter: &AclFilter| DeleteAclsFilter {
            resource_type_filter: filter.resource_type,
            resource_name_filter: filter.name.as_deref().map(owned),
            pattern_type_filter: filter.pattern,
            principal_filter: filter.principal.as_deref().map(owned),
            host_filter: filter.host.as_deref().map(owned),
            operation: filter.operation,
            permission_type: filter.permission,
        };
        Request::from_message(DeleteAclsRequest { filters: self.filters.iter().map(filter).collect() })
    }

    fn parse_response(&self, response: &DeleteAclsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let part = |part: &grete_wire::messages::delete_acls::DeleteAclsFilterResult<'_>| {
            // An ACL that was found and not deleted is an error of its filter.
            let failed = part.matching_acls.iter().find(|acl| acl.error_code != 0);
            let code = failed.filter(|_| part.error_code == 0).map_or(part.error_code, |acl| acl.error_code);
            let message = failed.and_then(|acl| acl.error_message.as_deref()).or(part.error_message.as_deref());
            let bindings = part.matching_acls.iter().map(|acl| AclBinding {
                resource_type: acl.resource_type,
                name: acl.resource_name.to_string(),
                pattern: acl.pattern_type,
                principal: acl.principal.to_string(),
                host: acl.host.to_string(),
                operation: acl.operation,
                permission: acl.permission_type,
            });
            (code, message.map(str::to_owned), bindings.collect::<Vec<_>>())
        };
        let parts: Vec<_> = response.filter_results.iter().map(part).collect();
        results.set_only(joined(parts, self.filters.len()));
    }
}

/// Joins the results of a response. A code after which a retry helps is one of the whole request, and so is a response
/// with another number of results than were asked for.
fn joined<V, M: AsRef<str>>(parts: Vec<(i16, Option<M>, V)>, asked: usize) -> ItemResult<PerItem<V>> {
    if parts.len() != asked {
        let message = format!("the broker answered {} for {asked}", counted(parts.len(), "result"));
        return ItemResult::Code(ErrorCode::UNKNOWN_SERVER_ERROR, Some(message));
    }
    let text = |message: Option<M>| {
        message.map(|message| message.as_ref().to_owned()).filter(|message: &String| !message.is_empty())
    };
    let mut results = Vec::with_capacity(parts.len());
    for (code, message, value) in parts {
        let code = ErrorCode(code);
        if code.is_retriable() {
            return ItemResult::Code(code, text(message));
        }
        results.push(match code {
            ErrorCode::NONE => Ok(value),
            code => Err(AdminError::Refused { code, message: text(message) }),
        });
    }
    ItemResult::Done(results)
}
