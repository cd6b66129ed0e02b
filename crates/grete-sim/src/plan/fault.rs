//! Faults of a plan.

use std::fmt;

use grete_broker::fault::FaultAction;
use grete_proto::time::{Nanos, SECOND};
use grete_wire::ApiKey;

/// Fault and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedFault {
    /// Time at which the fault begins.
    pub at: Nanos,
    /// Event.
    pub fault: Fault,
}

/// Client whose requests meet a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultedClient {
    /// Any client.
    Any,
    /// Process of the App with this id.
    Process(usize),
    /// The producer of the input records.
    Source,
}

/// Event that a healthy cluster does not have. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// A process dies, and starts again after this time.
    Crash {
        /// Process.
        process: usize,
        /// Time until the next start.
        down: Nanos,
    },
    /// A process stops, as after SIGTERM, and starts again after this time.
    Stop {
        /// Process.
        process: usize,
        /// Time until the next start.
        down: Nanos,
    },
    /// All threads of a process stand still (a laptop's lid, a virtual machine's pause).
    Sleep {
        /// Process.
        process: usize,
        /// Duration.
        time: Nanos,
    },
    /// The connections of a process to a broker break.
    Cut {
        /// Process.
        process: usize,
        /// Broker.
        broker: i32,
    },
    /// A broker is down.
    StopBroker {
        /// Broker.
        broker: i32,
        /// Duration.
        time: Nanos,
    },
    /// All brokers are down; they come back with what they had stored.
    StopCluster {
        /// Duration.
        time: Nanos,
    },
    /// A partition gets another leader.
    MoveLeader {
        /// Topic.
        topic: &'static str,
        /// Partition.
        partition: i32,
        /// New leader.
        to: i32,
    },
    /// All coordinators move to the next broker.
    MoveCoordinators,
    /// A broker drops its fetch sessions, because its cache is full.
    ForgetSessions {
        /// Broker.
        broker: i32,
    },
    /// Requests fail.
    Requests {
        /// API; `None`: any.
        api: Option<ApiKey>,
        /// Client.
        client: FaultedClient,
        /// Requests that pass before.
        skip: u32,
        /// Number of requests.
        times: u32,
        /// Treatment of the requests.
        action: FaultAction,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: &Nanos| *time as f64 / SECOND as f64;
        match self {
            Self::Crash { process, down } => write!(f, "app-{process} dies for {:.1} s", seconds(down)),
            Self::Stop { process, down } => write!(f, "app-{process} is stopped for {:.1} s", seconds(down)),
            Self::Sleep { process, time } => write!(f, "app-{process} sleeps for {:.1} s", seconds(time)),
            Self::Cut { process, broker } => write!(f, "the connections of app-{process} to broker {broker} break"),
            Self::StopBroker { broker, time } => write!(f, "broker {broker} is down for {:.1} s", seconds(time)),
            Self::StopCluster { time } => write!(f, "all brokers are down for {:.1} s", seconds(time)),
            Self::MoveLeader { topic, partition, to } => write!(f, "broker {to} becomes leader of {topic}-{partition}"),
            Self::MoveCoordinators => write!(f, "all coordinators move"),
            Self::ForgetSessions { broker } => write!(f, "broker {broker} drops its fetch sessions"),
            Self::Requests { api, client, skip, times, action } => {
                let api = api.map_or_else(|| "any".to_owned(), |api| api.to_string());
                write!(f, "{times} requests ({api}, {client:?}, after {skip}): {}", action.name())
            }
        }
    }
}
