//! Tests of a pipe that is full, drained in pieces, or closed.

use std::fs::File;
use std::io::{PipeReader, Read, pipe};
use std::os::fd::AsRawFd;

use grete_health::{Pipe, SendOutcome};

/// Capacity of a new pipe on Linux: 64 KiB, in pages; small enough to fill.
const CAPACITY: usize = 65_536;

fn made() -> (PipeReader, Pipe) {
    let (reader, writer) = pipe().expect("a pipe");
    (reader, Pipe::new(writer.as_raw_fd()).expect("it can be written to"))
}

fn take(reader: &mut PipeReader, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    reader.read_exact(&mut bytes).expect("so many are there");
    bytes
}

#[test]
fn a_full_pipe_drops_the_newest_and_counts_it() {
    let (mut reader, mut pipe) = made();
    assert_eq!(pipe.send(&[1; CAPACITY]), SendOutcome::Sent);
    assert_eq!(
        (pipe.send(&[2; 10]), pipe.send(&[3; 10]), pipe.dropped()),
        (SendOutcome::Dropped, SendOutcome::Dropped, 2)
    );
    assert_eq!(take(&mut reader, CAPACITY), [1; CAPACITY]);
    assert_eq!(pipe.send(&[4; 10]), SendOutcome::Sent);
    assert_eq!(take(&mut reader, 10), [4; 10]);
    assert_eq!(pipe.dropped(), 2);
}

#[test]
fn what_is_left_of_a_frame_goes_first() {
    let (mut reader, mut pipe) = made();
    assert_eq!(pipe.send(&[1; CAPACITY - 4096]), SendOutcome::Sent);
    // More than PIPE_BUF, so the write is not atomic: one page of it gets in.
    assert_eq!(pipe.send(&[2; 10_000]), SendOutcome::Sent);
    assert_eq!((pipe.send(&[3; 10]), pipe.dropped()), (SendOutcome::Dropped, 1));
    assert_eq!(take(&mut reader, CAPACITY - 4096), [1; CAPACITY - 4096]);
    assert_eq!(pipe.send(&[4; 10]), SendOutcome::Sent);
    assert_eq!(take(&mut reader, 10_000), [2; 10_000]);
    assert_eq!(take(&mut reader, 10), [4; 10]);
    assert_eq!(pipe.dropped(), 1);
}

#[test]
fn what_is_left_may_need_several_attempts() {
    let (mut reader, mut pipe) = made();
    assert_eq!(pipe.send(&[1; CAPACITY]), SendOutcome::Sent);
    take(&mut reader, 4096);
    assert_eq!(pipe.send(&[2; 20_000]), SendOutcome::Sent);
    take(&mut reader, 4096);
    assert_eq!((pipe.send(&[3; 10]), pipe.dropped()), (SendOutcome::Dropped, 1));
    take(&mut reader, CAPACITY - 2 * 4096);
    assert_eq!(pipe.send(&[4; 10]), SendOutcome::Sent);
    assert_eq!(take(&mut reader, 20_000), [2; 20_000]);
    assert_eq!(take(&mut reader, 10), [4; 10]);
}

#[test]
fn without_a_reader_it_says_so() {
    let (reader, mut pipe) = made();
    drop(reader);
    assert_eq!(pipe.send(&[1; 10]), SendOutcome::ReaderClosed);
}

#[test]
fn what_cannot_be_written_to_is_refused() {
    let (reader, _writer) = pipe().expect("a pipe");
    let error = Pipe::new(reader.as_raw_fd()).expect_err("it is for reading");
    assert!(error.to_string().contains("open for reading only; give the write end"), "{error}");
    let closed = File::open("/dev/null").expect("a file").as_raw_fd() + 500;
    let error = Pipe::new(closed).expect_err("it is closed");
    assert!(error.to_string().contains(&format!("descriptor {closed}: Bad file descriptor")), "{error}");
}
