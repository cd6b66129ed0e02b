//! Codec of the tables in [`messages`](crate::messages): one row per field, with type, default and versions.
//!
//! - [`value`]: how each type is read and written.
//! - [`field_rule`]: versions, nullability and tag of a field.
//! - [`table`]: macros that turn a table into structs with their codec.
//!
//! All decisions that a row makes are constants, so the compiler leaves only the comparisons of versions that a
//! hand-written codec has, too.

mod field_rule;
mod table;
mod value;

pub(crate) use field_rule::FieldRule;
pub(crate) use table::{default_value, message, nullable, owned_type, request, rule, structs};
pub(crate) use value::{Form, Value, differs};
