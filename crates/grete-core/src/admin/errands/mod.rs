//! The errands, one file per noun.

mod cluster;
mod configs;
mod group_offsets;
mod groups;
mod log_offsets;
mod members;
mod removal;
mod topics;

pub use cluster::{BrokerDescription, ClusterDescription, PartitionDescription, TopicDescription, Wish};
pub use configs::{Alteration, ConfigEntry, ConfigSource, Resource};
pub use group_offsets::{CommittedOffset, PartitionResult};
pub use groups::GroupListing;
pub use log_offsets::{FoundOffset, When};
pub use members::{GroupDescription, GroupProtocol, MemberDescription};
pub use topics::NewTopic;

pub(super) use cluster::{DescribeCluster, DescribeTopics, Spread};
pub(super) use configs::{AlterConfigs, DescribeConfigs};
pub(super) use group_offsets::{CommitOffsets, DeleteOffsets, FetchOffsets};
pub(super) use groups::{DeleteGroups, ListGroups};
pub(super) use log_offsets::{DeleteRecords, ListOffsets};
pub(super) use members::DescribeGroups;
pub(super) use removal::RemoveMembers;
pub(super) use topics::{CreatePartitions, CreateTopics, DeleteTopics};

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::errand::{Outcomes, outcome};

/// A name as messages want it.
fn owned(name: &str) -> Cow<'static, str> {
    Cow::Owned(name.to_owned())
}

/// Which of the items has which name.
fn by_name<'n>(items: &[usize], names: &'n [Arc<str>]) -> HashMap<&'n str, usize> {
    items.iter().filter_map(|&item| names.get(item).map(|name| (&**name, item))).collect()
}

/// What became of the items, by answers that name each; an answer for something else is none.
fn done_by_name<'a>(
    items: &[usize],
    names: &[Arc<str>],
    answers: impl IntoIterator<Item = (&'a str, i16, Option<&'a str>)>,
    out: &mut Outcomes<()>,
) {
    let places = by_name(items, names);
    let of = |(name, code, message)| Some((*places.get(name)?, outcome(code, message, || ())));
    out.extend(answers.into_iter().filter_map(of));
}
