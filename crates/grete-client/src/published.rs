//! Cell for values that one thread publishes and other threads read.

use std::sync::{Mutex, PoisonError};

/// Value that was published last. The lock is held only for a copy, so a thread that holds the interpreter lock may read
/// the value without waiting.
#[derive(Debug, Default)]
pub(crate) struct Published<T>(Mutex<T>);

impl<T: Clone> Published<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn publish(&self, value: T) {
        self.update(|published| *published = value);
    }

    /// Changes the value under the lock.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn get(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
