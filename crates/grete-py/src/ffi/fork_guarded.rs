//! Drop guard for values that a forked child must not touch.

use grete_client::fork_generation;
use pyo3::PyResult;

use crate::errors;

/// Value with the fork generation that it was made in.
///
/// A child inherits the parent's sockets and locks, but not the threads that serve and release them. So a handle
/// refuses to work in a child, and its drop leaks the value: closing would write to the parent's connections, and even
/// freeing could wait for a lock that no thread is left to release.
pub(crate) struct ForkGuarded<T> {
    value: Option<T>,
    generation: u32,
}

impl<T> ForkGuarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), generation: fork_generation() }
    }

    /// Returns the value, or `ForkedClientError` in a child.
    pub(crate) fn get(&self) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.generation == fork_generation() => Ok(value),
            _ => Err(errors::forked()),
        }
    }

    /// Returns the value in a child, too: for plain memory that is safe to read after a fork.
    pub(crate) fn get_unguarded(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("a handle is emptied by its drop only"),
        }
    }
}

impl<T> Drop for ForkGuarded<T> {
    fn drop(&mut self) {
        if self.generation != fork_generation() {
            std::mem::forget(self.value.take());
        }
    }
}
