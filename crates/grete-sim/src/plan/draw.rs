//! Draws a plan from a seed.

use grete_broker::cluster::Release;
use grete_broker::fault::FaultAction;
use grete_proto::dispatch::{Concurrency, OffsetPolicy};
use grete_proto::rng::Rng;
use grete_proto::time::{MILLI, Nanos, SECOND};
use grete_wire::{ApiKey, ErrorCode};

use super::fault::{Fault, FaultedClient, PlannedFault};
use super::{
    AppPlan, ClusterPlan, DEAD_LETTERS, ExactlyOncePlan, HandlerStyle, INPUT, Nature, OUTPUT, PATIENT, Plan,
    ProcessPlan, RecordPlan,
};

fn pick<T: Clone>(rng: &mut Rng, choices: &[T]) -> T {
    let place = rng.below(choices.len() as u64) as usize;
    choices[place].clone()
}

fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

fn between(rng: &mut Rng, least: Nanos, most: Nanos) -> Nanos {
    least + rng.below(most - least + 1)
}

impl Plan {
    /// Draws the plan of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let rng = &mut Rng::new(seed);
        let cluster = ClusterPlan {
            brokers: pick(rng, &[1, 2, 3]),
            inputs: pick(rng, &[1, 2, 3, 4]),
            outputs: pick(rng, &[1, 2, 3]),
            release: pick(rng, &[Release::LATEST, Release::LATEST, Release::V3_3, Release::V3_9, Release::V4_1]),
            slow_network: chance(rng, 30),
        };
        let mut app = AppPlan::draw(rng);
        let rough = pick(rng, &[10, 30, 60]) * SECOND;
        let count = pick(rng, &[1, 2, 2, 3]);
        let processes =
            (1..=count).map(|id| ProcessPlan { id, start: SECOND + rng.below(3) * rng.below(3000) * MILLI }).collect();
        let records = records(rng, &cluster, &app, rough);
        let faults = (0..pick(rng, &[0, 2, 5, 10, 20]))
            .map(|_| PlannedFault { at: between(rng, SECOND, rough), fault: Fault::draw(rng, &cluster, count) });
        let mut faults: Vec<PlannedFault> = faults.collect();
        faults.sort_by_key(|fault| fault.at);
        // From a generator of its own: the other choices of the seeds stay.
        app.session_timeout = pick(&mut Rng::new(seed ^ 0x7365_7373), &[10 * SECOND, 10 * SECOND, 3 * SECOND]);
        Self { seed, cluster, app, processes, records, faults, calm_at: rough + SECOND }
    }
}

impl Plan {
    /// Draws the plan of a seed with a group of the consumer protocol, also for Apps whose jobs are exactly once.
    #[must_use]
    pub fn draw_consumer_protocol(seed: u64) -> Self {
        let rng = &mut Rng::new(seed ^ 0x38_34_38);
        let mut plan = if chance(rng, 25) { Self::draw_exactly_once(seed) } else { Self::draw(seed) };
        plan.app.consumer_protocol = true;
        plan.cluster.release = pick(rng, &[Release::LATEST, Release::LATEST, Release::V4_1]);
        // The one request of members takes the place of the classic ones.
        for planned in &mut plan.faults {
            if let Fault::Requests { api: Some(api), .. } = &mut planned.fault
                && [ApiKey::JoinGroup, ApiKey::SyncGroup, ApiKey::Heartbeat].contains(api)
            {
                *api = ApiKey::ConsumerGroupHeartbeat;
            }
        }
        plan
    }

