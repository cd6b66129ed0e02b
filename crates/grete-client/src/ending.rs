//! The network thread's last word. However it ends, whoever waits for it hears of it.

use std::sync::Arc;

use grete_core::consumer::ConsumerEvent;

use crate::command::Commands;
use crate::dispatcher::Dispatcher;
use crate::error::ClientError;

/// Lives on the network thread. A panic there is a fault of ours; without this word it would be a stall in silence:
/// workers would sleep, and questions wait, for a thread that is gone.
pub(crate) struct Ending {
    pub(crate) commands: Arc<Commands<ConsumerEvent>>,
    pub(crate) dispatcher: Dispatcher,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dispatcher.fail(ClientError::fault());
        }
        self.commands.end();
    }
}
