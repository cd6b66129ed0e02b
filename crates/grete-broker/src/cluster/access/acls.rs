//! DescribeAcls, CreateAcls and DeleteAcls.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::create_acls::{AclCreation, AclCreationResult};
use grete_wire::messages::delete_acls::{DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsMatchingAcl};
use grete_wire::messages::describe_acls::{AclDescription, DescribeAclsResource};
use grete_wire::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
    DescribeAclsResponse,
};

use crate::acl::{
    ANY, Acl, AclChange, AclFilter, CLUSTER_NAME, MATCH, Operation, PatternType, Permission, ResourceType,
};
use crate::cluster::{Cluster, RequestContext};
use crate::message::{Request, Response};

/// Maximum number of ACLs, so that clients cannot take all memory.
const MAX_ACLS: usize = 100_000;

/// Maximum length of each text of an ACL, in bytes, as in Kafka's records of ACLs.
const MAX_TEXT_BYTES: usize = 32_767;

/// Number of a resource type, pattern type, operation or permission that a client does not know.
const UNKNOWN: i8 = 0;

/// Message of Kafka's brokers without an authorizer.
const NO_AUTHORIZER: &str = "No Authorizer is configured.";

impl Cluster {
    pub(in crate::cluster) fn describe_acls(&mut self, context: &RequestContext, request: &DescribeAclsRequest<'_>) {
        let filter = AclFilter {
            resource_type: request.resource_type_filter,
            name: request.resource_name_filter.as_deref(),
            pattern: request.pattern_type_filter,
            principal: request.principal_filter.as_deref(),
            host: request.host_filter.as_deref(),
            operation: request.operation,
            permission: request.permission_type,
        };
        if self.config.acls.is_none() {
            return self.refuse_acls(context, &Request::DescribeAcls(request.clone()));
        }
        let mut resources: Vec<DescribeAclsResource<'static>> = Vec::new();
        // The ACLs of a pattern follow each other.
        for acl in self.authorizer.found_by(&filter) {
            let description = AclDescription {
                principal: Cow::Owned(acl.principal.to_string()),
                host: Cow::Owned(acl.host.to_string()),
                operation: acl.operation.number(),
                permission_type: acl.permission.number(),
            };
            let is_same = |last: &DescribeAclsResource<'_>| {
                last.resource_type == acl.resource_type.number()
                    && last.pattern_type == acl.pattern.number()
                    && *last.resource_name == *acl.name
            };
            match resources.last_mut() {
                Some(last) if is_same(last) => last.acls.push(description),
                _ => resources.push(DescribeAclsResource {
                    resource_type: acl.resource_type.number(),
                    resource_name: Cow::Owned(acl.name.to_string()),
                    pattern_type: acl.pattern.number(),
                    acls: vec![description],
                }),
            }
        }
        let response = DescribeAclsResponse { error_message: None, resources, ..DescribeAclsResponse::default() };
        self.reply(context, Response::DescribeAcls(response));
    }

    pub(in crate::cluster) fn create_acls(&mut self, context: &RequestContext, request: &CreateAclsRequest<'_>) {
        if self.config.acls.is_none() {
            return self.refuse_acls(context, &Request::CreateAcls(request.clone()));
        }
        let fails = request.creations.iter().any(has_any);
        let mut results = Vec::new();
        for creation in &request.creations {
            let created = if fails { Ok(()) } else { self.create_acl(creation) };
            let (error, message) = match created {
                Ok(()) if fails => (ErrorCode::UNKNOWN_SERVER_ERROR, None),
                Ok(()) => (ErrorCode::NONE, None),
                Err(message) => (ErrorCode::INVALID_REQUEST, Some(Cow::Owned(message))),
            };
            results.push(AclCreationResult { error_code: error.0, error_message: message });
        }
        self.reply(context, Response::CreateAcls(CreateAclsResponse { results, ..CreateAclsResponse::default() }));
    }

    /// Adds an ACL unless the brokers have it. An error says what is wrong with the ACL.
    fn create_acl(&mut self, creation: &AclCreation<'_>) -> Result<(), String> {
        let acl = checked(creation)?;
        if !self.authorizer.contains(&acl) {
            if self.authorizer.len() >= MAX_ACLS {
                return Err(format!("These brokers hold {MAX_ACLS} ACLs at most."));
            }
            self.change_acls(AclChange::Created(acl));
        }
        Ok(())
    }

    pub(in crate::cluster) fn delete_acls(&mut self, context: &RequestContext, request: &DeleteAclsRequest<'_>) {
        if self.config.acls.is_none() {
            return self.refuse_acls(context, &Request::DeleteAcls(request.clone()));
        }
        let filters: Vec<AclFilter<'_>> = request.filters.iter().map(as_filter).collect();
        // Each filter names what it finds, also if another filter finds the same.
        let found: Vec<Vec<Acl>> = filters.iter().map(|filter| self.authorizer.found_by(filter)).collect();
        for acl in found.iter().flatten() {
            if self.authorizer.contains(acl) {
                self.change_acls(AclChange::Deleted(acl.clone()));
            }
        }
        let matching = |acl: Acl| DeleteAclsMatchingAcl {
            error_code: ErrorCode::NONE.0,
            error_message: None,
            resource_type: acl.resource_type.number(),
            resource_name: Cow::Owned(acl.name.to_string()),
            pattern_type: acl.pattern.number(),
            principal: Cow::Owned(acl.principal.to_string()),
            host: Cow::Owned(acl.host.to_string()),
            operation: acl.operation.number(),
            permission_type: acl.permission.number(),
        };
        let result = |(acls, filter): (Vec<Acl>, &AclFilter<'_>)| {
            let error = if filter.has_unknown() { ErrorCode::INVALID_REQUEST } else { ErrorCode::NONE };
            DeleteAclsFilterResult {
                error_code: error.0,
                error_message: filter.has_unknown().then_some(Cow::Borrowed("Unknown patternFilter or entryFilter.")),
                matching_acls: acls.into_iter().map(matching).collect(),
            }
        };
        let filter_results = found.into_iter().zip(&filters).map(result).collect();
        let response = DeleteAclsResponse { filter_results, ..DeleteAclsResponse::default() };
        self.reply(context, Response::DeleteAcls(response));
    }

    /// Refuses a request, because there is no authorizer.
    fn refuse_acls(&mut self, context: &RequestContext, request: &Request<'_>) {
        self.refuse(context, request, ErrorCode::SECURITY_DISABLED);
        let text = Cow::Borrowed(NO_AUTHORIZER);
        if let Some((_, response)) = self.effects.replies.last_mut() {
            match response {
                Response::DescribeAcls(response) => response.error_message = Some(text),
                Response::CreateAcls(response) => {
                    response.results.iter_mut().for_each(|result| result.error_message = Some(text.clone()));
                }
                Response::DeleteAcls(response) => {
                    response.filter_results.iter_mut().for_each(|result| result.error_message = Some(text.clone()));
                }
                _ => {}
            }
        }
    }
}

