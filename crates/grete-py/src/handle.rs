//! Values that must not be touched in a forked child.

use grete_client::fork_generation;
use pyo3::PyResult;

use crate::errors;

/// A value and the fork generation that it was made in.
///
/// A child inherits the parent's sockets and locks, but not the threads that serve and release them. So in the child
/// a handle refuses to work, and dropping it leaks the value: closing would speak on the parent's connections, and
/// even freeing could wait for a lock that no thread is left to release.
pub(crate) struct Handle<T> {
    value: Option<T>,
    generation: u32,
}

impl<T> Handle<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), generation: fork_generation() }
    }

    /// The value; `ForkedClientError` in a child.
    pub(crate) fn get(&self) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.generation == fork_generation() => Ok(value),
            _ => Err(errors::forked()),
        }
    }

    /// The value in a child, too: for plain memory that is safe to read after a fork.
    pub(crate) fn memory(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("a handle is emptied by its drop only"),
        }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        if self.generation != fork_generation() {
            std::mem::forget(self.value.take());
        }
    }
}
