use proptest::prelude::*;

use std::sync::Arc;

use super::*;
use crate::buffer_pool::BufferPool;
use crate::messages::{ApiVersionsRequest, RequestHeader};

const MAX: usize = 100 * 1024 * 1024;

fn reader() -> FrameReader {
    FrameReader::new(BufferPool::new(1 << 20), MAX)
}

/// Feeds at most `limit` bytes per read, as a socket would.
fn feed(reader: &mut FrameReader, mut bytes: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, WireError> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let space = reader.read_buf();
        assert!(!space.is_empty(), "there is always room to read into");
        let n = space.len().min(bytes.len()).min(limit);
        space[..n].copy_from_slice(&bytes[..n]);
        reader.advance(n);
        bytes = &bytes[n..];
        while let Some(frame) = reader.next()? {
            frames.push(frame.to_vec());
        }
    }
    Ok(frames)
}

fn stream(sizes: &[usize]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let frames: Vec<Vec<u8>> =
        sizes.iter().enumerate().map(|(i, &size)| (0..size).map(|j| (i + j * 7) as u8).collect()).collect();
    let mut bytes = Vec::new();
    for frame in &frames {
        bytes.extend_from_slice(&(frame.len() as u32).to_be_bytes());
        bytes.extend_from_slice(frame);
    }
    (bytes, frames)
}

proptest! {
    #[test]
    fn however_the_stream_is_split_the_frames_are_the_same(
        sizes in prop::collection::vec(prop_oneof![0usize..100, 0usize..80_000, 15_000usize..17_000], 0..12),
        limit in prop_oneof![1usize..40, 1usize..200_000],
    ) {
        let (bytes, frames) = stream(&sizes);
        let limit = limit.max(bytes.len() / 2_000);
        prop_assert_eq!(feed(&mut reader(), &bytes, limit), Ok(frames));
    }
}

#[test]
fn a_large_frame_grows_in_steps_and_the_next_one_does_not() {
    let (bytes, frames) = stream(&[9_000_000, 12_000_000, 5]);
    let mut reader = reader();
    let mut rooms = Vec::new();
    let mut rest = bytes.as_slice();
    let mut got = Vec::new();
    while !rest.is_empty() {
        let space = reader.read_buf();
        rooms.push(space.len());
        let n = space.len().min(rest.len());
        space[..n].copy_from_slice(&rest[..n]);
        reader.advance(n);
        rest = &rest[n..];
        while let Some(frame) = reader.next().unwrap() {
            got.push(frame.to_vec());
        }
    }
    assert!(got == frames);
    let mib = 1024 * 1024;
    let head = BUFFER_BYTES - 4;
    let expected = [
        BUFFER_BYTES,
        mib - head,
        3 * mib,
        9_000_000 - 4 * mib,
        BUFFER_BYTES,
        12_000_000 - head, // frames of 9,000,000 bytes were completed before, so 12,000,000 is allowed
        BUFFER_BYTES,
    ];
    assert_eq!(rooms, expected);
}

const BUFFER_BYTES: usize = 64 * 1024;

#[test]
fn an_announcement_alone_costs_a_mebibyte_at_most() {
    let mut reader = reader();
    let mut bytes = (MAX as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&[1; 10]);
    assert_eq!(feed(&mut reader, &bytes, usize::MAX), Ok(Vec::new()));
    assert_eq!(reader.read_buf().len(), 1024 * 1024 - 10);
}

