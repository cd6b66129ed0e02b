//! What a setting is, and how one is found by name.

use super::table;

/// What a value must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number {
        least: i64,
        most: i64,
        unit: &'static str,
    },
    Flag,
    /// What may be said, and how it is kept: several spellings can mean one thing.
    Choice(&'static [(&'static str, &'static str)]),
    Assignors,
}

/// Whether Grete has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Built,
    /// Refused, but for the values that mean "off".
    NotBuilt {
        unless: &'static [&'static str],
        cure: &'static str,
    },
}

/// Which kind of client a configuration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Reads.
    Consumer,
    /// Writes.
    Producer,
    /// Manages topics and groups.
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

    /// The tables whose settings mean something to it.
    pub(super) fn settings(self) -> impl Iterator<Item = &'static Setting> {
        let own: &'static [Setting] = match self {
            Self::Consumer => table::CONSUMER,
            Self::Producer => table::PRODUCER,
            Self::Admin => &[],
        };
        table::COMMON.iter().chain(own)
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

impl Setting {
    /// The setting of that name, and whether it means something to `role`. People give one dict to all their clients, so
    /// another role's setting is not a mistake.
    pub(super) fn find(name: &str, role: Role) -> Option<(&'static Setting, bool)> {
        let named = |setting: &&Setting| setting.name == name || setting.aliases.contains(&name);
        if let Some(setting) = role.settings().find(named) {
            return Some((setting, true));
        }
        if let Some(setting) = table::all().find(named) {
            return Some((setting, false));
        }
        table::FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, setting)| (setting, true))
    }
}

/// The setting whose name looks most like this one, if any looks like it at all.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let fold = |text: &str| text.to_ascii_lowercase().replace(['_', '-'], ".");
    let wanted = fold(name);
    let names = table::all().flat_map(|setting| std::iter::once(&setting.name).chain(setting.aliases));
    names
        .map(|known| (distance(&wanted, &fold(known)), *known))
        .min()
        .filter(|(distance, known)| *distance <= known.len() / 3)
        .map(|(_, known)| known)
}

/// Levenshtein's edit distance over bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let best = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = best;
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
