//! Inspection of a cluster by tests, without a client: records, committed offsets, groups. Also forced events of groups.

use grete_wire::ErrorCode;

use super::Cluster;
use super::event::Action;
use crate::effects::group::CommittedOffset;
use crate::ids::TopicPartition;
use crate::log::StoredRecord;

impl Cluster {
    /// Returns at most `limit` records of a partition from an offset on; -1: from the log start on.
    ///
    /// # Errors
    /// The partition does not exist, or the offset is out of range.
    pub fn records(&mut self, tp: &TopicPartition, from: i64, limit: usize) -> Result<Vec<StoredRecord>, String> {
        let codecs = &mut self.codecs;
        let partition = self.topics.get(&tp.topic).and_then(|topic| topic.partition(tp.partition));
        let log = &partition.ok_or_else(|| format!("partition {tp} does not exist: create the topic first"))?.log;
        let from = if from < 0 { log.log_start_offset() } else { from };
        log.stored_records(from, limit, codecs).map_err(|_| {
            let (start, end) = (log.log_start_offset(), log.high_watermark());
            format!("offset {from} of {tp} is out of range: the partition has the offsets from {start} to {end}")
        })
    }

    /// Returns the log start offset and the high watermark of each partition of a topic.
    ///
    /// # Errors
    /// The topic does not exist.
    pub fn offsets(&self, topic: &str) -> Result<Vec<(i64, i64)>, String> {
        let found = self.topics.get(topic).ok_or_else(|| format!("topic {topic} does not exist: create it first"))?;
        Ok(found.partitions.iter().map(|found| (found.log.log_start_offset(), found.log.high_watermark())).collect())
    }

    /// Compacts all partitions of a topic at once.
    ///
    /// # Errors
    /// The topic does not exist, or its `cleanup.policy` is not `compact`.
    pub fn compact(&mut self, topic: &str) -> Result<(), String> {
        let found = self.topics.get(topic).ok_or_else(|| format!("topic {topic} does not exist: create it first"))?;
        if !found.config.list_contains("cleanup.policy", "compact") {
            return Err(format!("topic {topic} is not compacted: set cleanup.policy=compact"));
        }
        let (id, now) = (found.id, self.now);
        let partitions = i32::try_from(found.partitions.len()).unwrap_or(i32::MAX);
        for partition in 0..partitions {
            self.with_log((id, partition), |log, config, _, codecs| {
                Ok::<_, ErrorCode>((log.compact_now(now, config, codecs), ()))
            });
        }
        Ok(())
    }

    /// Returns the committed offsets of a group, by partition. Empty: the group does not exist, or has none.
    #[must_use]
    pub fn committed(&self, group: &str) -> Vec<(TopicPartition, CommittedOffset)> {
        let partitions = self.groups.committed_partitions(group).into_iter();
        let committed = partitions.filter_map(|tp| {
            let offset = self.groups.fetch_offset(group, &tp, false).ok().flatten().cloned();
            offset.map(|offset| (tp, offset))
        });
        committed.collect()
    }

    /// Returns the name and the state of each group.
    #[must_use]
    pub fn groups(&self) -> Vec<(String, String)> {
        let groups = self.groups.list(&[], &[]).into_iter();
        let groups = groups.chain(self.share.list(&[], &[]));
        groups.map(|group| (group.group_id.into_owned(), group.group_state.into_owned())).collect()
    }

    /// Returns the id of each member of a group and its `client.id`.
    #[must_use]
    pub fn members(&self, group: &str) -> Vec<(String, String)> {
        let members = self.groups.members(group).into_iter();
        let mut members: Vec<_> = members.map(|(id, client)| (id.to_string(), client.to_string())).collect();
        let shares = self.share.group(group).into_iter().flat_map(|group| group.members());
        members.extend(shares.map(|member| (member.member_id.to_string(), member.client_id.to_string())));
        members
    }

    /// Starts a rebalance of a group.
    ///
    /// # Errors
    /// The group has no members.
    pub fn force_rebalance(&mut self, group: &str, actions: &mut Vec<Action>) -> Result<(), String> {
        let has_members = self.groups.force_rebalance(self.now, group, &mut self.effects);
        self.settle(actions);
        if has_members {
            Ok(())
        } else {
            Err(format!(
                "group {group} has no members that could rebalance: start a consumer first (members of share groups never do)"
            ))
        }
    }

