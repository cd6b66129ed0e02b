//! The journal's format beside a file that is kept: data that a released version stored must be readable.
//!
//! A difference means that the encoding of a change is another one. Then raise `FORMAT` in `journal/entry.rs`, and
//! write a file of the new format: `GRETE_WRITE_GOLDEN=1 cargo test -p grete-broker --test journal_format`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grete_broker::acl::{Acl, AclChange, Operation, PatternType, Permission, ResourceType};
use grete_broker::effects::Change;
use grete_broker::effects::consumer_group::{ConsumerChange, ConsumerMember, MemberState};
use grete_broker::effects::group::{CommittedOffset, GroupChange, GroupMetadata, MemberMetadata};
use grete_broker::effects::share_group::{ShareChange, ShareGroupChange, ShareMember, StoredRange};
use grete_broker::ids::TopicPartition;
use grete_broker::journal::{Journal, JournalConfig, SyncPolicy};
use grete_broker::log::{AppendChecks, Codecs, LogChange, LogConfig, PartitionLog};
use grete_broker::topics::TopicChange;
use grete_broker::transaction::{Producer, Transaction, TransactionChange, TransactionState};
use grete_wire::records::EndTransactionMarker;
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch};

const NOW: i64 = 1_700_000_000_000;
const TOPIC: u128 = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;

/// Names a change, so that a new kind does not compile until it is in the file.
fn kind(change: &Change) -> &'static str {
    match change {
        Change::Topic(change) => match change {
            TopicChange::Created { .. } => "topic created",
            TopicChange::Deleted { .. } => "topic deleted",
            TopicChange::PartitionsAdded { .. } => "partitions added",
            TopicChange::Configured { .. } => "topic configured",
            TopicChange::Reassigned { .. } => "partition reassigned",
            TopicChange::Elected { .. } => "leader elected",
        },
        Change::Log { change, .. } => match change {
            LogChange::Append { .. } => "append",
            LogChange::LogStart(_) => "log start",
            LogChange::LeaderEpoch(_) => "leader epoch",
            LogChange::ProducersExpired(_) => "producers expired",
            LogChange::Compacted { .. } => "compacted",
            LogChange::Snapshot(_) => "snapshot",
            LogChange::Stored(_) => "stored",
        },
        Change::Group(change) => match change {
            GroupChange::Metadata { .. } => "group metadata",
            GroupChange::Offsets { .. } => "offsets",
            GroupChange::OffsetsDeleted { .. } => "offsets deleted",
            GroupChange::TransactionEnded { .. } => "transaction of groups ended",
            GroupChange::Deleted { .. } => "group deleted",
            GroupChange::Consumer { change, .. } => match change {
                ConsumerChange::Epoch { .. } => "group epoch",
                ConsumerChange::Target { .. } => "target assignment",
                ConsumerChange::Member(_) => "member",
                ConsumerChange::MemberRemoved { .. } => "member removed",
            },
        },
        Change::Transaction(change) => match change {
            TransactionChange::ProducerId(_) => "producer id",
            TransactionChange::State { .. } => "transaction",
            TransactionChange::Removed { .. } => "transactional id removed",
        },
        Change::Acl(change) => match change {
            AclChange::Created(_) => "ACL created",
            AclChange::Deleted(_) => "ACL deleted",
        },
        Change::Share(change) => match &change.change {
            ShareGroupChange::Epoch(_) => "share group epoch",
            ShareGroupChange::Member(_) => "share member",
            ShareGroupChange::MemberRemoved { .. } => "share member removed",
            ShareGroupChange::Deleted => "share group deleted",
            ShareGroupChange::Configured(_) => "share group configured",
            ShareGroupChange::Partition { .. } => "share partition",
            ShareGroupChange::PartitionDeleted { .. } => "share partition deleted",
        },
    }
}
/// Number of names in [`kind`].
const KINDS: usize = 34;

fn topic_changes() -> Vec<TopicChange> {
    let overrides = vec![("cleanup.policy".to_owned(), "compact".to_owned())];
    vec![
        TopicChange::Created {
            name: "orders".into(),
            id: TOPIC,
            replicas: vec![vec![1, 2], vec![2, 1]],
            overrides: overrides.clone(),
        },
        TopicChange::PartitionsAdded { id: TOPIC, replicas: vec![vec![3]] },
        TopicChange::Configured { id: TOPIC, overrides },
        TopicChange::Reassigned { id: TOPIC, partition: 2, replicas: vec![1, 3] },
        TopicChange::Elected { id: TOPIC, partition: 1, leader: Some(2), leader_epoch: 7 },
        TopicChange::Elected { id: TOPIC, partition: 2, leader: None, leader_epoch: 1 },
        TopicChange::Deleted { id: TOPIC + 1 },
    ]
}

