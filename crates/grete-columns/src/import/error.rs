//! Why an array cannot be records.

/// Why an array cannot be records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// Somebody has taken it already.
    #[error("the Arrow array was released or moved before")]
    Released,
    /// It does not keep to the interface.
    #[error("the Arrow array is malformed: {0}")]
    Malformed(&'static str),
    /// Its columns are not those of records.
    #[error("{0}")]
    Column(String),
    /// The stream says so.
    #[error("the Arrow stream failed: {0}")]
    Stream(String),
}
