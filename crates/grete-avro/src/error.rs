//! Errors of schemas, of their resolution, of decoding and of encoding.

/// Reason why a text is not a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(pub(crate) String);

impl SchemaError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Reason why data of one schema cannot be read with another one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ResolveError(pub(crate) String);

/// Reason why bytes are not data of a schema, and the path of the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct DecodeError {
    /// Reason, with the place in the data.
    pub reason: String,
    /// Names of the fields from the inside out.
    pub path: Vec<String>,
}

impl DecodeError {
    /// Creates an error without a path.
    #[cold]
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), path: Vec::new() }
    }
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_path(f, &self.path)?;
        f.write_str(&self.reason)
    }
}

/// Reason why a value does not fit a schema, and the path of the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct EncodeError {
    /// Reason, with the value's type.
    pub reason: String,
    /// Names of the fields from the inside out.
    pub path: Vec<String>,
}

impl EncodeError {
    /// Creates an error without a path.
    #[cold]
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), path: Vec::new() }
    }
}

impl std::fmt::Display for EncodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_path(f, &self.path)?;
        f.write_str(&self.reason)
    }
}

fn write_path(f: &mut std::fmt::Formatter<'_>, path: &[String]) -> std::fmt::Result {
    if path.is_empty() {
        return Ok(());
    }
    f.write_str("field ")?;
    for (index, name) in path.iter().rev().enumerate() {
        if index > 0 {
            f.write_str(".")?;
        }
        f.write_str(name)?;
    }
    f.write_str(": ")
}