    /// Draws the plan of a seed with an App that takes records from a share group.
    #[must_use]
    pub fn draw_queue(seed: u64) -> Self {
        let rng = &mut Rng::new(seed ^ 0x0093_2000);
        let mut plan = Self::draw(seed);
        plan.cluster.release = Release::LATEST;
        let app = &mut plan.app;
        (app.queue, app.static_members, app.offset_map) = (true, false, false);
        (app.concurrency, app.offsets) = (Concurrency::Unordered, OffsetPolicy::Auto);
        app.style = pick(rng, &[HandlerStyle::Each, HandlerStyle::Rows, HandlerStyle::Columns]);
        // The requests of members take the place of those of other groups.
        for planned in &mut plan.faults {
            let Fault::Requests { api: Some(api), action, .. } = &mut planned.fault else { continue };
            *api = match api {
                ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::Heartbeat => ApiKey::ShareGroupHeartbeat,
                ApiKey::Fetch | ApiKey::ListOffsets | ApiKey::OffsetFetch => ApiKey::ShareFetch,
                ApiKey::OffsetCommit => ApiKey::ShareAcknowledge,
                _ => continue,
            };
            if let FaultAction::Error(error) = action {
                *error = pick(rng, errors_of(*api));
            }
        }
        plan
    }

    /// Draws the plan of a seed with an App whose jobs are exactly once.
    #[must_use]
    pub fn draw_exactly_once(seed: u64) -> Self {
        let mut plan = Self::draw(seed);
        let rng = &mut Rng::new(seed ^ 0x65_6f73);
        let app = &mut plan.app;
        app.offsets = OffsetPolicy::Auto;
        app.offset_map = false;
        app.buffer_memory = pick(rng, &[4000, 1 << 20]);
        app.delivery_timeout = PATIENT;
        app.exactly_once = Some(ExactlyOncePlan {
            interval: pick(rng, &[MILLI, 100 * MILLI, SECOND]),
            timeout: pick(rng, &[2 * SECOND, 5 * SECOND, 15 * SECOND]),
        });
        let rough = plan.calm_at - SECOND;
        for _ in 0..pick(rng, &[0, 2, 5]) {
            let (api, errors) = pick(rng, TRANSACTION_ERRORS);
            let client = FaultedClient::Process(1 + rng.below(plan.processes.len() as u64) as usize);
            let action = match rng.below(4) {
                0 => FaultAction::Disconnect,
                1 => FaultAction::DisconnectAfter,
                2 => FaultAction::NeverAnswer,
                _ => FaultAction::Error(pick(rng, errors)),
            };
            let (skip, times) = (rng.below(4) as u32, 1 + rng.below(3) as u32);
            let fault = Fault::Requests { api: Some(api), client, skip, times, action };
            plan.faults.push(PlannedFault { at: between(rng, SECOND, rough), fault });
        }
        if chance(rng, 30) {
            // Records that no broker takes for a while: their jobs fail.
            let client = FaultedClient::Process(1 + rng.below(plan.processes.len() as u64) as usize);
            let action =
                FaultAction::Error(pick(rng, &[ErrorCode::TOPIC_AUTHORIZATION_FAILED, ErrorCode::INVALID_RECORD]));
            let (skip, times) = (rng.below(6) as u32, 1 + rng.below(4) as u32);
            let fault = Fault::Requests { api: Some(ApiKey::Produce), client, skip, times, action };
            plan.faults.push(PlannedFault { at: between(rng, SECOND, rough), fault });
        }
        plan.faults.sort_by_key(|fault| fault.at);
        plan
    }
}

/// Requests of transactions, and errors after which they go on.
const TRANSACTION_ERRORS: &[(ApiKey, &[ErrorCode])] = &[
    (ApiKey::AddPartitionsToTxn, &[ErrorCode::CONCURRENT_TRANSACTIONS, ErrorCode::NOT_COORDINATOR]),
    (ApiKey::AddOffsetsToTxn, &[ErrorCode::CONCURRENT_TRANSACTIONS, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS]),
    (ApiKey::TxnOffsetCommit, &[ErrorCode::NOT_COORDINATOR, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS]),
    (ApiKey::EndTxn, &[ErrorCode::NOT_COORDINATOR, ErrorCode::CONCURRENT_TRANSACTIONS]),
    (ApiKey::InitProducerId, &[ErrorCode::NOT_COORDINATOR, ErrorCode::CONCURRENT_TRANSACTIONS]),
];

