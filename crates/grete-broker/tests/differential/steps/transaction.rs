//! Requests of transactional producers, and of admin clients about transactions.

use grete_wire::ApiKey;
use grete_wire::messages::*;

use super::{Dice, s};
use crate::message::{Ask, ask};
use crate::side::{Learn, MEMBERS, PRODUCERS, Side, UNKNOWN_PRODUCER};

/// Asks for both transactions of a run.
pub fn describe_transactions(side: &Side) -> Ask {
    let transactional_ids = (0..2).map(|index| s(format!("{}x{index}", side.run))).collect();
    ask(0, &DescribeTransactionsRequest { transactional_ids }).expect("encodes")
}

/// Builds a request. `None`: not an API of this file.
pub fn build(api: ApiKey, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let version = dice.version(api)?;
    match api {
        ApiKey::InitProducerId => init(version, dice, side),
        ApiKey::AddPartitionsToTxn => add_partitions(version, dice, side),
        ApiKey::AddOffsetsToTxn => {
            let (slot, transactional_id) = dice.transactional(side);
            let (producer_id, producer_epoch) = claim(dice, side, slot);
            let group_id = s(dice.group(side).1);
            let transactional_id = s(transactional_id);
            ask(version, &AddOffsetsToTxnRequest { transactional_id, producer_id, producer_epoch, group_id })
        }
        ApiKey::TxnOffsetCommit => commit_offsets(version, dice, side),
        ApiKey::EndTxn => {
            let (slot, transactional_id) = dice.transactional(side);
            let (producer_id, producer_epoch) = claim(dice, side, slot);
            let committed = dice.chance(60);
            let transactional_id = s(transactional_id);
            let mut ask = ask(version, &EndTxnRequest { transactional_id, producer_id, producer_epoch, committed })?;
            ask.learn = Learn::Producer(slot);
            Some(ask)
        }
        ApiKey::DescribeTransactions => {
            let transactional_ids = dice.distinct(2, |dice| s(dice.transactional(side).1));
            ask(version, &DescribeTransactionsRequest { transactional_ids })
        }
        ApiKey::ListTransactions => {
            let mut request = ListTransactionsRequest::default();
            if dice.chance(50) {
                let states = ["Ongoing", "Empty", "CompleteCommit", "CompleteAbort", "Wrong", "PrepareCommit"];
                request.state_filters = dice.distinct(2, |dice| s(dice.pick(&states)));
            }
            if dice.chance(30) {
                request.producer_id_filters = vec![side.producers[0].id, UNKNOWN_PRODUCER];
            }
            if version >= 1 && dice.chance(30) {
                request.duration_filter = dice.pick(&[-1, 1_000_000]);
            }
            if version >= 2 && dice.chance(40) {
                request.transactional_id_pattern = Some(s(""));
            }
            ask(version, &request)
        }
        _ => None,
    }
}

/// Returns producer id and epoch, mostly those of the slot.
fn claim(dice: &mut Dice<'_>, side: &Side, slot: usize) -> (i64, i16) {
    let producer = &side.producers[slot];
    match dice.below(24) {
        0 => (UNKNOWN_PRODUCER + 7, producer.epoch),
        1 => (producer.id, producer.epoch - 1),
        2 => (producer.id, producer.epoch + 1),
        _ => (producer.id, producer.epoch),
    }
}

fn init(version: i16, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let slot = dice.pick(&[0, 0, 1, 1, 2, 3]);
    let mut request = InitProducerIdRequest {
        transactional_id: (slot < PRODUCERS / 2).then(|| s(format!("{}x{slot}", side.run))),
        transaction_timeout_ms: if dice.chance(4) { dice.pick(&[0, -1, i32::MAX]) } else { 600_000 },
        ..Default::default()
    };
    if dice.chance(2) {
        request.transactional_id = Some(s(""));
    }
    if version >= 3 && dice.chance(30) {
        (request.producer_id, request.producer_epoch) = claim(dice, side, slot);
        if dice.chance(5) {
            request.producer_epoch = -1;
        }
    }
    let mut ask = ask(version, &request)?;
    ask.learn = Learn::Producer(slot);
    Some(ask)
}

fn topics(dice: &mut Dice<'_>, side: &Side) -> Vec<AddPartitionsToTxnTopic<'static>> {
    let mut names: Vec<String> = dice.distinct(2, |dice| dice.topic(side));
    names.sort_unstable();
    names.dedup();
    let topic = |name| {
        let mut partitions = dice.distinct(2, Dice::partition);
        partitions.sort_unstable();
        partitions.dedup();
        AddPartitionsToTxnTopic { name: s(name), partitions }
    };
    names.into_iter().map(topic).collect()
}

fn add_partitions(version: i16, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let (slot, transactional_id) = dice.transactional(side);
    let (producer_id, producer_epoch) = claim(dice, side, slot);
    if version < 4 {
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: s(transactional_id),
            v3_and_below_producer_id: producer_id,
            v3_and_below_producer_epoch: producer_epoch,
            v3_and_below_topics: topics(dice, side),
            ..Default::default()
        };
        return ask(version, &request);
    }
    let mut transactions = vec![AddPartitionsToTxnTransaction {
        transactional_id: s(transactional_id),
        producer_id,
        producer_epoch,
        verify_only: dice.chance(40),
        topics: topics(dice, side),
    }];
    if dice.chance(20) {
        let (producer_id, producer_epoch) = claim(dice, side, 1 - slot);
        transactions.push(AddPartitionsToTxnTransaction {
            transactional_id: s(format!("{}x{}", side.run, 1 - slot)),
            producer_id,
            producer_epoch,
            verify_only: dice.chance(40),
            topics: topics(dice, side),
        });
    }
    ask(version, &AddPartitionsToTxnRequest { transactions, ..Default::default() })
}

fn commit_offsets(version: i16, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let (slot, transactional_id) = dice.transactional(side);
    let (producer_id, producer_epoch) = claim(dice, side, slot);
    let (group, group_id) = dice.group(side);
    let mut request = TxnOffsetCommitRequest {
        transactional_id: s(transactional_id),
        group_id: s(group_id),
        producer_id,
        producer_epoch,
        topics: dice.each(
            2,
            |x: &TxnOffsetCommitRequestTopic<'_>| x.name.to_string(),
            |dice| TxnOffsetCommitRequestTopic {
                name: s(dice.topic(side)),
                partitions: dice.each(
                    2,
                    |x: &TxnOffsetCommitRequestPartition<'_>| x.partition_index,
                    |dice| TxnOffsetCommitRequestPartition {
                        partition_index: dice.partition(),
                        committed_offset: dice.pick(&[0, 1, 5, 7, 100]),
                        committed_leader_epoch: if version >= 2 { dice.pick(&[-1, 0]) } else { -1 },
                        committed_metadata: dice.pick(&[Some(s("")), Some(s("where")), None]),
                    },
                ),
            },
        ),
        ..Default::default()
    };
    if version >= 3 && dice.chance(20) {
        let member = &side.members[group * MEMBERS / 2];
        (request.generation_id, request.member_id) = (member.generation, s(member.id.clone()));
    }
    ask(version, &request)
}
