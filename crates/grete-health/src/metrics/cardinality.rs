//! Limits the cardinality of metrics, for any number of handlers, partitions and groups.
//!
//! Labels identify a series, so items with equal labels are merged into one series. Items beyond a limit are merged
//! under the label value [`OTHER`], so that sums stay right.

use std::collections::HashMap;
use std::sync::Arc;

use super::{ClientMetrics, GroupMetrics, HandlerMetrics, Histogram, LaneMetrics, ProducerMetrics};

/// Maximum number of handlers with series of their own.
pub const MAX_HANDLERS: usize = 256;
/// Maximum number of partitions with series of their own.
pub const MAX_LANES: usize = 512;
/// Maximum number of groups, of clients, and of producers with series of their own.
pub const MAX_GROUPS: usize = 64;
/// Maximum length of a label value in bytes. Longer values are truncated at a character boundary.
pub const MAX_LABEL_BYTES: usize = 256;
/// Label value of all items beyond a limit.
pub const OTHER: &str = "other";

/// Item identified by one name.
pub(super) trait MergeByName {
    fn name(&mut self) -> &mut Arc<str>;
    /// Adds the numbers of another item of the same name.
    fn merge(&mut self, more: Self);
}

/// Limits a list by name. The first names win, so that an item keeps its series: a counter that moved to [`OTHER`]
/// would look like a restart.
pub(super) fn limit_by_name<T: MergeByName>(items: Vec<T>, max: usize) -> Vec<T> {
    let mut found: Vec<T> = Vec::with_capacity(items.len().min(max + 1));
    let mut indexes: HashMap<Arc<str>, usize> = HashMap::new();
    for mut item in items {
        truncate_label(item.name());
        if !indexes.contains_key(item.name()) && indexes.len() >= max {
            *item.name() = OTHER.into();
        }
        match indexes.get(item.name()).and_then(|at| found.get_mut(*at)) {
            Some(same) => same.merge(item),
            None => {
                indexes.insert(Arc::clone(item.name()), found.len());
                found.push(item);
            }
        }
    }
    found
}

/// Limits the lanes. Returns the lanes with series of their own, in order, and the merge of all others with their
/// number.
pub(super) fn limit_lanes(
    mut lanes: Vec<LaneMetrics>,
    most: usize,
) -> (Vec<LaneMetrics>, Option<(LaneMetrics, usize)>) {
    for lane in &mut lanes {
        truncate_label(&mut lane.handler);
        truncate_label(&mut lane.topic);
    }
    sort_lanes(&mut lanes);
    lanes.dedup_by(|later, earlier| {
        let same = sort_key(later) == sort_key(earlier);
        if same {
            merge_lane(earlier, later);
        }
        same
    });
    if lanes.len() <= most {
        return (lanes, None);
    }
    // Lanes that cannot be read come first, then those with the greatest lag, because users search for these. The sort
    // is stable, so lanes of equal lag keep their order.
    let behind = |lane: &LaneMetrics| (lane.lag_seconds.unwrap_or(-1.0), lane.lag);
    lanes.sort_by(|one, two| {
        let ((seconds, lag), (more_seconds, more_lag)) = (behind(one), behind(two));
        two.failed.cmp(&one.failed).then(more_seconds.total_cmp(&seconds)).then(more_lag.cmp(&lag))
    });
    let rest = lanes.split_off(most);
    sort_lanes(&mut lanes);
    let count = rest.len();
    let others = rest.into_iter().reduce(|mut all, lane| {
        merge_lane(&mut all, &lane);
        for (name, other) in [(&mut all.handler, &lane.handler), (&mut all.topic, &lane.topic)] {
            if name != other {
                *name = OTHER.into();
            }
        }
        all
    });
    (lanes, others.map(|others| (others, count)))
}

fn sort_key(lane: &LaneMetrics) -> (&str, &str, u64) {
    (&lane.handler, &lane.topic, lane.partition)
}

fn sort_lanes(lanes: &mut [LaneMetrics]) {
    lanes.sort_by(|one, two| sort_key(one).cmp(&sort_key(two)));
}

