//! Timers of members: sessions, and the time to give up partitions.

use std::sync::Arc;

use super::{ConsumerGroup, RevocationTimer};
use crate::effects::consumer_group::MemberState;
use crate::group::context::Context;
use crate::ids::Millis;

impl ConsumerGroup {
    /// Begins the session of a member again.
    pub(super) fn begin_session(&mut self, ctx: &Context<'_>, member_id: &Arc<str>) {
        let ends = ctx.now + Millis::from(ctx.config.consumer.session_timeout_ms);
        self.sessions.insert(Arc::clone(member_id), ends);
    }

    /// Returns the time of the next timer.
    pub(in crate::group) fn deadline(&self) -> Option<Millis> {
        let revocations = self.revocations.values().map(|timer| timer.at);
        self.sessions.values().copied().chain(revocations).min()
    }

    /// Removes the members whose session ended, and those that kept partitions for longer than their rebalance timeout.
    pub(in crate::group) fn tick(&mut self, ctx: &mut Context<'_>) {
        while let Some((id, timer)) = self.revocations.iter().find(|(_, timer)| timer.at <= ctx.now) {
            let (id, epoch) = (Arc::clone(id), timer.epoch);
            self.revocations.remove(&id);
            if self.members.get(&id).is_some_and(|member| member.epoch == epoch) {
                self.remove(ctx, &id);
            }
        }
        while let Some((id, _)) = self.sessions.iter().find(|(_, ends)| **ends <= ctx.now) {
            let id = Arc::clone(id);
            self.sessions.remove(&id);
            if self.members.contains_key(&id) {
                self.remove(ctx, &id);
            }
        }
    }

    /// Begins all timers again after the group was loaded.
    pub(in crate::group) fn on_loaded(&mut self, ctx: &Context<'_>) {
        let now = ctx.now;
        let session = Millis::from(ctx.config.consumer.session_timeout_ms);
        self.sessions = self.members.keys().map(|id| (Arc::clone(id), now + session)).collect();
        let unrevoked = self.members.values().filter(|member| member.state == MemberState::UnrevokedPartitions);
        let timer = unrevoked.map(|member| {
            let at = now + Millis::from(member.rebalance_timeout_ms.max(0));
            (Arc::clone(&member.member_id), RevocationTimer { at, epoch: member.epoch })
        });
        self.revocations = timer.collect();
    }
}
