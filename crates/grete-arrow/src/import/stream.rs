//! Import of streams of arrays.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::{ImportError, ImportedArray};
use crate::c_data::{ArrowArray, ArrowSchema, owned_struct};

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

owned_struct!(ArrowArrayStream);

impl ArrowArrayStream {
    /// Returns the next array; `None`: the end of the stream.
    ///
    /// # Errors
    /// The stream's error, or that the stream was released.
    pub fn next_array(&mut self) -> Result<Option<ImportedArray>, ImportError> {
        let (Some(get_schema), Some(get_next), true) = (self.get_schema, self.get_next, self.release.is_some()) else {
            return Err(ImportError::Released);
        };
        let mut array = ArrowArray::empty();
        // SAFETY: a live stream's callback, with memory for its result.
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
        // SAFETY: both come from one stream that conforms to the interface.
        Ok(Some(unsafe { ImportedArray::new(array, schema) }))
    }

    fn error(&mut self) -> ImportError {
        let text = self.get_last_error.map_or(std::ptr::null(), |get_last_error| {
            // SAFETY: a live stream's callback; its result lives until the next call.
            unsafe { get_last_error(self) }
        });
        if text.is_null() {
            return ImportError::Stream("it does not say why".into());
        }
        // SAFETY: a string, by the interface.
        ImportError::Stream(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}
