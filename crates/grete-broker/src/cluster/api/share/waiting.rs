//! ShareFetches that wait for records (long poll).

use grete_wire::ErrorCode;
use grete_wire::messages::ShareFetchResponse;

use super::fetch::{PlannedShareFetch, ShareFetched};
use crate::cluster::{Cluster, RequestContext};
use crate::ids::{RequestId, TopicId};
use crate::message::Response;

/// ShareFetch that waits for records.
#[derive(Debug)]
pub(in crate::cluster) struct WaitingShareFetch {
    context: RequestContext,
    plan: PlannedShareFetch,
}

impl Cluster {
    pub(super) fn wait_for_records(&mut self, context: &RequestContext, plan: PlannedShareFetch) {
        let (keys, deadline) = (plan.partitions.clone(), plan.deadline);
        let fetch = WaitingShareFetch { context: context.clone(), plan };
        self.waiting_share_fetches.insert(context.id, fetch, keys, deadline);
    }

    /// Gives records of a partition to the ShareFetches that wait, the oldest first. `at_once`: all are answered, because
    /// the partition moved or is gone.
    pub(in crate::cluster) fn complete_share_fetches(&mut self, topic: TopicId, partition: i32, at_once: bool) {
        for request in self.waiting_share_fetches.of_partition((topic, partition)) {
            self.complete_share_fetch(request, at_once);
        }
    }

    /// Answers the ShareFetches that have waited long enough.
    pub(in crate::cluster) fn expire_share_fetches(&mut self) {
        while let Some(request) = self.waiting_share_fetches.first_due(self.now) {
            self.complete_share_fetch(request, true);
        }
    }

    fn complete_share_fetch(&mut self, request: RequestId, at_once: bool) {
        let Some(WaitingShareFetch { context, plan }) = self.waiting_share_fetches.remove(request) else { return };
        // As in Kafka, a request that another one of its session has overtaken is refused. Kafka acquires for it first.
        if !self.share.sessions().is_current(&plan.session, plan.epoch) {
            let error_code = ErrorCode::INVALID_SHARE_SESSION_EPOCH.0;
            let response = ShareFetchResponse { error_code, ..ShareFetchResponse::default() };
            return self.reply(&context, Response::ShareFetch(response));
        }
        let fetched: ShareFetched = self.acquire_planned(&context, &plan, at_once);
        if at_once || fetched.has_error || fetched.records > 0 {
            return self.respond_share_fetch(&context, plan, fetched);
        }
        self.wait_for_records(&context, plan);
    }
}
