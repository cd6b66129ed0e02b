//! All ACLs, and decisions as Kafka's `StandardAuthorizer` makes them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::binding::{Acl, AclFilter};
use super::kinds::{Operation, PatternType, Permission, ResourceType};
use super::{AclChange, WILDCARD};

/// Settings of the authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AclConfig {
    /// `super.users`: principals that may do everything, such as `User:admin`.
    pub super_users: BTreeSet<String>,
    /// `allow.everyone.if.no.acl.found`: whether everyone may use a resource that no ACL covers.
    pub allow_everyone_if_no_acl_found: bool,
}

/// All ACLs of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Authorizer {
    /// ACLs by type and name, so that a request costs a look for each beginning of a name and not for each ACL.
    by_name: HashMap<(ResourceType, PatternType), HashMap<Arc<str>, BTreeSet<Acl>>>,
}

impl Authorizer {
    /// Applies a change.
    pub fn apply(&mut self, change: &AclChange) {
        let (AclChange::Created(acl) | AclChange::Deleted(acl)) = change;
        let key = (acl.resource_type, acl.pattern);
        let names = self.by_name.entry(key).or_default();
        match change {
            AclChange::Created(acl) => {
                names.entry(Arc::clone(&acl.name)).or_default().insert(acl.clone());
            }
            AclChange::Deleted(acl) => {
                if let Some(acls) = names.get_mut(&acl.name) {
                    acls.remove(acl);
                    if acls.is_empty() {
                        names.remove(&acl.name);
                    }
                }
            }
        }
    }

    /// Returns whether there is this very ACL.
    #[must_use]
    pub fn contains(&self, acl: &Acl) -> bool {
        let names = self.by_name.get(&(acl.resource_type, acl.pattern));
        names.and_then(|names| names.get(&acl.name)).is_some_and(|acls| acls.contains(acl))
    }

    /// Returns the number of ACLs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.values().flat_map(HashMap::values).map(BTreeSet::len).sum()
    }

    /// Returns whether there are no ACLs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all ACLs in order.
    #[must_use]
    pub fn all(&self) -> BTreeSet<&Acl> {
        self.by_name.values().flat_map(HashMap::values).flatten().collect()
    }

    /// Returns the ACLs that a filter finds, in order.
    #[must_use]
    pub fn found_by(&self, filter: &AclFilter<'_>) -> Vec<Acl> {
        self.all().into_iter().filter(|acl| filter.finds(acl)).cloned().collect()
    }

    /// Returns the ACLs whose pattern covers a resource.
    fn covering<'a>(&'a self, resource_type: ResourceType, name: &'a str) -> impl Iterator<Item = &'a Acl> {
        let literal = self.by_name.get(&(resource_type, PatternType::Literal));
        let literal_names = [name, WILDCARD].into_iter().take(if name == WILDCARD { 1 } else { 2 });
        let literal = literal_names.filter_map(move |name| literal?.get(name));
        let prefixed = self.by_name.get(&(resource_type, PatternType::Prefixed));
        let ends = name.char_indices().map(|(at, letter)| at + letter.len_utf8());
        let prefixes = ends.filter_map(move |end| prefixed?.get(name.get(..end)?));
        literal.chain(prefixes).flatten()
    }

    /// Returns whether a client may do something with a resource.
    #[must_use]
    pub fn is_allowed(
        &self,
        config: &AclConfig,
        (principal, host): (&str, &str),
        operation: Operation,
        resource_type: ResourceType,
        name: &str,
    ) -> bool {
        if config.super_users.contains(principal) {
            return true;
        }
        let (mut is_covered, mut is_allowed) = (false, false);
        for acl in self.covering(resource_type, name) {
            is_covered = true;
            if !acl.concerns(principal, host) {
                continue;
            }
            match acl.permission {
                Permission::Deny if acl.operation.denies(operation) => return false,
                Permission::Allow => is_allowed |= acl.operation.allows(operation),
                Permission::Deny => {}
            }
        }
        if is_covered { is_allowed } else { config.allow_everyone_if_no_acl_found }
    }

    /// Returns whether a client may do something with any resource of a type, as Kafka's
    /// `Authorizer.authorizeByResourceType` does: an ACL that allows counts unless one that denies covers all that the
    /// first one covers.
    #[must_use]
    pub fn is_allowed_on_any(
        &self,
        config: &AclConfig,
        (principal, host): (&str, &str),
        operation: Operation,
        resource_type: ResourceType,
    ) -> bool {
        // Super users, and resources without any ACL: Kafka asks with a made-up name.
        if self.is_allowed(config, (principal, host), operation, resource_type, "hardcode") {
            return true;
        }
        let acls = || {
            let of_type = self.by_name.iter().filter(move |((kind, _), _)| *kind == resource_type);
            let all = of_type.flat_map(|(_, names)| names.values()).flatten();
            all.filter(move |acl| acl.concerns(principal, host) && acl.operation.denies(operation))
        };
        let denied = || acls().filter(|acl| acl.permission == Permission::Deny);
        let covers_all = |acl: &Acl| acl.pattern == PatternType::Literal && *acl.name == *WILDCARD;
        if denied().any(covers_all) {
            return false;
        }
        let is_denied = |allowed: &Acl| {
            let covers = |denied: &Acl| match denied.pattern {
                PatternType::Prefixed => allowed.name.starts_with(&*denied.name),
                PatternType::Literal => allowed.pattern == PatternType::Literal && allowed.name == denied.name,
            };
            denied().any(covers)
        };
        let mut allowed = acls().filter(|acl| acl.permission == Permission::Allow);
        allowed.any(|acl| covers_all(acl) || !is_denied(acl))
    }
}
