//! Failures that do not recover by themselves: fatal failures of a client, and failures of single partitions.

use grete_proto::ids::TopicPartition;

use crate::error::ClientError;

/// Failures until they are resolved. Each stopped partition has its own entry, so that no stopped partition stays
/// unreported because another one stopped too.
#[derive(Debug, Default)]
pub(super) struct Failures {
    fatal: Option<ClientError>,
    partitions: Vec<(TopicPartition, ClientError)>,
}

impl Failures {
    /// Returns the failure to report: the fatal one, otherwise the partition that stopped first.
    pub(super) fn first(&self) -> Option<&ClientError> {
        self.fatal.as_ref().or_else(|| self.partitions.first().map(|(_, error)| error))
    }

    /// Adds a fatal failure. Only the first one is kept, because later ones are its consequences.
    pub(super) fn add(&mut self, error: ClientError) {
        self.fatal.get_or_insert(error);
    }

    /// Adds the failure of a partition. It replaces an earlier failure of the same partition.
    pub(super) fn add_partition(&mut self, tp: TopicPartition, error: ClientError) {
        self.clear_partition(&tp);
        self.partitions.push((tp, error));
    }

    /// Clears the failure of a partition that gets a new position or a new owner.
    pub(super) fn clear_partition(&mut self, tp: &TopicPartition) {
        self.partitions.retain(|(stopped, _)| stopped != tp);
    }

    /// Clears all partitions, because all are assigned anew.
    pub(super) fn clear_partitions(&mut self) {
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
    fn each_failed_partition_is_reported_until_it_is_cleared() {
        let mut failures = Failures::default();
        failures.add_partition(tp(0), corrupt(0));
        failures.add_partition(tp(1), corrupt(1));
        assert_eq!(partition(&failures), Some(0));
        failures.clear_partition(&tp(0));
        assert_eq!(partition(&failures), Some(1));
        failures.clear_partition(&tp(2));
        assert_eq!(partition(&failures), Some(1));
        failures.clear_partition(&tp(1));
        assert!(failures.first().is_none());
    }

    #[test]
    fn a_fatal_failure_goes_first_and_stays() {
        let mut failures = Failures::default();
        failures.add_partition(tp(0), corrupt(0));
        failures.add(ClientError::Group("fenced".into()));
        failures.add(ClientError::Group("a consequence".into()));
        failures.clear_partitions();
        assert!(matches!(failures.first(), Some(ClientError::Group(text)) if text == "fenced"));
    }
}
