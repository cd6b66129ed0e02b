//! Reading of a journal from its start.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use serde::de::DeserializeOwned;

use super::entry::{EntryHeader, FILE_HEADER, FORMAT, HEADER_BYTES, parse_file_header};
use super::{JournalError, Replayed};

/// Size of one read, in bytes.
const READ_BYTES: usize = 256 << 10;

/// End of the entries.
enum End {
    Entry(EntryHeader),
    Whole,
    Torn,
}

/// Passes the changes of all whole entries to `restore`. Returns the end of the last whole entry, in bytes.
pub(super) fn replay<C: DeserializeOwned>(
    path: &Path,
    mut file: &File,
    mut restore: impl FnMut(C),
) -> Result<(u64, Replayed), JournalError> {
    let io_error = |source| JournalError::io(path, "read", source);
    let corrupt = |offset, reason| JournalError::Corrupt { path: path.into(), offset, reason };
    let len = file.metadata().map_err(io_error)?.len();
    file.rewind().map_err(io_error)?;
    let mut reader = BufReader::with_capacity(READ_BYTES, file);
    check_file_header(path, len, &mut reader)?;
    let mut offset = FILE_HEADER.len() as u64;
    let mut replayed = Replayed::default();
    let mut payload = Vec::new();
    loop {
        let left = len - offset;
        match read_header(&mut reader, left).map_err(io_error)? {
            None => return Err(corrupt(offset, "the checksum of an entry's header is wrong")),
            Some(End::Whole) => return Ok((offset, replayed)),
            Some(End::Torn) => {
                replayed.cut = Some((offset, left));
                return Ok((offset, replayed));
            }
            Some(End::Entry(header)) => {
                payload.clear();
                // Bounded by the file: the header promises no more than is left.
                reader.by_ref().take(header.len.into()).read_to_end(&mut payload).map_err(io_error)?;
                if crc32c::crc32c(&payload) != header.crc {
                    return Err(corrupt(offset, "the checksum of an entry is wrong"));
                }
                let mut rest = payload.as_slice();
                while !rest.is_empty() {
                    let (change, after) = postcard::take_from_bytes(rest).map_err(|reason| JournalError::Decode {
                        path: path.into(),
                        offset,
                        reason,
                    })?;
                    restore(change);
                    replayed.changes += 1;
                    rest = after;
                }
                offset += (HEADER_BYTES + payload.len()) as u64;
            }
        }
    }
}

fn check_file_header(path: &Path, len: u64, reader: &mut impl Read) -> Result<(), JournalError> {
    let mut header = FILE_HEADER;
    if len < header.len() as u64 {
        return Err(JournalError::NotAJournal { path: path.into() });
    }
    reader.read_exact(&mut header).map_err(|source| JournalError::io(path, "read", source))?;
    match parse_file_header(&header) {
        Some(FORMAT) => Ok(()),
        Some(found) => Err(JournalError::Format { path: path.into(), found, supported: FORMAT }),
        None => Err(JournalError::NotAJournal { path: path.into() }),
    }
}

/// Reads the header of an entry, with `left` bytes to the end of the file. `None`: the header is damaged.
///
/// A write that was cut short by the end of the process leaves a prefix of an entry. A power loss may also leave zeros,
/// because the size of a file reaches the disk before its bytes.
fn read_header(reader: &mut impl Read, left: u64) -> io::Result<Option<End>> {
    if left == 0 {
        return Ok(Some(End::Whole));
    }
    if left < HEADER_BYTES as u64 {
        return Ok(Some(End::Torn));
    }
    let mut header = [0; HEADER_BYTES];
    reader.read_exact(&mut header)?;
    match EntryHeader::parse(&header) {
        Some(header) if u64::from(header.len) > left - HEADER_BYTES as u64 => Ok(Some(End::Torn)),
        Some(header) => Ok(Some(End::Entry(header))),
        None if header == [0; HEADER_BYTES] && is_zero(reader)? => Ok(Some(End::Torn)),
        None => Ok(None),
    }
}

fn is_zero(reader: &mut impl Read) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(true),
            n if buffer.iter().take(n).any(|&byte| byte != 0) => return Ok(false),
            _ => {}
        }
    }
}
