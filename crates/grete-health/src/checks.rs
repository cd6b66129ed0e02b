//! Liveness and readiness checks, and the list of all problems, each with a reason.

use std::cmp::Reverse;
use std::time::Duration;

use crate::json::Json;
use crate::report::{FailedPartition, GroupStatus, MissingTopic, Report, RunningJob, UnmovedLane};

/// Maximum number of problems of one kind, and of jobs in one problem.
const MAX_NAMED: usize = 20;
/// Wait for the GIL from which on it is reported as a problem.
pub const GIL_WAIT_WARNING: Duration = Duration::from_secs(1);
/// Wait for the event loop from which on it is reported as a problem.
pub const LOOP_WAIT_WARNING: Duration = Duration::from_secs(1);
/// Time after which waiting records make the process unhealthy, if no job runs and no handler is called: the workers
/// are gone, or hang outside of handlers.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);
/// Time from which on waiting records are reported as a problem.
const IDLE_WARNING: Duration = Duration::from_secs(5);

/// Probes that fail while a partition cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailedPartitionProbe {
    /// Readiness only.
    #[default]
    Ready,
    /// Readiness and liveness.
    Live,
    /// None; the problem is listed all the same.
    None,
}

/// Limits that the checks apply.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// How long a thread may hold the GIL; `None`: no limit.
    pub gil_timeout: Option<Duration>,
    /// How long a member may be without its place in its group; `None`: no limit.
    pub not_ready_timeout: Option<Duration>,
    /// Probes that fail while a partition cannot be read.
    pub failed_partition: FailedPartitionProbe,
}

/// Input of the checks: the state of the process at one point in time.
#[derive(Debug, Clone, Default)]
pub struct HealthSnapshot {
    /// Report of the source.
    pub report: Report,
    /// How long the GIL has been waited for; zero: no wait. `None`: there is no GIL probe.
    pub gil_wait: Option<Duration>,
    /// How long a callback has waited for the event loop; zero: none waits. `None`: there is no event loop.
    pub loop_wait: Option<Duration>,
    /// How long each of the report's groups has not been ready, in the order of the report.
    pub not_ready: Vec<Duration>,
    /// How long records have waited for a worker while no job ran.
    pub idle: Duration,
}

/// Result of one check.
#[derive(Debug)]
pub struct CheckResult<'a> {
    /// The check passed.
    pub ok: bool,
    /// Summary in one sentence.
    pub summary: String,
    /// All problems, including those that do not fail the check.
    pub problems: Vec<Problem<'a>>,
}

/// One problem.
#[derive(Debug)]
pub struct Problem<'a> {
    /// Kind of the problem: handler, gil, loop, progress, membership, login, partition, stalled, topic, stopping, quiet,
    /// starting.
    pub reason: &'static str,
    /// Full description, for people.
    pub text: String,
    /// How long the problem has lasted.
    pub seconds: Option<Duration>,
    /// How long it may last.
    pub limit: Option<Duration>,
    /// The job at fault.
    pub job: Option<&'a RunningJob>,
    /// Jobs that may be at fault.
    pub jobs: Vec<&'a RunningJob>,
    /// The topic that does not exist.
    pub topic: Option<&'a MissingTopic>,
    /// The group of the membership problem.
    pub group: Option<&'a GroupStatus>,
    /// The partition that does not move.
    pub unmoved: Option<&'a UnmovedLane>,
    /// The partition that cannot be read.
    pub failed: Option<&'a FailedPartition>,
    /// Fails the liveness check: a new process would help.
    pub fatal: bool,
}

impl<'a> Problem<'a> {
    fn new(reason: &'static str, text: String) -> Self {
        Self {
            reason,
            text,
            seconds: None,
            limit: None,
            job: None,
            jobs: Vec::new(),
            topic: None,
            group: None,
            unmoved: None,
            failed: None,
            fatal: false,
        }
    }
}

/// Checks liveness, that is, whether a restart of the process would help. The process is alive if all of these hold:
///
/// - no job has run longer than its `handler_timeout`;
/// - no thread has held the GIL longer than `gil_timeout`;
/// - the event loop has not been blocked longer than the shortest `handler_timeout` of its handlers;
/// - all partitions can be read, if `failed_partition` is [`FailedPartitionProbe::Live`];
/// - records have not waited for a minute without a call of a handler;
/// - no connected member has been without its place in its group for longer than `not_ready_timeout`.
///
/// A process that stops is alive: its shutdown has a limit of its own, and must not be cut short.
#[must_use]
pub fn check_liveness<'a>(snapshot: &'a HealthSnapshot, limits: &Limits) -> CheckResult<'a> {
    let problems = find_problems(snapshot, limits);
    let mut fatal = problems.iter().filter(|problem| problem.fatal);
    let (ok, why) = match (snapshot.report.stopping, fatal.next()) {
        (true, _) => (true, "the App is stopping".to_string()),
        (false, None) => (true, "nothing takes longer than it may".to_string()),
        (false, Some(first)) => match fatal.count() {
            0 => (false, first.text.clone()),
            more => (false, format!("{}; and {more} more", first.text)),
        },
    };
    CheckResult { ok, summary: why, problems }
}

