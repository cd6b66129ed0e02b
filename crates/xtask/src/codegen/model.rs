//! Schemas prepared for code generation: names, types, defaults, and all structs of a message in one list.

use std::collections::BTreeMap;
use std::error::Error;

use serde_json::Value;

use super::schema::{Field as SchemaField, Schema, Versions};

/// Generated file with one or two messages.
pub struct MessageFile {
    /// Folder of the file.
    pub family: &'static str,
    pub module: String,
    pub messages: Vec<Message>,
}

impl MessageFile {
    /// Joins messages. A struct whose name two of the messages have gets the name of its message as a prefix.
    pub fn new(family: &'static str, name: &str, mut messages: Vec<Message>) -> Self {
        let mut uses = BTreeMap::<String, usize>::new();
        for known in messages.iter().flat_map(|message| &message.structs) {
            *uses.entry(known.name.clone()).or_default() += 1;
        }
        for message in &mut messages {
            message.prefix(|name| uses.get(name).is_some_and(|&count| count > 1));
        }
        Self { family, module: snake(name), messages }
    }
}

/// Message and its structs; the message's own struct is the first.
pub struct Message {
    pub name: String,
    /// Name in snake case.
    pub snake: String,
    pub api: Option<String>,
    pub is_request: bool,
    pub versions: Versions,
    pub flexible: Versions,
    pub structs: Vec<Struct>,
}

pub struct Struct {
    pub name: String,
    /// Whether the struct borrows from the input.
    pub borrows: bool,
    /// Versions in which a field of this type exists; for the message's own struct, all versions.
    pub versions: Versions,
    pub fields: Vec<Field>,
}

pub struct Field {
    pub schema_name: String,
    pub name: String,
    pub kind: Kind,
    pub versions: Versions,
    pub nullable: Versions,
    pub tagged: Versions,
    pub tag: u32,
    pub flexible: Versions,
    pub default: Default,
    pub ignorable: bool,
    pub about: String,
}

#[derive(Clone, PartialEq)]
pub enum Kind {
    Bool,
    Int(&'static str),
    Uuid,
    String,
    Bytes,
    Array(Box<Kind>),
    Struct(String),
}

/// Value of a field that is not on the wire.
#[derive(Clone, PartialEq)]
pub enum Default {
    /// Zero, false or empty.
    Empty,
    Null,
    True,
    Int(i64),
}

impl Kind {
    /// Returns the name of the struct, for a struct or an array of structs.
    fn struct_name(&self) -> Option<&str> {
        match self {
            Self::Struct(name) => Some(name),
            Self::Array(element) => element.struct_name(),
            _ => None,
        }
    }

    fn struct_name_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Struct(name) => Some(name),
            Self::Array(element) => element.struct_name_mut(),
            _ => None,
        }
    }
}

impl Message {
    pub fn new(schema: Schema) -> Result<Self, Box<dyn Error>> {
        let stem = schema.name.strip_suffix("Request").or_else(|| schema.name.strip_suffix("Response"));
        let mut message = Self {
            snake: snake(&schema.name),
            api: schema.api_key.and(stem.map(String::from)),
            is_request: schema.name.ends_with("Request"),
            versions: schema.valid_versions,
            flexible: schema.flexible_versions,
            structs: Vec::new(),
            name: schema.name.clone(),
        };
        message.add(&schema.name, &schema.fields)?;
        message.structs[0].versions = message.versions;
        for common in &schema.common_structs {
            message.add(&common.name, &common.fields)?;
        }
        // A struct borrows if one of its fields does. Repeated, as structs nest.
        for _ in 0..message.structs.len() {
            for i in 0..message.structs.len() {
                message.structs[i].borrows = message.structs[i].fields.iter().any(|field| message.borrows(&field.kind));
            }
        }
        message.find_versions();
        message.check_rows()?;
        message.check_sizes()?;
        Ok(message)
    }