/// Returns the changes of a log, and its snapshot: two transactions of which one is aborted and one is open, then an
/// expired producer, deleted records, and a second leader epoch.
fn log_changes() -> Vec<LogChange> {
    let (mut log, mut codecs, config) = (PartitionLog::new(), Codecs::new(), LogConfig::default());
    let checks = AppendChecks { produce_version: 12, transaction_verified: true, epoch_bump: false };
    let mut changes: Vec<LogChange> = log.begin_leader_epoch(0).into_iter().collect();
    let mut append = |log: &mut PartitionLog, options: &BatchOptions| {
        let records = [TestRecord::keyed(NOW, "k", "v"), TestRecord { timestamp: NOW + 1, ..TestRecord::default() }];
        let batch = build_batch(0, &records, options);
        log.append(NOW, 0, &batch, &config, checks, &mut codecs).expect("accepted").change
    };
    let plain = BatchOptions::default();
    let producer = BatchOptions { producer_id: 5, producer_epoch: 1, base_sequence: 0, ..BatchOptions::default() };
    let transactional = BatchOptions { transactional: true, producer_id: 6, ..producer.clone() };
    let open = BatchOptions { producer_id: 7, ..transactional.clone() };
    for options in [&plain, &producer, &transactional, &open] {
        changes.extend(append(&mut log, options));
    }
    let marker = EndTransactionMarker { producer_id: 6, producer_epoch: 1, coordinator_epoch: 0, commit: false };
    changes.push(log.append_marker(NOW + 2, 0, &marker, 0, &config).expect("accepted").1);
    changes.extend(log.delete_records(2).expect("in range").1);
    changes.extend(log.begin_leader_epoch(1));
    changes.extend(log.snapshot());
    changes.push(LogChange::ProducersExpired(vec![5, 9]));
    let rewritten = vec![Arc::new(build_batch(3, &[TestRecord::keyed(NOW, "k", "new")], &plain))];
    changes.push(LogChange::Compacted { end: 4, removed: vec![1, 2], rewritten });
    changes
}

fn group_changes() -> Vec<GroupChange> {
    let group: Arc<str> = "shop".into();
    let member = MemberMetadata {
        member_id: "a-1".into(),
        instance_id: Some("node-1".into()),
        client_id: "a".into(),
        client_host: "127.0.0.1".into(),
        rebalance_timeout_ms: 300_000,
        session_timeout_ms: 45_000,
        subscription: [0, 1, 2].as_slice().into(),
        assignment: [3, 4].as_slice().into(),
    };
    let metadata = GroupMetadata {
        protocol_type: Some("consumer".into()),
        protocol: Some("range".into()),
        leader: Some("a-1".into()),
        generation: 3,
        state_since: NOW,
        members: vec![member],
    };
    let empty = GroupMetadata {
        protocol_type: None,
        protocol: None,
        leader: None,
        generation: 0,
        state_since: NOW,
        members: Vec::new(),
    };
    let offset = CommittedOffset {
        offset: 42,
        leader_epoch: 7,
        metadata: "where".into(),
        committed_at: NOW,
        expires_at: Some(NOW + 1),
    };
    let place = TopicPartition::new("orders", 1);
    vec![
        GroupChange::Metadata { group: Arc::clone(&group), metadata },
        GroupChange::Metadata { group: "empty".into(), metadata: empty },
        GroupChange::Offsets {
            group: Arc::clone(&group),
            producer_id: Some(6),
            offsets: vec![(place.clone(), offset.clone())],
        },
        GroupChange::Offsets {
            group: Arc::clone(&group),
            producer_id: None,
            offsets: vec![(place.clone(), CommittedOffset { leader_epoch: -1, expires_at: None, ..offset })],
        },
        GroupChange::TransactionEnded { producer_id: 6, commit: true },
        GroupChange::OffsetsDeleted { group: Arc::clone(&group), partitions: vec![place] },
        GroupChange::Deleted { group },
    ]
}

/// Returns the changes of a group of the consumer protocol.
fn consumer_changes() -> Vec<GroupChange> {
    let member = ConsumerMember {
        member_id: "m1".into(),
        instance_id: Some("node-1".into()),
        rack_id: Some("rack".into()),
        client_id: "a".into(),
        client_host: "127.0.0.1".into(),
        rebalance_timeout_ms: 300_000,
        assignor: Some("range".into()),
        topics: BTreeSet::from(["orders".into()]),
        regex: "".into(),
        epoch: 3,
        previous_epoch: 2,
        state: MemberState::UnrevokedPartitions,
        assigned: BTreeMap::from([(TOPIC, BTreeMap::from([(0, 3)]))]),
        revoking: BTreeMap::from([(TOPIC, BTreeMap::from([(1, 2)]))]),
    };
    let other = ConsumerMember {
        member_id: "m2".into(),
        instance_id: None,
        rack_id: None,
        assignor: None,
        state: MemberState::UnreleasedPartitions,
        ..member.clone()
    };
    let stable = ConsumerMember { state: MemberState::Stable, epoch: -2, ..other.clone() };
    let changes = [
        ConsumerChange::Epoch { epoch: 3, topics: BTreeMap::from([("orders".into(), (TOPIC, 2))]) },
        ConsumerChange::Target {
            epoch: 3,
            computed_at: NOW,
            changed: vec![("m1".into(), BTreeMap::from([(TOPIC, BTreeSet::from([0]))]))],
        },
        ConsumerChange::Member(member),
        ConsumerChange::Member(other),
        ConsumerChange::Member(stable),
        ConsumerChange::MemberRemoved { member_id: "m2".into() },
    ];
    changes.into_iter().map(|change| GroupChange::Consumer { group: "new".into(), change }).collect()
}

