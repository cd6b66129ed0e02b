//! What ties a request to its response.

use crate::api_key::ApiKey;
use crate::error::WireError;
use crate::primitives::Reader;

/// A request, and the response that answers it.
pub trait Api {
    /// Which API this is.
    const KEY: ApiKey;
    /// Its response, borrowing from the frame.
    type Response<'r>;

    /// Appends the request's body.
    fn encode_body(&self, version: i16, out: &mut Vec<u8>) -> Result<(), WireError>;

    /// Reads the response's body.
    fn decode_response<'r>(version: i16, r: &mut Reader<'r>) -> Result<Self::Response<'r>, WireError>;
}
