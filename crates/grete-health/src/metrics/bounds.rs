//! Keeps what is told within bounds, however many handlers, partitions and groups there are.
//!
//! A series is told apart by its labels, so two of the same labels are one series. What is beyond a bound is told together
//! under the name [`OTHER`]: sums stay right.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Client, Group, Handler, Histogram, Lane, Producer};

/// Handlers that are told apart.
pub const MAX_HANDLERS: usize = 256;
/// Partitions that are told apart.
pub const MAX_LANES: usize = 512;
/// Groups, clients and producers that are told apart, each.
pub const MAX_GROUPS: usize = 64;
/// Bytes of a label's value; longer ones are cut, at a character.
pub const MAX_LABEL: usize = 256;
/// The name of all that are not told apart.
pub const OTHER: &str = "other";

/// Has one name.
pub(super) trait Named {
    fn name(&mut self) -> &mut Arc<str>;
    /// As if both had been one.
    fn add(&mut self, more: Self);
}

/// In the order in which they come, so that those who are told apart stay so: a counter that moved to [`OTHER`] would look like a
/// restart.
pub(super) fn listed<T: Named>(items: Vec<T>, most: usize) -> Vec<T> {
    let mut found: Vec<T> = Vec::with_capacity(items.len().min(most + 1));
    let mut places: HashMap<Arc<str>, usize> = HashMap::new();
    for mut item in items {
        cut(item.name());
        if !places.contains_key(item.name()) && places.len() >= most {
            *item.name() = OTHER.into();
        }
        match places.get(item.name()).and_then(|at| found.get_mut(*at)) {
            Some(same) => same.add(item),
            None => {
                places.insert(Arc::clone(item.name()), found.len());
                found.push(item);
            }
        }
    }
    found
}

/// Lanes that are told apart, in order; all others together, and how many these are.
pub(super) fn listed_lanes(mut lanes: Vec<Lane>, most: usize) -> (Vec<Lane>, Option<(Lane, usize)>) {
    for lane in &mut lanes {
        cut(&mut lane.handler);
        cut(&mut lane.topic);
    }
    sort(&mut lanes);
    lanes.dedup_by(|later, earlier| {
        let same = key(later) == key(earlier);
        if same {
            add(earlier, later);
        }
        same
    });
    if lanes.len() <= most {
        return (lanes, None);
    }
    // What is furthest behind is what somebody looks for. The sort is stable: lanes of the same lag do not change places.
    let behind = |lane: &Lane| (lane.lag_seconds.unwrap_or(-1.0), lane.lag);
    lanes.sort_by(|one, two| {
        let ((seconds, lag), (more_seconds, more_lag)) = (behind(one), behind(two));
        more_seconds.total_cmp(&seconds).then(more_lag.cmp(&lag))
    });
    let rest = lanes.split_off(most);
    sort(&mut lanes);
    let count = rest.len();
    let others = rest.into_iter().reduce(|mut all, lane| {
        add(&mut all, &lane);
        for (name, other) in [(&mut all.handler, &lane.handler), (&mut all.topic, &lane.topic)] {
            if name != other {
                *name = OTHER.into();
            }
        }
        all
    });
    (lanes, others.map(|others| (others, count)))
}

fn key(lane: &Lane) -> (&str, &str, u64) {
    (&lane.handler, &lane.topic, lane.partition)
}

fn sort(lanes: &mut [Lane]) {
    lanes.sort_by(|one, two| key(one).cmp(&key(two)));
}

/// Numbers are summed; of ages and points in time the worst stays.
fn add(lane: &mut Lane, more: &Lane) {
    sum(&mut lane.lag, more.lag);
    both(&mut lane.lag_seconds, more.lag_seconds, f64::max);
    both(&mut lane.last_progress, more.last_progress, f64::min);
    sum(&mut lane.queued_bytes, more.queued_bytes);
}

fn cut(name: &mut Arc<str>) {
    if name.len() > MAX_LABEL {
        *name = name[..name.floor_char_boundary(MAX_LABEL)].into();
    }
}

fn sum(one: &mut Option<u64>, two: Option<u64>) {
    both(one, two, u64::saturating_add);
}

/// What is not known does not count.
fn both<T>(one: &mut Option<T>, two: Option<T>, merge: impl FnOnce(T, T) -> T) {
    *one = match (one.take(), two) {
        (Some(one), Some(two)) => Some(merge(one, two)),
        (one, two) => one.or(two),
    };
}

impl Named for Handler {
    fn name(&mut self) -> &mut Arc<str> {
        &mut self.handler
    }

    fn add(&mut self, more: Self) {
        sum(&mut self.jobs, more.jobs);
        sum(&mut self.records, more.records);
        sum(&mut self.failures, more.failures);
        sum(&mut self.retries, more.retries);
        sum(&mut self.dead_letters, more.dead_letters);
        sum(&mut self.expired, more.expired);
        sum(&mut self.skipped, more.skipped);
        sum(&mut self.stalls, more.stalls);
        sum(&mut self.timeouts, more.timeouts);
        both(&mut self.duration, more.duration, |mut one: Histogram, two| {
            one.add(&two);
            one
        });
        sum(&mut self.running, more.running);
        both(&mut self.oldest, more.oldest, f64::max);
    }
}

impl Named for Group {
    fn name(&mut self) -> &mut Arc<str> {
        &mut self.group
    }

