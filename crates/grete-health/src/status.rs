//! What a process does just now, as JSON for people and scripts.

use std::cmp::Reverse;
use std::time::Instant;

use crate::examiner::Examiner;
use crate::frame::{self, MAX_NAMED};
use crate::json::Json;
use crate::report::RunningJob;
use crate::verdict::Look;

impl Examiner {
    pub(crate) fn write_status(&self, json: &mut Json, look: &Look, now: Instant) {
        let report = &look.report;
        json.open(b'{');
        json.name("version").text(env!("CARGO_PKG_VERSION"));
        json.name("pid").count(std::process::id().into());
        json.name("uptime").seconds(self.uptime(now));
        json.name("steady").flag(report.steady);
        json.name("quiet").flag(report.quiet);
        json.name("stopping").flag(report.stopping);
        json.name("gil_wait").known(look.gil_wait, Json::seconds);
        json.name("rss").known(report.rss, Json::count);
        frame::totals(json, report);
        let mut running: Vec<&RunningJob> = report.running.iter().collect();
        running.sort_by_key(|job| Reverse(job.elapsed));
        json.name("running").open(b'[');
        for job in running.into_iter().take(MAX_NAMED) {
            frame::named(json, job);
            json.name("limit").known(job.limit, Json::seconds);
            json.close(b'}');
        }
        json.close(b']').name("groups").open(b'[');
        for group in report.groups.iter().take(MAX_NAMED) {
            frame::group(json, group);
        }
        json.close(b']').name("stalled").open(b'[');
        for lane in report.stalled.iter().take(MAX_NAMED) {
            json.text(lane);
        }
        json.close(b']').close(b'}');
    }
}
