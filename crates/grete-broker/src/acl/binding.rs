//! One ACL on one pattern of resources, and filters.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::kinds::{Operation, PatternType, Permission, ResourceType};
use super::{EVERYONE, WILDCARD};

/// Number that stands for every value in a filter.
pub(crate) const ANY: i8 = 1;
/// Number of the pattern type that finds the patterns which fit a resource's name.
pub(crate) const MATCH: i8 = 2;

/// ACL: who may or may not do what with which resources, from which host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Acl {
    /// Type of the resources.
    pub resource_type: ResourceType,
    /// Name, or beginning of names.
    pub name: Arc<str>,
    /// Meaning of the name.
    pub pattern: PatternType,
    /// Principal such as `User:alice`; `User:*`: everyone.
    pub principal: Arc<str>,
    /// Address of the client; `*`: every address.
    pub host: Arc<str>,
    /// Operation.
    pub operation: Operation,
    /// Whether the operation is allowed or denied.
    pub permission: Permission,
}

impl Acl {
    /// Returns whether the pattern covers a resource of the ACL's type.
    pub(super) fn covers(&self, name: &str) -> bool {
        match self.pattern {
            PatternType::Literal => *self.name == *name || *self.name == *WILDCARD,
            PatternType::Prefixed => name.starts_with(&*self.name),
        }
    }

    /// Returns whether the ACL is about this client.
    pub(super) fn concerns(&self, principal: &str, host: &str) -> bool {
        (*self.principal == *principal || *self.principal == *EVERYONE)
            && (*self.host == *host || *self.host == *WILDCARD)
    }
}

/// Filter of ACLs, with the numbers of the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclFilter<'a> {
    /// Type of the resources; 1: every type.
    pub resource_type: i8,
    /// Name; `None`: every name.
    pub name: Option<&'a str>,
    /// Pattern type; 1: every type, 2: the patterns that cover the resource `name`.
    pub pattern: i8,
    /// Principal; `None`: every principal.
    pub principal: Option<&'a str>,
    /// Host; `None`: every host.
    pub host: Option<&'a str>,
    /// Operation; 1: every operation.
    pub operation: i8,
    /// Permission; 1: both.
    pub permission: i8,
}

impl AclFilter<'_> {
    /// Returns whether the filter finds an ACL. Operations are compared as they are, without what they imply.
    #[must_use]
    pub fn finds(&self, acl: &Acl) -> bool {
        let is = |wanted: i8, number: i8| wanted == ANY || wanted == number;
        let has = |wanted: Option<&str>, text: &str| wanted.is_none_or(|wanted| wanted == text);
        let fits_name = match (self.pattern, self.name) {
            (ANY, name) => has(name, &acl.name),
            (MATCH, name) => name.is_none_or(|name| acl.covers(name)),
            (pattern, name) => pattern == acl.pattern.number() && has(name, &acl.name),
        };
        fits_name
            && is(self.resource_type, acl.resource_type.number())
            && has(self.principal, &acl.principal)
            && has(self.host, &acl.host)
            && is(self.operation, acl.operation.number())
            && is(self.permission, acl.permission.number())
    }

    /// Returns whether a number has no meaning. Such a filter finds nothing.
    #[must_use]
    pub fn has_unknown(&self) -> bool {
        let resource = (1..=7).contains(&self.resource_type);
        let pattern = (1..=4).contains(&self.pattern);
        let operation = (1..=15).contains(&self.operation);
        !(resource && pattern && operation && (1..=3).contains(&self.permission))
    }
}