    /// Finds the versions of each struct from the fields of its type. Repeated, as structs nest.
    fn find_versions(&mut self) {
        for _ in 0..self.structs.len() {
            for i in 0..self.structs.len() {
                let parent = self.structs[i].versions;
                let uses: Vec<(String, Versions)> = (self.structs[i].fields.iter())
                    .filter_map(|field| Some((field.kind.struct_name()?.to_string(), field.versions.and(parent))))
                    .collect();
                for known in &mut self.structs {
                    for (_, versions) in uses.iter().filter(|(name, _)| *name == known.name) {
                        known.versions = known.versions.hull(*versions);
                    }
                }
            }
        }
    }

    /// Refuses schemas that the rows of a table cannot express.
    fn check_rows(&self) -> Result<(), Box<dyn Error>> {
        let last = self.versions.last;
        if !self.flexible.is_empty() && self.flexible.last < last {
            return Err(format!("{}: version {last} is not flexible, but earlier ones are", self.name).into());
        }
        for known in &self.structs {
            let mut tag = None;
            for field in &known.fields {
                let refuse = |why| Err(format!("{}.{}: {why}", known.name, field.name).into());
                if !field.nullable.is_empty() && field.nullable.last < field.versions.last {
                    return refuse("nullable only until some version");
                }
                if field.nullable.is_empty() && field.default == Default::Null {
                    return refuse("null by default, but never nullable");
                }
                if !field.nullable.is_empty() && matches!(field.kind, Kind::Bool | Kind::Int(_) | Kind::Uuid) {
                    return refuse("nullable, but of a fixed size");
                }
                if matches!(field.kind, Kind::Struct(_)) && !field.nullable.is_empty() && !field.tagged.is_empty() {
                    return refuse("a tagged and nullable struct is not generated yet");
                }
                if !field.flexible.is_empty() && field.flexible != self.flexible.and(self.versions) {
                    return refuse("flexible in other versions than the message");
                }
                if !field.tagged.is_empty() && tag.replace(field.tag) >= Some(field.tag) {
                    return refuse("tags are not in order");
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, fields: &[SchemaField]) -> Result<(), Box<dyn Error>> {
        if self.structs.iter().any(|known| known.name == name) {
            return Err(format!("{}: two structs are called {name}", self.name).into());
        }
        let at = self.structs.len();
        self.structs.push(Struct {
            name: name.to_string(),
            borrows: false,
            versions: Versions::NONE,
            fields: Vec::new(),
        });
        for field in fields {
            if field.versions.and(self.versions).is_empty() {
                continue;
            }
            let made = self.field(field).map_err(|error| format!("{}.{}: {error}", self.name, field.name))?;
            self.structs[at].fields.push(made);
            if !field.fields.is_empty() {
                self.add(field.type_.trim_start_matches("[]"), &field.fields)?;
            }
        }
        Ok(())
    }

    fn field(&self, field: &SchemaField) -> Result<Field, Box<dyn Error>> {
        let kind = kind(&field.type_)?;
        let nullable = field.nullable_versions.and(field.versions).and(self.versions);
        let tagged = field.tagged_versions.and(self.versions);
        if !tagged.is_empty() && !tagged.covers(field.versions.and(self.versions)) {
            return Err("a field that is tagged in some versions only is not generated yet".into());
        }
        let default = match &field.default {
            None if field.type_ == "records" && !nullable.is_empty() => Default::Null,
            None => Default::Empty,
            Some(value) => default(value)?,
        };
        Ok(Field {
            schema_name: field.name.clone(),
            name: match snake(&field.name) {
                name if ["type", "match", "move", "ref", "where"].contains(&name.as_str()) => format!("{name}_"),
                name => name,
            },
            kind,
            versions: field.versions.and(self.versions),
            nullable,
            tagged,
            tag: field.tag.unwrap_or_default(),
            flexible: field.flexible_versions.unwrap_or(self.flexible).and(self.versions),
            default,
            ignorable: field.ignorable,
            about: field.about.clone(),
        })
    }

    /// Puts the message's name before the names of the structs that `ambiguous` selects.
    fn prefix(&mut self, ambiguous: impl Fn(&str) -> bool) {
        let prefix = &self.name;
        let rename = |name: &mut String| {
            if ambiguous(name) {
                *name = format!("{prefix}{name}");
            }
        };
        for known in &mut self.structs {
            rename(&mut known.name);
            for field in &mut known.fields {
                field.kind.struct_name_mut().map(rename);
            }
        }
    }

    /// Returns the structs that a field of this message can hold or be null instead.
    pub fn nullable_structs(&self) -> impl Iterator<Item = &Struct> {
        self.structs.iter().filter(|known| {
            self.structs.iter().flat_map(|other| &other.fields).any(|field| {
                !field.nullable.is_empty() && matches!(&field.kind, Kind::Struct(name) if *name == known.name)
            })
        })
    }

    pub fn find(&self, name: &str) -> Option<&Struct> {
        self.structs.iter().find(|known| known.name == name)
    }

    pub fn borrows(&self, kind: &Kind) -> bool {
        match kind {
            Kind::String | Kind::Bytes => true,
            Kind::Array(inner) => self.borrows(inner),
            Kind::Struct(name) => self.find(name).is_some_and(|known| known.borrows),
            _ => false,
        }
    }

    /// Returns the minimum bytes of a value in any of `versions`.
    pub fn min_size(&self, kind: &Kind, versions: Versions) -> usize {
        versions.and(self.versions).iter().map(|version| self.size_in(kind, version)).min().unwrap_or(0)
    }

    fn size_in(&self, kind: &Kind, version: i16) -> usize {
        let flexible = self.flexible.contains(version);
        match kind {
            Kind::Bool | Kind::Int("i8") => 1,
            Kind::Int("i16" | "u16") => 2,
            Kind::Int("i32" | "u32") => 4,
            Kind::Int(_) => 8,
            Kind::Uuid => 16,
            Kind::String | Kind::Bytes | Kind::Array(_) if flexible => 1,
            Kind::String => 2,
            Kind::Bytes | Kind::Array(_) => 4,
            Kind::Struct(name) => {
                let fields = self.find(name).map(|known| known.fields.as_slice()).unwrap_or_default();
                let present = fields.iter().filter(|field| field.versions.contains(version) && field.tagged.is_empty());
                present.map(|field| self.size_in(&field.kind, version)).sum::<usize>() + usize::from(flexible)
            }
        }
    }

    /// Refuses elements without bytes: with them, a count of four bytes could request any amount of memory.
    fn check_sizes(&self) -> Result<(), Box<dyn Error>> {
        for field in self.structs.iter().flat_map(|known| &known.fields) {
            if let Kind::Array(element) = &field.kind
                && self.min_size(element, field.versions) == 0
            {
                return Err(format!("{}.{}: elements of no size", self.name, field.name).into());
            }
        }
        Ok(())
    }
}

fn kind(text: &str) -> Result<Kind, Box<dyn Error>> {
    Ok(match text {
        "bool" => Kind::Bool,
        "int8" => Kind::Int("i8"),
        "int16" => Kind::Int("i16"),
        "uint16" => Kind::Int("u16"),
        "int32" => Kind::Int("i32"),
        "uint32" => Kind::Int("u32"),
        "int64" => Kind::Int("i64"),
        "uuid" => Kind::Uuid,
        "string" => Kind::String,
        "bytes" | "records" => Kind::Bytes,
        "float64" => return Err("float64 is not generated yet".into()),
        text => match text.strip_prefix("[]") {
            Some(element) => Kind::Array(Box::new(kind(element)?)),
            None => Kind::Struct(text.to_string()),
        },
    })
}

fn default(value: &Value) -> Result<Default, Box<dyn Error>> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Ok(match text.as_str() {
        "" | "0" | "false" => Default::Empty,
        "null" => Default::Null,
        "true" => Default::True,
        text => Default::Int(match text.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16)?,
            None => text.parse().map_err(|_| format!("default {text:?} is not understood"))?,
        }),
    })
}

/// Converts `TopicId` to `topic_id`.
pub fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, &c) in chars.iter().enumerate() {
        let starts_word = c.is_uppercase()
            && i > 0
            && (!chars[i - 1].is_uppercase() || chars.get(i + 1).is_some_and(|next| next.is_lowercase()));
        if starts_word {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_snakes() {
        assert_eq!(snake("TopicId"), "topic_id");
        assert_eq!(snake("OffsetForLeaderEpochRequest"), "offset_for_leader_epoch_request");
        assert_eq!(snake("KRaftVersion"), "k_raft_version");
    }
}
