//! Encoders of requests.
//!
//! - `payload`: one request, with its head and body.
//! - `datadog`, `otlp`: the two wire formats.
//! - `msgpack`, `protobuf`: their serializations.

pub(super) mod datadog;
pub(super) mod msgpack;
pub(super) mod otlp;
pub(super) mod payload;
pub(super) mod protobuf;
