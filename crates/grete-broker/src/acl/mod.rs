//! ACLs (KIP-11, KIP-290): what they are, which of them decide about an operation, and which a filter finds.
//!
//! - `kinds`: resource types, pattern types, operations and permissions, with Kafka's numbers.
//! - `binding`: one ACL on one pattern of resources, and filters.
//! - `authorizer`: all ACLs, and decisions as Kafka's `StandardAuthorizer` makes them.

mod authorizer;
mod binding;
mod kinds;

#[cfg(test)]
mod tests;

pub use authorizer::{AclConfig, Authorizer};
pub(crate) use binding::{ANY, MATCH};
pub use binding::{Acl, AclFilter};
pub use kinds::{Operation, PatternType, Permission, ResourceType};

use serde::{Deserialize, Serialize};

/// Name of the only resource of the type [`ResourceType::Cluster`].
pub const CLUSTER_NAME: &str = "kafka-cluster";

/// Name that stands for every resource of its type, and host that stands for every host.
pub const WILDCARD: &str = "*";

/// Principal of a client that neither logs in nor shows a certificate.
pub const ANONYMOUS: &str = "User:ANONYMOUS";

/// Principal that stands for every user.
pub const EVERYONE: &str = "User:*";

/// Durable change of the ACLs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AclChange {
    /// An ACL was added.
    Created(Acl),
    /// An ACL was removed.
    Deleted(Acl),
}
