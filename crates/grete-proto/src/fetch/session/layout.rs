//! Entries of a session: they follow the partitions that are fetched from its node.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{FetchNeed, FetchSession, PartitionParams, SessionPartition, SessionTopic};
use crate::ids::PartitionHandle;
use crate::partition::table::PartitionTable;

/// Number of a topic, and the indexes of its entries by partition.
type TopicEntries = (u32, BTreeMap<i32, usize>);

impl FetchSession {
    /// Takes over which partitions are fetched from the node now, and plans all of them again. Runs when the layout has changed,
    /// not per request.
    ///
    /// A partition that was removed and assigned again has a new handle but is the same to the broker. The entry
    /// therefore passes to the new handle, because a request must not forget and fetch the same partition. The entry's
    /// generation is cleared, so that a response for the old handle is ignored. A response within the session names only
    /// partitions with news, and the new handle knows nothing yet, so the session starts over.
    pub fn sync(&mut self, here: &[PartitionHandle], partitions: &PartitionTable) {
        let mut topics = std::mem::take(&mut self.topics);
        let mut entries = std::mem::take(&mut self.entries);
        entries.retain(|entry| entry.in_session);
        let by_id = self.by_id;
        let key = |topic: &SessionTopic| (if by_id { topic.id } else { 0 }, Arc::clone(&topic.name));
        let mut known: BTreeMap<(u128, Arc<str>), TopicEntries> = BTreeMap::new();
        for (number, topic) in (0..).zip(&topics) {
            known.insert(key(topic), (number, BTreeMap::new()));
        }
        for (at, entry) in entries.iter_mut().enumerate() {
            entry.is_here = false;
            if let Some(topic) = topics.get(entry.topic as usize)
                && let Some((_, of_topic)) = known.get_mut(&key(topic))
            {
                of_topic.insert(entry.partition, at);
            }
        }
        for &slot in here {
            let Some(tp) = partitions.topic_partition(slot) else { continue };
            let topic = SessionTopic { id: partitions.topic_id(slot), name: Arc::clone(&tp.topic) };
            let (number, of_topic) = known.entry(key(&topic)).or_insert_with(|| {
                topics.push(topic.clone());
                (u32::try_from(topics.len() - 1).unwrap_or(u32::MAX), BTreeMap::new())
            });
            if let Some(known) = topics.get_mut(*number as usize) {
                known.id = topic.id;
            }
            if let Some(entry) = of_topic.get(&tp.partition).and_then(|at| entries.get_mut(*at)) {
                if entry.slot != slot {
                    entry.slot = slot;
                    entry.generation = 0;
                    self.has_new_handle = true;
                }
                entry.topic = *number;
                entry.is_here = true;
                continue;
            }
            entries.push(SessionPartition {
                topic: *number,
                partition: tp.partition,
                slot,
                generation: 0,
                named_in: self.responses.wrapping_sub(1),
                is_here: true,
                in_session: false,
                need: FetchNeed::Held,
                is_dirty: false,
                sent_params: PartitionParams::default(),
            });
        }
        self.set_entries(topics, entries);
    }

    /// Sets the entries, sorted, without topics that have none. All entries are planned again.
    pub(super) fn set_entries(&mut self, topics: Vec<SessionTopic>, mut entries: Vec<SessionPartition>) {
        let mut used = vec![false; topics.len()];
        for entry in &entries {
            if let Some(used) = used.get_mut(entry.topic as usize) {
                *used = true;
            }
        }
        let mut sorted: Vec<(SessionTopic, usize)> =
            topics.into_iter().zip(0..).filter(|(_, number)| used.get(*number) == Some(&true)).collect();
        sorted.sort_unstable();
        let mut numbers = vec![0; used.len()];
        for (number, (_, old)) in (0..).zip(&sorted) {
            if let Some(place) = numbers.get_mut(*old) {
                *place = number;
            }
        }
        for entry in &mut entries {
            entry.topic = numbers.get(entry.topic as usize).copied().unwrap_or_default();
        }
        entries.sort_unstable_by_key(|entry| (entry.topic, entry.partition));
        self.topics = sorted.into_iter().map(|(topic, _)| topic).collect();
        self.here = entries.iter().filter(|entry| entry.is_here).count();
        self.entries = entries;
        self.cursor = 0;
        self.plan_all();
    }
}
