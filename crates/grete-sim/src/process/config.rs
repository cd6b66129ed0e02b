//! Settings of the cores, from a plan. Times are short, so that a run is short, too.

use grete_proto::cluster::ClusterConfig;
use grete_proto::consumer::{ConsumerCoreConfig, PartitionRecovery};
use grete_proto::dispatch::{RetryPolicy, RouteConfig};
use grete_proto::fetch::FetchConfig;
use grete_proto::group::assignor::Assignor;
use grete_proto::group::{GroupConfig, GroupProtocol};
use grete_proto::position::PositionConfig;
use grete_proto::producer::{ProduceConfig, ProducerCoreConfig};
use grete_proto::share::ShareConfig;
use grete_proto::time::{MILLI, Nanos, SECOND};

use crate::plan::{AppPlan, ExactlyOncePlan, GROUP, PATIENT, PORT, Plan, broker_host};

const REQUEST_TIMEOUT: Nanos = 4 * SECOND;

fn cluster(plan: &Plan, name: &str) -> ClusterConfig {
    ClusterConfig {
        bootstrap: (1..=plan.cluster.brokers).map(|broker| (broker_host(broker), PORT)).collect(),
        client_id: name.into(),
        request_timeout: REQUEST_TIMEOUT,
        metadata_max_age: 20 * SECOND,
        socket_connection_setup_timeout: 4 * SECOND,
        ..ClusterConfig::default()
    }
}

pub(super) fn consumer(plan: &Plan, name: &str) -> ConsumerCoreConfig {
    let app = &plan.app;
    let group = GroupConfig {
        instance_id: app.static_members.then(|| name.into()),
        session_timeout: app.session_timeout,
        heartbeat_interval: SECOND,
        max_poll_interval: 20 * SECOND,
        protocol: match app {
            AppPlan { queue: true, .. } => GroupProtocol::Share,
            AppPlan { consumer_protocol: true, .. } => GroupProtocol::Consumer,
            _ => GroupProtocol::Classic,
        },
        remote_assignor: app.consumer_protocol.then(|| if app.range_assignor { "range" } else { "uniform" }.into()),
        assignors: vec![if app.range_assignor { Assignor::Range } else { Assignor::CooperativeSticky }],
        request_timeout: REQUEST_TIMEOUT,
        commit_timeout: 15 * SECOND,
        ..GroupConfig::new(GROUP)
    };
    let fetch = FetchConfig {
        partition_bytes: app.fetch_bytes,
        queued_bytes: app.queued_bytes,
        request_timeout: REQUEST_TIMEOUT,
        read_committed: app.exactly_once.is_some(),
        ..FetchConfig::default()
    };
    ConsumerCoreConfig {
        cluster: cluster(plan, name),
        fetch,
        position: PositionConfig { request_timeout: REQUEST_TIMEOUT, ..PositionConfig::default() },
        share: app.queue.then(|| share(plan)),
        group: Some(group),
        auto_commit: (!app.queue).then(|| app.exactly_once.as_ref().map_or(app.commit_interval, |own| own.interval)),
        transactional: app.exactly_once.is_some(),
        partition_recovery: Some(PartitionRecovery::default()),
    }
}

fn share(plan: &Plan) -> ShareConfig {
    let app = &plan.app;
    ShareConfig {
        concurrency: app.workers * app.max_messages,
        queued_bytes: app.queued_bytes,
        request_timeout: REQUEST_TIMEOUT,
        ..ShareConfig::new(GROUP)
    }
}

pub(super) fn producer(plan: &Plan, name: &str) -> ProducerCoreConfig {
    let app = &plan.app;
    let produce = ProduceConfig {
        linger: app.linger,
        batch_size: app.batch_size,
        buffer_memory: app.buffer_memory,
        delivery_timeout: app.delivery_timeout,
        request_timeout: REQUEST_TIMEOUT,
        max_in_flight: app.max_in_flight,
        ..ProduceConfig::default()
    };
    ProducerCoreConfig { cluster: cluster(plan, name), produce }
}

/// `name`: of the process, which has the id alone.
pub(super) fn transactions(plan: &Plan, own: &ExactlyOncePlan, name: &str) -> ProducerCoreConfig {
    let mut config = producer(plan, name);
    config.produce.transactional_id = Some(format!("{GROUP}-{name}").into());
    config.produce.transaction_timeout = own.timeout;
    config.produce.delivery_timeout = own.timeout;
    config
}

pub(super) fn source(plan: &Plan) -> ProducerCoreConfig {
    let produce = ProduceConfig {
        linger: 20 * MILLI,
        batch_size: 500,
        delivery_timeout: PATIENT,
        request_timeout: REQUEST_TIMEOUT,
        ..ProduceConfig::default()
    };
    ProducerCoreConfig { cluster: cluster(plan, "source"), produce }
}

pub(super) fn route(plan: &Plan) -> RouteConfig {
    let app = &plan.app;
    let retry =
        RetryPolicy { attempts: app.attempts, backoff: 200 * MILLI, max_backoff: 5 * SECOND, ..RetryPolicy::default() };
    RouteConfig {
        name: "on_order".into(),
        concurrency: app.concurrency,
        key_slots: app.key_slots,
        shares: app.shares,
        max_concurrency: app.max_concurrency,
        max_messages: app.max_messages,
        offsets: app.offsets,
        offset_map: app.offset_map,
        queue: app.queue,
        dead_letter: app.attempts.is_some(),
        retry,
        stall_after: Some(4 * SECOND),
        ..RouteConfig::default()
    }
}