impl AppPlan {
    fn draw(rng: &mut Rng) -> Self {
        let offsets = pick(rng, &[OffsetPolicy::Auto, OffsetPolicy::Auto, OffsetPolicy::Auto, OffsetPolicy::Manual]);
        let styles = [HandlerStyle::Each, HandlerStyle::Rows, HandlerStyle::Columns, HandlerStyle::Marks];
        let style = if offsets == OffsetPolicy::Manual { HandlerStyle::Marks } else { pick(rng, &styles) };
        let concurrency = pick(rng, &[Concurrency::Partition, Concurrency::Key, Concurrency::Unordered]);
        Self {
            style,
            concurrency,
            offsets,
            offset_map: concurrency != Concurrency::Partition && chance(rng, 50),
            key_slots: pick(rng, &[0, 0, 1, 4, 64]),
            shares: pick(rng, &[0, 1, 4]),
            max_concurrency: pick(rng, &[None, None, None, Some(1), Some(3)]),
            attempts: pick(rng, &[Some(2), Some(3), Some(5), None]),
            max_messages: pick(rng, &[1, 3, 10, 100]),
            workers: pick(rng, &[1, 2, 4]),
            commit_interval: pick(rng, &[200 * MILLI, SECOND, 5 * SECOND]),
            range_assignor: chance(rng, 25),
            session_timeout: 10 * SECOND,
            static_members: chance(rng, 20),
            fetch_bytes: pick(rng, &[300, 2000, 1 << 20]),
            queued_bytes: pick(rng, &[500, 5000, 1 << 20]),
            linger: pick(rng, &[0, 5 * MILLI, 100 * MILLI]),
            batch_size: pick(rng, &[200, 1000, 16 << 10]),
            buffer_memory: pick(rng, &[2000, 1 << 20]),
            max_in_flight: pick(rng, &[1, 2, 5]),
            delivery_timeout: pick(rng, &[PATIENT, PATIENT, PATIENT, 8 * SECOND]),
            exactly_once: None,
            consumer_protocol: false,
            queue: false,
        }
    }

    /// `one_in`: share of poisoned records, and of flaky ones.
    fn nature(&self, rng: &mut Rng, one_in: u64) -> Nature {
        match (rng.below(one_in), self.attempts) {
            (0, Some(_)) => Nature::Poison,
            (1, Some(attempts)) => Nature::Flaky(1 + rng.below(u64::from(attempts) - 1) as u32),
            (1, None) => Nature::Flaky(1 + rng.below(4) as u32),
            _ => Nature::Good,
        }
    }
}

fn records(rng: &mut Rng, cluster: &ClusterPlan, app: &AppPlan, rough: Nanos) -> Vec<RecordPlan> {
    let keys = pick(rng, &[1, 3, 20]);
    let (slow, one_in) = (chance(rng, 50), pick(rng, &[20, 20, 4]));
    let outputs = pick(rng, &[0, 1, 1, 2]);
    let mut records: Vec<RecordPlan> = (0..pick(rng, &[5, 20, 60, 150]))
        .map(|_| RecordPlan {
            id: 0,
            at: between(rng, 500 * MILLI, rough),
            partition: rng.below(cluster.inputs as u64) as i32,
            key: (!chance(rng, 20)).then(|| rng.below(keys) as u8),
            nature: app.nature(rng, one_in),
            outputs: if chance(rng, 80) { outputs } else { 0 },
            takes: match rng.below(100) {
                0 if slow => between(rng, 3 * SECOND, 25 * SECOND),
                1..=10 if slow => between(rng, 100 * MILLI, 2 * SECOND),
                _ => rng.below(20) * MILLI,
            },
        })
        .collect();
    records.sort_by_key(|record| record.at);
    (0..).zip(&mut records).for_each(|(id, record)| record.id = id);
    records
}

