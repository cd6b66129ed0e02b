//! Offsets of the log: found by time, and moved up by deleting records. Both at the partitions' leaders.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use grete_wire::WireError;
use grete_wire::api_key::ApiKey;
use grete_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use grete_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use grete_wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse, ListOffsetsRequest, ListOffsetsResponse};

use super::super::errand::{Errand, Outcome, Outcomes, Place, outcome};
use super::super::error::AdminError;
use super::super::operation::AdminReply;
use super::owned;
use crate::cluster::Cluster;
use crate::ids::{NodeId, TopicPartition};
use crate::request::{Request, Response};

/// Replica id of a consumer: answered by the leader only.
const CONSUMER: i32 = -1;

/// Which place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The first offset still there.
    Earliest,
    /// The end.
    Latest,
    /// The first record with that timestamp (milliseconds since 1970) or a later one; the end if there is none.
    Timestamp(i64),
}

impl When {
    /// As Kafka writes it. A time before 1970 would be taken for a special value.
    fn timestamp(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::Timestamp(ms) => ms.max(0),
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundOffset {
    /// The offset.
    pub offset: i64,
    /// The leader epoch of that offset; -1 if unknown.
    pub leader_epoch: i32,
}

#[derive(Debug)]
pub(crate) struct ListOffsets {
    pub starts: Vec<(TopicPartition, When)>,
    /// The end is where open transactions begin.
    pub read_committed: bool,
}

impl Errand for ListOffsets {
    type Value = FoundOffset;

    fn api(&self) -> ApiKey {
        ApiKey::ListOffsets
    }

    fn len(&self) -> usize {
        self.starts.len()
    }

    fn place(&self, item: usize) -> Place<'_> {
        self.starts.get(item).map_or(Place::Any, |(tp, _)| Place::Leader(tp))
    }

    fn subject(&self, item: usize) -> String {
        self.starts.get(item).map_or_else(String::new, |(tp, _)| tp.to_string())
    }

    fn request(&self, items: &mut Vec<usize>, cluster: &Cluster, timeout_ms: i32) -> Request {
        // A request has one place for each partition; the same partition's other starts have to wait.
        let mut taken = HashSet::new();
        items.retain(|&item| self.starts.get(item).is_some_and(|(tp, _)| taken.insert(tp)));
        let mut topics: BTreeMap<&Arc<str>, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for (tp, when) in items.iter().filter_map(|&item| self.starts.get(item)) {
            topics.entry(&tp.topic).or_default().push(ListOffsetsPartition {
                partition_index: tp.partition,
                current_leader_epoch: cluster.leader(tp).map_or(-1, |(_, epoch)| epoch),
                timestamp: when.timestamp(),
            });
        }
        let topic = |(name, partitions): (&Arc<str>, _)| ListOffsetsTopic { name: owned(name), partitions };
        Request::ListOffsets(ListOffsetsRequest {
            replica_id: CONSUMER,
            isolation_level: i8::from(self.read_committed),
            topics: topics.into_iter().map(topic).collect(),
            timeout_ms,
        })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<FoundOffset>,
    ) -> Result<(), WireError> {
        let answer = response.decode(ListOffsetsResponse::decode)?;
        let of = |&item: &usize| self.starts.get(item).map(|(tp, _)| ((&*tp.topic, tp.partition), item));
        let places: HashMap<(&str, i32), usize> = items.iter().filter_map(of).collect();
        let mut beyond = Vec::new();
        for topic in &answer.topics {
            for partition in &topic.partitions {
                let Some(&item) = places.get(&(&*topic.name, partition.partition_index)) else { continue };
                let found = FoundOffset { offset: partition.offset, leader_epoch: partition.leader_epoch };
                let by_time = self.starts.get(item).is_some_and(|(_, when)| matches!(when, When::Timestamp(_)));
                out.push(match outcome(partition.error_code, None, || found) {
                    Outcome::Done(found) if found.offset < 0 && by_time => {
                        beyond.push(item);
                        (item, Outcome::GoOn)
                    }
                    Outcome::Done(found) if found.offset < 0 => continue, // no answer, whatever it is
                    outcome => (item, outcome),
                });
            }
        }
        for item in beyond {
            if let Some((_, when)) = self.starts.get_mut(item) {
                *when = When::Latest;
            }
        }
        Ok(())
    }

    fn reply(&self, results: Vec<Result<FoundOffset, AdminError>>) -> AdminReply {
        AdminReply::Offsets(results)
    }
}

/// Deletes the records before an offset; -1 stands for the end.
#[derive(Debug)]
pub(crate) struct DeleteRecords {
    pub before: Vec<(TopicPartition, i64)>,
}

impl Errand for DeleteRecords {
    /// The first offset still there.
    type Value = i64;

    fn api(&self) -> ApiKey {
        ApiKey::DeleteRecords
    }

    fn len(&self) -> usize {
        self.before.len()
    }

    fn place(&self, item: usize) -> Place<'_> {
        self.before.get(item).map_or(Place::Any, |(tp, _)| Place::Leader(tp))
    }

    fn subject(&self, item: usize) -> String {
        self.before.get(item).map_or_else(String::new, |(tp, _)| tp.to_string())
    }

    fn request(&self, items: &mut Vec<usize>, _cluster: &Cluster, timeout_ms: i32) -> Request {
        let mut topics: BTreeMap<&Arc<str>, Vec<DeleteRecordsPartition>> = BTreeMap::new();
        for (tp, offset) in items.iter().filter_map(|&item| self.before.get(item)) {
            let partition = DeleteRecordsPartition { partition_index: tp.partition, offset: *offset };
            topics.entry(&tp.topic).or_default().push(partition);
        }
        let topic = |(name, partitions): (&Arc<str>, _)| DeleteRecordsTopic { name: owned(name), partitions };
        Request::any(DeleteRecordsRequest { topics: topics.into_iter().map(topic).collect(), timeout_ms })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<i64>,
    ) -> Result<(), WireError> {
        let answer = response.decode(DeleteRecordsResponse::decode)?;
        let of = |&item: &usize| self.before.get(item).map(|(tp, _)| ((&*tp.topic, tp.partition), item));
        let places: HashMap<(&str, i32), usize> = items.iter().filter_map(of).collect();
        for topic in &answer.topics {
            for partition in &topic.partitions {
                if let Some(&item) = places.get(&(&*topic.name, partition.partition_index)) {
                    out.push((item, outcome(partition.error_code, None, || partition.low_watermark)));
                }
            }
        }
        Ok(())
    }

    fn reply(&self, results: Vec<Result<i64, AdminError>>) -> AdminReply {
        AdminReply::LowWatermarks(results)
    }
}