/// Checks readiness, that is, whether records are processed. All clients have their place in their groups, all
/// partitions can be read, workers run, and the process is neither quiet nor stopping.
#[must_use]
pub fn check_readiness<'a>(snapshot: &'a HealthSnapshot, limits: &Limits) -> CheckResult<'a> {
    let problems = find_problems(snapshot, limits);
    let partition = if limits.failed_partition == FailedPartitionProbe::None { "membership" } else { "partition" };
    let blocking_reasons = ["stopping", "quiet", "membership", "starting", partition];
    let blocking_problem =
        blocking_reasons.iter().find_map(|reason| problems.iter().find(|problem| problem.reason == *reason));
    let (ok, why) = match blocking_problem {
        Some(problem) => (false, problem.text.clone()),
        // A missing topic does not fail the check: a process that starts after this one may create it.
        None => match problems.iter().find(|problem| problem.reason == "topic") {
            Some(problem) => (true, format!("the App has its partitions; {}", problem.text)),
            None => (true, "the App has its partitions".to_string()),
        },
    };
    CheckResult { ok, summary: why, problems }
}

fn find_problems<'a>(snapshot: &'a HealthSnapshot, limits: &Limits) -> Vec<Problem<'a>> {
    let report = &snapshot.report;
    let mut running: Vec<&RunningJob> = report.running.iter().collect();
    running.sort_by_key(|job| Reverse(job.elapsed));
    let late = running
        .iter()
        .filter_map(|job| job.limit.filter(|_| job.is_overdue()).map(|limit| overdue_problem(job, limit)));
    let mut found: Vec<Problem<'a>> = late.take(MAX_NAMED).collect();
    found.extend(gil_problem(snapshot, limits, &running));
    found.extend(event_loop_problem(snapshot, &running));
    if snapshot.idle >= IDLE_WARNING {
        found.push(progress_problem(snapshot));
    }
    let waiting = report.groups.iter().zip(snapshot.not_ready.iter().copied().chain(std::iter::repeat(Duration::ZERO)));
    found.extend(
        waiting
            .filter(|(group, _)| !group.ready)
            .take(MAX_NAMED)
            .map(|(group, since)| membership_problem(group, since, limits)),
    );
    found.extend(report.groups.iter().filter(|group| group.ready).filter_map(refusal_problem).take(MAX_NAMED));
    let mut failed: Vec<&FailedPartition> = report.failed.iter().collect();
    failed.sort_by_key(|failed| Reverse(failed.failed_for));
    found.extend(failed.into_iter().take(MAX_NAMED).map(|failed| partition_problem(failed, limits)));
    let slow = report.stalled.iter().filter_map(|lane| {
        let job = running.iter().find(|job| *lane == format!("{}[{}]", job.topic, job.partition));
        match job {
            Some(job) if job.is_overdue() => None, // the handler problem says more
            // What the partition waits for says more: the call has returned.
            None if report.unmoved.iter().any(|unmoved| unmoved.waits_for == "delivery" && unmoved.is_at(lane)) => None,
            job => Some(stalled_problem(lane, job.copied())),
        }
    });
    found.extend(slow.take(MAX_NAMED));
    let is_loop_blocked = snapshot.loop_wait.is_some_and(|wait| wait >= LOOP_WAIT_WARNING);
    found.extend(unmoved_problems(report, is_loop_blocked).take(MAX_NAMED));
    let missing = report.missing.iter().take(MAX_NAMED);
    found.extend(missing.map(|topic| Problem { topic: Some(topic), ..Problem::new("topic", topic.text.clone()) }));
    if report.stopping {
        found.push(Problem::new("stopping", "the App is stopping".into()));
    } else if report.quiet {
        found.push(Problem::new("quiet", "the App is quiet: it hands out no more records".into()));
    } else if report.workers == 0 {
        found.push(Problem::new("starting", "the App is starting: it has no workers yet".into()));
    }
    found
}

