//! Schemas from their JSON text.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::defaults::{self, Defaults};
use super::{Enum, Field, Fixed, Kind, Logical, Name, Node, NodeId, Record, Schema};
use crate::error::SchemaError;

type Result<T> = std::result::Result<T, SchemaError>;

/// Parser with the named types so far.
#[derive(Default)]
struct Parser {
    nodes: Vec<Node>,
    named: HashMap<String, NodeId>,
    defaults: Defaults,
}

pub(super) fn parse(text: &str, references: &[&str]) -> Result<Schema> {
    let mut parser = Parser::default();
    let mut root = NodeId(0);
    for text in references.iter().chain([&text]) {
        let text = text.trim();
        // Some registries return the name of a type without quotes.
        let json = match serde_json::from_str(text) {
            Ok(json) => json,
            Err(_) if text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.') && !text.is_empty() => {
                Value::String(text.to_owned())
            }
            Err(error) => return Err(SchemaError::new(format!("an Avro schema is JSON: {error}"))),
        };
        root = parser.node(&json, "")?;
    }
    let mut schema = Schema { nodes: parser.nodes, root };
    defaults::encode_all(&mut schema, &parser.defaults)?;
    Ok(schema)
}

impl Parser {
    fn push(&mut self, kind: Kind, logical: Logical) -> Result<NodeId> {
        let id = u32::try_from(self.nodes.len()).map_err(|_| SchemaError::new("the schema is too large"))?;
        self.nodes.push(Node { kind, logical });
        Ok(NodeId(id))
    }

    /// Parses one type. serde_json bounds the recursion, because it refuses JSON that is nested deeper than 128 levels.
    fn node(&mut self, json: &Value, namespace: &str) -> Result<NodeId> {
        match json {
            Value::String(name) => match primitive(name) {
                Some(kind) => self.push(kind, Logical::None),
                None => self.reference(name, namespace),
            },
            Value::Array(branches) => self.union(branches, namespace),
            Value::Object(object) => self.object(object, namespace),
            other => Err(SchemaError::new(format!("{other} is no type; a type is a name, an object or an array"))),
        }
    }

    fn reference(&self, name: &str, namespace: &str) -> Result<NodeId> {
        let full = full_name(name, namespace);
        self.named.get(&full).or_else(|| self.named.get(name)).copied().ok_or_else(|| {
            SchemaError::new(format!("the type {full} is not defined; define it before its use, or pass its schema"))
        })
    }

    fn union(&mut self, branches: &[Value], namespace: &str) -> Result<NodeId> {
        let mut ids = Vec::with_capacity(branches.len());
        let mut seen = HashSet::new();
        for branch in branches {
            let id = self.node(branch, namespace)?;
            let node = &self.nodes[id.index()];
            let key = match &node.kind {
                Kind::Union(_) => return Err(SchemaError::new("a union stands directly in a union; write one union")),
                Kind::Record(record) => record.name.full.clone(),
                Kind::Enum(one) => one.name.full.clone(),
                Kind::Fixed(fixed) => fixed.name.full.clone(),
                other => format!("{:?}", std::mem::discriminant(other)),
            };
            if !seen.insert(key) {
                return Err(SchemaError::new(format!("a union has {branch} twice")));
            }
            ids.push(id);
        }
        if ids.is_empty() {
            return Err(SchemaError::new("a union has no types"));
        }
        self.push(Kind::Union(ids), Logical::None)
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<NodeId> {
        let inner = object.get("type").ok_or_else(|| SchemaError::new("a type has no \"type\""))?;
        let Value::String(name) = inner else { return self.node(inner, namespace) };
        match name.as_str() {
            "record" | "error" => self.record(object, namespace),
            "enum" => self.enumeration(object, namespace),
            "fixed" => {
                let name = self.name(object, namespace)?;
                let size = object.get("size").and_then(Value::as_u64).and_then(|size| u32::try_from(size).ok());
                let size =
                    size.ok_or_else(|| SchemaError::new(format!("fixed {}: \"size\" is a number", name.full)))?;
                let full = name.full.clone();
                let kind = Kind::Fixed(Fixed { name, size: size as usize });
                let logical = Logical::parse(object, &kind);
                let id = self.push(kind, logical)?;
                self.named.insert(full, id);
                Ok(id)
            }
            "array" | "map" => {
                let key = if name == "array" { "items" } else { "values" };
                let item = object.get(key).ok_or_else(|| SchemaError::new(format!("{name} has no {key:?}")))?;
                let item = self.node(item, namespace)?;
                self.push(if name == "array" { Kind::Array(item) } else { Kind::Map(item) }, Logical::None)
            }
            _ => match primitive(name) {
                Some(kind) => {
                    let logical = Logical::parse(object, &kind);
                    self.push(kind, logical)
                }
                None => self.reference(name, namespace),
            },
        }
    }

    /// Returns the name of a new named type.
    fn name(&self, object: &Map<String, Value>, namespace: &str) -> Result<Name> {
        let name = object.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| SchemaError::new("a record, enum or fixed has no \"name\""))?;
        let own = object.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
        let full = full_name(name, own);
        if self.named.contains_key(&full) {
            return Err(SchemaError::new(format!("the type {full} is defined twice")));
        }
        let space = namespace_of(&full);
        let aliases = aliases(object).map(|alias| full_name(alias, space)).collect();
        Ok(Name { full, aliases })
    }

