//! Random requests: valid, stale and hostile ones. A step is a kind and a seed; ids come from the side that is asked.

mod acls;
mod admin;
mod data;
mod group;
mod transaction;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use grete_broker::rng::Rng;
use grete_wire::ApiKey;

use crate::message::Ask;
use crate::side::Side;

/// Versions that both brokers offer, by API.
pub type Offered = BTreeMap<i16, RangeInclusive<i16>>;

/// Step of a sequence.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Connection that is preferred.
    pub conn: usize,
    /// API.
    pub api: ApiKey,
    /// Seed of all other choices.
    pub seed: u64,
}

/// Random choices of a step.
pub struct Dice<'a> {
    rng: Rng,
    offered: &'a Offered,
}

impl<'a> Dice<'a> {
    /// Creates the choices of a seed.
    pub fn new(seed: u64, offered: &'a Offered) -> Self {
        Self { rng: Rng::new(seed), offered }
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.rng.next_u64() % limit as u64) as usize
    }

    /// Returns true in this percentage of cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns an element.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Returns a version that both brokers offer; mostly the newest.
    pub fn version(&mut self, api: ApiKey) -> Option<i16> {
        let range = self.offered.get(&api.key())?.clone();
        let count = usize::try_from(range.end() - range.start() + 1).ok()?;
        Some(if self.chance(40) { *range.end() } else { range.start() + self.below(count) as i16 })
    }

    /// Returns the name of a topic that mostly exists.
    pub fn topic(&mut self, side: &Side) -> String {
        if self.chance(4) {
            return self.hostile_name(side);
        }
        let index = self.pick(&[0, 0, 0, 1, 1, 2, 3]);
        format!("{}t{index}", side.run)
    }

    /// Returns a name that is unknown or invalid.
    pub fn hostile_name(&mut self, side: &Side) -> String {
        match self.below(6) {
            0 => String::new(),
            1 => ".".into(),
            2 => "bad name!".into(),
            3 => "x".repeat(250),
            _ => format!("{}missing", side.run),
        }
    }

    /// Returns a partition that mostly exists.
    pub fn partition(&mut self) -> i32 {
        if self.chance(5) { self.pick(&[-1, 99, i32::MAX]) } else { self.pick(&[0, 0, 0, 0, 1, 2]) }
    }

    /// Returns a leader epoch as clients know it: mostly none or the right one.
    pub fn leader_epoch(&mut self) -> i32 {
        self.pick(&[-1, -1, -1, -1, 0, 0, 0, 5, -2])
    }

    /// Returns the index of a group and its name.
    pub fn group(&mut self, side: &Side) -> (usize, String) {
        let index = self.below(2);
        if self.chance(3) {
            // The names g0, g1 and g2 have hashes in a row, and never share a partition of __consumer_offsets. Kafka
            // verifies the partition of a transactional commit, so that another group of the partition would be taken
            // for granted.
            return (index, format!("{}g2", side.run));
        }
        (index, format!("{}g{index}", side.run))
    }

    /// Returns a slot of a transactional producer and its transactional id.
    pub fn transactional(&mut self, side: &Side) -> (usize, String) {
        let index = self.below(2);
        if self.chance(3) {
            return (index, self.pick(&[String::new(), format!("{}notxn", side.run)]));
        }
        (index, format!("{}x{index}", side.run))
    }

    /// Returns one to `max` elements that differ. Brokers merge equal elements, each API in its own way.
    pub fn distinct<T: PartialEq>(&mut self, max: usize, make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let mut unique: Vec<T> = Vec::new();
        for element in self.some(max, make) {
            if !unique.contains(&element) {
                unique.push(element);
            }
        }
        unique
    }

    /// Returns one to `max` elements with different keys.
    pub fn each<T, K: PartialEq>(
        &mut self,
        max: usize,
        key: impl Fn(&T) -> K,
        make: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let mut unique: Vec<T> = Vec::new();
        for element in self.some(max, make) {
            if unique.iter().all(|earlier| key(earlier) != key(&element)) {
                unique.push(element);
            }
        }
        unique
    }

    /// Returns one to `max` elements.
    pub fn some<T>(&mut self, max: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = 1 + self.below(max);
        (0..count).map(|_| make(self)).collect()
    }
}

/// String of a request.
pub fn s(text: impl Into<String>) -> Cow<'static, str> {
    Cow::Owned(text.into())
}

