//! Timing of metadata requests: one at a time, never in a tight loop.

use super::config::ClusterConfig;
use crate::backoff::Backoff;
use crate::ids::NodeId;
use crate::request::NO_NODE;
use crate::rng::Rng;
use crate::time::Nanos;

/// Scope of a metadata request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MetadataScope {
    /// No request is needed.
    Nothing,
    /// Tracked topics that no response has contained yet.
    NewTopics,
    /// Brokers and all tracked topics.
    All,
}

/// State of metadata requests.
#[derive(Debug)]
pub(crate) struct MetadataRefresh {
    requested: MetadataScope,
    /// Earliest time of the next request (backoff).
    not_before: Nanos,
    backoff: Backoff,
    max_backoff: Nanos,
    max_age: Nanos,
    /// A request is in flight.
    in_flight: bool,
    /// Node to which the last request went.
    node: NodeId,
    last_success: Option<Nanos>,
    /// Time at which metadata was first found missing or stale since the last success.
    failing_since: Option<Nanos>,
    sequence: u32,
}

impl MetadataRefresh {
    pub(crate) fn new(config: &ClusterConfig) -> Self {
        Self {
            requested: MetadataScope::All,
            not_before: 0,
            backoff: Backoff::new(config.retry_backoff, config.retry_backoff_max),
            max_backoff: config.retry_backoff_max,
            max_age: config.metadata_max_age,
            in_flight: false,
            node: NO_NODE,
            last_success: None,
            failing_since: None,
            sequence: 0,
        }
    }

    /// Requests a refresh, because metadata is missing or stale.
    pub(crate) fn request_refresh(&mut self, now: Nanos, scope: MetadataScope) {
        if now >= self.not_before.saturating_add(self.max_backoff) {
            self.backoff.reset();
        }
        self.requested = self.requested.max(scope);
        self.failing_since.get_or_insert(now);
    }

    /// Requests metadata of new topics, which need not wait for the backoff of the old ones.
    pub(crate) fn request_new_topics(&mut self, now: Nanos) {
        if self.requested == MetadataScope::Nothing {
            self.not_before = self.not_before.min(now);
        }
        self.request_refresh(now, MetadataScope::NewTopics);
    }

    /// Requests a refresh if the metadata has expired.
    pub(crate) fn tick(&mut self, now: Nanos) {
        let quiet = !self.in_flight && self.requested == MetadataScope::Nothing;
        if quiet && self.last_success.is_some_and(|last| now >= last.saturating_add(self.max_age)) {
            self.request_refresh(now, MetadataScope::All);
        }
    }

    /// Returns the scope of the request to send now; `None`: no request is due.
    pub(crate) fn due_scope(&self, now: Nanos) -> Option<MetadataScope> {
        (!self.in_flight && self.requested != MetadataScope::Nothing && now >= self.not_before)
            .then_some(self.requested)
    }

    /// Marks a request as sent. Returns its token id.
    pub(crate) fn on_request_sent(&mut self, node: NodeId) -> u32 {
        (self.in_flight, self.node) = (true, node);
        self.requested = MetadataScope::Nothing;
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Returns whether a response belongs to the request in flight.
    pub(crate) fn is_in_flight(&self, id: u32) -> bool {
        self.in_flight && self.sequence == id
    }

    /// Returns whether the request in flight went to this node.
    pub(crate) fn is_awaited_from(&self, node: NodeId) -> bool {
        self.in_flight && self.node == node
    }

    /// Handles a failed request.
    pub(crate) fn on_failure(&mut self, now: Nanos, rng: &mut Rng) {
        self.in_flight = false;
        self.not_before = now.saturating_add(self.backoff.next_delay(rng));
        self.request_refresh(now, MetadataScope::All);
    }

    /// Handles a response. `progress`: the metadata changed and is complete; `incomplete`: request again.
    pub(crate) fn on_success(&mut self, now: Nanos, progress: bool, incomplete: bool, rng: &mut Rng) {
        self.in_flight = false;
        self.last_success = Some(now);
        self.failing_since = None;
        if progress {
            self.backoff.reset();
        }
        if self.requested == MetadataScope::NewTopics {
            // These topics were added while the request was in flight: its response could not contain them, so they
            // need not wait.
            self.not_before = now;
            self.failing_since = Some(now);
            return;
        }
        self.not_before = now.saturating_add(self.backoff.next_delay(rng));
        if incomplete {
            self.request_refresh(now, MetadataScope::All);
        } else if self.requested != MetadataScope::Nothing {
            self.failing_since = Some(now); // requested while the previous request was in flight
        }
    }

    /// Returns whether any request has succeeded.
    pub(crate) fn has_succeeded(&self) -> bool {
        self.last_success.is_some()
    }

    /// Returns the time since which a refresh is requested without success.
    pub(crate) fn failing_since(&self) -> Option<Nanos> {
        self.failing_since
    }

    /// Restarts the time without success.
    pub(crate) fn restart_wait(&mut self, now: Nanos) {
        self.failing_since = Some(now);
    }

    /// Returns the time of the next action, other than a response or a ready broker.
    pub(crate) fn deadline(&self, now: Nanos) -> Option<Nanos> {
        if self.in_flight {
            None
        } else if self.requested == MetadataScope::Nothing {
            self.last_success.map(|last| last.saturating_add(self.max_age))
        } else {
            (self.not_before > now).then_some(self.not_before)
        }
    }
}
