//! What cannot heal by itself: failures of everything, and failures of single partitions.

use grete_core::ids::TopicPartition;

use crate::error::ClientError;

/// Kept until somebody acts: each stopped partition has its own entry, so that none stands still unsaid because another
/// one stopped, too.
#[derive(Debug, Default)]
pub(super) struct Failures {
    everything: Option<ClientError>,
    partitions: Vec<(TopicPartition, ClientError)>,
}

impl Failures {
    /// The one to report: what stops everything, else the partition that stopped first.
    pub(super) fn first(&self) -> Option<&ClientError> {
        self.everything.as_ref().or_else(|| self.partitions.first().map(|(_, error)| error))
    }

    /// The first failure is the cause; what follows from it is not kept.
    pub(super) fn add(&mut self, error: ClientError) {
        self.everything.get_or_insert(error);
    }

    /// A partition stopped; a later failure of the same one replaces the earlier.
    pub(super) fn add_partition(&mut self, tp: TopicPartition, error: ClientError) {
        self.forgive(&tp);
        self.partitions.push((tp, error));
    }

    /// The partition gets a new position, or is somebody else's now.
    pub(super) fn forgive(&mut self, tp: &TopicPartition) {
        self.partitions.retain(|(stopped, _)| stopped != tp);
    }

    /// All partitions are assigned anew.
    pub(super) fn forgive_partitions(&mut self) {
        self.partitions.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new("orders".to_owned(), partition)
    }

    fn corrupt(partition: i32) -> ClientError {
        ClientError::CorruptBatch { topic: "orders".into(), partition, offset: 7, message: "its checksum".into() }
    }

    fn partition(failures: &Failures) -> Option<i32> {
        match failures.first() {
            Some(ClientError::CorruptBatch { partition, .. }) => Some(*partition),
            _ => None,
        }
    }

    #[test]
    fn each_stopped_partition_is_told_until_it_is_forgiven() {
        let mut failures = Failures::default();
        failures.add_partition(tp(0), corrupt(0));
        failures.add_partition(tp(1), corrupt(1));
        assert_eq!(partition(&failures), Some(0));
        failures.forgive(&tp(0));
        assert_eq!(partition(&failures), Some(1));
        failures.forgive(&tp(2));
        assert_eq!(partition(&failures), Some(1));
        failures.forgive(&tp(1));
        assert!(failures.first().is_none());
    }

    #[test]
    fn what_stops_everything_goes_first_and_stays() {
        let mut failures = Failures::default();
        failures.add_partition(tp(0), corrupt(0));
        failures.add(ClientError::Group("fenced".into()));
        failures.add(ClientError::Group("a consequence".into()));
        failures.forgive_partitions();
        assert!(matches!(failures.first(), Some(ClientError::Group(text)) if text == "fenced"));
    }
}