#[test]
fn limits_are_checked_before_anything_is_reserved() {
    let result = |bytes: &[u8]| feed(&mut reader(), bytes, usize::MAX).unwrap_err();
    let size = MAX + 1;
    assert_eq!(result(&(size as u32).to_be_bytes()), WireError::FrameTooLarge { size, limit: MAX });
    assert_eq!(result(&[0xff; 4]), WireError::BadLength { what: "a frame", value: -1 });
    assert_eq!(result(b"HTTP/1.1 400 Bad Request\r\n"), WireError::LooksLikeHttp);
    assert_eq!(result(b"<!DOCTYPE HTML>\n<html>"), WireError::LooksLikeHttp);
    assert_eq!(result(b"<html><body>"), WireError::LooksLikeHttp);
    assert_eq!(result(&[0x15, 3, 3, 0, 2, 2, 40]), WireError::LooksLikeTls);
    assert_eq!(result(&[0x16, 3, 1, 0, 2]), WireError::LooksLikeTls);
}

#[test]
fn an_error_stays() {
    let mut reader = reader();
    let error = feed(&mut reader, b"HTTP", usize::MAX).unwrap_err();
    assert_eq!(reader.next().unwrap_err(), error);
}

#[test]
fn requests_carry_the_header_of_their_version() {
    for version in ApiKey::ApiVersions.valid() {
        let body = ApiVersionsRequest { client_software_name: "grete".into(), ..Default::default() };
        let body = |out: &mut SegmentedBuf| body.encode(version, out.tail());
        let out = encode_request(ApiKey::ApiVersions, version, 77, "me", 64, body).unwrap();
        let frame = feed(&mut reader(), &out.to_vec(), 3).unwrap().remove(0);
        let head = parse_request_header(&frame).unwrap();
        let mut r = Reader::new(&frame);
        let header = RequestHeader::decode(ApiKey::ApiVersions.request_header_version(version), &mut r).unwrap();
        assert_eq!((head.api, head.version, head.correlation_id), (ApiKey::ApiVersions, version, 77));
        assert_eq!((head.client_id, head.body), (Some("me"), r.position()));
        assert_eq!((header.request_api_key, header.request_api_version, header.correlation_id), (18, version, 77));
        let name = ApiVersionsRequest::decode(version, &mut r).unwrap().client_software_name;
        assert_eq!(name, if version >= 3 { "grete" } else { "" });
        assert_eq!(r.remaining(), 0);
    }
}

#[test]
fn the_size_counts_all_segments() {
    let batch = Arc::new(vec![7; 1000]);
    let body = |out: &mut SegmentedBuf| {
        out.push_shared(Arc::clone(&batch));
        out.tail().push(9);
        Ok(())
    };
    let out = encode_request(ApiKey::Produce, 9, 1, "c", 64, body).unwrap();
    assert_eq!(out.segments().len(), 3);
    let frame = feed(&mut reader(), &out.to_vec(), 3).unwrap().remove(0);
    assert_eq!(frame.len(), out.len() - 4);
    assert_eq!(frame[frame.len() - 1001..], [&batch[..], &[9]].concat());
}

#[test]
fn a_body_that_fails_gives_no_response() {
    let result = encode_response(ApiKey::Metadata, 12, 1, 0, |_| Err(WireError::UnknownApi { key: 9 }));
    assert_eq!(result, Err(WireError::UnknownApi { key: 9 }));
}

#[test]
fn response_headers_have_tags_when_flexible_but_never_for_api_versions() {
    for (api, version, body) in
        [(ApiKey::Metadata, 8, 4), (ApiKey::Metadata, 9, 5), (ApiKey::ApiVersions, 4, 4), (ApiKey::SaslHandshake, 1, 4)]
    {
        let write = |out: &mut SegmentedBuf| {
            out.tail().push(42);
            Ok(())
        };
        let out = encode_response(api, version, -5, 8, write).unwrap().to_vec();
        assert_eq!(parse_response_header(api, version, &out[4..]), Ok((-5, body)));
        assert_eq!(out[4 + body], 42);
    }
    let unknown_tag = [0, 0, 0, 3, 1, 9, 2, 0, 0, 42];
    assert_eq!(parse_response_header(ApiKey::Metadata, 9, &unknown_tag), Ok((3, 9)));
    assert!(parse_response_header(ApiKey::Metadata, 9, &unknown_tag[..7]).is_err());
}
