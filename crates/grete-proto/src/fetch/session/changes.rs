//! Requests of a session: they are made of what has changed.

use super::{EntryChange, FetchSession};
use crate::ids::PartitionHandle;
use crate::time::Nanos;

/// Room that the lists of changes keep between two requests.
const KEPT_CHANGES: usize = 1024;

impl FetchSession {
    /// Sorts the changes by entry, and keeps the last change of each.
    pub(super) fn sort_changes(&mut self) {
        // Responses name partitions in the order of the entries, so most lists are sorted. Sorting allocates.
        if self.changes.is_sorted_by(|a, b| a.at < b.at) {
            return;
        }
        self.changes.sort_by_key(|change| change.at);
        self.changes.dedup_by(|later, earlier| {
            let same = later.at == earlier.at;
            if same {
                earlier.params = later.params;
            }
            same
        });
    }

    /// Prepares the next request from the changes: fills `order` and `forgotten`.
    pub fn prepare(&mut self) {
        self.sort_changes();
        self.order.clear();
        self.forgotten.clear();
        if self.epoch == 0 {
            // The broker knows nothing of a new session, so there is nothing to forget.
            self.entries.iter_mut().for_each(|entry| entry.in_session = false);
            return self.rotate();
        }
        for (number, change) in (0..).zip(&self.changes) {
            let Some(entry) = self.entries.get(change.at as usize) else { continue };
            match change.params {
                Some(fields) if !entry.in_session || fields != entry.sent_params => self.order.push(number),
                None if entry.in_session => self.forgotten.push(number),
                _ => {}
            }
        }
    }

    /// Orders all entries to fetch, each time starting at another topic and another partition: brokers fill the
    /// response in the order of the request. (Within a session the broker rotates by itself.)
    fn rotate(&mut self) {
        self.rotation = self.rotation.wrapping_add(1);
        let topic = |change: &EntryChange| self.entries.get(change.at as usize).map(|entry| entry.topic);
        let mut start = 0;
        let groups = self.changes.chunk_by(|a, b| topic(a) == topic(b)).map(|group| {
            start += group.len();
            (start - group.len(), group.len())
        });
        let mut in_order: Vec<(usize, usize)> = groups.collect();
        let topics = in_order.len().max(1);
        let (first, turn) = (self.rotation % topics, self.rotation / topics);
        in_order.rotate_left(first);
        for (start, len) in in_order {
            for offset in 0..len {
                let number = start + (offset + turn) % len;
                if self.changes.get(number).is_some_and(|change| change.params.is_some()) {
                    self.order.push(u32::try_from(number).unwrap_or(u32::MAX));
                }
            }
        }
    }

    /// Records that the prepared request was sent: the client assumes from now on that the broker knows its contents.
    /// Returns whether entries were removed, so that the others have other indexes.
    pub fn on_request_sent(&mut self, now: Nanos, token: u32, generation: impl Fn(PartitionHandle) -> u32) -> bool {
        self.in_flight = Some(token);
        self.sent_at = now;
        self.cursor = 0;
        self.requests_without_release = self.requests_without_release.saturating_add(1);
        let mut has_gone = false;
        for change in &self.changes {
            let Some(entry) = self.entries.get_mut(change.at as usize) else { continue };
            if let Some(fields) = change.params {
                entry.sent_params = fields;
                entry.generation = generation(entry.slot);
            }
            entry.in_session = change.params.is_some();
            has_gone |= !entry.in_session && !entry.is_here;
        }
        self.changes.clear();
        if self.epoch == 0 {
            // The first request names all partitions; others mostly name few.
            self.changes.shrink_to(KEPT_CHANGES);
            self.order.shrink_to(KEPT_CHANGES);
            self.forgotten.shrink_to(KEPT_CHANGES);
            self.dirty.shrink_to(KEPT_CHANGES);
        }
        if has_gone {
            let mut entries = std::mem::take(&mut self.entries);
            entries.retain(|entry| entry.in_session || entry.is_here);
            let topics = std::mem::take(&mut self.topics);
            self.set_entries(topics, entries);
        }
        has_gone
    }
}
