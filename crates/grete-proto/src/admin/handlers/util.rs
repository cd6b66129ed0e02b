//! Parts of requests that several handlers build.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use grete_wire::messages::{MetadataRequest, MetadataRequestTopic};

use crate::ids::TopicPartition;
use crate::request::Request;

/// Copies a name into the type that messages use.
pub(super) fn owned(name: &str) -> Cow<'static, str> {
    Cow::Owned(name.to_owned())
}

/// Groups the partitions of a request by topic.
pub(super) fn by_topic<'t, P, T>(
    partitions: impl IntoIterator<Item = (&'t TopicPartition, P)>,
    topic: impl Fn((&'t Arc<str>, Vec<P>)) -> T,
) -> Vec<T> {
    let mut topics: BTreeMap<&Arc<str>, Vec<P>> = BTreeMap::new();
    for (tp, partition) in partitions {
        topics.entry(&tp.topic).or_default().push(partition);
    }
    topics.into_iter().map(topic).collect()
}

/// Builds a metadata request for these topics; `None`: all.
pub(super) fn metadata_request(names: Option<&[Arc<str>]>) -> Request {
    let topic = |name: &Arc<str>| MetadataRequestTopic { name: Some(owned(name)), ..Default::default() };
    Request::Metadata(MetadataRequest {
        topics: names.map(|names| names.iter().map(topic).collect()),
        allow_auto_topic_creation: false,
        ..Default::default()
    })
}
