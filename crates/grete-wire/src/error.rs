//! What can be wrong with bytes.

/// Bytes that do not mean what they should, or a value that has no form in the asked version.
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
    /// A variable-length integer that is longer than its type.
    #[error("a variable-length integer has too many bytes")]
    BadVarint,
    /// A length or count that this field cannot have (negative where null is not allowed, or below -1).
    #[error("{what} has the impossible length {value}")]
    BadLength {
        /// Which kind of value.
        what: &'static str,
        /// The length on the wire.
        value: i64,
    },
    /// A value that this field cannot have, or that contradicts another field.
    #[error("{what} cannot be {value}")]
    BadValue {
        /// Which field.
        what: &'static str,
        /// What the wire says.
        value: i64,
    },
    /// A string that is not UTF-8.
    #[error("a string is not UTF-8")]
    BadUtf8,
    /// The message exists, but not in this version.
    #[error("{api} has no version {version} here")]
    UnsupportedVersion {
        /// Message or API name.
        api: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A field was set that the version cannot carry and must not drop.
    #[error("{message} cannot carry {field} in version {version}: leave it at its default or use another version")]
    UnsupportedField {
        /// Struct name as in Kafka's schema.
        message: &'static str,
        /// Field name.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A null where the version demands a value.
    #[error("{message} needs a value in {field} in version {version}")]
    UnexpectedNull {
        /// Struct name as in Kafka's schema.
        message: &'static str,
        /// Field name.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A value to be sent is longer than its length field can say.
    #[error("{what} is too long for the protocol: {len} where {limit} is the limit")]
    TooLong {
        /// Which kind of value.
        what: &'static str,
        /// Its length.
        len: usize,
        /// The longest that the protocol can carry.
        limit: usize,
    },
    /// A codec does not pack.
    #[error("{codec} cannot pack a batch: {cause}")]
    Pack {
        /// The codec.
        codec: crate::records::Compression,
        /// What the codec says.
        cause: &'static str,
    },
    /// An API key that we do not know.
    #[error("unknown API key {key}")]
    UnknownApi {
        /// The key on the wire.
        key: i16,
    },
    /// A record batch of a format that is not spoken here.
    #[error("a record batch at offset {base_offset} has magic {magic}; only magic 2 (Kafka 0.11 and later) is read")]
    UnsupportedMagic {
        /// The magic byte.
        magic: i8,
        /// The batch's base offset.
        base_offset: i64,
    },
    /// A frame announces more than the connection allows.
    #[error("a frame of {size} bytes exceeds the limit of {limit} bytes")]
    FrameTooLarge {
        /// Announced size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The peer answers in HTTP.
    #[error("the peer speaks HTTP, not Kafka: check the port")]
    LooksLikeHttp,
    /// The peer answers with a TLS record.
    #[error(
        "the peer speaks TLS on a connection that was opened in plain: use its plaintext port, or security.protocol=SSL"
    )]
    LooksLikeTls,
    /// A message ends before its frame does.
    #[error("{left} bytes are left after the end of the message")]
    TrailingBytes {
        /// How many.
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