fn transaction_changes() -> Vec<TransactionChange> {
    let state = |state| Transaction {
        producer: Producer { id: 6, epoch: 1 },
        previous_producer_id: -1,
        previous_epoch: 0,
        next_producer_id: -1,
        timeout_ms: 60_000,
        state,
        partitions: BTreeSet::from([TopicPartition::new("orders", 0), TopicPartition::new("orders", 1)]),
        groups: BTreeSet::from(["shop".into()]),
        started: NOW,
        updated: NOW + 1,
    };
    let states =
        TransactionState::ALL.map(|name| TransactionChange::State { id: "x".into(), state: Box::new(state(name)) });
    let ends = [TransactionChange::ProducerId(6), TransactionChange::Removed { id: "x".into() }];
    states.into_iter().chain(ends).collect()
}

/// Returns the steps of the file: each kind of change, with and without each optional part.
fn acl_changes() -> Vec<AclChange> {
    let acl = Acl {
        resource_type: ResourceType::Topic,
        name: "orders".into(),
        pattern: PatternType::Prefixed,
        principal: "User:alice".into(),
        host: "*".into(),
        operation: Operation::Read,
        permission: Permission::Allow,
    };
    let denied = Acl { operation: Operation::TwoPhaseCommit, permission: Permission::Deny, ..acl.clone() };
    vec![AclChange::Created(acl), AclChange::Created(denied.clone()), AclChange::Deleted(denied)]
}

fn share_changes() -> Vec<ShareChange> {
    let member = ShareMember {
        member_id: "m".into(),
        rack_id: Some("eu-1".into()),
        client_id: "app".into(),
        client_host: "127.0.0.1".into(),
        topics: BTreeSet::from(["orders".into()]),
        epoch: 3,
        previous_epoch: 2,
        assigned: BTreeMap::from([(TOPIC, BTreeSet::from([0, 1]))]),
    };
    let ranges = vec![
        StoredRange { first: 7, last: 8, deliveries: Some(2) },
        StoredRange { first: 9, last: 9, deliveries: None },
    ];
    let changes = [
        ShareGroupChange::Configured(vec![("share.auto.offset.reset".to_owned(), "earliest".to_owned())]),
        ShareGroupChange::Member(ShareMember { rack_id: None, ..member.clone() }),
        ShareGroupChange::Member(member),
        ShareGroupChange::Epoch(3),
        ShareGroupChange::Partition { topic: TOPIC, partition: 1, start: 5, ranges },
        ShareGroupChange::PartitionDeleted { topic: TOPIC, partition: 1 },
        ShareGroupChange::MemberRemoved { member_id: "m".into() },
        ShareGroupChange::Deleted,
    ];
    changes.into_iter().map(|change| ShareChange { group: "tasks".into(), change }).collect()
}

fn steps() -> Vec<Vec<Change>> {
    let log = |change| Change::Log { topic: TOPIC, partition: 1, change };
    vec![
        topic_changes().into_iter().map(Change::Topic).collect(),
        log_changes().into_iter().map(log).collect(),
        group_changes().into_iter().map(Change::Group).collect(),
        transaction_changes().into_iter().map(Change::Transaction).collect(),
        acl_changes().into_iter().map(Change::Acl).collect(),
        consumer_changes().into_iter().map(Change::Group).collect(),
        share_changes().into_iter().map(Change::Share).collect(),
    ]
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journal_format/format-1.journal")
}

/// Directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("grete-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn open(&self) -> (Journal, Vec<Change>) {
        let config = JournalConfig { directory: self.0.clone(), sync: SyncPolicy::Never };
        let mut changes = Vec::new();
        let (journal, replayed) = Journal::open(&config, |change| changes.push(change)).expect("readable");
        assert_eq!(replayed.cut, None);
        (journal, changes)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_file_has_each_kind_of_change() {
    let kinds: BTreeSet<_> = steps().iter().flatten().map(kind).collect();
    assert_eq!(kinds.len(), KINDS, "{kinds:?}");
}

#[test]
fn changes_are_written_as_in_the_kept_file() {
    let scratch = Scratch::new("journal-written");
    let (mut journal, _) = scratch.open();
    for step in steps() {
        journal.append(&step).expect("written");
    }
    let written = std::fs::read(journal.path()).expect("readable");
    if std::env::var_os("GRETE_WRITE_GOLDEN").is_some() {
        std::fs::write(golden(), &written).expect("written");
    }
    let kept = std::fs::read(golden()).expect("the kept file");
    let first = written.iter().zip(&kept).position(|(a, b)| a != b);
    assert_eq!((first, written.len()), (None, kept.len()), "the first byte that differs, and the length");
}

#[test]
fn the_kept_file_is_readable() {
    let scratch = Scratch::new("journal-kept");
    let path = scratch.open().0.path();
    std::fs::copy(golden(), path).expect("copied");
    let (_, changes) = scratch.open();
    assert_eq!(changes, steps().concat());
}
