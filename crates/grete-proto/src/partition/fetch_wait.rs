//! Reasons why no data of a partition comes from a broker.
//!
//! [`FetchFacts::reason`] is a total function of the facts. Several reasons may hold at once, and the first one in
//! [`ORDER`] counts: the reason that stays when the later ones go.

use grete_wire::error_code::ErrorCode;

use super::table::FetchState;
use crate::ids::NodeId;

/// Reason why no data of a partition comes from a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchWait {
    /// An error stopped the partition until it gets a new position.
    Stopped,
    /// The user of a low-level consumer has paused the partition.
    Paused,
    /// No broker knows the topic.
    NoTopic,
    /// The partition has no leader.
    NoLeader,
    /// The group's committed offset is not known yet.
    Coordinator {
        /// State of the member, as "stable".
        state: &'static str,
    },
    /// The leader has not answered the lookup of the start position.
    StartOffset {
        /// Error code of the last answer; `NONE`: no answer.
        code: ErrorCode,
    },
    /// The partition holds as many bytes as one partition may.
    QueueLimit {
        /// Bytes that the partition holds.
        bytes: usize,
        /// Limit of one partition, in bytes.
        limit: usize,
    },
    /// All partitions of the client together hold as many bytes as the memory budget allows.
    Memory {
        /// Bytes that all partitions hold.
        bytes: usize,
        /// The budget, in bytes.
        limit: usize,
    },
    /// The client has no connection to the leader.
    NoConnection {
        /// Node id of the leader.
        node: NodeId,
    },
    /// The leader refuses the fetch, or does not answer, and the client retries.
    Refused {
        /// Node id of the leader.
        node: NodeId,
        /// Error code of the last answer; `NONE`: no answer.
        code: ErrorCode,
    },
    /// The leader throttles the client (KIP-219).
    Throttled {
        /// Node id of the leader.
        node: NodeId,
    },
    /// A transaction is open: the last stable offset stands still, and read_committed consumers read up to it.
    OpenTransaction {
        /// Last stable offset.
        offset: i64,
    },
}

impl FetchWait {
    /// Returns the reason's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "failed",
            Self::Paused => "paused",
            Self::NoTopic => "no_topic",
            Self::NoLeader => "no_leader",
            Self::Coordinator { .. } => "coordinator",
            Self::StartOffset { .. } => "start_offset",
            Self::QueueLimit { .. } => "queue_limit",
            Self::Memory { .. } => "memory",
            Self::NoConnection { .. } => "no_connection",
            Self::Refused { .. } => "refused",
            Self::Throttled { .. } => "throttled",
            Self::OpenTransaction { .. } => "open_transaction",
        }
    }

    /// Returns whether the client cannot know how many records wait, because the leader does not answer.
    #[must_use]
    pub fn hides_lag(self) -> bool {
        matches!(self, Self::Refused { code: ErrorCode::NONE, .. })
    }

    /// Returns whether the reason names the cause of a failure that only says that no data came.
    #[must_use]
    pub fn explains_silence(self) -> bool {
        matches!(
            self,
            Self::NoTopic
                | Self::NoLeader
                | Self::Coordinator { .. }
                | Self::StartOffset { .. }
                | Self::NoConnection { .. }
                | Self::Refused { .. }
        )
    }
}

/// State of a partition and of its source (the leader, or a read replica), as far as it decides whether data comes.
#[derive(Debug, Clone, Copy, Default)]
pub struct FetchFacts {
    /// Stage of the partition.
    pub state: FetchState,
    /// The user of a low-level consumer has paused the partition.
    pub paused: bool,
    /// The last metadata response about the topic reports it as unknown.
    pub topic_missing: bool,
    /// Node id of the source; `None`: there is none.
    pub source: Option<NodeId>,
    /// Error code of the last answer to the lookup of the start position; `None`: there is no lookup.
    pub lookup: Option<ErrorCode>,
    /// State of the group's member; empty: no group.
    pub member_state: &'static str,
    /// Bytes that the partition holds, and its limit; `None`: it holds less.
    pub queue_limit: Option<(usize, usize)>,
    /// Bytes that all partitions hold, and the budget; `None`: they hold less.
    pub memory: Option<(usize, usize)>,
    /// The connection to the source is ready for fetches.
    pub connected: bool,
    /// The source refuses fetches of the partition, with this error code, or does not answer; `None`: neither.
    pub refused: Option<ErrorCode>,
    /// The source throttles the client.
    pub throttled: bool,
    /// Last stable offset at which the position stands, although the log goes on; `None`: the position is elsewhere.
    pub last_stable_offset: Option<i64>,
}

type Rule = fn(&FetchFacts) -> Option<FetchWait>;

