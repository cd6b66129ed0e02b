//! Whether a static member that is told of another one may have met itself (P29).
//!
//! The coordinator replaces a static member's id whenever somebody joins under its instance id without one, and refuses the
//! old id from then on. Usually that somebody is another process. It is this one when
//! - a JoinGroup of ours without an id was given up (a lost connection, a moved coordinator) and carried out late, after the
//!   one that took its place (KAFKA-20985);
//! - the coordinator that let us in has gone before the generation was complete: its successor has only the log, and in it
//!   the id that we had replaced.
//!
//! Each is forgiven once; a second refusal on the same grounds is another process.

use crate::time::Nanos;

/// Where our member id comes from.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// The coordinator's lookup by which we were let in, until the generation is complete and our id in its log.
    unsettled: Option<u32>,
    /// A JoinGroup without an id was given up, and may be carried out until then.
    unheard_until: Nanos,
}

impl Origin {
    pub fn joined_unheard(&mut self, until: Nanos) {
        self.unheard_until = until;
    }

    pub fn let_in(&mut self, lookup: u32) {
        self.unsettled = Some(lookup);
    }

    pub fn settled(&mut self) {
        self.unsettled = None;
    }

    /// Whether the other member may be ourselves; yes only once for each reason.
    pub fn may_be_our_own(&mut self, now: Nanos, lookup: u32) -> bool {
        let Self { unsettled, unheard_until } = std::mem::take(self);
        now < unheard_until || unsettled.is_some_and(|let_in_by| let_in_by != lookup)
    }
}
