//! Fetches that wait for bytes (long poll).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::read::FetchedData;
use super::{PlannedFetch, is_enough};
use crate::cluster::{Cluster, RequestContext};
use crate::ids::{Millis, RequestId, TopicId};

/// Fetch that waits for bytes.
#[derive(Debug)]
struct WaitingFetch {
    context: RequestContext,
    plan: PlannedFetch,
    deadline: Millis,
}

/// All Fetches that wait, by deadline and by partition.
#[derive(Debug, Default)]
pub(in crate::cluster) struct WaitingFetches {
    waiting: BTreeMap<RequestId, WaitingFetch>,
    deadlines: BTreeSet<(Millis, RequestId)>,
    by_partition: HashMap<(TopicId, i32), BTreeSet<RequestId>>,
}

impl WaitingFetches {
    /// Returns the earliest time at which a Fetch has waited long enough.
    pub(in crate::cluster) fn deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Forgets a Fetch, for example of a connection that has ended.
    pub(in crate::cluster) fn remove(&mut self, request: RequestId) {
        let Some(fetch) = self.waiting.remove(&request) else { return };
        self.deadlines.remove(&(fetch.deadline, request));
        self.by_partition.retain(|_, requests| {
            requests.remove(&request);
            !requests.is_empty()
        });
    }
}

impl Cluster {
    pub(super) fn wait_for_bytes(&mut self, context: &RequestContext, mut plan: PlannedFetch, deadline: Millis) {
        let request = context.id;
        plan.awaited = vec![false; plan.partitions.len()];
        for (slot, wanted) in plan.partitions.iter() {
            let topic = self.topic_of(&wanted.topic);
            if let Some(awaited) = plan.awaited.get_mut(slot) {
                *awaited = topic.is_some_and(|topic| topic.partition(wanted.fetch.partition).is_some());
            }
            if let Some(topic) = topic {
                let key = (topic.id, wanted.fetch.partition);
                self.waiting_fetches.by_partition.entry(key).or_default().insert(request);
            }
        }
        self.waiting_fetches.deadlines.insert((deadline, request));
        let fetch = WaitingFetch { context: context.clone(), plan, deadline };
        self.waiting_fetches.waiting.insert(request, fetch);
    }

    /// Answers the Fetches that wait for a partition and now have enough bytes. `at_once`: also those that have not,
    /// because the partition moved or is gone.
    pub(in crate::cluster) fn complete_fetches(&mut self, topic: TopicId, partition: i32, at_once: bool) {
        let Some(requests) = self.waiting_fetches.by_partition.get(&(topic, partition)) else { return };
        for request in requests.clone() {
            let Some(fetch) = self.waiting_fetches.waiting.get(&request) else { continue };
            let data = self.read_planned(&fetch.context, &fetch.plan);
            if at_once || is_enough(&fetch.plan, &data) {
                self.complete_fetch(request, data);
            }
        }
    }

    /// Answers the Fetches that have waited long enough.
    pub(in crate::cluster) fn expire_fetches(&mut self) {
        while let Some((_, request)) =
            self.waiting_fetches.deadlines.first().filter(|(due, _)| *due <= self.now).copied()
        {
            let Some(fetch) = self.waiting_fetches.waiting.get(&request) else {
                self.waiting_fetches.deadlines.pop_first();
                continue;
            };
            let data = self.read_planned(&fetch.context, &fetch.plan);
            self.complete_fetch(request, data);
        }
    }

    fn complete_fetch(&mut self, request: RequestId, data: FetchedData) {
        let Some(fetch) = self.waiting_fetches.waiting.get(&request) else { return };
        let (context, deadline) = (fetch.context.clone(), fetch.deadline);
        for (_, wanted) in fetch.plan.partitions.iter() {
            let Some(id) = self.topic_of(&wanted.topic).map(|topic| topic.id) else { continue };
            let key = (id, wanted.fetch.partition);
            if let Some(requests) = self.waiting_fetches.by_partition.get_mut(&key) {
                requests.remove(&request);
                if requests.is_empty() {
                    self.waiting_fetches.by_partition.remove(&key);
                }
            }
        }
        self.waiting_fetches.deadlines.remove(&(deadline, request));
        if let Some(fetch) = self.waiting_fetches.waiting.remove(&request) {
            self.respond_fetch(&context, fetch.plan, data);
        }
    }
}
