//! The network thread's last word. However it ends, whoever waits for it hears of it.

use std::sync::Arc;

use super::shared::Shared;
use crate::error::ClientError;

/// Lives on the network thread. A panic there is a fault of ours; without this word it would be a stall in silence: callers
/// would sleep on receipts that nobody is left to settle.
pub(super) struct Ending {
    pub(super) shared: Arc<Shared>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.fail(ClientError::fault());
        }
        self.shared.finish();
    }
}
