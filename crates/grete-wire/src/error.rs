//! Errors of encoding and decoding.

use crate::compression::Compression;

/// Error in decoded bytes, or a value that cannot be encoded in the requested version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The input ends inside a value.
    #[error("the data ends too early: {needed} more bytes were needed, {had} were left")]
    Truncated {
        /// Bytes that the value takes.
        needed: usize,
        /// Bytes that were left.
        had: usize,
    },
    /// A variable-length integer is longer than its type.
    #[error("a variable-length integer has too many bytes")]
    BadVarint,
    /// A length or count is invalid for its field: negative where null is not allowed, or below -1.
    #[error("{what} has the invalid length {value}")]
    BadLength {
        /// Kind of the value.
        what: &'static str,
        /// Length on the wire.
        value: i64,
    },
    /// A value is invalid for its field, or contradicts another field.
    #[error("{what} cannot be {value}")]
    BadValue {
        /// Field.
        what: &'static str,
        /// Value on the wire.
        value: i64,
    },
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    BadUtf8,
    /// The message does not exist in this version.
    #[error("{api} version {version} is not supported")]
    UnsupportedVersion {
        /// Name of the message or API.
        api: &'static str,
        /// Requested version.
        version: i16,
    },
    /// A field is set that the version cannot carry and must not drop.
    #[error("{message} cannot carry {field} in version {version}: leave it at its default or use another version")]
    UnsupportedField {
        /// Struct name as in Kafka's schema.
        message: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Requested version.
        version: i16,
    },
    /// A value is null where the version requires one.
    #[error("{message} needs a value in {field} in version {version}")]
    UnexpectedNull {
        /// Struct name as in Kafka's schema.
        message: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Requested version.
        version: i16,
    },
    /// A value to encode exceeds the range of its length field.
    #[error("{what} is too long for the protocol: {len} where {limit} is the limit")]
    TooLong {
        /// Kind of the value.
        what: &'static str,
        /// Length of the value.
        len: usize,
        /// Maximum length in the protocol.
        limit: usize,
    },
    /// A codec failed to compress.
    #[error("{codec} failed to compress a batch: {cause}")]
    Compress {
        /// Codec.
        codec: Compression,
        /// Message of the codec.
        cause: &'static str,
    },
    /// The API key is unknown.
    #[error("unknown API key {key}")]
    UnknownApi {
        /// Key on the wire.
        key: i16,
    },
    /// The record batch has an unsupported format.
    #[error("a record batch at offset {base_offset} has magic {magic}; only magic 2 (Kafka 0.11 and later) is read")]
    UnsupportedMagic {
        /// Magic byte.
        magic: i8,
        /// Base offset of the batch.
        base_offset: i64,
    },
    /// A frame announces more bytes than the connection allows.
    #[error("a frame of {size} bytes exceeds the limit of {limit} bytes")]
    FrameTooLarge {
        /// Announced size in bytes.
        size: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// The peer responds in HTTP.
    #[error("the peer speaks HTTP, not Kafka: check the port")]
    LooksLikeHttp,
    /// The peer responds with a TLS record.
    #[error(
        "the peer speaks TLS on a connection that was opened in plain: use its plaintext port, or security.protocol=SSL \
         (SASL_SSL with a login)"
    )]
    LooksLikeTls,
    /// A message ends before its frame does.
    #[error("{left} bytes are left after the end of the message")]
    TrailingBytes {
        /// Bytes left over.
        left: usize,
    },
}

impl WireError {
    #[cold]
    pub(crate) fn unsupported_field(message: &'static str, field: &'static str, version: i16) -> Self {
        Self::UnsupportedField { message, field, version }
    }

    #[cold]
    pub(crate) fn unexpected_null(message: &'static str, field: &'static str, version: i16) -> Self {
        Self::UnexpectedNull { message, field, version }
    }
}
