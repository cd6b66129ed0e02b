//! Description of the cluster, and waiting until all brokers know of a change.

use std::sync::Arc;
use std::time::Duration;

use grete_proto::admin::{AdminReply, ClusterDescription, ExpectedTopicState, Operation};

use super::{Admin, CallContext};
use crate::error::{ClientError, Subject};

/// Time for brokers to learn of the controller's changes. Only later requests depend on it.
const PROPAGATION_TIMEOUT: Duration = Duration::from_secs(5);

impl Admin {
    /// Returns id, controller and brokers of the cluster, as seen by one broker.
    ///
    /// # Errors
    /// Fails if no broker answers in time.
    pub fn describe_cluster(&self, call: &CallContext<'_>) -> Result<ClusterDescription, ClientError> {
        match self.execute(call, Operation::DescribeCluster)? {
            AdminReply::Cluster(results) => call.single_result(results, Subject::Other("the cluster".into())),
            other => Err(call.wrong_reply_type(&other)),
        }
    }

    /// Waits until every broker knows of completed changes. A broker that does not answer delays the call only briefly.
    pub(super) fn await_propagation(
        &self,
        call: &CallContext<'_>,
        expected: Vec<(Arc<str>, ExpectedTopicState)>,
    ) -> Result<(), ClientError> {
        if expected.is_empty() {
            return Ok(());
        }
        let brief = call.capped(PROPAGATION_TIMEOUT);
        let nodes = match self.describe_cluster(&brief) {
            Ok(cluster) => cluster.brokers.into_iter().map(|broker| broker.id).collect(),
            Err(interrupted @ ClientError::Interrupted { .. }) => return Err(interrupted),
            Err(_) => return Ok(()),
        };
        match self.execute(&brief, Operation::AwaitPropagation { nodes, expected }) {
            Err(interrupted @ ClientError::Interrupted { .. }) => Err(interrupted),
            _ => Ok(()),
        }
    }
}
