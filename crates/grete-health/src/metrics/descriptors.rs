//! Descriptors of all metrics: name, type, help and label names.

/// Prometheus type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Counter: only grows, from 0 at the start of the process.
    Counter,
    /// Gauge: goes up and down.
    Gauge,
    /// Histogram: counts by range.
    Histogram,
}

impl MetricType {
    /// Returns the type's name in the exposition format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Descriptor of one metric. A swarm's supervisor adds the label `node` to the metrics of its nodes.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricDescriptor {
    /// Name, with the base unit as suffix; the name of a counter ends with `_total`.
    pub name: &'static str,
    /// Prometheus type.
    pub kind: MetricType,
    /// Help text, one sentence.
    pub help: &'static str,
    /// Label names, in order.
    pub labels: &'static [&'static str],
}

macro_rules! descriptors {
    ($($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: &MetricDescriptor =
                &MetricDescriptor { name: $name, kind: MetricType::$kind, help: $help, labels: &[$($label),*] };
        )*
        /// All metrics, in the order of the exposition.
        pub const ALL: &[&MetricDescriptor] = &[$($constant),*];
    };
}

descriptors! {
    INFO = Gauge "grete_info" ["version"] "Always 1; the label version has the version of Grete.";
    LIVE = Gauge "grete_live" [] "What /livez says: 1 alive, 0 not.";
    READY = Gauge "grete_ready" [] "What /readyz says: 1 ready, 0 not.";
    WORKERS = Gauge "grete_workers" [] "Threads that run handlers.";
    BUSY_WORKERS = Gauge "grete_busy_workers" [] "Threads that have a job under way.";
    GIL_WAIT = Gauge "grete_gil_wait_seconds" []
        "Current or last wait for the GIL, whichever is longer.";
    LOOP_WAIT = Gauge "grete_loop_wait_seconds" []
        "Current or last wait for the event loop of async handlers, whichever is longer.";
    LOOP_BLOCKED = Counter "grete_loop_blocked_total" []
        "How often the event loop was blocked for longer than the shortest stall_after of its handlers.";
    RESIDENT_MEMORY = Gauge "grete_process_resident_memory_bytes" [] "Resident memory of the process.";
    CPU = Counter "grete_process_cpu_seconds_total" [] "CPU time of the process, user and system.";
    OPEN_FDS = Gauge "grete_process_open_fds" [] "Descriptors that the process has open.";
    START_TIME = Gauge "grete_process_start_time_seconds" [] "When the process began, in seconds since 1970.";

    JOBS = Counter "grete_jobs_total" ["handler"] "Jobs that ended, with or without an error.";
    RECORDS = Counter "grete_records_total" ["handler"] "Records that are done.";
    JOB_FAILURES = Counter "grete_job_failures_total" ["handler"] "Jobs that ended with an error, except those that asked for a later retry.";
    RETRIES = Counter "grete_retries_total" ["handler"] "Failed jobs whose records are processed again.";
    DEAD_LETTERS = Counter "grete_dead_letters_total" ["handler"] "Records that went to a dead letter topic.";
    EXPIRED = Counter "grete_expired_records_total" ["handler"] "Records skipped because they were older than max_age.";
    DUPLICATES = Counter "grete_duplicate_records_total" ["handler"] "Records skipped because their ids came before (dedup).";
    FORGOTTEN_IDS = Counter "grete_dedup_forgotten_ids_total" ["handler"] "Ids that were dropped before the end of dedup_window, because dedup_memory was full.";
    SKIPPED = Counter "grete_skipped_records_total" ["handler"] "Records skipped because they were done before (offset_map), or, at most once, because their job failed.";
    STALLS = Counter "grete_stalls_total" ["handler"] "Jobs that ran longer than stall_after.";
    TIMEOUTS = Counter "grete_handler_timeouts_total" ["handler"] "Jobs that ran longer than handler_timeout.";
    DURATION = Histogram "grete_handler_duration_seconds" ["handler"] "Duration of jobs that process records, including failed ones; other hooks are not included.";
    RUNNING = Gauge "grete_jobs_running" ["handler"] "Jobs under way; without those that wait for the event loop.";
    OLDEST_JOB = Gauge "grete_oldest_job_seconds" ["handler"] "How long the oldest job under way has run; 0 when there is none. One that waits for the event loop does not run.";

    LAG = Gauge "grete_lag_records" ["handler", "topic", "partition"] "Records of the partition that are not done.";
    LAG_SECONDS = Gauge "grete_lag_seconds" ["handler", "topic", "partition"]
        "Age of the oldest record that is not done, by its timestamp; 0 when there is none.";
    LAST_PROGRESS = Gauge "grete_last_progress_timestamp_seconds" ["handler", "topic", "partition"]
        "When the last record was done, in seconds since 1970.";
    QUEUED_BYTES = Gauge "grete_queued_bytes" ["handler", "topic", "partition"] "Bytes that wait for a handler.";
    PARTITION_FAILED = Gauge "grete_partition_failed" ["handler", "topic", "partition"]
        "1: the partition is assigned and cannot be read; 0: it can.";
    AGGREGATED_LANES = Gauge "grete_aggregated_lanes" []
        "Partitions merged under the label value \"other\", because there are too many.";
    LANES = Gauge "grete_lanes" ["state"] "Partitions by what they do: idle, ready, running, paused or leaving.";
    STALLED_LANES = Gauge "grete_stalled_lanes" ["reason"]
        "Partitions that have not moved for stall_after although records wait, by what they wait for.";

    PARTITIONS = Gauge "grete_partitions" ["group"] "Partitions that this member of the group has.";
    GROUP_READY = Gauge "grete_group_ready" ["group"] "1: this member has its place in the group; 0: it has not.";
    REBALANCES = Counter "grete_rebalances_total" ["group"] "Assignments that this member has applied.";
    LOST_PARTITIONS = Counter "grete_lost_partitions_total" ["group"] "Partitions that were lost without a revocation.";
    COMMITS = Counter "grete_commits_total" ["group"] "Offsets of partitions that the group's coordinator has stored.";
    COMMIT_FAILURES = Counter "grete_commit_failures_total" ["group"] "Offsets of partitions that could not be stored.";
    TRANSACTIONS = Counter "grete_transactions_total" ["group"] "Transactions of exactly-once jobs that were committed.";
    ABORTED_TRANSACTIONS = Counter "grete_aborted_transactions_total" ["group"] "Transactions of exactly-once jobs that were aborted, and sent again.";

    FETCHED_BYTES = Counter "grete_fetched_bytes_total" ["client"] "Bytes of records that were fetched, compressed as they came.";
    FETCHED_RECORDS = Counter "grete_fetched_records_total" ["client"] "Records that were fetched, as their batches say.";
    BUFFER_BYTES = Gauge "grete_buffer_bytes" ["client"] "Memory of records that are fetched and not done.";
    CONNECTIONS = Gauge "grete_connections" ["client"] "Connections to brokers that are open.";
    RECONNECTS = Counter "grete_reconnects_total" ["client"] "Connections to brokers that broke; they are opened again.";

    PRODUCED_RECORDS = Counter "grete_produced_records_total" ["client"] "Records that the broker has acknowledged.";
    PRODUCED_BYTES = Counter "grete_produced_bytes_total" ["client"] "Bytes of batches that were sent, compressed as they went; what is sent again counts again.";
    PRODUCE_FAILURES = Counter "grete_produce_failures_total" ["client"]
        "Records that were not written, or whose outcome is unknown.";
    PRODUCE_RETRIES = Counter "grete_produce_retries_total" ["client"] "Batches that were sent again.";
    PRODUCER_BUFFER_BYTES = Gauge "grete_producer_buffer_bytes" ["client"] "Memory of records that wait to be acknowledged.";
    PRODUCER_PENDING = Gauge "grete_producer_pending_records" ["client"] "Records that wait to be acknowledged.";

    SWARM_NODES = Gauge "grete_swarm_nodes" ["state"] "Nodes of the swarm by state.";
    SWARM_RESTARTS = Counter "grete_swarm_restarts_total" ["node"] "How often the node was started again.";
    SWARM_EXITS = Counter "grete_swarm_exits_total" ["node", "reason"] "How often the node ended, by reason.";
    SWARM_UPTIME = Gauge "grete_swarm_node_uptime_seconds" ["node"] "How long the node's process has been up.";
    SWARM_REPORT_AGE = Gauge "grete_swarm_report_age_seconds" ["node"] "How old the node's last report is.";
    SWARM_COMPLETE = Gauge "grete_swarm_metrics_complete" ["node"]
        "1: this response has all metrics of the node; 0: some or all are missing.";
    SWARM_MEMORY = Gauge "grete_swarm_supervisor_memory_bytes" [] "Resident memory of the supervisor.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_to_the_rules() {
        let mut seen = std::collections::BTreeSet::new();
        for entry in ALL {
            let name = entry.name;
            assert!(seen.insert(name), "{name} is there twice");
            assert!(name.starts_with("grete_") && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), entry.kind == MetricType::Counter, "{name}");
            // The format appends these suffixes to a histogram's name.
            assert!(!["_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end)), "{name}");
            assert!(entry.help.ends_with('.') && !entry.help.contains(['\n', '\\']), "{name}");
            assert!(!entry.labels.contains(&"le"), "{name}");
        }
    }
}
