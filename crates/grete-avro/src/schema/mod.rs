//! Schemas in memory: nodes that refer to each other by index, so that named types may be recursive.

mod defaults;
mod logical;
mod parse;

use std::sync::Arc;

pub use logical::Logical;

use crate::error::SchemaError;

/// Index of a node in its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// Returns the index, for tables with an entry per node.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Parsed schema. All names in it are resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: NodeId,
}

/// Type with its logical type.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Type.
    pub kind: Kind,
    /// Logical type that fits the type. An unknown or unfitting one is `Logical::None`, as the specification demands.
    pub logical: Logical,
}

/// Type.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names are Avro's")]
pub enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Array(NodeId),
    Map(NodeId),
    Union(Vec<NodeId>),
    Record(Record),
    Enum(Enum),
    Fixed(Fixed),
}

/// Name of a record, enum or fixed, and its aliases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Name with its namespace.
    pub full: String,
    /// Other full names.
    pub aliases: Vec<String>,
}

impl Name {
    /// Returns the name without its namespace.
    #[must_use]
    pub fn short(&self) -> &str {
        short_name(&self.full)
    }

    /// Returns whether a writer's type of this name is read as this type.
    pub(crate) fn accepts(&self, writer: &Self) -> bool {
        self.short() == writer.short()
            || self.aliases.iter().any(|alias| *alias == writer.full || short_name(alias) == writer.short())
    }
}

fn short_name(full: &str) -> &str {
    full.rsplit_once('.').map_or(full, |(_, short)| short)
}

/// Record type.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Name.
    pub name: Name,
    /// Fields in the order of the encoding.
    pub fields: Vec<Field>,
}

/// Field of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// Type.
    pub node: NodeId,
    /// Default, encoded with the field's type; `None`: there is none.
    pub default: Option<Arc<[u8]>>,
}

/// Enum type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enum {
    /// Name.
    pub name: Name,
    /// Symbols in the order of their numbers.
    pub symbols: Vec<String>,
    /// Number of the symbol that stands for unknown ones.
    pub default: Option<u32>,
}

/// Fixed type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixed {
    /// Name.
    pub name: Name,
    /// Length in bytes.
    pub size: usize,
}

impl Schema {
    /// Parses a schema from its JSON text.
    ///
    /// # Errors
    /// The text is not JSON or not a schema; the error names the type or field.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        Self::parse_with(text, &[])
    }

    /// Parses a schema that uses named types of `references`. A reference may use the types of those before it.
    ///
    /// # Errors
    /// Same as for [`Schema::parse`].
    pub fn parse_with(text: &str, references: &[&str]) -> Result<Self, SchemaError> {
        parse::parse(text, references)
    }

    /// Returns the type of the data.
    #[must_use]
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// Returns all nodes, in the order of their ids. Types of references that the schema does not use are among them.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns a node.
    ///
    /// # Panics
    /// `id` belongs to another schema.
    #[must_use]
    #[inline]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Returns the type in Avro's words, with the name of a named type.
    #[must_use]
    pub fn describe(&self, id: NodeId) -> String {
        match &self.node(id).kind {
            Kind::Null => "null".into(),
            Kind::Boolean => "boolean".into(),
            Kind::Int => "int".into(),
            Kind::Long => "long".into(),
            Kind::Float => "float".into(),
            Kind::Double => "double".into(),
            Kind::Bytes => "bytes".into(),
            Kind::String => "string".into(),
            Kind::Array(_) => "array".into(),
            Kind::Map(_) => "map".into(),
            Kind::Union(branches) => {
                format!("union of {}", branches.iter().map(|&id| self.describe(id)).collect::<Vec<_>>().join(", "))
            }
            Kind::Record(record) => format!("record {}", record.name.full),
            Kind::Enum(one) => format!("enum {}", one.name.full),
            Kind::Fixed(fixed) => format!("fixed {}", fixed.name.full),
        }
    }
}
