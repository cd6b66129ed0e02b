//! Topics and partitions that were assigned by hand and that the cluster does not have.
//!
//! A group's leader assigns only what there is; a user may be mistaken. But a broker may also be late with the news of a
//! topic that was made, or enlarged, just before: only what stays missing is told.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::{ConsumerAction, ConsumerCore, ConsumerNotice};
use crate::time::{Nanos, SECOND};

/// Within this time all brokers have heard of a change, if they hear of anything.
const LATE_NEWS: Nanos = 3 * SECOND;

/// Topics of which it is not known yet whether they have all that was assigned.
#[derive(Debug, Default)]
pub(super) struct Missing {
    topics: Vec<Unsure>,
}

#[derive(Debug)]
struct Unsure {
    topic: Arc<str>,
    /// When something was missing first.
    since: Option<Nanos>,
    /// It was told that there is no such topic; it may be made at any time.
    told: bool,
}

impl Missing {
    pub(super) fn expect(&mut self, topics: &[Arc<str>]) {
        let unsure = |topic: &Arc<str>| Unsure { topic: Arc::clone(topic), since: None, told: false };
        self.topics = topics.iter().map(unsure).collect();
    }
}

impl ConsumerCore {
    /// After each metadata answer.
    pub(super) fn look_for_missing(&mut self, now: Nanos, out: &mut Vec<ConsumerAction>) {
        if self.closing.is_some() {
            return;
        }
        let (cluster, partitions) = (&self.cluster, &self.partitions);
        self.missing.topics.retain_mut(|unsure| {
            let Some(meta) = cluster.topic(&unsure.topic) else { return true };
            let notice = match meta.error {
                ErrorCode::NONE => {
                    let count = i32::try_from(meta.partitions.len()).unwrap_or(i32::MAX);
                    let assigned = partitions.live().iter().filter_map(|slot| partitions.tp(*slot));
                    let of_topic = assigned.filter(|tp| tp.topic == unsure.topic).map(|tp| tp.partition);
                    let mut beyond: Vec<i32> = of_topic.filter(|partition| *partition >= count).collect();
                    if beyond.is_empty() {
                        return false;
                    }
                    beyond.sort_unstable();
                    ConsumerNotice::NoSuchPartitions { topic: Arc::clone(&unsure.topic), partitions: beyond, count }
                }
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION if !unsure.told => {
                    ConsumerNotice::NoSuchTopic { topic: Arc::clone(&unsure.topic) }
                }
                _ => return true,
            };
            if now < unsure.since.get_or_insert(now).saturating_add(LATE_NEWS) {
                return true;
            }
            // The topic may still be made, and then with too few partitions.
            unsure.told = matches!(notice, ConsumerNotice::NoSuchTopic { .. });
            unsure.since = None;
            out.push(ConsumerAction::Notice(notice));
            unsure.told
        });
    }
}
