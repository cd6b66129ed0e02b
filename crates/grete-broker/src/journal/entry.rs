//! Entries of the journal: encoding and checksums.
//!
//! The file begins with [`FILE_HEADER`]: magic, format and four zeros. The entries follow without gaps:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | length of the payload, little-endian |
//! | 4 | CRC32C of the payload |
//! | 4 | CRC32C of the two fields before |
//! | length | payload: the changes of one step in postcard's encoding, one after the other |
//!
//! The header has a checksum of its own. Otherwise a flipped bit in the length of an early entry would look like a torn
//! entry at the end, and all entries after it would be cut off.

use serde::Serialize;

/// Format of the entries. A change of the encoding of any change needs a new number.
pub(super) const FORMAT: u32 = 1;

const MAGIC: [u8; 8] = *b"GRETEJNL";

/// First bytes of the file.
pub(super) const FILE_HEADER: [u8; 16] = file_header();

/// Size of an entry's header, in bytes.
pub(super) const HEADER_BYTES: usize = 12;

/// Capacity that the buffer keeps between entries, in bytes.
const RETAINED_BYTES: usize = 1 << 20;

const fn file_header() -> [u8; 16] {
    let mut header = [0; 16];
    let format = FORMAT.to_le_bytes();
    let mut at = 0;
    while at < MAGIC.len() {
        header[at] = MAGIC[at];
        at += 1;
    }
    while at < MAGIC.len() + format.len() {
        header[at] = format[at - MAGIC.len()];
        at += 1;
    }
    header
}

/// Returns the format in a file's first bytes; `None`: they are not a journal's.
pub(super) fn parse_file_header(header: &[u8; 16]) -> Option<u32> {
    let (magic, rest) = header.split_first_chunk::<8>()?;
    let (format, reserved) = rest.split_first_chunk::<4>()?;
    (*magic == MAGIC && *reserved == [0; 4]).then_some(u32::from_le_bytes(*format))
}

/// Header of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryHeader {
    /// Bytes of the payload.
    pub(super) len: u32,
    /// CRC32C of the payload.
    pub(super) crc: u32,
}

impl EntryHeader {
    /// Decodes a header; `None`: its checksum is wrong.
    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let (fields, check) = bytes.split_first_chunk::<8>()?;
        let (len, crc) = fields.split_first_chunk::<4>()?;
        let (len, crc) = (u32::from_le_bytes(*len), u32::from_le_bytes(crc.try_into().ok()?));
        (crc32c::crc32c(fields).to_le_bytes() == check).then_some(Self { len, crc })
    }

    fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let (fields, check) = bytes.split_at_mut(8);
        let (len, crc) = fields.split_at_mut(4);
        len.copy_from_slice(&self.len.to_le_bytes());
        crc.copy_from_slice(&self.crc.to_le_bytes());
        check.copy_from_slice(&crc32c::crc32c(fields).to_le_bytes());
        bytes
    }
}

/// Buffer in which an entry is encoded, so that the entry is one write.
#[derive(Debug, Default)]
pub(super) struct EntryBuffer {
    /// Place for the header, then the payload. Empty: no change so far.
    bytes: Vec<u8>,
}

impl EntryBuffer {
    /// Encodes an entry; `None`: there are no changes.
    pub(super) fn encode<'a, C: Serialize + 'a>(
        &mut self,
        changes: impl IntoIterator<Item = &'a C>,
    ) -> Result<Option<&[u8]>, postcard::Error> {
        self.clear();
        for change in changes {
            self.push(change)?;
        }
        self.finish()
    }

    /// Adds a change to the entry.
    pub(super) fn push(&mut self, change: &impl Serialize) -> Result<(), postcard::Error> {
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.is_empty() {
            bytes.resize(HEADER_BYTES, 0);
        }
        self.bytes = postcard::to_extend(change, bytes)?;
        Ok(())
    }

    /// Writes the header and returns the whole entry; `None`: there are no changes.
    pub(super) fn finish(&mut self) -> Result<Option<&[u8]>, postcard::Error> {
        let Some((header, payload)) = self.bytes.split_first_chunk_mut::<HEADER_BYTES>() else { return Ok(None) };
        let len = u32::try_from(payload.len()).map_err(|_| postcard::Error::SerializeBufferFull)?;
        *header = EntryHeader { len, crc: crc32c::crc32c(payload) }.encode();
        Ok(Some(&self.bytes))
    }

    pub(super) fn payload_len(&self) -> usize {
        self.bytes.len().saturating_sub(HEADER_BYTES)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Frees the memory of an unusually large entry.
    pub(super) fn shrink(&mut self) {
        self.clear();
        self.bytes.shrink_to(RETAINED_BYTES);
    }
}
