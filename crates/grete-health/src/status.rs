//! Current status of a process as JSON, for people and scripts.

use std::cmp::Reverse;
use std::time::Instant;

use crate::checks::HealthSnapshot;
use crate::collector::HealthCollector;
use crate::json::Json;
use crate::report::RunningJob;
use crate::report::frame;
use crate::report::frame::MAX_NAMED;

impl HealthCollector {
    pub(crate) fn write_status(&self, json: &mut Json, snapshot: &HealthSnapshot, now: Instant) {
        let report = &snapshot.report;
        json.open(b'{');
        json.name("version").string(env!("CARGO_PKG_VERSION"));
        json.name("pid").number(std::process::id().into());
        json.name("uptime").seconds(self.uptime(now));
        json.name("ready").boolean(report.ready);
        json.name("quiet").boolean(report.quiet);
        json.name("stopping").boolean(report.stopping);
        json.name("gil_wait").nullable(snapshot.gil_wait, Json::seconds);
        json.name("loop_wait").nullable(snapshot.loop_wait, Json::seconds);
        json.name("rss").nullable(report.rss, Json::number);
        frame::write_totals(json, report);
        let mut running: Vec<&RunningJob> = report.running.iter().collect();
        running.sort_by_key(|job| Reverse(job.elapsed));
        json.name("running").open(b'[');
        for job in running.into_iter().take(MAX_NAMED) {
            frame::write_job(json, job);
            json.name("limit").nullable(job.limit, Json::seconds);
            json.close(b'}');
        }
        json.close(b']').name("groups").open(b'[');
        for group in report.groups.iter().take(MAX_NAMED) {
            frame::write_group(json, group);
        }
        json.close(b']').name("stalled").open(b'[');
        for lane in report.stalled.iter().take(MAX_NAMED) {
            json.string(lane);
        }
        json.close(b']').name("failed").open(b'[');
        for failed in report.failed.iter().take(MAX_NAMED) {
            frame::write_failed_partition(json, failed);
        }
        json.close(b']').close(b'}');
    }
}