    /// Ends the session of a member, named by its member id, `group.instance.id` or `client.id`; "": of all members.
    ///
    /// # Errors
    /// The group has no such member.
    pub fn expire_session(&mut self, group: &str, member: &str, actions: &mut Vec<Action>) -> Result<(), String> {
        let of_client = |(_, client): &(String, String)| client == member || member.is_empty();
        let ids: Vec<String> = self.members(group).into_iter().filter(of_client).map(|(id, _)| id).collect();
        let mut found = self.groups.expire_member(self.now, group, member, &mut self.effects);
        found |= self.share.expire_member(group, member, &mut self.effects);
        for id in ids {
            found |= self.groups.expire_member(self.now, group, &id, &mut self.effects);
            found |= self.share.expire_member(group, &id, &mut self.effects);
        }
        self.settle(actions);
        if found { Ok(()) } else { Err(format!("group {group} has no member {member}: see members()")) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::Fixture;
    use crate::ids::TopicPartition;

    #[test]
    fn records_are_decoded_from_an_offset_on() {
        let mut fixture = Fixture::new(1);
        let conn = fixture.connect(1);
        fixture.create_topic(conn, "orders", 1);
        fixture.produce(conn, "orders", 0, &["a", "b"]);
        fixture.produce(conn, "orders", 0, &["c"]);
        let tp = TopicPartition::new("orders", 0);
        let mut values = |from, limit| {
            let records = fixture.cluster.records(&tp, from, limit)?;
            Ok::<_, String>(records.into_iter().map(|record| record.value.unwrap_or_default()).collect::<Vec<_>>())
        };
        assert_eq!(values(-1, 10).unwrap(), [b"a", b"b", b"c"]);
        assert_eq!(values(1, 1).unwrap(), [b"b"]);
        assert!(values(4, 1).unwrap_err().contains("from 0 to 3"));
        assert_eq!(fixture.cluster.offsets("orders").unwrap(), [(0, 3)]);
        assert!(fixture.cluster.records(&TopicPartition::new("orders", 1), 0, 1).unwrap_err().contains("orders-1"));
    }

    #[test]
    fn compaction_comes_at_intervals() {
        let mut fixture = Fixture::with(|config| config.log_cleaner_backoff_ms = 500, 1);
        let conn = fixture.connect(1);
        fixture.cluster.create_topic("orders", 1, &[]).unwrap();
        assert!(fixture.cluster.deadline().unwrap() > fixture.now + 1_000, "nothing is compacted");
        let settings = [
            ("cleanup.policy", "compact"),
            ("segment.ms", "1"),
            ("min.cleanable.dirty.ratio", "0"),
            ("message.timestamp.type", "LogAppendTime"),
        ];
        fixture.cluster.create_topic("table", 1, &settings).unwrap();
        for value in ["a", "b", "c"] {
            let records = super::super::tests::harness::keyed_batch("k", value);
            let request = super::super::tests::harness::produce_request("table", 0, &records);
            fixture.call(conn, 9, &request, |_| ());
            fixture.advance(100);
        }
        let offsets = |fixture: &mut Fixture| {
            let records = fixture.cluster.records(&TopicPartition::new("table", 0), -1, 10).unwrap();
            records.iter().map(|record| record.offset).collect::<Vec<_>>()
        };
        assert_eq!(offsets(&mut fixture), [0, 1, 2]);
        fixture.advance(500);
        // The active segment, with the last record, stays as it is.
        assert_eq!(offsets(&mut fixture), [1, 2]);
    }

    #[test]
    fn compaction_on_request_leaves_the_newest_of_each_key() {
        let mut fixture = Fixture::new(1);
        let conn = fixture.connect(1);
        fixture.cluster.create_topic("table", 1, &[("cleanup.policy", "compact")]).unwrap();
        for value in ["a", "b", "c"] {
            let records = super::super::tests::harness::keyed_batch("k", value);
            let request = super::super::tests::harness::produce_request("table", 0, &records);
            fixture.call(conn, 9, &request, |response| {
                assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
            });
        }
        fixture.cluster.compact("table").unwrap();
        let records = fixture.cluster.records(&TopicPartition::new("table", 0), -1, 10).unwrap();
        assert_eq!(records.iter().map(|record| record.offset).collect::<Vec<_>>(), [2]);
        fixture.create_topic(conn, "orders", 1);
        assert!(fixture.cluster.compact("orders").unwrap_err().contains("cleanup.policy"));
    }

    #[test]
    fn groups_that_do_not_exist_are_named() {
        let mut fixture = Fixture::new(1);
        assert!(fixture.cluster.force_rebalance("billing", &mut Vec::new()).unwrap_err().contains("billing"));
        assert!(fixture.cluster.expire_session("billing", "x", &mut Vec::new()).unwrap_err().contains("billing"));
        assert!(fixture.cluster.committed("billing").is_empty() && fixture.cluster.groups().is_empty());
    }
}