    fn add(&mut self, more: Self) {
        sum(&mut self.partitions, more.partitions);
        both(&mut self.steady, more.steady, |one, two| one && two);
        sum(&mut self.rebalances, more.rebalances);
        sum(&mut self.lost_partitions, more.lost_partitions);
        sum(&mut self.commits, more.commits);
        sum(&mut self.commit_failures, more.commit_failures);
    }
}

impl Named for Client {
    fn name(&mut self) -> &mut Arc<str> {
        &mut self.client
    }

    fn add(&mut self, more: Self) {
        sum(&mut self.fetched_bytes, more.fetched_bytes);
        sum(&mut self.fetched_records, more.fetched_records);
        sum(&mut self.buffer_bytes, more.buffer_bytes);
        sum(&mut self.connections, more.connections);
        sum(&mut self.reconnects, more.reconnects);
    }
}

impl Named for Producer {
    fn name(&mut self) -> &mut Arc<str> {
        &mut self.client
    }

    fn add(&mut self, more: Self) {
        sum(&mut self.records, more.records);
        sum(&mut self.bytes, more.bytes);
        sum(&mut self.failures, more.failures);
        sum(&mut self.retries, more.retries);
        sum(&mut self.buffer_bytes, more.buffer_bytes);
        sum(&mut self.pending_records, more.pending_records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(topic: &str, partition: u64, lag: u64, seconds: f64) -> Lane {
        Lane {
            handler: "h".into(),
            topic: topic.into(),
            partition,
            lag: Some(lag),
            lag_seconds: Some(seconds),
            last_progress: Some(seconds),
            queued_bytes: Some(1),
        }
    }

    fn client(name: &str, bytes: u64) -> Client {
        Client { client: name.into(), fetched_bytes: Some(bytes), ..Client::default() }
    }

    #[test]
    fn the_first_ones_are_told_apart_and_nothing_gets_lost() {
        let many = (0..100).map(|number| client(&format!("c{}", number % 50), number)).collect();
        let told = listed(many, 10);
        let names: Vec<&str> = told.iter().map(|client| &*client.client).collect();
        assert_eq!(names, ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "other"]);
        assert_eq!(told.iter().filter_map(|client| client.fetched_bytes).sum::<u64>(), (0..100).sum::<u64>());
        assert_eq!(told[3].fetched_bytes, Some(3 + 53));
    }

    #[test]
    fn one_that_is_called_other_shares_its_name() {
        let told = listed(vec![client("other", 1), client("a", 2), client("b", 4)], 2);
        let sums: Vec<_> = told.iter().map(|client| (&*client.client, client.fetched_bytes)).collect();
        assert_eq!(sums, [("other", Some(5)), ("a", Some(2))]);
    }

    #[test]
    fn names_that_are_the_same_once_cut_are_one() {
        let (long, longer) = (format!("{}é", "x".repeat(MAX_LABEL - 1)), format!("{}öö", "x".repeat(MAX_LABEL - 1)));
        let told = listed(vec![client(&long, 1), client(&longer, 2)], 9);
        assert_eq!(told.len(), 1);
        assert_eq!((&*told[0].client, told[0].fetched_bytes), (&*"x".repeat(MAX_LABEL - 1), Some(3)));
    }

    #[test]
    fn what_is_not_known_does_not_count() {
        let unknown = Client { client: "a".into(), ..Client::default() };
        let told = listed(vec![unknown.clone(), client("a", 7), unknown], 9);
        assert_eq!((told[0].fetched_bytes, told[0].connections), (Some(7), None));
    }

    #[test]
    fn those_behind_most_are_told_apart() {
        let lanes = (0..9).map(|at| lane("t", at, at % 3, if at == 4 { 50.0 } else { 1.0 })).collect();
        let (told, others) = listed_lanes(lanes, 3);
        assert_eq!(told.iter().map(|lane| lane.partition).collect::<Vec<_>>(), [2, 4, 5]);
        let (others, count) = others.expect("six");
        assert_eq!((count, &*others.handler, &*others.topic), (6, "h", "t"));
        assert_eq!((others.lag, others.lag_seconds, others.queued_bytes), (Some(4), Some(1.0), Some(6)));
    }

    #[test]
    fn those_of_several_topics_have_none() {
        let mut lanes: Vec<Lane> = ["a", "b", "c"].iter().map(|topic| lane(topic, 0, 0, 0.0)).collect();
        lanes[1].lag_seconds = None; // comes last
        lanes[1].last_progress = None;
        let (told, others) = listed_lanes(lanes.clone(), 1);
        assert_eq!(&*told[0].topic, "a");
        let (others, count) = others.expect("two");
        assert_eq!(
            (count, &*others.topic, others.lag_seconds, others.last_progress),
            (2, "other", Some(0.0), Some(0.0))
        );
        assert!(listed_lanes(lanes, 3).1.is_none());
    }

    #[test]
    fn a_lane_that_is_there_twice_is_one() {
        let (told, others) = listed_lanes(vec![lane("t", 1, 5, 2.0), lane("t", 0, 1, 0.0), lane("t", 1, 7, 9.0)], 2);
        assert!(others.is_none());
        assert_eq!(
            (told[1].partition, told[1].lag, told[1].lag_seconds, told[1].last_progress),
            (1, Some(12), Some(9.0), Some(2.0))
        );
    }
}
