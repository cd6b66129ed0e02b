//! Decoders of values by route and topic.

use std::collections::HashMap;

use grete_client::TopicPattern;
use pyo3::prelude::*;

/// Decoders by route and topic, or pattern of topics.
#[derive(Debug, Default)]
pub(super) struct Decoders {
    by_topic: HashMap<(u32, String), Option<Py<PyAny>>>,
    by_pattern: Vec<(u32, TopicPattern, Py<PyAny>)>,
}

impl Decoders {
    pub(super) fn is_empty(&self) -> bool {
        self.by_topic.is_empty() && self.by_pattern.is_empty()
    }

    /// Sets a decoder. Returns the one before, for the caller to drop outside of locks.
    pub(super) fn insert(&mut self, route: u32, topic: String, decoder: Py<PyAny>) -> Option<Py<PyAny>> {
        match TopicPattern::parse(&topic).ok().filter(|_| TopicPattern::is_pattern(&topic)) {
            Some(pattern) => {
                self.by_pattern.push((route, pattern, decoder));
                None
            }
            None => self.by_topic.insert((route, topic), Some(decoder)).flatten(),
        }
    }

    /// Returns the decoder of a topic: that of its name, or else that of the first pattern that matches.
    pub(super) fn get(&mut self, py: Python<'_>, route: u32, topic: &str) -> Option<&Py<PyAny>> {
        let Self { by_topic, by_pattern } = self;
        if by_pattern.is_empty() {
            return by_topic.get(&(route, topic.to_owned()))?.as_ref();
        }
        let found = by_topic.entry((route, topic.to_owned())).or_insert_with(|| {
            let of_route = by_pattern.iter().filter(|(other, ..)| *other == route);
            let mut matching = of_route.filter(|(_, pattern, _)| pattern.matches(topic));
            let decoder = &matching.next()?.2;
            Some(decoder.clone_ref(py))
        });
        found.as_ref()
    }
}