    fn record(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<NodeId> {
        let name = self.name(object, namespace)?;
        let full = name.full.clone();
        let id = self.push(Kind::Record(Record { name: name.clone(), fields: Vec::new() }), Logical::None)?;
        self.named.insert(full.clone(), id);
        let list = object.get("fields").and_then(Value::as_array);
        let list = list.ok_or_else(|| SchemaError::new(format!("record {full}: \"fields\" is an array")))?;
        let mut fields = Vec::with_capacity(list.len());
        let mut seen = HashSet::new();
        for (index, json) in list.iter().enumerate() {
            let name = json.get("name").and_then(Value::as_str);
            let name = name.ok_or_else(|| SchemaError::new(format!("record {full}: a field has no \"name\"")))?;
            if !seen.insert(name) {
                return Err(SchemaError::new(format!("record {full} has the field {name} twice")));
            }
            let in_field = |error: SchemaError| SchemaError::new(format!("field {full}.{name}: {error}"));
            let kind = json.get("type").ok_or_else(|| in_field(SchemaError::new("\"type\" is missing")))?;
            // A logical type beside "type" in the field is a common slip, and no logical type.
            let node = self.node(kind, namespace_of(&full)).map_err(in_field)?;
            if let Some(default) = json.get("default") {
                self.defaults.insert((id, index), default.clone());
            }
            let aliases = json.as_object().into_iter().flat_map(aliases).map(str::to_owned).collect();
            fields.push(Field { name: name.to_owned(), aliases, node, default: None });
        }
        self.nodes[id.index()].kind = Kind::Record(Record { name, fields });
        Ok(id)
    }

    fn enumeration(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<NodeId> {
        let name = self.name(object, namespace)?;
        let full = name.full.clone();
        let list = object.get("symbols").and_then(Value::as_array);
        let symbols: Option<Vec<String>> = list
            .and_then(|list| list.iter().map(|symbol| symbol.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>());
        let symbols =
            symbols.ok_or_else(|| SchemaError::new(format!("enum {full}: \"symbols\" is an array of strings")))?;
        if symbols.iter().collect::<HashSet<_>>().len() != symbols.len() {
            return Err(SchemaError::new(format!("enum {full} has a symbol twice")));
        }
        let default = match object.get("default").and_then(Value::as_str) {
            None => None,
            Some(default) => {
                let found = symbols.iter().position(|symbol| symbol == default);
                let found = found.ok_or_else(|| {
                    SchemaError::new(format!("enum {full}: the default {default} is no symbol of the enum"))
                })?;
                Some(found as u32)
            }
        };
        let id = self.push(Kind::Enum(Enum { name, symbols, default }), Logical::None)?;
        self.named.insert(full, id);
        Ok(id)
    }
}

fn primitive(name: &str) -> Option<Kind> {
    Some(match name {
        "null" => Kind::Null,
        "boolean" => Kind::Boolean,
        "int" => Kind::Int,
        "long" => Kind::Long,
        "float" => Kind::Float,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "string" => Kind::String,
        _ => return None,
    })
}

fn aliases(object: &Map<String, Value>) -> impl Iterator<Item = &str> {
    object.get("aliases").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() {
        return name.trim_start_matches('.').to_owned();
    }
    format!("{namespace}.{name}")
}

fn namespace_of(full: &str) -> &str {
    full.rsplit_once('.').map_or("", |(namespace, _)| namespace)
}
