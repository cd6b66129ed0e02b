//! Validation of fetched batches by their headers alone.

use grete_wire::records::iter_batches;

use super::timestamp_range::TimestampRange;
use crate::partition::error::Corruption;

/// Result of validating a partition's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidatedBatches {
    /// Offset after the last valid batch; the fetch offset if there is none.
    pub next_offset: i64,
    /// Size of the valid batches, in bytes, from the start of the records.
    pub bytes: usize,
    /// Leader epoch of the last valid batch; -1 if there is none.
    pub leader_epoch: i32,
    /// Records of the valid batches, according to their headers, without control records.
    pub records: u64,
    /// Timestamps of the valid batches.
    pub timestamps: TimestampRange,
    /// Reason why the walk ended before the last whole batch.
    pub corruption: Option<Corruption>,
}

/// Walks the headers of whole batches. A header is not proven: the CRC is checked much later, and does not cover the
/// base offset at all. A header that would move the position backwards or beyond the log therefore ends the walk.
///
/// A batch beyond the high watermark need not be corrupt. A broker reads the watermark before the log, so an append in
/// between looks like data beyond the watermark. After one more fetch the same batch lies below, because the watermark
/// only grows.
pub fn validate_batches(records: &[u8], fetch_offset: i64, high_watermark: i64) -> ValidatedBatches {
    let times = TimestampRange::default();
    let mut validated = ValidatedBatches {
        next_offset: fetch_offset,
        bytes: 0,
        leader_epoch: -1,
        records: 0,
        timestamps: times,
        corruption: None,
    };
    for item in iter_batches(records) {
        let (header, range) = match item {
            Ok(item) => item,
            Err(error) => {
                validated.corruption = Some(Corruption::Header(error));
                break;
            }
        };
        let (base_offset, last_offset) = (header.base_offset, header.next_offset().saturating_sub(1));
        let expected = validated.next_offset;
        validated.corruption = if last_offset < expected {
            Some(Corruption::Behind { last_offset, expected })
        } else if validated.bytes > 0 && base_offset < expected {
            Some(Corruption::Overlap { base_offset, expected })
        } else if high_watermark >= 0 && last_offset >= high_watermark {
            Some(Corruption::Beyond { last_offset, high_watermark })
        } else {
            None
        };
        if validated.corruption.is_some() {
            break;
        }
        validated.next_offset = header.next_offset();
        validated.bytes = range.end;
        validated.leader_epoch = header.leader_epoch;
        validated.records += if header.is_control() { 0 } else { u64::try_from(header.record_count).unwrap_or(0) };
        validated.timestamps.add_batch(&header);
    }
    validated
}
