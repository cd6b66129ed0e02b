//! Reason why a lane waits, as a total function of facts.
//!
//! Several reasons may hold at once. The first one in [`ORDER`] counts: the reason that stays when the later ones go.

use grete_wire::error_code::ErrorCode;

use super::LaneWait;
use crate::partition::fetch_wait::FetchWait;
use crate::time::Nanos;

/// Jobs of a lane in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::dispatch) struct JobFacts {
    /// Start and number of the oldest run of a handler that has not returned; `None`: none runs.
    pub running: Option<(Nanos, u32)>,
    /// Number of produced records for which a job waits after its handler has returned; `None`: no job does.
    pub undelivered: Option<u64>,
    /// A job waits for its event loop.
    pub awaits_loop: bool,
}

/// State of a lane, as far as it decides whether the lane moves.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::dispatch) struct LaneFacts {
    /// The lane is leaving, stopping or abandoned.
    pub leaving: bool,
    /// Jobs of the partition's former lane still run.
    pub has_predecessor: bool,
    /// Jobs in flight.
    pub jobs: JobFacts,
    /// The records go to a caller of `poll`, not to a handler.
    pub is_polled: bool,
    /// Fetched or decoded records wait in the lane.
    pub has_records: bool,
    /// The dispatcher hands out no records.
    pub quiet: bool,
    /// A job waits for the renewal of the group's session.
    pub session_over: bool,
    /// End of the program's pause (`None`: no end); `None`: no pause.
    pub paused: Option<Option<Nanos>>,
    /// Number, first record and time of the next run after a failure; `None`: no backoff.
    pub retry: Option<(u32, Option<i64>, Nanos)>,
    /// A unit runs no more jobs.
    pub halted: bool,
    /// Number and first offset of the records that keep the lane from taking more; `None`: none does.
    pub blocking_unmarked: Option<(usize, i64)>,
    /// The history of ids is being read.
    pub awaits_history: bool,
    /// Time until which the next record is too young; `None`: no record is.
    pub delay: Option<Nanos>,
    /// A job waits for the rate limit of the route.
    pub rate_limited: bool,
    /// A job waits for the end of other jobs of the route.
    pub job_limited: bool,
    /// Time until which the queued data waits for more; `None`: the data does not wait.
    pub ripe_at: Option<Nanos>,
    /// Reason why no data comes; `None`: nothing is in its way, as far as is known.
    pub fetch: Option<FetchWait>,
    /// Reason of the failure of the partition, in one word; `None`: it can be read.
    pub failure: Option<&'static str>,
    /// The start position is known.
    pub has_position: bool,
    /// Number and first offset of the records that are handed out and not marked; `None`: there are none.
    pub unmarked: Option<(usize, i64)>,
    /// Records of the log that are not processed; `None`: unknown.
    pub backlog: Option<u64>,
}

type Rule = fn(&LaneFacts) -> Option<LaneWait>;

/// Rules, in order: the first one that holds gives the reason.
const ORDER: [Rule; 23] = [
    |it| it.leaving.then_some(LaneWait::Leaving),
    |it| it.has_predecessor.then_some(LaneWait::Predecessor),
    |it| match it.jobs.running {
        Some(_) if it.is_polled => Some(LaneWait::Poll),
        running => running.map(|(since, attempt)| LaneWait::Handler { since, attempt }),
    },
    |it| it.jobs.undelivered.map(|records| LaneWait::Delivery { records }),
    |it| it.jobs.awaits_loop.then_some(LaneWait::EventLoop),
    |it| it.quiet.then_some(LaneWait::Quiet),
    |it| it.session_over.then_some(LaneWait::Session),
    |it| it.paused.map(|until| LaneWait::Paused { until }),
    |it| it.retry.map(|(attempt, offset, at)| LaneWait::Retry { attempt, offset, at }),
    |it| it.halted.then_some(LaneWait::Halted),
    |it| it.blocking_unmarked.map(|(records, first)| LaneWait::Unmarked { records, first, blocks: true }),
    |it| it.awaits_history.then_some(LaneWait::DedupHistory),
    |it| it.delay.map(|until| LaneWait::Delay { until }),
    |it| it.rate_limited.then_some(LaneWait::RateLimit),
    |it| it.job_limited.then_some(LaneWait::MaxConcurrency),
    |it| it.ripe_at.map(|until| LaneWait::MaxWait { until }),
    |it| it.has_records.then_some(if it.is_polled { LaneWait::Poll } else { LaneWait::Worker }),
    // A failure that says no more than that no data came has its cause here.
    |it| it.fetch.filter(|wait| wait.explains_silence()).map(LaneWait::Fetch),
    |it| it.failure.map(|reason| LaneWait::Failed { reason }),
    |it| it.fetch.map(LaneWait::Fetch),
    |it| it.unmarked.map(|(records, first)| LaneWait::Unmarked { records, first, blocks: false }),
    |it| (!it.has_position).then_some(LaneWait::Fetch(FetchWait::StartOffset { code: ErrorCode::NONE })),
    |it| (it.backlog != Some(0)).then_some(LaneWait::Data),
];

impl LaneFacts {
    /// Returns what the lane waits for; `None`: it has processed all records of its partition.
    pub(in crate::dispatch) fn reason(&self) -> Option<LaneWait> {
        first_match(&ORDER, self)
    }
}

