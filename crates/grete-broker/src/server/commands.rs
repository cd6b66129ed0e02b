//! Commands of other threads, and the end of the server, as both sides share them.

use std::io;
use std::sync::mpsc;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use grete_sys::{EventFd, fork};

use super::{LogLines, ServerError};
use crate::cluster::Action;
use crate::ids::Millis;

/// Sends the result of a command, after the command's actions have been performed.
pub(super) type Reply = Box<dyn FnOnce() + Send>;

/// Command on the server's thread.
pub(super) type Command<M> = Box<dyn FnOnce(&mut M, Millis, &mut Vec<Action>) -> Reply + Send>;

/// State that the server's thread shares with the other threads.
pub(super) struct Shared<M> {
    state: Mutex<State<M>>,
    has_ended: Condvar,
    wake: EventFd,
    ended: EventFd,
    log: LogLines,
}

struct State<M> {
    commands: Vec<Command<M>>,
    stop: bool,
    /// `Some` once the thread serves nothing more: the reason, or `None` after a stop.
    end: Option<Option<String>>,
}

impl<M> Shared<M> {
    pub(super) fn new(log: LogLines) -> io::Result<Self> {
        let state = State { commands: Vec::new(), stop: false, end: None };
        let (wake, ended) = (EventFd::new()?, EventFd::new()?);
        Ok(Self { state: Mutex::new(state), has_ended: Condvar::new(), wake, ended, log })
    }

    pub(super) fn wake_event(&self) -> &EventFd {
        &self.wake
    }

    pub(super) fn ended_event(&self) -> &EventFd {
        &self.ended
    }

    pub(super) fn log(&self) -> &LogLines {
        &self.log
    }

    pub(super) fn call<R: Send + 'static>(
        &self,
        command: impl FnOnce(&mut M, Millis, &mut Vec<Action>) -> R + Send + 'static,
    ) -> Result<R, ServerError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let command: Command<M> = Box::new(move |machine, now, actions| {
            let result = command(machine, now, actions);
            Box::new(move || {
                let _ = sender.send(result);
            })
        });
        let mut state = self.lock();
        if state.end.is_none() {
            state.commands.push(command);
            self.wake.signal();
        } else {
            drop(command);
        }
        drop(state);
        // The sender is dropped without a result if the server has ended or ends: see `end`.
        receiver.recv().map_err(|_| self.ended_error())
    }

    fn ended_error(&self) -> ServerError {
        ServerError::Ended(self.failure().unwrap_or_else(|| "it was stopped; start a new one".into()))
    }

    pub(super) fn take_commands(&self) -> Vec<Command<M>> {
        std::mem::take(&mut self.lock().commands)
    }

    /// Stops the server and joins its thread, unless the thread is that of a parent process.
    pub(super) fn stop(&self, thread: &Mutex<Option<JoinHandle<()>>>, generation: u32) {
        if generation != fork::generation() {
            return;
        }
        let Some(thread) = thread.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        self.lock().stop = true;
        self.wake.signal();
        let _ = thread.join(); // a panic of the thread is in `failure`
    }

    pub(super) fn is_stop_requested(&self) -> bool {
        self.lock().stop
    }

    /// Ends the service: drops waiting commands, whose callers get an error. The first reason counts.
    pub(super) fn end(&self, failure: Option<String>) {
        let mut state = self.lock();
        if state.end.is_some() {
            return;
        }
        state.end = Some(failure);
        let commands = std::mem::take(&mut state.commands);
        drop(state);
        drop(commands);
        self.has_ended.notify_all();
        self.ended.signal();
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.lock().end.clone().flatten()
    }

    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let state = self.lock();
        let waited = self.has_ended.wait_timeout_while(state, timeout, |state| state.end.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.end.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> std::fmt::Debug for Shared<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("failure", &self.failure()).finish_non_exhaustive()
    }
}
