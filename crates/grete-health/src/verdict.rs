//! What the probes say of a process: alive or not, ready or not, and everything that is amiss, by name.

use std::cmp::Reverse;
use std::time::Duration;

use crate::json::Json;
use crate::report::{Group, Report, RunningJob};

/// Problems of one kind that are named, at most; and jobs of one problem.
const MAX_NAMED: usize = 20;
/// A wait for the GIL that is worth to be told.
const GIL_WAIT: Duration = Duration::from_secs(1);
/// Records that wait while nothing is under way, and no handler is called, for so long: the workers are gone, or hang outside of
/// handlers.
const NO_PROGRESS: Duration = Duration::from_secs(60);
/// From here on it is told.
const SLOW: Duration = Duration::from_secs(5);

/// What a process is measured by.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// How long the GIL may be held; `None`: for ever.
    pub gil_timeout: Option<Duration>,
    /// How long a member may be without its place in its group; `None`: for ever.
    pub unsteady_timeout: Option<Duration>,
}

/// What is known at one point in time.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// What the source says.
    pub report: Report,
    /// How long the GIL has been waited for; nothing: it is not. `None`: nobody measures it.
    pub gil_wait: Option<Duration>,
    /// For how long each of the report's groups has not been steady.
    pub unsteady: Vec<Duration>,
    /// For how long records have waited for a worker while nothing was under way.
    pub idle: Duration,
}

/// A probe's answer.
#[derive(Debug)]
pub struct Verdict<'a> {
    /// All is well.
    pub ok: bool,
    /// In one sentence.
    pub why: String,
    /// Everything that is amiss, also what is no reason for the verdict.
    pub problems: Vec<Problem<'a>>,
}

/// Something amiss.
#[derive(Debug)]
pub struct Problem<'a> {
    /// In one word: handler, gil, progress, membership, stalled, stopping, quiet, starting.
    pub reason: &'static str,
    /// All of it, for people.
    pub text: String,
    /// How long it has been so.
    pub seconds: Option<Duration>,
    /// How long it may be so.
    pub limit: Option<Duration>,
    /// Whose fault it is.
    pub job: Option<&'a RunningJob>,
    /// Who may be at fault.
    pub jobs: Vec<&'a RunningJob>,
    /// Which group.
    pub group: Option<&'a Group>,
    /// A new process would help.
    pub fatal: bool,
}

impl<'a> Problem<'a> {
    fn new(reason: &'static str, text: String) -> Self {
        Self { reason, text, seconds: None, limit: None, job: None, jobs: Vec::new(), group: None, fatal: false }
    }
}

/// Whether the process should be left alone: no job has run longer than its `handler_timeout`, nobody holds the GIL for longer
/// than `gil_timeout`, records do not wait for a minute while no handler is called, and no member that is connected has lacked its place in its group for longer than `unsteady_timeout`. While
/// it stops, it is alive: nobody is to cut the stop short, which has its own limit.
#[must_use]
pub fn live<'a>(look: &'a Look, limits: &Limits) -> Verdict<'a> {
    let problems = problems(look, limits);
    let mut fatal = problems.iter().filter(|problem| problem.fatal);
    let (ok, why) = match (look.report.stopping, fatal.next()) {
        (true, _) => (true, "the App is stopping".to_string()),
        (false, None) => (true, "nothing takes longer than it may".to_string()),
        (false, Some(first)) => match fatal.count() {
            0 => (false, first.text.clone()),
            more => (false, format!("{}; and {more} more", first.text)),
        },
    };
    Verdict { ok, why, problems }
}

/// Whether records are processed: all clients have their place in their groups, workers run, and it is neither quiet nor stopping.
#[must_use]
pub fn ready<'a>(look: &'a Look, limits: &Limits) -> Verdict<'a> {
    let problems = problems(look, limits);
    let hindrances = ["stopping", "quiet", "membership", "starting"];
    let hindrance = hindrances.iter().find_map(|reason| problems.iter().find(|problem| problem.reason == *reason));
    let (ok, why) = match hindrance {
        Some(problem) => (false, problem.text.clone()),
        None => (true, "the App has its partitions".to_string()),
    };
    Verdict { ok, why, problems }
}

fn problems<'a>(look: &'a Look, limits: &Limits) -> Vec<Problem<'a>> {
    let report = &look.report;
    let mut running: Vec<&RunningJob> = report.running.iter().collect();
    running.sort_by_key(|job| Reverse(job.elapsed));
    let late = running.iter().filter_map(|job| job.limit.filter(|_| job.is_overdue()).map(|limit| overdue(job, limit)));
    let mut found: Vec<Problem<'a>> = late.take(MAX_NAMED).collect();
    found.extend(gil(look, limits, &running));
    if look.idle >= SLOW {
        found.push(standing(look));
    }
    let waiting = report.groups.iter().zip(look.unsteady.iter().copied().chain(std::iter::repeat(Duration::ZERO)));
    found.extend(
        waiting.filter(|(group, _)| !group.steady).take(MAX_NAMED).map(|(group, since)| member(group, since, limits)),
    );
    let slow = report.stalled.iter().filter_map(|lane| {
        let job = running.iter().find(|job| *lane == format!("{}[{}]", job.topic, job.partition));
        match job {
            Some(job) if job.is_overdue() => None, // that says more
            job => Some(stalled(lane, job.copied())),
        }
    });
    found.extend(slow.take(MAX_NAMED));
    if report.stopping {
        found.push(Problem::new("stopping", "the App is stopping".into()));
    } else if report.quiet {
        found.push(Problem::new("quiet", "the App is quiet: it hands out no more records".into()));
    } else if report.workers == 0 {
        found.push(Problem::new("starting", "the App is starting: it has no workers yet".into()));
    }
    found
}

