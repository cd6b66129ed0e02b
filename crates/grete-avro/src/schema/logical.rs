//! Logical types.

use serde_json::{Map, Value};

use super::Kind;

/// Logical type. Dates and times count from 1970-01-01 and from midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names are Avro's")]
pub enum Logical {
    /// The value is that of the type itself.
    #[default]
    None,
    Date,
    TimeMillis,
    TimeMicros,
    TimestampMillis,
    TimestampMicros,
    TimestampNanos,
    LocalTimestampMillis,
    LocalTimestampMicros,
    LocalTimestampNanos,
    /// Two's complement, big endian, times 10 to the power of `-scale`.
    Decimal {
        precision: u32,
        scale: u32,
    },
    Uuid,
    /// Months, days and milliseconds: three little-endian u32.
    Duration,
}

/// Digits of the largest decimal that is read as such.
const MAX_PRECISION: u64 = 4096;

impl Logical {
    /// Returns the logical type in a schema's attributes; `None` if it is unknown or does not fit `kind`.
    pub(super) fn parse(attributes: &Map<String, Value>, kind: &Kind) -> Self {
        let Some(name) = attributes.get("logicalType").and_then(Value::as_str) else { return Self::None };
        match (name, kind) {
            ("date", Kind::Int) => Self::Date,
            ("time-millis", Kind::Int) => Self::TimeMillis,
            ("time-micros", Kind::Long) => Self::TimeMicros,
            ("timestamp-millis", Kind::Long) => Self::TimestampMillis,
            ("timestamp-micros", Kind::Long) => Self::TimestampMicros,
            ("timestamp-nanos", Kind::Long) => Self::TimestampNanos,
            ("local-timestamp-millis", Kind::Long) => Self::LocalTimestampMillis,
            ("local-timestamp-micros", Kind::Long) => Self::LocalTimestampMicros,
            ("local-timestamp-nanos", Kind::Long) => Self::LocalTimestampNanos,
            ("decimal", Kind::Bytes) => Self::decimal(attributes, None),
            ("decimal", Kind::Fixed(fixed)) => Self::decimal(attributes, Some(fixed.size)),
            ("uuid", Kind::String) => Self::Uuid,
            ("uuid", Kind::Fixed(fixed)) if fixed.size == 16 => Self::Uuid,
            ("duration", Kind::Fixed(fixed)) if fixed.size == 12 => Self::Duration,
            _ => Self::None,
        }
    }

    fn decimal(attributes: &Map<String, Value>, size: Option<usize>) -> Self {
        let number = |name| attributes.get(name).map_or(Some(0), Value::as_u64);
        let (Some(precision), Some(scale)) = (number("precision"), number("scale")) else { return Self::None };
        // Digits that fit into the bytes of a fixed: log10(2) is about 0.30103.
        let most = size.map_or(MAX_PRECISION, |size| {
            ((size as u64).saturating_mul(8).saturating_sub(1).saturating_mul(30_103) / 100_000).min(MAX_PRECISION)
        });
        if precision == 0 || precision > most || scale > precision {
            return Self::None;
        }
        Self::Decimal { precision: precision as u32, scale: scale as u32 }
    }
}
