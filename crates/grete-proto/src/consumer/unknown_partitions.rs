//! Detection of topics and partitions that were assigned by hand but do not exist in the cluster.
//!
//! A group leader assigns only existing partitions, but a user may be mistaken. A broker may also lag behind in
//! learning of a topic that was just created or enlarged. Therefore only a lasting absence is reported.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::{ConsumerAction, ConsumerCore, ConsumerLogEvent};
use crate::time::{Nanos, SECOND};

/// Time within which every broker has learned of a metadata change, if it learns of changes at all.
const METADATA_GRACE: Nanos = 3 * SECOND;

/// Topics with manually assigned partitions that the metadata has not confirmed yet.
#[derive(Debug, Default)]
pub(super) struct UnknownPartitions {
    topics: Vec<UnverifiedTopic>,
}

#[derive(Debug)]
struct UnverifiedTopic {
    topic: Arc<str>,
    /// Time at which something was missing first.
    since: Option<Nanos>,
    /// Whether the missing topic was reported. The topic may be created at any time.
    logged: bool,
}

impl UnknownPartitions {
    pub(super) fn set_assigned(&mut self, topics: &[Arc<str>]) {
        let unverified = |topic: &Arc<str>| UnverifiedTopic { topic: Arc::clone(topic), since: None, logged: false };
        self.topics = topics.iter().map(unverified).collect();
    }
}

impl ConsumerCore {
    /// Reports missing topics and partitions; runs after each metadata response.
    pub(super) fn check_unknown_partitions(&mut self, now: Nanos, out: &mut Vec<ConsumerAction>) {
        if self.closing.is_some() {
            return;
        }
        let (cluster, partitions) = (&self.cluster, &self.partitions);
        self.unknown_partitions.topics.retain_mut(|unverified| {
            let Some(meta) = cluster.topic(&unverified.topic) else { return true };
            let notice = match meta.error {
                ErrorCode::NONE => {
                    let count = i32::try_from(meta.partitions.len()).unwrap_or(i32::MAX);
                    let assigned = partitions.live().iter().filter_map(|slot| partitions.topic_partition(*slot));
                    let of_topic = assigned.filter(|tp| tp.topic == unverified.topic).map(|tp| tp.partition);
                    let mut beyond: Vec<i32> = of_topic.filter(|partition| *partition >= count).collect();
                    if beyond.is_empty() {
                        return false;
                    }
                    beyond.sort_unstable();
                    ConsumerLogEvent::UnknownPartitions {
                        topic: Arc::clone(&unverified.topic),
                        partitions: beyond,
                        count,
                    }
                }
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION if !unverified.logged => {
                    ConsumerLogEvent::UnknownTopic { topic: Arc::clone(&unverified.topic) }
                }
                _ => return true,
            };
            if now < unverified.since.get_or_insert(now).saturating_add(METADATA_GRACE) {
                return true;
            }
            // The topic may still be created, and then with too few partitions.
            unverified.logged = matches!(notice, ConsumerLogEvent::UnknownTopic { .. });
            unverified.since = None;
            out.push(ConsumerAction::LogEvent(notice));
            unverified.logged
        });
    }
}