impl Fault {
    fn draw(rng: &mut Rng, cluster: &ClusterPlan, processes: usize) -> Self {
        let process = 1 + rng.below(processes as u64) as usize;
        let broker = 1 + rng.below(cluster.brokers as u64) as i32;
        match rng.below(21) {
            0 | 1 => Self::Crash { process, down: pick(rng, &[100 * MILLI, 2 * SECOND, 15 * SECOND]) },
            2 => Self::Stop { process, down: pick(rng, &[100 * MILLI, 5 * SECOND]) },
            3 => Self::Sleep { process, time: pick(rng, &[SECOND, 8 * SECOND, 20 * SECOND]) },
            4 | 5 => Self::Cut { process, broker },
            6 | 7 => Self::StopBroker { broker, time: between(rng, 100 * MILLI, 8 * SECOND) },
            8 => Self::StopCluster { time: between(rng, 100 * MILLI, 5 * SECOND) },
            9 | 10 => {
                let topic = pick(rng, &[INPUT, OUTPUT, DEAD_LETTERS]);
                let count = match topic {
                    INPUT => cluster.inputs,
                    OUTPUT => cluster.outputs,
                    _ => 1,
                };
                Self::MoveLeader { topic, partition: rng.below(count as u64) as i32, to: broker }
            }
            11 => Self::MoveCoordinators,
            12 => Self::ForgetSessions { broker },
            _ => Self::requests(rng, process),
        }
    }

    fn requests(rng: &mut Rng, process: usize) -> Self {
        let client = pick(rng, &[FaultedClient::Any, FaultedClient::Process(process), FaultedClient::Source]);
        let (skip, times) = (rng.below(4) as u32, 1 + rng.below(4) as u32);
        let api = pick(
            rng,
            &[
                Some(ApiKey::Produce),
                Some(ApiKey::Produce),
                Some(ApiKey::Fetch),
                Some(ApiKey::OffsetCommit),
                Some(ApiKey::OffsetFetch),
                Some(ApiKey::JoinGroup),
                Some(ApiKey::SyncGroup),
                Some(ApiKey::Heartbeat),
                Some(ApiKey::FindCoordinator),
                Some(ApiKey::Metadata),
                Some(ApiKey::InitProducerId),
                Some(ApiKey::ListOffsets),
                None,
            ],
        );
        let action = match rng.below(6) {
            0 => FaultAction::Delay(pick(rng, &[50, 1000, 6000])),
            1 => FaultAction::Disconnect,
            2 | 3 => FaultAction::DisconnectAfter,
            4 => FaultAction::HalfFrame,
            _ => match api.map(errors_of).filter(|errors| !errors.is_empty()) {
                Some(errors) => FaultAction::Error(pick(rng, errors)),
                None => FaultAction::NeverAnswer,
            },
        };
        Self::Requests { api, client, skip, times, action }
    }
}

/// Returns errors that brokers give, and after which a client goes on.
fn errors_of(api: ApiKey) -> &'static [ErrorCode] {
    match api {
        ApiKey::Produce => &[
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::NOT_ENOUGH_REPLICAS,
            ErrorCode::REQUEST_TIMED_OUT,
            ErrorCode::KAFKA_STORAGE_ERROR,
        ],
        ApiKey::Fetch => &[
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::FENCED_LEADER_EPOCH,
            ErrorCode::UNKNOWN_LEADER_EPOCH,
            ErrorCode::KAFKA_STORAGE_ERROR,
            ErrorCode::UNKNOWN_SERVER_ERROR,
        ],
        ApiKey::ShareFetch | ApiKey::ShareAcknowledge => {
            &[ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::KAFKA_STORAGE_ERROR, ErrorCode::UNKNOWN_SERVER_ERROR]
        }
        ApiKey::ListOffsets => &[ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::LEADER_NOT_AVAILABLE],
        ApiKey::OffsetCommit
        | ApiKey::OffsetFetch
        | ApiKey::JoinGroup
        | ApiKey::SyncGroup
        | ApiKey::Heartbeat
        | ApiKey::ShareGroupHeartbeat => {
            &[ErrorCode::NOT_COORDINATOR, ErrorCode::COORDINATOR_NOT_AVAILABLE, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS]
        }
        ApiKey::FindCoordinator | ApiKey::InitProducerId => {
            &[ErrorCode::COORDINATOR_NOT_AVAILABLE, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS]
        }
        _ => &[],
    }
}
