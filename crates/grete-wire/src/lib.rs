//! Floor 0: bytes to meaning and back. No I/O, no clock, no threads, no unsafe.
#![forbid(unsafe_code)]

pub mod api;
pub mod api_key;
pub mod error;
pub mod error_code;
pub mod fetch;
pub mod frame;
pub mod messages;
pub mod outbound;
pub mod primitives;
pub mod produce;
pub mod records;
pub mod slab;

pub use api::Api;
pub use api_key::ApiKey;
pub use error::WireError;
pub use error_code::ErrorCode;
pub use frame::{Frame, FrameReader};
pub use outbound::Outbound;
pub use primitives::Reader;