fn overdue(job: &RunningJob, limit: Duration) -> Problem<'_> {
    let text = format!("{}, and its handler_timeout is {} s", has_run(job), limit.as_secs_f64());
    let (seconds, limit) = (Some(job.elapsed), Some(limit));
    Problem { seconds, limit, job: Some(job), fatal: true, ..Problem::new("handler", text) }
}

fn gil<'a>(look: &Look, limits: &Limits, running: &[&'a RunningJob]) -> Option<Problem<'a>> {
    let seconds = look.gil_wait.filter(|wait| *wait >= GIL_WAIT)?;
    let fatal = limits.gil_timeout.is_some_and(|limit| seconds > limit);
    let under_way = match running {
        [] => "; no job is under way".to_string(),
        [job] => format!("; under way: {} on {}[{}]", job.handler, job.topic, job.partition),
        [job, ..] => {
            format!("; under way: {} on {}[{}] and {} more", job.handler, job.topic, job.partition, running.len() - 1)
        }
    };
    let text = format!("somebody has held the GIL for {:.1} s{under_way}", seconds.as_secs_f64());
    let jobs = running.iter().copied().take(MAX_NAMED).collect();
    Some(Problem { seconds: Some(seconds), limit: limits.gil_timeout, jobs, fatal, ..Problem::new("gil", text) })
}

fn standing(look: &Look) -> Problem<'static> {
    let seconds = look.idle;
    let text = format!("records wait for a worker, and no handler has been called for {:.1} s", seconds.as_secs_f64());
    let (limit, fatal) = (Some(NO_PROGRESS), seconds > NO_PROGRESS);
    Problem { seconds: Some(seconds), limit, fatal, ..Problem::new("progress", text) }
}

fn member<'a>(group: &'a Group, since: Duration, limits: &Limits) -> Problem<'a> {
    let away = group.connections == Some(0);
    // No restart brings brokers back.
    let fatal = !away && limits.unsteady_timeout.is_some_and(|limit| since > limit);
    let name =
        if group.group.is_empty() { "a client without a group".into() } else { format!("group \"{}\"", group.group) };
    let nobody = if away { "; no broker is connected" } else { "" };
    let text = format!("{name} is {} and has not been steady for {:.1} s{nobody}", group.state, since.as_secs_f64());
    let (seconds, group) = (Some(since), Some(group));
    Problem { seconds, limit: limits.unsteady_timeout, group, fatal, ..Problem::new("membership", text) }
}

fn stalled<'a>(lane: &str, job: Option<&'a RunningJob>) -> Problem<'a> {
    let text = match job {
        Some(job) => format!("{}, longer than its stall_after", has_run(job)),
        None => format!("a call on {lane} has run longer than its stall_after"),
    };
    Problem { seconds: job.map(|job| job.elapsed), job, ..Problem::new("stalled", text) }
}

fn has_run(job: &RunningJob) -> String {
    format!("{} has run for {:.1} s on {}[{}]", job.handler, job.elapsed.as_secs_f64(), job.topic, job.partition)
}

impl Verdict<'_> {
    /// As the probes answer it.
    pub fn write(&self, json: &mut Json, app: &str) {
        json.open(b'{');
        json.name("ok").flag(self.ok);
        json.name("why").text(&self.why);
        json.name("app").text(app);
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
        json.name("reason").text(self.reason);
        if let Some(seconds) = self.seconds {
            json.name("seconds").seconds(seconds);
        }
        if let Some(limit) = self.limit {
            json.name("limit").seconds(limit);
        }
        if let Some(job) = self.job {
            place(json, job);
        }
        if !self.jobs.is_empty() {
            json.name("jobs").open(b'[');
            for job in &self.jobs {
                json.open(b'{');
                place(json, job);
                json.name("seconds").seconds(job.elapsed);
                json.close(b'}');
            }
            json.close(b']');
        }
        if let Some(group) = self.group {
            json.name("group").text(&group.group);
            json.name("state").text(group.state);
        }
        json.name("text").text(&self.text);
        json.close(b'}');
    }
}

fn place(json: &mut Json, job: &RunningJob) {
    json.name("handler").text(&job.handler);
    json.name("topic").text(&job.topic);
    json.name("partition").count(job.partition);
}