fn overdue_problem(job: &RunningJob, limit: Duration) -> Problem<'_> {
    let text = format!("{}, and its handler_timeout is {} s", describe_run(job), limit.as_secs_f64());
    let (seconds, limit) = (Some(job.elapsed), Some(limit));
    Problem { seconds, limit, job: Some(job), fatal: true, ..Problem::new("handler", text) }
}

fn gil_problem<'a>(snapshot: &HealthSnapshot, limits: &Limits, running: &[&'a RunningJob]) -> Option<Problem<'a>> {
    let seconds = snapshot.gil_wait.filter(|wait| *wait >= GIL_WAIT_WARNING)?;
    let fatal = limits.gil_timeout.is_some_and(|limit| seconds > limit);
    let under_way = match running {
        [] => "; no job is under way".to_string(),
        [job] => format!("; under way: {} on {}[{}]", job.handler, job.topic, job.partition),
        [job, ..] => {
            format!("; under way: {} on {}[{}] and {} more", job.handler, job.topic, job.partition, running.len() - 1)
        }
    };
    let text = format!("the GIL has been held for {:.1} s{under_way}", seconds.as_secs_f64());
    let jobs = running.iter().copied().take(MAX_NAMED).collect();
    Some(Problem { seconds: Some(seconds), limit: limits.gil_timeout, jobs, fatal, ..Problem::new("gil", text) })
}

fn event_loop_problem<'a>(snapshot: &HealthSnapshot, running: &[&'a RunningJob]) -> Option<Problem<'a>> {
    let seconds = snapshot.loop_wait.filter(|wait| *wait >= LOOP_WAIT_WARNING)?;
    let about = snapshot.report.event_loop.as_ref()?;
    let limit = about.limit;
    let (mut by, mut job) = (String::new(), None);
    if let Some((handler, topic, partition)) = &about.blocker {
        by = format!(" by {handler} on {topic}[{partition}]");
        let blocks = |job: &&RunningJob| (&job.handler, &job.topic, &job.partition) == (handler, topic, partition);
        job = running.iter().copied().find(blocks);
    }
    let text = format!(
        "the event loop has been blocked for {:.1} s{by}, and all async handlers of this process wait for it",
        seconds.as_secs_f64()
    );
    let fatal = limit.is_some_and(|limit| seconds > limit);
    Some(Problem { seconds: Some(seconds), limit, job, fatal, ..Problem::new("loop", text) })
}

fn progress_problem(snapshot: &HealthSnapshot) -> Problem<'static> {
    let seconds = snapshot.idle;
    let text = format!("records wait for a worker, and no handler has been called for {:.1} s", seconds.as_secs_f64());
    let (limit, fatal) = (Some(PROGRESS_TIMEOUT), seconds > PROGRESS_TIMEOUT);
    Problem { seconds: Some(seconds), limit, fatal, ..Problem::new("progress", text) }
}

fn membership_problem<'a>(group: &'a GroupStatus, since: Duration, limits: &Limits) -> Problem<'a> {
    let disconnected = group.connections == Some(0);
    // A restart does not bring brokers back, and creates no ACL.
    let is_lasting = !disconnected && group.authorization_failure.is_none();
    let fatal = is_lasting && limits.not_ready_timeout.is_some_and(|limit| since > limit);
    let cause = match group.login_failure.as_ref().or(group.authorization_failure.as_ref()) {
        Some(failure) => format!(": {failure}"),
        None if disconnected => "; no broker is connected".to_owned(),
        None => String::new(),
    };
    let (name, seconds) = (name_of(group), since.as_secs_f64());
    let text = format!("{name} is {} and has not been ready for {seconds:.1} s{cause}", group.state);
    let (seconds, group) = (Some(since), Some(group));
    Problem { seconds, limit: limits.not_ready_timeout, group, fatal, ..Problem::new("membership", text) }
}

/// Returns the problem of a member that keeps its place while a broker refuses its login, or its requests for want of an
/// ACL, or while its transactions do not succeed. Without a place, [`membership_problem`] says more.
fn refusal_problem(group: &GroupStatus) -> Option<Problem<'_>> {
    let login = group.login_failure.as_ref().map(|failure| ("login", failure));
    let authorization = || group.authorization_failure.as_ref().map(|failure| ("authorization", failure));
    let transaction = || group.transaction_stall.as_ref().map(|stall| ("transaction", stall));
    let (reason, failure) = login.or_else(authorization).or_else(transaction)?;
    let text = format!("{}: {failure}", name_of(group));
    Some(Problem { group: Some(group), ..Problem::new(reason, text) })
}

/// Returns the name of a client's group for a text.
fn name_of(group: &GroupStatus) -> String {
    if group.group.is_empty() { "a client without a group".into() } else { format!("group \"{}\"", group.group) }
}

