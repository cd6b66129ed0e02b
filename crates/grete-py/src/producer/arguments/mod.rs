//! Values of Python that become the bytes of a record.

pub(in crate::producer) mod bytes_arg;
pub(in crate::producer) mod headers;
