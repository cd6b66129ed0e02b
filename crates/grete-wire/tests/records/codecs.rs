//! Forms of compressed data that the test encoder does not write.

use std::io::Write;

use grete_wire::records::Compression;
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch, encode_record, set_length_and_crc};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use crate::decode;

/// Returns enough bytes for several blocks of any codec.
fn value() -> Vec<u8> {
    (0..100_000u32).flat_map(|i| [b'a' + (i % 7) as u8, (i / 1000) as u8, (i.wrapping_mul(i) >> 13) as u8]).collect()
}

fn body() -> Vec<u8> {
    let mut body = Vec::new();
    encode_record(&TestRecord::value(0, value()), 0, 0, &mut body);
    body
}

#[track_caller]
fn unpacks(codec: Compression, packed: &[u8]) {
    let options = BatchOptions { compression: codec, ..BatchOptions::default() };
    let mut batch = build_batch(0, &[TestRecord::value(0, "")], &options);
    batch.truncate(61);
    batch.extend(packed);
    set_length_and_crc(&mut batch);
    let columns = decode(&batch, 0).unwrap();
    assert!(columns.value(0) == Some(&value()[..]) && columns.len() == 1);
}

#[test]
fn lz4_frames_of_every_shape() {
    for block_size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB] {
        for block_mode in [BlockMode::Independent, BlockMode::Linked] {
            for checksums in [false, true] {
                for content_size in [None, Some(body().len() as u64)] {
                    let info = FrameInfo::new()
                        .block_size(block_size)
                        .block_mode(block_mode)
                        .block_checksums(checksums)
                        .content_checksum(checksums)
                        .content_size(content_size);
                    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
                    encoder.write_all(&body()).unwrap();
                    unpacks(Compression::Lz4, &encoder.finish().unwrap());
                }
            }
        }
    }
}

#[test]
fn frames_in_a_row_and_skippable_frames() {
    let body = body();
    let (head, tail) = body.split_at(100_001);
    let skippable = b"\x53\x2a\x4d\x18\x03\0\0\0abc";
    let lz4 = |bytes: &[u8]| grete_wire::records::test_encoder::compress(Compression::Lz4, bytes);
    unpacks(Compression::Lz4, &[skippable, &lz4(head)[..], skippable, &lz4(tail)].concat());
    let zstd = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).unwrap();
    unpacks(Compression::Zstd, &[&zstd(head)[..], skippable, &zstd(tail)].concat());
    let streamed = zstd::stream::encode_all(head, 19).unwrap();
    unpacks(Compression::Zstd, &[&streamed[..], &zstd(tail)].concat());
    let gzip = |bytes: &[u8]| grete_wire::records::test_encoder::compress(Compression::Gzip, bytes);
    unpacks(Compression::Gzip, &[gzip(head), gzip(tail)].concat());
}

#[test]
fn a_gzip_header_with_all_its_fields() {
    let mut encoder = flate2::GzBuilder::new()
        .filename("name")
        .comment("comment")
        .extra("extra")
        .mtime(7)
        .write(Vec::new(), flate2::Compression::best());
    encoder.write_all(&body()).unwrap();
    unpacks(Compression::Gzip, &encoder.finish().unwrap());
}

#[test]
fn snappy_without_a_frame() {
    unpacks(Compression::Snappy, &snap::raw::Encoder::new().compress_vec(&body()).unwrap());
}
