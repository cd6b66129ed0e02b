//! Callers that sleep because another one leads, or because too many wait for one of them to lead.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of sleeping callers beside which another one may lead. A leader wakes all others before it returns, where the
/// network thread wakes them while the first ones run already.
const MAX_SLEEPING: u32 = 4;
/// Number of waits with fewer sleeping callers, after which one leads again.
const WAITS_UNTIL_LEAD: u32 = 64;

/// Count of sleeping callers, and estimate of whether many wait at once. Only the cost depends on the estimate, so its
/// words need not agree.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    sleeping: AtomicU32,
    /// Number of waits until a caller may lead again.
    left: AtomicU32,
}

impl Crowd {
    pub(super) fn begin_sleep(&self) {
        self.sleeping.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn end_sleep(&self) {
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sleeping.load(Ordering::SeqCst) == 0
    }

    /// Returns whether a caller that begins to wait may lead.
    pub(super) fn may_lead(&self) -> bool {
        if self.sleeping.load(Ordering::Relaxed) >= MAX_SLEEPING {
            self.left.store(WAITS_UNTIL_LEAD, Ordering::Relaxed);
            return false;
        }
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_leads_beside_few_others() {
        let crowd = Crowd::default();
        (1..MAX_SLEEPING).for_each(|_| crowd.begin_sleep());
        assert!(crowd.may_lead() && !crowd.is_empty());
    }

    #[test]
    fn no_caller_leads_soon_after_many_have_waited() {
        let crowd = Crowd::default();
        (0..MAX_SLEEPING).for_each(|_| crowd.begin_sleep());
        assert!(!crowd.may_lead());
        (0..MAX_SLEEPING).for_each(|_| crowd.end_sleep());
        assert!(crowd.is_empty());
        assert!((0..WAITS_UNTIL_LEAD).all(|_| !crowd.may_lead()));
        assert!(crowd.may_lead());
    }
}
