//! Streams of arrays.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::{ImportError, Imported};
use crate::abi::{ArrowArray, ArrowSchema};

/// `struct ArrowArrayStream` of the Arrow C Stream Interface. Dropping it calls its release callback.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

impl ArrowArrayStream {
    /// Takes the stream over from `from`, which is released then.
    ///
    /// # Safety
    /// `from` points to a stream that keeps to the interface, and nobody else uses it meanwhile.
    #[must_use]
    pub unsafe fn take(from: *mut Self) -> Self {
        // SAFETY: by contract. Moving is a copy after which the source is marked as released.
        unsafe {
            let taken = from.read();
            (*from).release = None;
            taken
        }
    }

    /// The next array; `None` at the end.
    ///
    /// # Errors
    /// What the stream says.
    pub fn next_array(&mut self) -> Result<Option<Imported>, ImportError> {
        let (Some(get_schema), Some(get_next), true) = (self.get_schema, self.get_next, self.release.is_some()) else {
            return Err(ImportError::Released);
        };
        let mut array = ArrowArray::empty();
        // SAFETY: a live stream's callback, with room for what it gives.
        if unsafe { get_next(self, &raw mut array) } != 0 {
            return Err(self.error());
        }
        if array.release.is_none() {
            return Ok(None);
        }
        let mut schema = ArrowSchema::empty();
        // SAFETY: as above.
        if unsafe { get_schema(self, &raw mut schema) } != 0 {
            return Err(self.error());
        }
        // SAFETY: both come from one stream that keeps to the interface.
        Ok(Some(unsafe { Imported::new(array, schema) }))
    }

    fn error(&mut self) -> ImportError {
        let text = self.get_last_error.map_or(std::ptr::null(), |get_last_error| {
            // SAFETY: a live stream's callback; what it points to lives until the next call.
            unsafe { get_last_error(self) }
        });
        if text.is_null() {
            return ImportError::Stream("it does not say why".into());
        }
        // SAFETY: a string, by the interface.
        ImportError::Stream(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

impl Drop for ArrowArrayStream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a present callback means that the stream is live and ours to release.
            unsafe { release(self) }
        }
    }
}
