//! The two C structs and who frees what.

use std::ffi::{c_char, c_void};
use std::ptr;

/// `struct ArrowSchema` of the Arrow C Data Interface. Dropping it calls its release callback.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowSchema {
    pub(crate) format: *const c_char,
    pub(crate) name: *const c_char,
    pub(crate) metadata: *const c_char,
    pub(crate) flags: i64,
    pub(crate) n_children: i64,
    pub(crate) children: *mut *mut ArrowSchema,
    pub(crate) dictionary: *mut ArrowSchema,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub(crate) private_data: *mut c_void,
}

/// `struct ArrowArray` of the Arrow C Data Interface. Dropping it calls its release callback.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowArray {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    pub(crate) n_buffers: i64,
    pub(crate) n_children: i64,
    pub(crate) buffers: *mut *const c_void,
    pub(crate) children: *mut *mut ArrowArray,
    pub(crate) dictionary: *mut ArrowArray,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(crate) private_data: *mut c_void,
}

// SAFETY: what we export is immutable, and what it points to is owned by `Send + Sync` values in `private_data`.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above.
unsafe impl Send for ArrowArray {}

/// What a schema node owns: its children and the array of pointers to them.
struct SchemaOwned {
    children: Vec<*mut ArrowSchema>,
}

/// What an array node owns: the array of buffer pointers, the children, and whatever the buffers point into.
struct ArrayOwned {
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    _keep_alive: Box<dyn Send + Sync>,
}

impl ArrowSchema {
    /// A released one: room for somebody else's.
    pub(crate) fn empty() -> Self {
        Self {
            format: ptr::null(),
            name: ptr::null(),
            metadata: ptr::null(),
            flags: 0,
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }

    /// Takes a schema over from `from`, which is released then.
    ///
    /// # Safety
    /// `from` points to a schema that keeps to the interface, and nobody else uses it meanwhile.
    #[must_use]
    pub unsafe fn take(from: *mut Self) -> Self {
        // SAFETY: by contract. Moving is a copy after which the source is marked as released.
        unsafe {
            let taken = from.read();
            (*from).release = None;
            taken
        }
    }

    pub(crate) fn new(format: &'static std::ffi::CStr, name: &'static std::ffi::CStr, flags: i64) -> Self {
        Self::with_children(format, name, flags, Vec::new())
    }

    pub(crate) fn with_children(
        format: &'static std::ffi::CStr,
        name: &'static std::ffi::CStr,
        flags: i64,
        children: Vec<ArrowSchema>,
    ) -> Self {
        let children: Vec<_> = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let mut owned = Box::new(SchemaOwned { children });
        Self {
            format: format.as_ptr(),
            name: name.as_ptr(),
            metadata: ptr::null(),
            flags,
            n_children: i64::try_from(owned.children.len()).unwrap_or(0),
            children: owned.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private_data: Box::into_raw(owned).cast(),
        }
    }
}

impl ArrowArray {
    /// A released one: room for somebody else's.
    pub(crate) fn empty() -> Self {
        Self {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null_mut(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }

    /// Takes an array over from `from`, which is released then.
    ///
    /// # Safety
    /// `from` points to an array that keeps to the interface, and nobody else uses it meanwhile.
    #[must_use]
    pub unsafe fn take(from: *mut Self) -> Self {
        // SAFETY: by contract. Moving is a copy after which the source is marked as released.
        unsafe {
            let taken = from.read();
            (*from).release = None;
            taken
        }
    }

    /// An array over `buffers`, all of which stay valid for as long as `keep_alive` does.
    pub(crate) fn new(
        length: usize,
        null_count: i64,
        offset: usize,
        buffers: Vec<*const c_void>,
        children: Vec<ArrowArray>,
        keep_alive: Box<dyn Send + Sync>,
    ) -> Self {
        let children: Vec<_> = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let mut owned = Box::new(ArrayOwned { buffers, children, _keep_alive: keep_alive });
        Self {
            length: length.cast_signed() as i64,
            null_count,
            offset: offset.cast_signed() as i64,
            n_buffers: owned.buffers.len().cast_signed() as i64,
            n_children: owned.children.len().cast_signed() as i64,
            buffers: owned.buffers.as_mut_ptr(),
            children: owned.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(owned).cast(),
        }
    }
}

/// Frees one schema node made by this module, and those children that the consumer has not moved out.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the interface promises a valid, unreleased struct; `private_data` is the box that the constructor leaked.
    unsafe {
        let owned: Box<SchemaOwned> = Box::from_raw((*schema).private_data.cast());
        for &child in &owned.children {
            drop(Box::from_raw(child)); // a moved-out child has no release callback left, so its drop is nothing
        }
        (*schema).release = None;
        (*schema).private_data = ptr::null_mut();
    }
}

/// Frees one array node made by this module, and those children that the consumer has not moved out.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: as in `release_schema`.
    unsafe {
        let owned: Box<ArrayOwned> = Box::from_raw((*array).private_data.cast());
        for &child in &owned.children {
            drop(Box::from_raw(child));
        }
        (*array).release = None;
        (*array).private_data = ptr::null_mut();
    }
}

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a present callback means that the struct is live and ours to release.
            unsafe { release(self) }
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a present callback means that the struct is live and ours to release.
            unsafe { release(self) }
        }
    }
}
