//! Frames: one message each, after a size field of four bytes. Also the headers of requests and responses.

mod reader;

pub use reader::FrameReader;

use std::fmt;
use std::ops::Deref;

use crate::api::ApiKey;
use crate::buffer_pool::PooledBuf;
use crate::error::WireError;
use crate::primitives::{Reader, writer};
use crate::segmented_buf::SegmentedBuf;

/// One message without its size field. Clones share the bytes.
#[derive(Clone)]
pub struct Frame {
    buffer: PooledBuf,
}

impl Frame {
    /// Returns the buffer that holds the bytes; ranges of the frame stay readable as long as it lives.
    pub fn buffer(&self) -> &PooledBuf {
        &self.buffer
    }

    /// Returns the start of the frame in its buffer.
    pub fn offset_in_buffer(&self) -> usize {
        0
    }
}

impl Deref for Frame {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl From<PooledBuf> for Frame {
    fn from(slab: PooledBuf) -> Self {
        Self { buffer: slab }
    }
}

impl From<Vec<u8>> for Frame {
    fn from(bytes: Vec<u8>) -> Self {
        Self { buffer: bytes.into() }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} bytes)", self.len())
    }
}

/// Encodes a whole request: size, header, and the body that `body` writes. `hint`: approximate number of bytes that are
/// not shared.
pub fn encode_request(
    api: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: &str,
    hint: usize,
    body: impl FnOnce(&mut SegmentedBuf) -> Result<(), WireError>,
) -> Result<SegmentedBuf, WireError> {
    let mut out = SegmentedBuf::from(Vec::with_capacity(hint));
    let head = out.tail();
    writer::put_i32(head, 0);
    writer::put_i16(head, api.key());
    writer::put_i16(head, version);
    writer::put_i32(head, correlation_id);
    // The client id has a classic length even in flexible headers, so that any broker can read the header of any
    // ApiVersions request.
    writer::put_str(head, false, client_id)?;
    if api.request_header_version(version) >= 2 {
        writer::put_uvarint(head, 0);
    }
    body(&mut out)?;
    put_frame_size(&mut out)?;
    Ok(out)
}

/// Returns the value of the size field for a frame of `bytes` bytes, which include the size field.
fn frame_size(bytes: usize) -> Result<i32, WireError> {
    let len = bytes.saturating_sub(4);
    i32::try_from(len).map_err(|_| WireError::TooLong { what: "a frame", len, limit: i32::MAX as usize })
}

/// Encodes a whole response: size, header, and the body that `body` writes. `hint`: approximate number of bytes that
/// are not shared.
///
/// # Errors
/// Those of `body`, and a frame that exceeds the protocol.
pub fn encode_response(
    api: ApiKey,
    version: i16,
    correlation_id: i32,
    hint: usize,
    body: impl FnOnce(&mut SegmentedBuf) -> Result<(), WireError>,
) -> Result<SegmentedBuf, WireError> {
    let mut out = SegmentedBuf::from(Vec::with_capacity(hint));
    let head = out.tail();
    writer::put_i32(head, 0);
    writer::put_i32(head, correlation_id);
    if api.response_header_version(version) >= 1 {
        writer::put_uvarint(head, 0);
    }
    body(&mut out)?;
    put_frame_size(&mut out)?;
    Ok(out)
}

/// Writes the size of the frame into its first four bytes.
fn put_frame_size(out: &mut SegmentedBuf) -> Result<(), WireError> {
    let size = frame_size(out.len())?;
    if let Some(size_field) = out.first_segment_mut().and_then(|head| head.get_mut(..4)) {
        size_field.copy_from_slice(&size.to_be_bytes());
    }
    Ok(())
}

/// Reads a response's header. Returns the correlation id and the start of the body in `frame`.
pub fn parse_response_header(api: ApiKey, version: i16, frame: &[u8]) -> Result<(i32, usize), WireError> {
    let mut r = Reader::new(frame);
    let correlation_id = r.i32()?;
    if api.response_header_version(version) >= 1 {
        r.skip_tags()?;
    }
    Ok((correlation_id, r.position()))
}

/// Request header as a server reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedRequestHeader<'a> {
    /// API of the request.
    pub api: ApiKey,
    /// Version of the request; not checked against [`ApiKey::valid`].
    pub version: i16,
    /// Correlation id, which the response repeats.
    pub correlation_id: i32,
    /// `client.id`.
    pub client_id: Option<&'a str>,
    /// Start of the body in the frame.
    pub body: usize,
}

/// Decodes a request's header.
pub fn parse_request_header(frame: &[u8]) -> Result<ParsedRequestHeader<'_>, WireError> {
    let mut r = Reader::new(frame);
    let api = ApiKey::try_from(r.i16()?)?;
    let version = r.i16()?;
    let correlation_id = r.i32()?;
    let client_id = r.nullable_string()?;
    if api.request_header_version(version) >= 2 {
        r.skip_tags()?;
    }
    Ok(ParsedRequestHeader { api, version, correlation_id, client_id, body: r.position() })
}

#[cfg(test)]
mod tests;
