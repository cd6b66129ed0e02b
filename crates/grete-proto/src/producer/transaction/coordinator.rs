//! Brokers that coordinate the transactional id and the groups whose offsets it commits.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::NodeId;

/// Known coordinators. A coordinator whose request fails is forgotten and looked up again.
#[derive(Debug)]
pub(super) struct Coordinators {
    transactional_id: Arc<str>,
    transaction: Option<NodeId>,
    groups: BTreeMap<Arc<str>, NodeId>,
}

/// `key_type` of FindCoordinator.
pub(super) const GROUP_KEY: i8 = 0;
/// `key_type` of FindCoordinator.
pub(super) const TRANSACTION_KEY: i8 = 1;

impl Coordinators {
    pub fn new(transactional_id: Arc<str>) -> Self {
        Self { transactional_id, transaction: None, groups: BTreeMap::new() }
    }

    pub fn transactional_id(&self) -> &Arc<str> {
        &self.transactional_id
    }

    pub fn transaction(&self) -> Option<NodeId> {
        self.transaction
    }

    pub fn group(&self, group: &str) -> Option<NodeId> {
        self.groups.get(group).copied()
    }

    pub fn set_transaction(&mut self, node: NodeId) {
        self.transaction = Some(node);
    }

    pub fn set_group(&mut self, group: Arc<str>, node: NodeId) {
        self.groups.insert(group, node);
    }

    pub fn forget_transaction(&mut self) {
        self.transaction = None;
    }

    pub fn forget_group(&mut self, group: &str) {
        self.groups.remove(group);
    }
}
