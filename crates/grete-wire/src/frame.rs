//! Frames: one message each, after four bytes of size; and the headers that messages begin with.

mod reader;

pub use reader::FrameReader;

use std::fmt;
use std::ops::Deref;

use crate::api_key::ApiKey;
use crate::error::WireError;
use crate::outbound::Outbound;
use crate::primitives::{Reader, writer};
use crate::slab::Slab;

/// One message without its size. Clones share the bytes.
#[derive(Clone)]
pub struct Frame {
    slab: Slab,
}

impl Frame {
    /// The bytes' owner: keep it, and ranges of this frame stay readable.
    #[must_use]
    pub fn slab(&self) -> &Slab {
        &self.slab
    }

    /// Where the frame begins in its slab.
    #[must_use]
    pub fn offset_in_slab(&self) -> usize {
        0
    }
}

impl Deref for Frame {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.slab
    }
}

impl From<Slab> for Frame {
    fn from(slab: Slab) -> Self {
        Self { slab }
    }
}

impl From<Vec<u8>> for Frame {
    fn from(bytes: Vec<u8>) -> Self {
        Self { slab: bytes.into() }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} bytes)", self.len())
    }
}

/// A whole request: size, header, and what `body` writes. `hint` is about how many bytes of it are not shared.
pub fn encode_request(
    api: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: &str,
    hint: usize,
    body: impl FnOnce(&mut Outbound) -> Result<(), WireError>,
) -> Result<Outbound, WireError> {
    let mut out = Outbound::from(Vec::with_capacity(hint));
    let head = out.tail();
    writer::put_i32(head, 0);
    writer::put_i16(head, api.key());
    writer::put_i16(head, version);
    writer::put_i32(head, correlation_id);
    // The client id stays classic in flexible headers, so that any broker can read the header of any ApiVersions.
    writer::put_str(head, false, client_id)?;
    if api.request_header_version(version) >= 2 {
        writer::put_uvarint(head, 0);
    }
    body(&mut out)?;
    let size = frame_size(out.len())?;
    if let Some(place) = out.head_mut().and_then(|head| head.get_mut(..4)) {
        place.copy_from_slice(&size.to_be_bytes());
    }
    Ok(out)
}

/// What the size field says of so many bytes, itself included.
fn frame_size(bytes: usize) -> Result<i32, WireError> {
    let len = bytes.saturating_sub(4);
    i32::try_from(len).map_err(|_| WireError::TooLong { what: "a frame", len, limit: i32::MAX as usize })
}

/// Appends a whole response: size, header, and what `body` writes. On an error nothing is appended.
pub fn encode_response(
    api: ApiKey,
    version: i16,
    correlation_id: i32,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    framed(out, |out| {
        writer::put_i32(out, correlation_id);
        if api.response_header_version(version) >= 1 {
            writer::put_uvarint(out, 0);
        }
        body(out)
    })
}

fn framed(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>) -> Result<(), WireError> {
    let start = out.len();
    writer::put_i32(out, 0);
    let result = body(out).and_then(|()| {
        let size = frame_size(out.len() - start)?;
        if let Some(place) = out.get_mut(start..start + 4) {
            place.copy_from_slice(&size.to_be_bytes());
        }
        Ok(())
    });
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// Reads a response's header: the correlation id, and where the body begins in `frame`.
pub fn response_header(api: ApiKey, version: i16, frame: &[u8]) -> Result<(i32, usize), WireError> {
    let mut r = Reader::new(frame);
    let correlation_id = r.i32()?;
    if api.response_header_version(version) >= 1 {
        r.skip_tags()?;
    }
    Ok((correlation_id, r.position()))
}

/// A request's header, as a server reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// Which API.
    pub api: ApiKey,
    /// In which version; not checked against [`ApiKey::valid`].
    pub version: i16,
    /// What the response has to repeat.
    pub correlation_id: i32,
    /// The client's name for itself.
    pub client_id: Option<&'a str>,
    /// Where the body begins in the frame.
    pub body: usize,
}

/// Reads a request's header.
pub fn request_header(frame: &[u8]) -> Result<RequestHead<'_>, WireError> {
    let mut r = Reader::new(frame);
    let api = ApiKey::try_from(r.i16()?)?;
    let version = r.i16()?;
    let correlation_id = r.i32()?;
    let client_id = r.nullable_string()?;
    if api.request_header_version(version) >= 2 {
        r.skip_tags()?;
    }
    Ok(RequestHead { api, version, correlation_id, client_id, body: r.position() })
}

#[cfg(test)]
mod tests;
