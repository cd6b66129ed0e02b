//! Parts a decoded batch among a lane's slots, by key.

use std::sync::Arc;

use super::batch::Batch;
use super::parcel::Parcel;
use super::piece::{Piece, Spread};
use super::route::{Concurrency, RoutePolicy};
use crate::murmur2::partition_for_key;

/// Rows of a batch, parted.
#[derive(Debug)]
pub struct Parted {
    pub(super) batch: Batch,
    pub(super) parcel: Arc<Parcel>,
    /// Each slot's rows.
    pub(super) slots: Vec<(u32, Piece)>,
    /// Rows that any slot may take.
    pub(super) loose: Option<Piece>,
}

/// The same key goes to the same slot, in order; what has no key is loose.
pub(super) fn part(batch: Batch, parcel: Arc<Parcel>, policy: &RoutePolicy) -> Parted {
    let slots = policy.key_slots.max(1);
    let loose = slots; // a group of its own, behind the slots'
    let slot_of = |row: usize| match policy.concurrency {
        Concurrency::Unordered => loose,
        _ => batch.columns.key(row).map_or(loose, |key| partition_for_key(key, slots)),
    };
    let rows = batch.rows.clone();
    let homes: Vec<u32> = rows.clone().map(slot_of).collect();
    // Counting sort: where each group begins, then each row to its place.
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
    let spread = Arc::new(Spread { batch: batch.clone(), order });
    let mut groups = Vec::new();
    let mut start = 0;
    for (slot, end) in (0_u32..).zip(ends) {
        if start < end {
            groups.push((slot, Piece::group(&spread, start..end, &parcel)));
        }
        start = end;
    }
    let loose = groups.pop_if(|(slot, _)| *slot == loose).map(|(_, piece)| piece);
    // Whose first row came first waits longest.
    groups.sort_unstable_by_key(|(_, piece)| piece.offset(0));
    Parted { batch, parcel, slots: groups, loose }
}
