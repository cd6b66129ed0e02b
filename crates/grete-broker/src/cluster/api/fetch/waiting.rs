//! Fetches that wait for bytes (long poll).

use super::read::FetchedData;
use super::{PlannedFetch, is_enough};
use crate::cluster::{Cluster, RequestContext};
use crate::ids::{Millis, RequestId, TopicId};

/// Fetch that waits for bytes.
#[derive(Debug)]
pub(in crate::cluster) struct WaitingFetch {
    context: RequestContext,
    plan: PlannedFetch,
}

impl Cluster {
    pub(super) fn wait_for_bytes(&mut self, context: &RequestContext, mut plan: PlannedFetch, deadline: Millis) {
        plan.awaited = vec![false; plan.partitions.len()];
        let mut keys = Vec::with_capacity(plan.partitions.len());
        for (slot, wanted) in plan.partitions.iter() {
            let topic = self.topic_of(&wanted.topic);
            if let Some(awaited) = plan.awaited.get_mut(slot) {
                *awaited = topic.is_some_and(|topic| topic.partition(wanted.fetch.partition).is_some());
            }
            keys.extend(topic.map(|topic| (topic.id, wanted.fetch.partition)));
        }
        let fetch = WaitingFetch { context: context.clone(), plan };
        self.waiting_fetches.insert(context.id, fetch, keys, deadline);
    }

    /// Answers the requests that wait for a partition and now have enough records. `at_once`: also those that have not,
    /// because the partition moved or is gone.
    pub(in crate::cluster) fn complete_fetches(&mut self, topic: TopicId, partition: i32, at_once: bool) {
        for request in self.waiting_fetches.of_partition((topic, partition)) {
            let Some(fetch) = self.waiting_fetches.get(request) else { continue };
            let data = self.read_planned(&fetch.context, &fetch.plan);
            if at_once || is_enough(&fetch.plan, &data) {
                self.complete_fetch(request, data);
            }
        }
        self.complete_share_fetches(topic, partition, at_once);
    }

    /// Answers the Fetches that have waited long enough.
    pub(in crate::cluster) fn expire_fetches(&mut self) {
        while let Some(request) = self.waiting_fetches.first_due(self.now) {
            let Some(fetch) = self.waiting_fetches.get(request) else { return };
            let data = self.read_planned(&fetch.context, &fetch.plan);
            self.complete_fetch(request, data);
        }
    }

    fn complete_fetch(&mut self, request: RequestId, data: FetchedData) {
        if let Some(fetch) = self.waiting_fetches.remove(request) {
            self.respond_fetch(&fetch.context, fetch.plan, data);
        }
    }
}
