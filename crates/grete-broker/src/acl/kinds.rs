//! Resource types, pattern types, operations and permissions, with Kafka's numbers.

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($(#[$doc:meta])* $kind:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(i8)]
        pub enum $kind { $($(#[$variant_doc])* $variant = $number,)* }

        impl $kind {
            /// Returns the value with this number. `None`: an ACL of these brokers cannot have it.
            #[must_use]
            pub const fn from_number(number: i8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// Returns the number on the wire.
            #[must_use]
            pub const fn number(self) -> i8 {
                self as i8
            }
        }
    };
}

kinds! {
    /// Type of a resource. These brokers have no delegation tokens, and no users as resources, but ACLs on them.
    ResourceType {
        /// A topic.
        Topic = 2,
        /// A group.
        Group = 3,
        /// The cluster.
        Cluster = 4,
        /// A transactional id.
        TransactionalId = 5,
        /// A delegation token.
        DelegationToken = 6,
        /// A user.
        User = 7,
    }
}

kinds! {
    /// Meaning of a resource's name in an ACL (KIP-290).
    PatternType {
        /// The resource has this very name; `*`: every resource.
        Literal = 3,
        /// The name of the resource begins so.
        Prefixed = 4,
    }
}

kinds! {
    /// Operation on a resource.
    Operation {
        /// Every operation.
        All = 2,
        /// Read records, commit offsets, be a member.
        Read = 3,
        /// Write records.
        Write = 4,
        /// Create.
        Create = 5,
        /// Delete.
        Delete = 6,
        /// Alter.
        Alter = 7,
        /// Describe.
        Describe = 8,
        /// Requests between brokers.
        ClusterAction = 9,
        /// Read settings.
        DescribeConfigs = 10,
        /// Change settings.
        AlterConfigs = 11,
        /// Write with an idempotent producer.
        IdempotentWrite = 12,
        /// Create delegation tokens.
        CreateTokens = 13,
        /// Describe delegation tokens.
        DescribeTokens = 14,
        /// Prepare a transaction of two phases (KIP-939).
        TwoPhaseCommit = 15,
    }
}

kinds! {
    /// Effect of an ACL.
    Permission {
        /// The operation is denied, whatever else is allowed.
        Deny = 2,
        /// The operation is allowed.
        Allow = 3,
    }
}

impl Operation {
    /// Returns whether an ACL that allows this operation allows `wanted`, too.
    pub(super) fn allows(self, wanted: Self) -> bool {
        match wanted {
            _ if self == Self::All || self == wanted => true,
            Self::Describe => matches!(self, Self::Read | Self::Write | Self::Delete | Self::Alter),
            Self::DescribeConfigs => self == Self::AlterConfigs,
            _ => false,
        }
    }

    /// Returns whether an ACL that denies this operation denies `wanted`.
    pub(super) fn denies(self, wanted: Self) -> bool {
        self == Self::All || self == wanted
    }
}
