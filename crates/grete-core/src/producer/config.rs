//! Settings of a whole producer.

use crate::cluster::ClusterConfig;
use crate::produce::ProduceConfig;

/// Settings of each machine.
#[derive(Debug, Clone, Default)]
pub struct ProducerCoreConfig {
    /// Connections and metadata.
    pub cluster: ClusterConfig,
    /// Collecting and sending. The accumulator is made with the same.
    pub produce: ProduceConfig,
}