/// Checks the numbers of a request about ACLs. Kafka takes 0 for an error of the client's program, in whatever state the
/// brokers are, and closes the connection. Other numbers without a meaning are errors of one ACL or filter.
pub(in crate::cluster) fn check_numbers(request: &Request<'_>) -> Result<(), String> {
    let has_zero = match request {
        Request::DescribeAcls(request) => {
            [request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type]
                .contains(&UNKNOWN)
        }
        Request::CreateAcls(request) => request.creations.iter().any(|acl| {
            [acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type].contains(&UNKNOWN)
        }),
        Request::DeleteAcls(request) => request.filters.iter().any(|filter| {
            [filter.resource_type_filter, filter.pattern_type_filter, filter.operation, filter.permission_type]
                .contains(&UNKNOWN)
        }),
        _ => false,
    };
    if has_zero { Err("a request about ACLs has an unknown element, the number 0".to_owned()) } else { Ok(()) }
}

/// Returns whether an ACL has a number that only filters may have. Kafka then fails the whole request.
fn has_any(acl: &AclCreation<'_>) -> bool {
    [acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type].contains(&ANY)
        || acl.resource_pattern_type == MATCH
}

fn as_filter<'a>(filter: &'a DeleteAclsFilter<'_>) -> AclFilter<'a> {
    AclFilter {
        resource_type: filter.resource_type_filter,
        name: filter.resource_name_filter.as_deref(),
        pattern: filter.pattern_type_filter,
        principal: filter.principal_filter.as_deref(),
        host: filter.host_filter.as_deref(),
        operation: filter.operation,
        permission: filter.permission_type,
    }
}

/// Checks an ACL as Kafka's controller does.
fn checked(creation: &AclCreation<'_>) -> Result<Acl, String> {
    let (name, principal, host) = (&*creation.resource_name, &*creation.principal, &*creation.host);
    if name.is_empty() {
        return Err("Invalid empty resource name".to_owned());
    }
    if [name, principal, host].into_iter().any(|text| text.len() > MAX_TEXT_BYTES) {
        return Err(format!("Name, principal and host of an ACL have {MAX_TEXT_BYTES} bytes at most."));
    }
    if !principal.contains(':') {
        return Err(format!(
            "Could not parse principal from `{principal}` (no colon is present separating the principal type from the \
             principal name)"
        ));
    }
    let invalid = |what: &str, number: i8| format!("Invalid {what} {number}");
    let resource_type = ResourceType::from_number(creation.resource_type)
        .ok_or_else(|| invalid("resourceType", creation.resource_type))?;
    if resource_type == ResourceType::Cluster && name != CLUSTER_NAME {
        return Err(format!("The only valid name for the CLUSTER resource is {CLUSTER_NAME}"));
    }
    Ok(Acl {
        resource_type,
        name: name.into(),
        pattern: PatternType::from_number(creation.resource_pattern_type)
            .ok_or_else(|| invalid("patternType", creation.resource_pattern_type))?,
        principal: principal.into(),
        host: host.into(),
        operation: Operation::from_number(creation.operation)
            .ok_or_else(|| invalid("operation", creation.operation))?,
        permission: Permission::from_number(creation.permission_type)
            .ok_or_else(|| invalid("permissionType", creation.permission_type))?,
    })
}
