//! Setting definitions.

/// Type of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number {
        min: i64,
        max: i64,
        unit: &'static str,
    },
    Flag,
    /// Allowed spellings with the stored value; several spellings can mean the same value.
    Choice(&'static [(&'static str, &'static str)]),
    Assignors,
    /// Text that is kept as a [`Secret`](grete_proto::secret::Secret) and never shown.
    Secret,
}

/// Support of a setting by Grete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Supported,
    /// Refused, except for the values that switch the feature off.
    Unsupported {
        off_values: &'static [&'static str],
        hint: &'static str,
    },
}

/// Kind of client that a configuration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Client that reads records.
    Consumer,
    /// Client that writes records.
    Producer,
    /// Client that manages topics and groups.
    Admin,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Consumer => "consumer",
            Self::Producer => "producer",
            Self::Admin => "admin",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) default: &'static str,
    pub(super) kind: Kind,
    pub(super) status: Status,
}

/// Returns the setting of these values, which Grete has.
pub(super) const fn supported(
    name: &'static str,
    aliases: &'static [&'static str],
    default: &'static str,
    kind: Kind,
) -> Setting {
    Setting { name, aliases, default, kind, status: Status::Supported }
}

/// Returns a setting that is refused, unless its value is one of `off_values`.
pub(super) const fn unsupported(
    name: &'static str,
    off_values: &'static [&'static str],
    cure: &'static str,
) -> Setting {
    Setting {
        name,
        aliases: &[],
        default: "",
        kind: Kind::Text,
        status: Status::Unsupported { off_values, hint: cure },
    }
}