fn partition_problem<'a>(failed: &'a FailedPartition, limits: &Limits) -> Problem<'a> {
    let FailedPartition { topic, partition, reason, error, failed_for: lasts, .. } = failed;
    let text = format!("{topic}[{partition}] cannot be read for {:.1} s ({reason}): {error}", lasts.as_secs_f64());
    let fatal = limits.failed_partition == FailedPartitionProbe::Live;
    Problem { seconds: Some(*lasts), failed: Some(failed), fatal, ..Problem::new("partition", text) }
}

fn stalled_problem<'a>(lane: &str, job: Option<&'a RunningJob>) -> Problem<'a> {
    let text = match job {
        Some(job) => format!("{}, longer than its stall_after", describe_run(job)),
        None => format!("a job on {lane} has taken longer than its stall_after"),
    };
    Problem { seconds: job.map(|job| job.elapsed), job, ..Problem::new("stalled", text) }
}

/// Returns the problems of lanes that do not move, without those that another problem names: a job that runs for too
/// long, a partition that cannot be read, and a blocked event loop.
fn unmoved_problems(report: &Report, is_loop_blocked: bool) -> impl Iterator<Item = Problem<'_>> {
    let is_failed = |lane: &UnmovedLane| {
        report.failed.iter().any(|failed| (&failed.topic, failed.partition) == (&lane.topic, lane.partition))
    };
    let runs = |lane: &UnmovedLane| report.stalled.iter().any(|stalled| lane.is_at(stalled));
    let is_named = |lane: &UnmovedLane| match lane.waits_for {
        "handler" => runs(lane),
        "event_loop" => is_loop_blocked,
        _ => false,
    };
    let mut unmoved: Vec<&UnmovedLane> =
        report.unmoved.iter().filter(|lane| !(is_failed(lane) || is_named(lane))).collect();
    unmoved.sort_by_key(|lane| Reverse(lane.unmoved_for));
    unmoved.into_iter().map(|lane| {
        let UnmovedLane { topic, partition, text, unmoved_for, .. } = lane;
        let text = format!("{topic}[{partition}] has not moved for {:.1} s: {text}", unmoved_for.as_secs_f64());
        Problem { seconds: Some(*unmoved_for), unmoved: Some(lane), ..Problem::new("stalled", text) }
    })
}

fn describe_run(job: &RunningJob) -> String {
    format!("{} has run for {:.1} s on {}[{}]", job.handler, job.elapsed.as_secs_f64(), job.topic, job.partition)
}

impl CheckResult<'_> {
    /// Writes the result as the probes return it.
    pub fn write(&self, json: &mut Json, app: &str) {
        json.open(b'{');
        json.name("ok").boolean(self.ok);
        json.name("why").text(&self.summary);
        json.name("app").string(app);
        json.name("problems").open(b'[');
        for problem in &self.problems {
            problem.write(json);
        }
        json.close(b']').close(b'}');
    }
}

impl Problem<'_> {
    fn write(&self, json: &mut Json) {
        json.open(b'{');
        json.name("reason").string(self.reason);
        if let Some(seconds) = self.seconds {
            json.name("seconds").seconds(seconds);
        }
        if let Some(limit) = self.limit {
            json.name("limit").seconds(limit);
        }
        if let Some(job) = self.job {
            write_job_fields(json, job);
        }
        if !self.jobs.is_empty() {
            json.name("jobs").open(b'[');
            for job in &self.jobs {
                json.open(b'{');
                write_job_fields(json, job);
                json.name("seconds").seconds(job.elapsed);
                json.close(b'}');
            }
            json.close(b']');
        }
        if let Some(missing) = self.topic {
            json.name("topic").string(&missing.topic);
        }
        if let Some(group) = self.group {
            json.name("group").string(&group.group);
            json.name("state").string(group.state);
        }
        if let Some(lane) = self.unmoved {
            json.name("handler").string(&lane.handler);
            json.name("topic").string(&lane.topic);
            json.name("partition").number(lane.partition);
            json.name("waits_for").string(lane.waits_for);
            json.name("lag").nullable(lane.lag, Json::number);
        }
        if let Some(failed) = self.failed {
            json.name("handler").string(&failed.handler);
            json.name("topic").string(&failed.topic);
            json.name("partition").number(failed.partition);
            json.name("failure").string(failed.reason);
            json.name("error").text(&failed.error);
        }
        json.name("text").text(&self.text);
        json.close(b'}');
    }
}

fn write_job_fields(json: &mut Json, job: &RunningJob) {
    json.name("handler").string(&job.handler);
    json.name("topic").string(&job.topic);
    json.name("partition").number(job.partition);
}
