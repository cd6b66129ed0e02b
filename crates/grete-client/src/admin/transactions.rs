//! Transactions and their producers: list, describe and abort (KIP-664).

use std::sync::Arc;

use grete_proto::admin::{
    AbortMarker, ActiveProducer, AdminError, AdminReply, Operation, TransactionDescription, TransactionFilter,
    TransactionListing,
};
use grete_proto::ids::TopicPartition;

use super::{Admin, CallContext, ItemResults, partition_subject};
use crate::error::{ClientError, Subject};

/// Transactional ids of all brokers that answered.
#[derive(Debug)]
pub struct TransactionList {
    /// Listings, sorted by transactional id.
    pub transactions: Vec<TransactionListing>,
    /// First error of a broker whose ids are missing; `None`: all brokers answered.
    pub missing: Option<ClientError>,
}

fn id_subject(id: &Arc<str>) -> Subject {
    Subject::TransactionalId(id.to_string())
}

impl Admin {
    /// Lists the transactional ids of all brokers.
    ///
    /// # Errors
    /// Fails if no broker answers.
    pub fn list_transactions(
        &self,
        call: &CallContext<'_>,
        filter: &TransactionFilter,
    ) -> Result<TransactionList, ClientError> {
        loop {
            let nodes: Vec<_> = self.describe_cluster(call)?.brokers.into_iter().map(|broker| broker.id).collect();
            let operation = Operation::ListTransactions { nodes: nodes.clone(), filter: filter.clone() };
            let results = match self.execute(call, operation)? {
                AdminReply::TransactionListings(results) => results,
                other => return Err(call.wrong_reply_type(&other)),
            };
            // A broker has left the cluster meanwhile. Its ids have moved, perhaps to a broker that answered before.
            if results.iter().any(|result| matches!(result, Err(AdminError::NoBroker(_)))) {
                continue;
            }
            let mut list = TransactionList { transactions: Vec::new(), missing: None };
            let subjects = nodes.iter().map(|node| Subject::Other(format!("broker {node}")));
            for result in call.item_results(results, subjects) {
                match result {
                    Ok(transactions) => list.transactions.extend(transactions),
                    Err(error) => list.missing = list.missing.or(Some(error)),
                }
            }
            // An id that has just moved may be listed by both of its coordinators.
            list.transactions.sort_unstable_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
            list.transactions.dedup_by(|a, b| a.transactional_id == b.transactional_id);
            return Ok(list);
        }
    }

    /// Describes transactional ids and their transactions.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single ids are in the results.
    pub fn describe_transactions(
        &self,
        call: &CallContext<'_>,
        ids: Vec<Arc<str>>,
    ) -> Result<ItemResults<TransactionDescription>, ClientError> {
        match self.execute(call, Operation::DescribeTransactions { ids: ids.clone() })? {
            AdminReply::TransactionDescriptions(results) => Ok(call.item_results(results, ids.iter().map(id_subject))),
            other => Err(call.wrong_reply_type(&other)),
        }
    }

    /// Describes the producers that the logs of partitions know.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single partitions are in the results.
    pub fn describe_producers(
        &self,
        call: &CallContext<'_>,
        partitions: Vec<TopicPartition>,
    ) -> Result<ItemResults<Vec<ActiveProducer>>, ClientError> {
        match self.execute(call, Operation::DescribeProducers { partitions: partitions.clone() })? {
            AdminReply::Producers(results) => Ok(call.item_results(results, partitions.iter().map(partition_subject))),
            other => Err(call.wrong_reply_type(&other)),
        }
    }

    /// Aborts the open transactions of ids, and fences their producers.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single ids are in the results.
    pub fn fence_producers(&self, call: &CallContext<'_>, ids: Vec<Arc<str>>) -> Result<ItemResults<()>, ClientError> {
        match self.execute(call, Operation::FenceProducers { ids: ids.clone() })? {
            AdminReply::Done(results) => Ok(call.item_results(results, ids.iter().map(id_subject))),
            other => Err(call.wrong_reply_type(&other)),
        }
    }

    /// Writes a marker that aborts the transaction of a producer in one partition.
    ///
    /// # Errors
    /// Fails if no broker answers, the producer has a newer epoch, or the client may not alter the cluster.
    pub fn abort_transaction(
        &self,
        call: &CallContext<'_>,
        partition: TopicPartition,
        marker: AbortMarker,
    ) -> Result<(), ClientError> {
        let subject = partition_subject(&partition);
        match self.execute(call, Operation::AbortTransaction { partition, marker })? {
            AdminReply::Done(results) => call.single_result(results, subject),
            other => Err(call.wrong_reply_type(&other)),
        }
    }
}