/// Rules, in order: the first one that holds gives the reason.
const ORDER: [Rule; 11] = [
    |it| (it.state == FetchState::Failed).then_some(FetchWait::Stopped),
    |it| it.paused.then_some(FetchWait::Paused),
    |it| it.topic_missing.then_some(FetchWait::NoTopic),
    |it| it.source.is_none().then_some(FetchWait::NoLeader),
    |it| match it.lookup {
        _ if it.state != FetchState::Resolving => None,
        None => Some(FetchWait::Coordinator { state: it.member_state }),
        // The queues hold back no lookup: without an answer, the connection is what is missing.
        Some(code) if it.connected => Some(FetchWait::StartOffset { code }),
        Some(_) => it.source.map(|node| FetchWait::NoConnection { node }),
    },
    |it| it.queue_limit.map(|(bytes, limit)| FetchWait::QueueLimit { bytes, limit }),
    |it| {
        let memory = it.memory.filter(|_| it.state == FetchState::Fetching);
        memory.map(|(bytes, limit)| FetchWait::Memory { bytes, limit })
    },
    |it| it.source.filter(|_| !it.connected).map(|node| FetchWait::NoConnection { node }),
    |it| it.source.zip(it.refused).map(|(node, code)| FetchWait::Refused { node, code }),
    |it| it.source.filter(|_| it.throttled).map(|node| FetchWait::Throttled { node }),
    |it| it.last_stable_offset.map(|offset| FetchWait::OpenTransaction { offset }),
];

impl FetchFacts {
    /// Returns why no data comes; `None`: nothing is in its way.
    #[must_use]
    pub fn reason(&self) -> Option<FetchWait> {
        first_match(&ORDER, self)
    }
}

fn first_match(order: &[Rule], facts: &FetchFacts) -> Option<FetchWait> {
    if facts.state == FetchState::Removed { None } else { order.iter().find_map(|rule| rule(facts)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition that is fetched, from a source that answers.
    const FETCHED: FetchFacts = FetchFacts {
        state: FetchState::Fetching,
        paused: false,
        topic_missing: false,
        source: Some(3),
        lookup: None,
        member_state: "stable",
        queue_limit: None,
        memory: None,
        connected: true,
        refused: None,
        throttled: false,
        last_stable_offset: None,
    };

    /// Returns facts for each reason, in order. Whatever may hold at the same time holds.
    fn scenarios() -> Vec<(FetchFacts, &'static str)> {
        let transaction = FetchFacts { last_stable_offset: Some(7), ..FETCHED };
        let throttled = FetchFacts { throttled: true, ..transaction };
        let refused = FetchFacts { refused: Some(ErrorCode::NOT_LEADER_OR_FOLLOWER), ..throttled };
        let unconnected = FetchFacts { connected: false, ..refused };
        let memory = FetchFacts { memory: Some((100, 90)), ..unconnected };
        let queue = FetchFacts { queue_limit: Some((50, 40)), ..memory };
        let looked_up = FetchFacts { state: FetchState::Resolving, connected: true, ..queue };
        let lookup = FetchFacts { lookup: Some(ErrorCode::NONE), ..looked_up };
        let group = FetchFacts { lookup: None, ..lookup };
        let leaderless = FetchFacts { source: None, ..group };
        let topicless = FetchFacts { topic_missing: true, ..leaderless };
        let paused = FetchFacts { paused: true, ..topicless };
        let stopped = FetchFacts { state: FetchState::Failed, ..paused };
        vec![
            (stopped, "failed"),
            (paused, "paused"),
            (topicless, "no_topic"),
            (leaderless, "no_leader"),
            (group, "coordinator"),
            (lookup, "start_offset"),
            (queue, "queue_limit"),
            (memory, "memory"),
            (unconnected, "no_connection"),
            (refused, "refused"),
            (throttled, "throttled"),
            (transaction, "open_transaction"),
        ]
    }

    fn names(order: &[Rule]) -> Vec<&'static str> {
        let name = |(facts, _): &(FetchFacts, _)| first_match(order, facts).map_or("none", FetchWait::name);
        scenarios().iter().map(name).collect()
    }

    #[test]
    fn each_reason_has_its_state_and_a_partition_that_is_fetched_has_none() {
        let expected: Vec<_> = scenarios().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names(&ORDER), expected);
        assert_eq!(FETCHED.reason(), None);
        assert_eq!(FetchFacts { state: FetchState::Removed, ..scenarios()[0].0 }.reason(), None);
        let lookup = FetchFacts { state: FetchState::Resolving, lookup: Some(ErrorCode::NONE), ..FETCHED };
        let lookup = FetchFacts { connected: false, memory: Some((100, 90)), ..lookup };
        assert_eq!(lookup.reason(), Some(FetchWait::NoConnection { node: 3 }));
    }

    /// Plants each mistake: two rules change places, or one is missing.
    #[test]
    fn another_order_of_the_rules_names_another_reason() {
        let right = names(&ORDER);
        let reasons: Vec<_> = right.iter().filter(|name| **name != "start_offset").collect(); // one rule has two
        for at in 0..ORDER.len() {
            let mut order = ORDER.to_vec();
            order.remove(at);
            assert_ne!(names(&order), right, "without the rule of {}", reasons[at]);
            if at + 1 < ORDER.len() {
                let mut order = ORDER.to_vec();
                order.swap(at, at + 1);
                assert_ne!(names(&order), right, "{} after {}", reasons[at], reasons[at + 1]);
            }
        }
    }
}
