//! The cluster, and whether its brokers know of a change.

use std::sync::Arc;
use std::time::Duration;

use grete_core::admin::{AdminReply, ClusterDescription, Operation, Wish};

use super::{Admin, Call};
use crate::error::{ClientError, Subject};

/// How long brokers are given to hear of what the controller has done; nothing depends on it but the next question.
const SPREAD: Duration = Duration::from_secs(5);

impl Admin {
    /// The cluster's id, controller and brokers, as one of them has it.
    ///
    /// # Errors
    /// When none answers in time.
    pub fn describe_cluster(&self, call: &Call<'_>) -> Result<ClusterDescription, ClientError> {
        match self.ask(call, Operation::DescribeCluster)? {
            AdminReply::Cluster(results) => call.only(results, Subject::Other("the cluster".into())),
            other => Err(call.misplaced(&other)),
        }
    }

    /// Waits until every broker knows of what is done already; a broker that does not answer holds nothing up for long.
    pub(super) fn spread(&self, call: &Call<'_>, wishes: Vec<(Arc<str>, Wish)>) -> Result<(), ClientError> {
        if wishes.is_empty() {
            return Ok(());
        }
        let brief = call.within(SPREAD);
        let nodes = match self.describe_cluster(&brief) {
            Ok(cluster) => cluster.brokers.into_iter().map(|broker| broker.id).collect(),
            Err(interrupted @ ClientError::Interrupted { .. }) => return Err(interrupted),
            Err(_) => return Ok(()),
        };
        match self.ask(&brief, Operation::Spread { nodes, wishes }) {
            Err(interrupted @ ClientError::Interrupted { .. }) => Err(interrupted),
            _ => Ok(()),
        }
    }
}
