//! Which batches of an answer may be believed by their headers alone.

use grete_wire::records::walk;

use super::times::Times;
use crate::slot_error::Corruption;

/// What a partition's records amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    /// The offset after the last good batch; the fetch offset itself when there is none.
    pub next_offset: i64,
    /// Bytes of the good batches, from the start of the records.
    pub bytes: usize,
    /// Leader epoch of the last good batch; -1 without one.
    pub leader_epoch: i32,
    /// Records of the good batches, as their headers say; markers are none.
    pub records: u64,
    /// Of what time they are.
    pub times: Times,
    /// Why the walk ended before the last whole batch.
    pub fault: Option<Corruption>,
}

/// Walks the headers of whole batches. A header is not proven (the CRC is checked much later, and does not cover the
/// base offset at all), so one that would carry the position backwards or beyond the log ends the walk.
///
/// A batch beyond the high watermark need not be corrupt: a broker notes the watermark before it reads, so an append in
/// between shows up as data beyond it. Fetched once more, the same batch lies below: the watermark only grows.
pub fn walk_records(records: &[u8], fetch_offset: i64, high_watermark: i64) -> Walked {
    let times = Times::default();
    let mut walked = Walked { next_offset: fetch_offset, bytes: 0, leader_epoch: -1, records: 0, times, fault: None };
    for item in walk(records) {
        let (header, range) = match item {
            Ok(item) => item,
            Err(error) => {
                walked.fault = Some(Corruption::Header(error));
                break;
            }
        };
        let (base_offset, last_offset) = (header.base_offset, header.next_offset().saturating_sub(1));
        let expected = walked.next_offset;
        walked.fault = if last_offset < expected {
            Some(Corruption::Behind { last_offset, expected })
        } else if walked.bytes > 0 && base_offset < expected {
            Some(Corruption::Overlap { base_offset, expected })
        } else if high_watermark >= 0 && last_offset >= high_watermark {
            Some(Corruption::Beyond { last_offset, high_watermark })
        } else {
            None
        };
        if walked.fault.is_some() {
            break;
        }
        walked.next_offset = header.next_offset();
        walked.bytes = range.end;
        walked.leader_epoch = header.leader_epoch;
        walked.records += if header.is_control() { 0 } else { u64::try_from(header.record_count).unwrap_or(0) };
        walked.times.add(&header);
    }
    walked
}