/// Merges two lanes: counts are summed, the worst of ages and times is kept.
fn merge_lane(lane: &mut LaneMetrics, more: &LaneMetrics) {
    merge_sum(&mut lane.lag, more.lag);
    merge_optional(&mut lane.lag_seconds, more.lag_seconds, f64::max);
    merge_optional(&mut lane.last_progress, more.last_progress, f64::min);
    merge_sum(&mut lane.queued_bytes, more.queued_bytes);
    merge_optional(&mut lane.failed, more.failed, u64::max);
}

fn truncate_label(name: &mut Arc<str>) {
    if name.len() > MAX_LABEL_BYTES {
        *name = name[..name.floor_char_boundary(MAX_LABEL_BYTES)].into();
    }
}

fn merge_sum(one: &mut Option<u64>, two: Option<u64>) {
    merge_optional(one, two, u64::saturating_add);
}

/// Merges two values; `None` is ignored.
fn merge_optional<T>(one: &mut Option<T>, two: Option<T>, merge: impl FnOnce(T, T) -> T) {
    *one = match (one.take(), two) {
        (Some(one), Some(two)) => Some(merge(one, two)),
        (one, two) => one.or(two),
    };
}

impl MergeByName for HandlerMetrics {
    fn name(&mut self) -> &mut Arc<str> {
        &mut self.handler
    }

    fn merge(&mut self, more: Self) {
        merge_sum(&mut self.jobs, more.jobs);
        merge_sum(&mut self.records, more.records);
        merge_sum(&mut self.failures, more.failures);
        merge_sum(&mut self.retries, more.retries);
        merge_sum(&mut self.dead_letters, more.dead_letters);
        merge_sum(&mut self.expired, more.expired);
        merge_sum(&mut self.duplicates, more.duplicates);
        merge_sum(&mut self.forgotten_ids, more.forgotten_ids);
        merge_sum(&mut self.skipped, more.skipped);
        merge_sum(&mut self.stalls, more.stalls);
        merge_sum(&mut self.timeouts, more.timeouts);
        merge_optional(&mut self.duration, more.duration, |mut one: Histogram, two| {
            one.add(&two);
            one
        });
        merge_sum(&mut self.running, more.running);
        merge_optional(&mut self.oldest_job_seconds, more.oldest_job_seconds, f64::max);
    }
}

impl MergeByName for GroupMetrics {
    fn name(&mut self) -> &mut Arc<str> {
        &mut self.group
    }

    fn merge(&mut self, more: Self) {
        merge_sum(&mut self.partitions, more.partitions);
        merge_optional(&mut self.ready, more.ready, |one, two| one && two);
        merge_sum(&mut self.rebalances, more.rebalances);
        merge_sum(&mut self.lost_partitions, more.lost_partitions);
        merge_sum(&mut self.commits, more.commits);
        merge_sum(&mut self.commit_failures, more.commit_failures);
        merge_sum(&mut self.transactions, more.transactions);
        merge_sum(&mut self.aborted_transactions, more.aborted_transactions);
    }
}

impl MergeByName for ClientMetrics {
    fn name(&mut self) -> &mut Arc<str> {
        &mut self.client
    }

    fn merge(&mut self, more: Self) {
        merge_sum(&mut self.fetched_bytes, more.fetched_bytes);
        merge_sum(&mut self.fetched_records, more.fetched_records);
        merge_sum(&mut self.buffer_bytes, more.buffer_bytes);
        merge_sum(&mut self.connections, more.connections);
        merge_sum(&mut self.reconnects, more.reconnects);
    }
}

impl MergeByName for ProducerMetrics {
    fn name(&mut self) -> &mut Arc<str> {
        &mut self.client
    }

