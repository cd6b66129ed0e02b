//! Refused parts of a request join the response of the rest.

use grete_wire::messages::OffsetFetchResponse;

use crate::message::Response;

/// Adds the refusal of a part of a request to the response.
pub(super) fn add(response: &mut Response, refusal: Response) {
    match (response, refusal) {
        (Response::Produce(all), Response::Produce(part)) => all.responses.extend(part.responses),
        (Response::ListOffsets(all), Response::ListOffsets(part)) => all.topics.extend(part.topics),
        (Response::OffsetForLeaderEpoch(all), Response::OffsetForLeaderEpoch(part)) => all.topics.extend(part.topics),
        (Response::Metadata(all), Response::Metadata(part)) => all.topics.extend(part.topics),
        (Response::DescribeTopicPartitions(all), Response::DescribeTopicPartitions(part)) => {
            all.topics.extend(part.topics);
            all.topics.sort_by(|left, right| left.name.cmp(&right.name));
        }
        (Response::OffsetCommit(all), Response::OffsetCommit(part)) => all.topics.extend(part.topics),
        (Response::TxnOffsetCommit(all), Response::TxnOffsetCommit(part)) => all.topics.extend(part.topics),
        (Response::OffsetFetch(all), Response::OffsetFetch(part)) => add_offsets(all, part),
        (Response::OffsetDelete(all), Response::OffsetDelete(part)) => {
            if all.error_code == 0 {
                all.topics.extend(part.topics);
            }
        }
        (Response::FindCoordinator(all), Response::FindCoordinator(part)) => all.coordinators.extend(part.coordinators),
        (Response::DescribeGroups(all), Response::DescribeGroups(part)) => all.groups.extend(part.groups),
        (Response::ConsumerGroupDescribe(all), Response::ConsumerGroupDescribe(part)) => all.groups.extend(part.groups),
        (Response::ShareGroupDescribe(all), Response::ShareGroupDescribe(part)) => all.groups.extend(part.groups),
        (Response::DescribeShareGroupOffsets(all), Response::DescribeShareGroupOffsets(part)) => {
            all.groups.extend(part.groups);
        }
        (Response::DeleteGroups(all), Response::DeleteGroups(part)) => all.results.extend(part.results),
        (Response::CreateTopics(all), Response::CreateTopics(part)) => all.topics.extend(part.topics),
        (Response::DeleteTopics(all), Response::DeleteTopics(part)) => all.responses.extend(part.responses),
        (Response::CreatePartitions(all), Response::CreatePartitions(part)) => all.results.extend(part.results),
        (Response::DeleteRecords(all), Response::DeleteRecords(part)) => all.topics.extend(part.topics),
        (Response::DescribeProducers(all), Response::DescribeProducers(part)) => all.topics.extend(part.topics),
        (Response::DescribeTransactions(all), Response::DescribeTransactions(part)) => {
            all.transaction_states.extend(part.transaction_states);
        }
        (Response::DescribeConfigs(all), Response::DescribeConfigs(part)) => all.results.extend(part.results),
        (Response::IncrementalAlterConfigs(all), Response::IncrementalAlterConfigs(part)) => {
            all.responses.extend(part.responses);
        }
        (Response::AlterConfigs(all), Response::AlterConfigs(part)) => all.responses.extend(part.responses),
        (Response::AddPartitionsToTxn(all), Response::AddPartitionsToTxn(part)) => {
            all.results_by_topic_v3_and_below.extend(part.results_by_topic_v3_and_below);
        }
        (response, refusal) => debug_assert_eq!(response.api(), refusal.api(), "a refusal of another API"),
    }
}

/// Adds topics to the group that they belong to, and groups that are refused as a whole.
fn add_offsets(all: &mut OffsetFetchResponse<'static>, part: OffsetFetchResponse<'static>) {
    all.topics.extend(part.topics);
    for group in part.groups {
        match all.groups.iter_mut().find(|found| found.group_id == group.group_id) {
            Some(found) if found.error_code == 0 && group.error_code == 0 => found.topics.extend(group.topics),
            Some(_) => {}
            None => all.groups.push(group),
        }
    }
}