/// Number of themes.
const THEMES: u64 = 6;
/// Theme of transactions.
const TRANSACTIONS: u64 = 3;

/// APIs of a theme, as often as they occur.
fn theme(seed: u64) -> Vec<ApiKey> {
    use ApiKey::*;
    let admin = [
        ApiVersions,
        Metadata,
        Metadata,
        DescribeCluster,
        CreateTopics,
        CreateTopics,
        DeleteTopics,
        CreatePartitions,
        DeleteRecords,
        DescribeConfigs,
        DescribeConfigs,
        AlterConfigs,
        IncrementalAlterConfigs,
        IncrementalAlterConfigs,
        DescribeTopicPartitions,
        FindCoordinator,
        DescribeLogDirs,
        DescribeProducers,
        Produce,
        ListOffsets,
    ];
    let data = [
        Produce,
        Produce,
        Produce,
        Produce,
        Produce,
        Produce,
        Fetch,
        Fetch,
        Fetch,
        Fetch,
        ListOffsets,
        ListOffsets,
        OffsetForLeaderEpoch,
        DeleteRecords,
        DescribeProducers,
        InitProducerId,
        Metadata,
        IncrementalAlterConfigs,
    ];
    let group = [
        JoinGroup,
        JoinGroup,
        JoinGroup,
        JoinGroup,
        JoinGroup,
        SyncGroup,
        SyncGroup,
        SyncGroup,
        Heartbeat,
        Heartbeat,
        LeaveGroup,
        OffsetCommit,
        OffsetCommit,
        OffsetFetch,
        OffsetFetch,
        DescribeGroups,
        DescribeGroups,
        ListGroups,
        DeleteGroups,
        OffsetDelete,
        FindCoordinator,
        DeleteTopics,
    ];
    let transaction = [
        InitProducerId,
        InitProducerId,
        AddPartitionsToTxn,
        AddPartitionsToTxn,
        AddOffsetsToTxn,
        TxnOffsetCommit,
        TxnOffsetCommit,
        EndTxn,
        EndTxn,
        EndTxn,
        Produce,
        Produce,
        Produce,
        Fetch,
        ListOffsets,
        OffsetFetch,
        DescribeTransactions,
        ListTransactions,
        DescribeProducers,
        OffsetCommit,
    ];
    let acls = [CreateAcls, CreateAcls, CreateAcls, DescribeAcls, DescribeAcls, DeleteAcls];
    match seed % THEMES {
        0 => admin.to_vec(),
        1 => data.to_vec(),
        2 => group.to_vec(),
        TRANSACTIONS => transaction.to_vec(),
        4 => acls.to_vec(),
        _ => [&admin[..], &data, &group, &transaction, &acls].concat(),
    }
}

/// Returns the steps of a seed.
pub fn sequence(seed: u64, connections: usize) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let apis = theme(seed);
    let count = 20 + (rng.next_u64() % 30) as usize;
    let mut step = |api| Step { conn: (rng.next_u64() % connections as u64) as usize, api, seed: rng.next_u64() };
    let mut steps = vec![step(ApiKey::CreateTopics)];
    for _ in 0..count {
        let choice = step(ApiKey::Metadata);
        let mut api = apis[(choice.seed >> 32) as usize % apis.len()];
        // The first transactional requests need a producer id.
        if seed % THEMES == TRANSACTIONS && steps.len() < 3 {
            api = ApiKey::InitProducerId;
        }
        steps.push(Step { api, ..choice });
    }
    steps
}

/// Builds the request of a step. `None`: the step has no request on this side now.
pub fn build(step: Step, conn: usize, side: &Side, offered: &Offered, is_first: bool) -> Option<Ask> {
    let mut dice = Dice::new(step.seed, offered);
    if is_first {
        return admin::first_topics(&mut dice, side);
    }
    admin::build(step.api, &mut dice, side)
        .or_else(|| acls::build(step.api, &mut dice, side))
        .or_else(|| data::build(step.api, &mut dice, side, conn))
        .or_else(|| group::build(step.api, &mut dice, side))
        .or_else(|| transaction::build(step.api, &mut dice, side))
}

pub use acls::describe_acls;
pub use admin::{describe_configs, metadata_of};
pub use data::latest_offsets;
pub use group::{describe_groups, fetch_all_offsets};
pub use transaction::describe_transactions;