    fn merge(&mut self, more: Self) {
        merge_sum(&mut self.records, more.records);
        merge_sum(&mut self.bytes, more.bytes);
        merge_sum(&mut self.failures, more.failures);
        merge_sum(&mut self.retries, more.retries);
        merge_sum(&mut self.buffer_bytes, more.buffer_bytes);
        merge_sum(&mut self.pending_records, more.pending_records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(topic: &str, partition: u64, lag: u64, seconds: f64) -> LaneMetrics {
        LaneMetrics {
            handler: "h".into(),
            topic: topic.into(),
            partition,
            lag: Some(lag),
            lag_seconds: Some(seconds),
            last_progress: Some(seconds),
            queued_bytes: Some(1),
            failed: None,
        }
    }

    fn client(name: &str, bytes: u64) -> ClientMetrics {
        ClientMetrics { client: name.into(), fetched_bytes: Some(bytes), ..ClientMetrics::default() }
    }

    #[test]
    fn first_names_keep_their_series_and_sums_stay_right() {
        let many = (0..100).map(|number| client(&format!("c{}", number % 50), number)).collect();
        let limited = limit_by_name(many, 10);
        let names: Vec<&str> = limited.iter().map(|client| &*client.client).collect();
        assert_eq!(names, ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "other"]);
        assert_eq!(limited.iter().filter_map(|client| client.fetched_bytes).sum::<u64>(), (0..100).sum::<u64>());
        assert_eq!(limited[3].fetched_bytes, Some(3 + 53));
    }

    #[test]
    fn one_that_is_called_other_shares_its_name() {
        let limited = limit_by_name(vec![client("other", 1), client("a", 2), client("b", 4)], 2);
        let sums: Vec<_> = limited.iter().map(|client| (&*client.client, client.fetched_bytes)).collect();
        assert_eq!(sums, [("other", Some(5)), ("a", Some(2))]);
    }

    #[test]
    fn names_that_are_the_same_once_cut_are_one() {
        let (long, longer) =
            (format!("{}é", "x".repeat(MAX_LABEL_BYTES - 1)), format!("{}öö", "x".repeat(MAX_LABEL_BYTES - 1)));
        let limited = limit_by_name(vec![client(&long, 1), client(&longer, 2)], 9);
        assert_eq!(limited.len(), 1);
        assert_eq!((&*limited[0].client, limited[0].fetched_bytes), (&*"x".repeat(MAX_LABEL_BYTES - 1), Some(3)));
    }

    #[test]
    fn what_is_not_known_does_not_count() {
        let unknown = ClientMetrics { client: "a".into(), ..ClientMetrics::default() };
        let limited = limit_by_name(vec![unknown.clone(), client("a", 7), unknown], 9);
        assert_eq!((limited[0].fetched_bytes, limited[0].connections), (Some(7), None));
    }

    #[test]
    fn lanes_with_the_highest_lag_keep_their_series() {
        let lanes = (0..9).map(|at| lane("t", at, at % 3, if at == 4 { 50.0 } else { 1.0 })).collect();
        let (limited, others) = limit_lanes(lanes, 3);
        assert_eq!(limited.iter().map(|lane| lane.partition).collect::<Vec<_>>(), [2, 4, 5]);
        let (others, count) = others.expect("six");
        assert_eq!((count, &*others.handler, &*others.topic), (6, "h", "t"));
        assert_eq!((others.lag, others.lag_seconds, others.queued_bytes), (Some(4), Some(1.0), Some(6)));
    }

    #[test]
    fn those_of_several_topics_have_none() {
        let mut lanes: Vec<LaneMetrics> = ["a", "b", "c"].iter().map(|topic| lane(topic, 0, 0, 0.0)).collect();
        lanes[1].lag_seconds = None; // sorts last
        lanes[1].last_progress = None;
        let (limited, others) = limit_lanes(lanes.clone(), 1);
        assert_eq!(&*limited[0].topic, "a");
        let (others, count) = others.expect("two");
        assert_eq!(
            (count, &*others.topic, others.lag_seconds, others.last_progress),
            (2, "other", Some(0.0), Some(0.0))
        );
        assert!(limit_lanes(lanes, 3).1.is_none());
    }

    #[test]
    fn a_lane_that_is_there_twice_is_one() {
        let (limited, others) = limit_lanes(vec![lane("t", 1, 5, 2.0), lane("t", 0, 1, 0.0), lane("t", 1, 7, 9.0)], 2);
        assert!(others.is_none());
        assert_eq!(
            (limited[1].partition, limited[1].lag, limited[1].lag_seconds, limited[1].last_progress),
            (1, Some(12), Some(9.0), Some(2.0))
        );
    }
}
