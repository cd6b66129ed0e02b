//! Kafka's message schemas in their JSON form.

use std::error::Error;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

/// Schema of one message: a file of the jar.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schema {
    pub api_key: Option<i16>,
    pub name: String,
    pub valid_versions: Versions,
    pub flexible_versions: Versions,
    #[serde(default)]
    pub latest_version_unstable: bool,
    #[serde(default)]
    pub common_structs: Vec<CommonStruct>,
    pub fields: Vec<Field>,
}

/// Struct that several fields of a message share.
#[derive(Debug, Clone, Deserialize)]
pub struct CommonStruct {
    pub name: String,
    pub fields: Vec<Field>,
}

/// Field of a message or struct.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    pub name: String,
    #[serde(rename = "type")]
    pub type_: String,
    pub versions: Versions,
    #[serde(default)]
    pub nullable_versions: Versions,
    #[serde(default)]
    pub tagged_versions: Versions,
    pub tag: Option<u32>,
    pub flexible_versions: Option<Versions>,
    pub default: Option<Value>,
    #[serde(default)]
    pub ignorable: bool,
    #[serde(default)]
    pub about: String,
    #[serde(default)]
    pub fields: Vec<Field>,
}

/// Range of versions, both ends inclusive; empty if `first > last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Versions {
    pub first: i16,
    pub last: i16,
}

impl Versions {
    pub const NONE: Self = Self { first: 0, last: -1 };

    pub fn is_empty(self) -> bool {
        self.first > self.last
    }

    pub fn contains(self, version: i16) -> bool {
        (self.first..=self.last).contains(&version)
    }

    pub fn and(self, other: Self) -> Self {
        Self { first: self.first.max(other.first), last: self.last.min(other.last) }
    }

    /// Returns the smallest range that contains both.
    pub fn hull(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self { first: self.first.min(other.first), last: self.last.max(other.last) },
        }
    }

    /// Returns whether every version of `other` is in this range.
    pub fn covers(self, other: Self) -> bool {
        self.and(other) == other || other.is_empty()
    }

    pub fn iter(self) -> impl Iterator<Item = i16> {
        self.first..=self.last
    }
}

impl Default for Versions {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { first, last: i16::MAX } => write!(f, "{first}+"),
            Self { first, last } if first == last => write!(f, "{first}"),
            Self { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

impl TryFrom<String> for Versions {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let number = |text: &str| text.parse::<i16>().map_err(|_| format!("not a version range: {text:?}"));
        Ok(match text.as_str() {
            "none" => Self::NONE,
            text => match (text.strip_suffix('+'), text.split_once('-')) {
                (Some(first), _) => Self { first: number(first)?, last: i16::MAX },
                (None, Some((first, last))) => Self { first: number(first)?, last: number(last)? },
                (None, None) => Self { first: number(text)?, last: number(text)? },
            },
        })
    }
}

/// Parses a schema file. Kafka's dialect of JSON has `//` comments.
pub fn parse(text: &str) -> Result<Schema, Box<dyn Error>> {
    Ok(serde_json::from_str(&strip_comments(text))?)
}

fn strip_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let (mut in_string, mut escaped, mut previous, mut end) = (false, false, ' ', line.len());
        for (i, c) in line.char_indices() {
            match c {
                '"' if !escaped => in_string = !in_string,
                '/' if previous == '/' && !in_string => {
                    end = i - 1;
                    break;
                }
                _ => {}
            }
            escaped = c == '\\' && !escaped;
            previous = c;
        }
        out.push_str(&line[..end]);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_strings_stay() {
        let text = "// head\n{ \"a\": \"b // c \\\" // d\" } // tail\n";
        assert_eq!(strip_comments(text), "\n{ \"a\": \"b // c \\\" // d\" } \n");
    }

    #[test]
    fn ranges_are_read() {
        let versions = |text: &str| Versions::try_from(text.to_string()).unwrap();
        assert_eq!(versions("3+"), Versions { first: 3, last: i16::MAX });
        assert_eq!(versions("0-4"), Versions { first: 0, last: 4 });
        assert_eq!(versions("7"), Versions { first: 7, last: 7 });
        assert!(versions("none").is_empty());
        assert!(Versions::try_from("x+".to_string()).is_err());
    }
}