fn first_match(order: &[Rule], facts: &LaneFacts) -> Option<LaneWait> {
    order.iter().find_map(|rule| rule(facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane that has processed all records of its partition.
    fn idle() -> LaneFacts {
        LaneFacts { has_position: true, backlog: Some(0), ..LaneFacts::default() }
    }

    /// Returns facts for each rule, in order. Whatever may hold at the same time holds.
    fn scenarios() -> Vec<(LaneFacts, &'static str)> {
        let data = LaneFacts { backlog: Some(9), ..idle() };
        let start = LaneFacts { backlog: None, has_position: false, ..data };
        let unmarked = LaneFacts { unmarked: Some((3, 4)), ..start };
        let memory = LaneFacts { fetch: Some(FetchWait::Memory { bytes: 9, limit: 8 }), ..unmarked };
        let failed = LaneFacts { failure: Some("unserved"), ..memory };
        let leaderless = LaneFacts { fetch: Some(FetchWait::NoLeader), ..failed };
        let worker = LaneFacts { has_records: true, ..leaderless };
        let ripe = LaneFacts { ripe_at: Some(9), ..worker };
        let limited = LaneFacts { job_limited: true, ..ripe };
        let rate = LaneFacts { rate_limited: true, ..limited };
        let delay = LaneFacts { delay: Some(9), ..rate };
        let history = LaneFacts { awaits_history: true, ..delay };
        let blocked = LaneFacts { blocking_unmarked: Some((7, 4)), ..history };
        let halted = LaneFacts { halted: true, ..blocked };
        let retry = LaneFacts { retry: Some((3, Some(4), 9)), ..halted };
        let paused = LaneFacts { paused: Some(None), ..retry };
        let session = LaneFacts { session_over: true, ..paused };
        let quiet = LaneFacts { quiet: true, ..session };
        let awaits_loop = LaneFacts { jobs: JobFacts { awaits_loop: true, ..JobFacts::default() }, ..quiet };
        let delivery = LaneFacts { jobs: JobFacts { undelivered: Some(2), ..awaits_loop.jobs }, ..awaits_loop };
        let handler = LaneFacts { jobs: JobFacts { running: Some((5, 1)), ..delivery.jobs }, ..delivery };
        let predecessor = LaneFacts { has_predecessor: true, ..handler };
        let leaving = LaneFacts { leaving: true, ..predecessor };
        vec![
            (leaving, "leaving"),
            (predecessor, "predecessor"),
            (handler, "handler"),
            (delivery, "delivery"),
            (awaits_loop, "event_loop"),
            (quiet, "quiet"),
            (session, "session"),
            (paused, "paused"),
            (retry, "retry"),
            (halted, "halted"),
            (blocked, "unmarked"),
            (history, "dedup_history"),
            (delay, "delay"),
            (rate, "rate_limit"),
            (limited, "max_concurrency"),
            (ripe, "max_wait"),
            (worker, "worker"),
            (leaderless, "no_leader"),
            (failed, "failed"),
            (memory, "memory"),
            (unmarked, "unmarked"),
            (start, "start_offset"),
            (data, "data"),
        ]
    }

    fn reasons(order: &[Rule]) -> Vec<Option<LaneWait>> {
        scenarios().iter().map(|(facts, _)| first_match(order, facts)).collect()
    }

    #[test]
    fn each_reason_has_its_state_and_a_lane_without_records_has_none() {
        for (facts, name) in scenarios() {
            assert_eq!(facts.reason().map(LaneWait::name), Some(name), "{facts:?}");
        }
        assert_eq!(idle().reason(), None);
        let jobs = JobFacts { running: Some((5, 1)), ..JobFacts::default() };
        for polled in [LaneFacts { jobs, ..idle() }, LaneFacts { has_records: true, ..idle() }] {
            assert_eq!(LaneFacts { is_polled: true, ..polled }.reason(), Some(LaneWait::Poll));
        }
    }

    /// Plants each mistake: two rules change places, or one is missing.
    #[test]
    fn another_order_of_the_rules_names_another_reason() {
        let right = reasons(&ORDER);
        for at in 0..ORDER.len() {
            let mut order = ORDER.to_vec();
            order.remove(at);
            assert_ne!(reasons(&order), right, "without the rule of {:?}", right[at]);
            if at + 1 < ORDER.len() {
                let mut order = ORDER.to_vec();
                order.swap(at, at + 1);
                assert_ne!(reasons(&order), right, "{:?} after {:?}", right[at], right[at + 1]);
            }
        }
    }

    #[test]
    fn each_name_is_in_the_list_once_and_each_text_says_something_else() {
        let mut waits: Vec<LaneWait> = scenarios().iter().filter_map(|(facts, _)| facts.reason()).collect();
        waits.push(LaneWait::Poll);
        let code = ErrorCode::NONE;
        waits.extend(
            [
                FetchWait::NoTopic,
                FetchWait::Coordinator { state: "stable" },
                FetchWait::QueueLimit { bytes: 9, limit: 8 },
                FetchWait::NoConnection { node: 1 },
                FetchWait::Refused { node: 1, code },
                FetchWait::Throttled { node: 1 },
                FetchWait::OpenTransaction { offset: 4 },
            ]
            .map(LaneWait::Fetch),
        );
        let names: std::collections::BTreeSet<_> = waits.iter().map(|wait| wait.name()).collect();
        assert_eq!(names, LaneWait::NAMES.into_iter().collect());
        let texts: std::collections::BTreeSet<_> = waits.iter().map(|wait| wait.text(0, None)).collect();
        assert_eq!(texts.len(), waits.len());
    }
}
