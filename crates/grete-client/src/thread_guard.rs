//! Network threads: their start, and the drop guard that reports their end.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use grete_net::{EventLoop, Protocol};
use grete_proto::sasl::Wake;

use crate::config::Settings;
use crate::error::ClientError;

/// State of a client that its network thread shares with callers.
pub(crate) trait NetworkThreadOwner: Send + 'static {
    /// Marks the client as failed. The first error is the one that callers see.
    fn fail(&self, error: ClientError);
    /// Fails all pending requests and wakes their callers: the network thread has ended.
    fn finish(&self);
}

/// Drop guard that lives on a network thread. A panic there is a defect of Grete. Without this guard workers and callers
/// would wait silently for a thread that is gone.
pub(crate) struct NetworkThreadGuard<O: NetworkThreadOwner> {
    pub(crate) owner: O,
}

impl<O: NetworkThreadOwner> Drop for NetworkThreadGuard<O> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.owner.fail(ClientError::network_thread_panicked());
        }
        self.owner.finish();
    }
}

/// Starts a network thread, which runs the loop until its protocol is finished. Each change of the client's bearer token
/// wakes the thread.
pub(crate) fn spawn_network_thread<P: Protocol + Send + 'static>(
    name: &str,
    settings: &Settings,
    event_loop: EventLoop<P>,
    owner: impl NetworkThreadOwner,
) -> Result<JoinHandle<()>, ClientError> {
    let guard = NetworkThreadGuard { owner };
    let waker = event_loop.waker();
    let wake: Arc<Wake> = Arc::new(move || waker.wake());
    if let Some(tokens) = settings.tokens() {
        tokens.watch(&wake);
    }
    let run = move || {
        let _watch = wake; // until the thread ends
        if let Err(error) = event_loop.run() {
            guard.owner.fail(ClientError::os("waiting for sockets", &error));
        }
    };
    Builder::new().name(name.into()).spawn(run).map_err(|error| ClientError::os("starting the network thread", &error))
}
