//! Requests that wait for records of partitions (long poll).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::logs::PartitionKey;
use crate::ids::{Millis, RequestId};

/// Request that waits, with what its handler goes on with.
#[derive(Debug)]
struct Waiting<P> {
    plan: P,
    deadline: Millis,
    partitions: Vec<PartitionKey>,
}

/// Requests that wait, by deadline and by partition.
#[derive(Debug)]
pub(in crate::cluster) struct WaitingRequests<P> {
    waiting: BTreeMap<RequestId, Waiting<P>>,
    deadlines: BTreeSet<(Millis, RequestId)>,
    by_partition: HashMap<PartitionKey, BTreeSet<RequestId>>,
}

impl<P> Default for WaitingRequests<P> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), deadlines: BTreeSet::new(), by_partition: HashMap::new() }
    }
}

impl<P> WaitingRequests<P> {
    /// Returns the earliest time at which a request has waited long enough.
    pub(in crate::cluster) fn deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Lets a request wait for partitions until a deadline.
    pub(in crate::cluster) fn insert(
        &mut self,
        request: RequestId,
        plan: P,
        partitions: Vec<PartitionKey>,
        deadline: Millis,
    ) {
        for partition in &partitions {
            self.by_partition.entry(*partition).or_default().insert(request);
        }
        self.deadlines.insert((deadline, request));
        self.waiting.insert(request, Waiting { plan, deadline, partitions });
    }

    /// Returns what a request waits with. `None`: the request does not wait.
    pub(in crate::cluster) fn get(&self, request: RequestId) -> Option<&P> {
        self.waiting.get(&request).map(|waiting| &waiting.plan)
    }

    /// Ends the wait of a request, for example because its connection has ended. `None`: the request does not wait.
    pub(in crate::cluster) fn remove(&mut self, request: RequestId) -> Option<P> {
        let removed = self.waiting.remove(&request)?;
        self.deadlines.remove(&(removed.deadline, request));
        for partition in &removed.partitions {
            if let Some(requests) = self.by_partition.get_mut(partition) {
                requests.remove(&request);
                if requests.is_empty() {
                    self.by_partition.remove(partition);
                }
            }
        }
        Some(removed.plan)
    }

    /// Returns the requests that wait for a partition, the oldest first.
    pub(in crate::cluster) fn of_partition(&self, partition: PartitionKey) -> Vec<RequestId> {
        self.by_partition.get(&partition).into_iter().flatten().copied().collect()
    }

    /// Returns a request that has waited long enough.
    pub(in crate::cluster) fn first_due(&self, now: Millis) -> Option<RequestId> {
        self.deadlines.first().filter(|(due, _)| *due <= now).map(|(_, request)| *request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_each_of_its_partitions_until_its_deadline() {
        let mut waiting = WaitingRequests::default();
        let (first, second) = (RequestId(1), RequestId(2));
        waiting.insert(second, "b", vec![(7, 0)], 20);
        waiting.insert(first, "a", vec![(7, 0), (7, 1)], 30);
        assert_eq!(waiting.of_partition((7, 0)), [first, second]);
        assert_eq!((waiting.deadline(), waiting.first_due(19), waiting.first_due(20)), (Some(20), None, Some(second)));
        assert_eq!(waiting.get(first), Some(&"a"));
        assert_eq!((waiting.remove(second), waiting.remove(second)), (Some("b"), None));
        assert_eq!((waiting.of_partition((7, 0)), waiting.deadline()), (vec![first], Some(30)));
        waiting.remove(first);
        assert!(waiting.by_partition.is_empty() && waiting.deadlines.is_empty() && waiting.deadline().is_none());
    }
}
