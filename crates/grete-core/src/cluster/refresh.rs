//! When the metadata is asked for: one request at a time, never in a tight loop.

use super::config::ClusterConfig;
use crate::rng::{Backoff, Rng};
use crate::time::Nanos;

/// How much is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// What is known is good enough.
    Nothing,
    /// Topics of interest that nobody has spoken of yet.
    NewTopics,
    /// Brokers and all topics of interest.
    All,
}

/// The timing of metadata requests.
#[derive(Debug)]
pub(crate) struct Refresh {
    wanted: Scope,
    /// Backoff: not before.
    not_before: Nanos,
    backoff: Backoff,
    max_backoff: Nanos,
    max_age: Nanos,
    /// A question is on its way.
    asked: bool,
    last_success: Option<Nanos>,
    /// When the metadata was first missed since it was last had.
    missed_since: Option<Nanos>,
    sequence: u32,
}

impl Refresh {
    pub(crate) fn new(config: &ClusterConfig) -> Self {
        Self {
            wanted: Scope::All,
            not_before: 0,
            backoff: Backoff::new(config.retry_backoff, config.retry_backoff_max),
            max_backoff: config.retry_backoff_max,
            max_age: config.metadata_max_age,
            asked: false,
            last_success: None,
            missed_since: None,
            sequence: 0,
        }
    }

    /// Something is found to be missing or stale.
    pub(crate) fn want(&mut self, now: Nanos, scope: Scope) {
        if now >= self.not_before.saturating_add(self.max_backoff) {
            self.backoff.reset();
        }
        self.wanted = self.wanted.max(scope);
        self.missed_since.get_or_insert(now);
    }

    /// New topics need not wait for the backoff of the old ones.
    pub(crate) fn want_new_topics(&mut self, now: Nanos) {
        if self.wanted == Scope::Nothing {
            self.not_before = self.not_before.min(now);
        }
        self.want(now, Scope::NewTopics);
    }

    /// Metadata grows old.
    pub(crate) fn tick(&mut self, now: Nanos) {
        let quiet = !self.asked && self.wanted == Scope::Nothing;
        if quiet && self.last_success.is_some_and(|last| now >= last.saturating_add(self.max_age)) {
            self.want(now, Scope::All);
        }
    }

    /// What has to be asked now, if anything.
    pub(crate) fn due(&self, now: Nanos) -> Option<Scope> {
        (!self.asked && self.wanted != Scope::Nothing && now >= self.not_before).then_some(self.wanted)
    }

    /// The question is on its way; returns the id of its token.
    pub(crate) fn asked(&mut self) -> u32 {
        self.asked = true;
        self.wanted = Scope::Nothing;
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Whether that answer is the one that is waited for.
    pub(crate) fn awaits(&self, id: u32) -> bool {
        self.asked && self.sequence == id
    }

    /// No answer of use came.
    pub(crate) fn failed(&mut self, now: Nanos, rng: &mut Rng) {
        self.asked = false;
        self.not_before = now.saturating_add(self.backoff.next(rng));
        self.want(now, Scope::All);
    }

    /// An answer came. `progress`: it changed something and left nothing open; `incomplete`: ask again.
    pub(crate) fn succeeded(&mut self, now: Nanos, progress: bool, incomplete: bool, rng: &mut Rng) {
        self.asked = false;
        self.last_success = Some(now);
        self.missed_since = None;
        if progress {
            self.backoff.reset();
        }
        if self.wanted == Scope::NewTopics {
            // Named while the answer was on its way: it could not speak of them, so they need not wait.
            self.not_before = now;
            self.missed_since = Some(now);
            return;
        }
        self.not_before = now.saturating_add(self.backoff.next(rng));
        if incomplete {
            self.want(now, Scope::All);
        } else if self.wanted != Scope::Nothing {
            self.missed_since = Some(now); // asked for while the answer was on its way
        }
    }

    /// Whether an answer has ever come.
    pub(crate) fn ever(&self) -> bool {
        self.last_success.is_some()
    }

    /// Since when the metadata is wanted in vain.
    pub(crate) fn missed_since(&self) -> Option<Nanos> {
        self.missed_since
    }

    /// When the wait for something better starts anew.
    pub(crate) fn restart_wait(&mut self, now: Nanos) {
        self.missed_since = Some(now);
    }

    /// When something is to be done, other than waiting for an answer or a broker.
    pub(crate) fn deadline(&self, now: Nanos) -> Option<Nanos> {
        if self.asked {
            None
        } else if self.wanted == Scope::Nothing {
            self.last_success.map(|last| last.saturating_add(self.max_age))
        } else {
            (self.not_before > now).then_some(self.not_before)
        }
    }
}
