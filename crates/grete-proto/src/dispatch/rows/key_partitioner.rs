//! Partitions a decoded batch over a lane's slots, by key.

use std::sync::Arc;

use super::batch_memory::BatchMemory;
use super::decoded_batch::DecodedBatch;
use super::row_slice::{GroupedBatch, RowSlice};
use crate::dispatch::route_config::{Concurrency, RouteConfig};
use crate::murmur2::{murmur2, partition_for_key};

/// First number of a key's unit, in a lane without a fixed number of slots. Lower numbers belong to jobs of rows
/// without a key.
pub(in crate::dispatch) const FIRST_KEY: u32 = 1 << 31;

/// Returns the number of a key's unit, in a lane without a fixed number of slots.
///
/// The number is the key's hash. So a key has the same number whenever it has rows, and a lane remembers nothing about
/// keys without rows. Two keys with the same hash (31 bits) take turns.
pub(in crate::dispatch) fn unit_of_key(key: &[u8]) -> u32 {
    murmur2(key).cast_unsigned() | FIRST_KEY
}

/// Rows of a batch, partitioned over slots.
#[derive(Debug)]
pub struct PartitionedRows {
    pub(in crate::dispatch) batch: DecodedBatch,
    pub(in crate::dispatch) memory: Arc<BatchMemory>,
    /// Rows by slot, ordered by first offset.
    pub(in crate::dispatch) slots: Vec<(u32, RowSlice)>,
    /// Rows without a key, which any slot may take.
    pub(in crate::dispatch) unkeyed: Option<RowSlice>,
}

/// Partitions rows by key: rows of one key go to one slot, in order. Rows without a key are unkeyed.
pub(in crate::dispatch) fn partition_by_key(
    batch: DecodedBatch,
    memory: Arc<BatchMemory>,
    policy: &RouteConfig,
) -> PartitionedRows {
    if policy.concurrency == Concurrency::Unordered {
        let unkeyed = Some(RowSlice::contiguous(batch.clone(), Arc::clone(&memory)));
        return PartitionedRows { batch, memory, slots: Vec::new(), unkeyed };
    }
    let (order, groups) = match policy.key_slots {
        0 => group_by_key(&batch),
        slots => group_by_slot(&batch, slots),
    };
    let spread = Arc::new(GroupedBatch { batch: batch.clone(), order });
    let (mut slots, mut unkeyed, mut start) = (Vec::with_capacity(groups.len()), None, 0);
    for (slot, end) in groups {
        let piece = RowSlice::grouped(&spread, start..end, &memory);
        start = end;
        match slot {
            Some(slot) => slots.push((slot, piece)),
            None => unkeyed = Some(piece),
        }
    }
    // The slot with the lowest first offset is enqueued first.
    slots.sort_unstable_by_key(|(_, piece)| piece.offset(0));
    PartitionedRows { batch, memory, slots, unkeyed }
}

/// Row indexes by group, and the slot and the end of each group; `None`: the rows without a key.
type Groups = (Vec<u32>, Vec<(Option<u32>, usize)>);

/// Groups rows by the slot of their key, out of `slots`, with a counting sort.
fn group_by_slot(batch: &DecodedBatch, slots: u32) -> Groups {
    let unkeyed_group = slots; // the last group, behind those of the slots
    let rows = batch.rows.clone();
    let slot_of = |row: usize| batch.columns.key(row).map_or(unkeyed_group, |key| partition_for_key(key, slots));
    let homes: Vec<u32> = rows.clone().map(slot_of).collect();
    // Find the start of each group, then place each row.
    let mut ends = vec![0_usize; slots as usize + 1];
    for home in &homes {
        if let Some(count) = ends.get_mut(*home as usize) {
            *count += 1;
        }
    }
    let mut start = 0;
    for end in &mut ends {
        (*end, start) = (start, start + *end);
    }
    let mut order = vec![0_u32; homes.len()];
    for (home, row) in homes.iter().zip(rows) {
        let Some(end) = ends.get_mut(*home as usize) else { continue };
        if let (Some(place), Ok(row)) = (order.get_mut(*end), u32::try_from(row)) {
            *place = row;
        }
        *end += 1;
    }
    let mut start = 0;
    let mut groups = Vec::new();
    for (slot, end) in (0_u32..).zip(ends) {
        if start < end {
            groups.push((Some(slot).filter(|slot| *slot != unkeyed_group), end));
        }
        start = end;
    }
    (order, groups)
}

/// Groups rows by the unit of their key, for lanes without a fixed number of slots.
fn group_by_key(batch: &DecodedBatch) -> Groups {
    let unit_of = |row: usize| batch.columns.key(row).map(unit_of_key);
    let mut rows: Vec<(Option<u32>, u32)> =
        batch.rows.clone().filter_map(|row| Some((unit_of(row), u32::try_from(row).ok()?))).collect();
    rows.sort_unstable(); // by unit, and by offset within a unit
    let order = rows.iter().map(|(_, row)| *row).collect();
    let mut end = 0;
    let groups = rows.chunk_by(|one, other| one.0 == other.0).filter_map(|group| {
        end += group.len();
        Some((group.first()?.0, end))
    });
    (order, groups.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_that_are_in_flight_together_hardly_ever_share_a_unit() {
        let numbers: BTreeSet<u32> = (0..4096_u32).map(|key| unit_of_key(format!("key-{key}").as_bytes())).collect();
        assert!(numbers.len() >= 4095, "{} units of 4096 keys", numbers.len());
        assert!(numbers.iter().all(|number| *number >= FIRST_KEY));
        assert_eq!(unit_of_key(b"ann"), unit_of_key(b"ann"));
    }
}
