//! Every metric there is: its name, its kind, what it tells, and by what it is told apart.

/// What a number does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from 0 when the process begins.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by range.
    Histogram,
}

impl Kind {
    /// As the exposition format writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric. The supervisor of a swarm adds the label `node` to what its nodes tell.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// With its unit, in base units; a counter's ends with `_total`.
    pub name: &'static str,
    /// What its numbers do.
    pub kind: Kind,
    /// One sentence.
    pub help: &'static str,
    /// Names of its labels, in order.
    pub labels: &'static [&'static str],
}

macro_rules! catalogue {
    ($($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: &Entry =
                &Entry { name: $name, kind: Kind::$kind, help: $help, labels: &[$($label),*] };
        )*
        /// All, in the order in which they are told.
        pub const ALL: &[&Entry] = &[$($constant),*];
    };
}

catalogue! {
    INFO = Gauge "grete_info" ["version"] "1; the label tells the version of Grete.";
    LIVE = Gauge "grete_live" [] "What /livez says: 1 alive, 0 not.";
    READY = Gauge "grete_ready" [] "What /readyz says: 1 ready, 0 not.";
    WORKERS = Gauge "grete_workers" [] "Threads that run handlers.";
    BUSY_WORKERS = Gauge "grete_busy_workers" [] "Threads that have a job under way.";
    GIL_WAIT = Gauge "grete_gil_wait_seconds" []
        "How long the GIL is waited for just now, or was waited for last; the longer of the two.";
    RESIDENT_MEMORY = Gauge "grete_process_resident_memory_bytes" [] "Resident memory of the process.";
    CPU = Counter "grete_process_cpu_seconds_total" [] "CPU time of the process, user and system.";
    OPEN_FDS = Gauge "grete_process_open_fds" [] "Descriptors that the process has open.";
    START_TIME = Gauge "grete_process_start_time_seconds" [] "When the process began, in seconds since 1970.";

    JOBS = Counter "grete_jobs_total" ["handler"] "Jobs that ended, with or without an error.";
    RECORDS = Counter "grete_records_total" ["handler"] "Records that are done.";
    JOB_FAILURES = Counter "grete_job_failures_total" ["handler"] "Jobs that ended with an error, other than asking for their records again later.";
    RETRIES = Counter "grete_retries_total" ["handler"] "Of the failed jobs, those whose records run again.";
    DEAD_LETTERS = Counter "grete_dead_letters_total" ["handler"] "Records that went to a dead letter topic.";
    EXPIRED = Counter "grete_expired_records_total" ["handler"] "Records passed over because they were older than expire.";
    SKIPPED = Counter "grete_skipped_records_total" ["handler"] "Records passed over because they were done before (offset_map), or, at most once, because their job failed.";
    STALLS = Counter "grete_stalls_total" ["handler"] "Jobs that ran longer than stall_after.";
    TIMEOUTS = Counter "grete_handler_timeouts_total" ["handler"] "Jobs that ran longer than handler_timeout.";
    DURATION = Histogram "grete_handler_duration_seconds" ["handler"] "How long jobs of records took, failed ones, too; other hooks are not in it.";
    RUNNING = Gauge "grete_jobs_running" ["handler"] "Jobs under way.";
    OLDEST = Gauge "grete_oldest_job_seconds" ["handler"] "How long the oldest job under way has run; 0 when there is none.";

    LAG = Gauge "grete_lag_records" ["handler", "topic", "partition"] "Records of the partition that are not done.";
    LAG_SECONDS = Gauge "grete_lag_seconds" ["handler", "topic", "partition"]
        "Age of the oldest record that is not done, by its timestamp; 0 when there is none.";
    LAST_PROGRESS = Gauge "grete_last_progress_timestamp_seconds" ["handler", "topic", "partition"]
        "When the last record was done, in seconds since 1970.";
    QUEUED_BYTES = Gauge "grete_queued_bytes" ["handler", "topic", "partition"] "Bytes that wait for a handler.";
    UNLISTED_LANES = Gauge "grete_unlisted_lanes" []
        "Partitions that are told together, under the partition \"other\", because there are too many.";
    LANES = Gauge "grete_lanes" ["state"] "Partitions by what they do: idle, ready, running, paused or leaving.";

    PARTITIONS = Gauge "grete_partitions" ["group"] "Partitions that this member of the group has.";
    GROUP_STEADY = Gauge "grete_group_steady" ["group"] "1: this member has its place in the group; 0: it has not.";
    REBALANCES = Counter "grete_rebalances_total" ["group"] "Assignments that were taken in.";
    LOST_PARTITIONS = Counter "grete_lost_partitions_total" ["group"] "Partitions that were taken away without asking.";
    COMMITS = Counter "grete_commits_total" ["group"] "Offsets of partitions that the group's coordinator has stored.";
    COMMIT_FAILURES = Counter "grete_commit_failures_total" ["group"] "Offsets of partitions that could not be stored.";

    FETCHED_BYTES = Counter "grete_fetched_bytes_total" ["client"] "Bytes of records that were fetched, compressed as they came.";
    FETCHED_RECORDS = Counter "grete_fetched_records_total" ["client"] "Records that were fetched, as their batches say.";
    BUFFER_BYTES = Gauge "grete_buffer_bytes" ["client"] "Memory of records that are fetched and not done.";
    CONNECTIONS = Gauge "grete_connections" ["client"] "Connections to brokers that are open.";
    RECONNECTS = Counter "grete_reconnects_total" ["client"] "Connections to brokers that broke; they are opened again.";

    PRODUCED_RECORDS = Counter "grete_produced_records_total" ["client"] "Records that the broker has acknowledged.";
    PRODUCED_BYTES = Counter "grete_produced_bytes_total" ["client"] "Bytes of batches that were sent, compressed as they went; what is sent again counts again.";
    PRODUCE_FAILURES = Counter "grete_produce_failures_total" ["client"]
        "Records that were not written, or of which it is not known.";
    PRODUCE_RETRIES = Counter "grete_produce_retries_total" ["client"] "Batches that were sent again.";
    PRODUCER_BUFFER_BYTES = Gauge "grete_producer_buffer_bytes" ["client"] "Memory of records that wait to be acknowledged.";
    PRODUCER_PENDING = Gauge "grete_producer_pending_records" ["client"] "Records that wait to be acknowledged.";

    SWARM_NODES = Gauge "grete_swarm_nodes" ["state"] "Nodes of the swarm by state.";
    SWARM_RESTARTS = Counter "grete_swarm_restarts_total" ["node"] "How often the node was started again.";
    SWARM_DEATHS = Counter "grete_swarm_deaths_total" ["node", "reason"] "How often the node ended, by why.";
    SWARM_UPTIME = Gauge "grete_swarm_node_uptime_seconds" ["node"] "How long the node's process has been up.";
    SWARM_REPORT_AGE = Gauge "grete_swarm_report_age_seconds" ["node"] "How old the node's last report is.";
    SWARM_COMPLETE = Gauge "grete_swarm_metrics_complete" ["node"]
        "1: all that the node tells of itself is in this answer; 0: it is not, or not all of it.";
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
            assert_eq!(name.ends_with("_total"), entry.kind == Kind::Counter, "{name}");
            // Names that the format itself makes of a histogram's.
            assert!(!["_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end)), "{name}");
            assert!(entry.help.ends_with('.') && !entry.help.contains(['\n', '\\']), "{name}");
            assert!(!entry.labels.contains(&"le"), "{name}");
        }
    }
}
