//! Types of columns to build.

/// Name and type of a column to build.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSpec {
    /// Name.
    pub name: String,
    /// Whether values may be null.
    pub nullable: bool,
    /// Type.
    pub kind: ColumnType,
}

/// Unit of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TimeUnit {
    Millis,
    Micros,
    Nanos,
}

/// Type of a column.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names are Arrow's")]
pub enum ColumnType {
    Null,
    Boolean,
    Int32,
    Int64,
    Float32,
    Float64,
    Date32,
    Time32Millis,
    Time64Micros,
    /// Timestamp in UTC, or without a time zone.
    Timestamp {
        unit: TimeUnit,
        utc: bool,
    },
    /// `decimal128`.
    Decimal {
        precision: u32,
        scale: u32,
    },
    Utf8,
    Binary,
    FixedBinary(usize),
    /// Text by 32-bit indices into these values.
    Dictionary(Vec<String>),
    Struct(Vec<ColumnSpec>),
    List(Box<ColumnSpec>),
    /// Map from text to values.
    Map(Box<ColumnSpec>),
}

/// Kind of buffer.
pub(crate) enum Storage {
    Nothing,
    Bits,
    I32,
    I64,
    F32,
    F64,
    I128,
    Bytes,
    Fixed(usize),
    Ends,
}

impl ColumnType {
    pub(crate) fn storage(&self) -> Storage {
        match self {
            Self::Null | Self::Struct(_) => Storage::Nothing,
            Self::Boolean => Storage::Bits,
            Self::Int32 | Self::Date32 | Self::Time32Millis | Self::Dictionary(_) => Storage::I32,
            Self::Int64 | Self::Time64Micros | Self::Timestamp { .. } => Storage::I64,
            Self::Float32 => Storage::F32,
            Self::Float64 => Storage::F64,
            Self::Decimal { .. } => Storage::I128,
            Self::Utf8 | Self::Binary => Storage::Bytes,
            Self::FixedBinary(size) => Storage::Fixed(*size),
            Self::List(_) | Self::Map(_) => Storage::Ends,
        }
    }

    /// Takes the specifications of the columns inside. Those of a map become one struct of key and value.
    pub(crate) fn take_children(&mut self) -> Vec<ColumnSpec> {
        match self {
            Self::Struct(fields) => std::mem::take(fields),
            Self::List(item) => vec![(**item).clone()],
            Self::Map(value) => {
                let key = ColumnSpec { name: "key".into(), nullable: false, kind: Self::Utf8 };
                let fields = vec![key, (**value).clone()];
                vec![ColumnSpec { name: "entries".into(), nullable: false, kind: Self::Struct(fields) }]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the format string of the C data interface.
    pub(crate) fn format(&self) -> String {
        match self {
            Self::Null => "n".into(),
            Self::Boolean => "b".into(),
            Self::Int32 | Self::Dictionary(_) => "i".into(),
            Self::Int64 => "l".into(),
            Self::Float32 => "f".into(),
            Self::Float64 => "g".into(),
            Self::Date32 => "tdD".into(),
            Self::Time32Millis => "ttm".into(),
            Self::Time64Micros => "ttu".into(),
            Self::Timestamp { unit, utc } => {
                let unit = match unit {
                    TimeUnit::Millis => 'm',
                    TimeUnit::Micros => 'u',
                    TimeUnit::Nanos => 'n',
                };
                format!("ts{unit}:{}", if *utc { "UTC" } else { "" })
            }
            Self::Decimal { precision, scale } => format!("d:{precision},{scale}"),
            Self::Utf8 => "u".into(),
            Self::Binary => "z".into(),
            Self::FixedBinary(size) => format!("w:{size}"),
            Self::Struct(_) => "+s".into(),
            Self::List(_) => "+l".into(),
            Self::Map(_) => "+m".into(),
        }
    }
}
