//! Coordinator of groups: members, generations, assignments and offsets, with the behavior of Kafka 4.3. The modules here
//! are of the classic protocol, and [`consumer`] is of the consumer protocol (KIP-848).
//!
//! One coordinator serves all virtual brokers. The caller decides which broker coordinates which group, and sends
//! `NOT_COORDINATOR` for the others. A response may name a request whose connection no longer exists; the caller drops
//! such a response.

mod admin;
pub mod api;
mod claim;
pub mod config;
pub mod consumer;
mod context;
mod heartbeat;
mod join;
mod leave;
mod member;
mod offset_store;
pub mod offsets;
mod rebalance;
mod records;
mod restore;
mod session;
pub mod state;
mod sync;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::effects::group::GroupChange;
use crate::effects::{Change, Effects};
use crate::ids::{Millis, RequestId};
use config::GroupConfig;
use context::Context;
use member::{MemberIds, Parked};
use records::RecordCounts;
use state::Group;

/// Request and the client that sent the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester<'a> {
    /// Request to answer.
    pub request: RequestId,
    /// Version of the request.
    pub version: i16,
    /// `client.id`. Empty: null.
    pub client_id: &'a str,
    /// Address of the client, for example `127.0.0.1`.
    pub client_host: &'a str,
}

impl Requester<'_> {
    fn parked(&self) -> Parked {
        Parked { request: self.request, version: self.version }
    }
}

/// Group coordinator.
#[derive(Debug)]
pub struct GroupCoordinator {
    config: GroupConfig,
    groups: BTreeMap<Arc<str>, Group>,
    records: RecordCounts,
    ids: MemberIds,
    /// Next timer of each group that has one.
    timers: BTreeSet<(Millis, Arc<str>)>,
    /// Time of the next check for expired offsets. `None`: there are no groups.
    next_expiry_check: Option<Millis>,
    /// Whether groups were loaded whose sessions have not begun yet.
    loading: bool,
}

impl GroupCoordinator {
    /// Creates a coordinator without groups. `seed`: seed of the member ids.
    #[must_use]
    pub fn new(config: GroupConfig, seed: u64) -> Self {
        Self {
            config,
            groups: BTreeMap::new(),
            records: RecordCounts::new(),
            ids: MemberIds::new(seed),
            timers: BTreeSet::new(),
            next_expiry_check: None,
            loading: false,
        }
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &GroupConfig {
        &self.config
    }

    /// Returns the configuration for changes, which take effect with the next event.
    pub fn config_mut(&mut self) -> &mut GroupConfig {
        &mut self.config
    }

    /// Returns the time of the next timer. `None`: no timer runs. A time in the past: [`GroupCoordinator::tick`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        if self.loading {
            return Some(Millis::MIN);
        }
        let timer = self.timers.first().map(|(at, _)| *at);
        timer.into_iter().chain(self.next_expiry_check).min()
    }

    /// Fires the timers that are due.
    pub fn tick(&mut self, now: Millis, effects: &mut Effects) {
        if self.loading {
            self.on_loaded(now, effects);
        }
        while let Some((_, group)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.with_group(now, &group, effects, |group, _, ctx| group.tick(ctx));
        }
        if self.next_expiry_check.is_some_and(|at| at <= now) {
            self.expire_offsets(now, effects);
            let next = now + self.config.offsets_retention_check_interval_ms.max(1);
            self.next_expiry_check = (!self.groups.is_empty()).then_some(next);
        }
    }

    /// Begins the sessions of loaded members.
    fn on_loaded(&mut self, now: Millis, effects: &mut Effects) {
        self.loading = false;
        for group in self.groups.keys().cloned().collect::<Vec<_>>() {
            self.with_group(now, &group, effects, |group, _, ctx| group.on_loaded(ctx));
        }
        self.start_expiry_checks(now);
    }

    fn start_expiry_checks(&mut self, now: Millis) {
        let interval_ms = self.config.offsets_retention_check_interval_ms.max(1);
        self.next_expiry_check.get_or_insert(now + interval_ms);
    }

    /// Creates a group.
    fn create(&mut self, now: Millis, group: &str) {
        let id: Arc<str> = Arc::from(group);
        let created_after = self.records.of(group);
        self.groups.insert(Arc::clone(&id), Group { created_after, ..Group::new(id, now) });
        self.start_expiry_checks(now);
    }

    /// Removes a group, and stores that.
    fn remove_group(&mut self, group: &Arc<str>, effects: &mut Effects) {
        if let Some(removed) = self.groups.remove(group) {
            if let Some(at) = removed.deadline() {
                self.timers.remove(&(at, Arc::clone(group)));
            }
            effects.change(Change::Group(GroupChange::Deleted { group: Arc::clone(group) }));
            self.records.count(group);
        }
    }

    /// Handles an event of a group, and adjusts the group's timer. `None`: there is no such group.
    fn with_group<R>(
        &mut self,
        now: Millis,
        group: &str,
        effects: &mut Effects,
        handle: impl FnOnce(&mut Group, &mut MemberIds, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let group = self.groups.get_mut(group)?;
        let before = group.deadline();
        let stored = effects.changes.len();
        let mut ctx = Context { now, config: &self.config, effects };
        let result = handle(group, &mut self.ids, &mut ctx);
        if effects.changes.len() > stored {
            self.records.count(&group.id);
        }
        let after = group.deadline();
        if before != after {
            if let Some(at) = before {
                self.timers.remove(&(at, Arc::clone(&group.id)));
            }
            if let Some(at) = after {
                self.timers.insert((at, Arc::clone(&group.id)));
            }
        }
        Some(result)
    }
}
