//! The two structs of the Arrow C Data Interface, and their ownership.

use std::ffi::{CString, c_char, c_void};
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

/// Ownership of a struct of the interfaces: a move out of foreign memory, and the release callback at the end.
macro_rules! owned_struct {
    ($name:ident) => {
        impl $name {
            /// Moves the struct out of `from`, which is released afterwards.
            ///
            /// # Safety
            /// `from` points to a struct that conforms to the interface, and no other code uses it meanwhile.
            #[must_use]
            pub unsafe fn take(from: *mut Self) -> Self {
                // SAFETY: by contract. A move is a copy that marks the source as released.
                unsafe {
                    let taken = from.read();
                    (*from).release = None;
                    taken
                }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: a callback means that the struct is live and owned by this value.
                    unsafe { release(self) }
                }
            }
        }
    };
}
pub(crate) use owned_struct;

owned_struct!(ArrowSchema);
owned_struct!(ArrowArray);

// SAFETY: exported data is immutable, and its memory is owned by `Send + Sync` values in `private_data`.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above.
unsafe impl Send for ArrowArray {}

/// Memory owned by a schema node: its children, the array of pointers to them, its dictionary, and strings that are not
/// static.
struct SchemaPrivateData {
    children: Vec<*mut ArrowSchema>,
    dictionary: *mut ArrowSchema,
    _texts: Option<(CString, CString)>,
}

/// Memory owned by an array node: the array of buffer pointers, the children, the dictionary, and the owner of the
/// buffers.
struct ArrayPrivateData {
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    dictionary: *mut ArrowArray,
    _keep_alive: Box<dyn Send + Sync>,
}

impl ArrowSchema {
    /// Returns a released schema, which a foreign function can fill in.
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

    pub(crate) fn new(format: &'static std::ffi::CStr, name: &'static std::ffi::CStr, flags: i64) -> Self {
        Self::with_children(format, name, flags, Vec::new())
    }

    pub(crate) fn with_children(
        format: &'static std::ffi::CStr,
        name: &'static std::ffi::CStr,
        flags: i64,
        children: Vec<ArrowSchema>,
    ) -> Self {
        Self::from_parts(format.as_ptr(), name.as_ptr(), flags, children, None, None)
    }

    /// Creates a schema node whose strings are made at run time.
    pub(crate) fn with_texts(
        format: CString,
        name: CString,
        flags: i64,
        children: Vec<ArrowSchema>,
        dictionary: Option<ArrowSchema>,
    ) -> Self {
        // The heap memory of both stays where it is when they move into the private data.
        let (format_ptr, name_ptr) = (format.as_ptr(), name.as_ptr());
        Self::from_parts(format_ptr, name_ptr, flags, children, dictionary, Some((format, name)))
    }

    fn from_parts(
        format: *const c_char,
        name: *const c_char,
        flags: i64,
        children: Vec<ArrowSchema>,
        dictionary: Option<ArrowSchema>,
        texts: Option<(CString, CString)>,
    ) -> Self {
        let children: Vec<_> = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let dictionary = dictionary.map_or(ptr::null_mut(), |one| Box::into_raw(Box::new(one)));
        let mut owned = Box::new(SchemaPrivateData { children, dictionary, _texts: texts });
        Self {
            format,
            name,
            metadata: ptr::null(),
            flags,
            n_children: i64::try_from(owned.children.len()).unwrap_or(0),
            children: owned.children.as_mut_ptr(),
            dictionary,
            release: Some(release_schema),
            private_data: Box::into_raw(owned).cast(),
        }
    }
}

impl ArrowArray {
    /// Returns a released array, which a foreign function can fill in.
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

    /// Creates an array over `buffers`, which all stay valid as long as `keep_alive` lives.
    pub(crate) fn new(
        length: usize,
        null_count: i64,
        offset: usize,
        buffers: Vec<*const c_void>,
        children: Vec<ArrowArray>,
        keep_alive: Box<dyn Send + Sync>,
    ) -> Self {
        Self::with_dictionary(length, null_count, offset, buffers, children, None, keep_alive)
    }

    /// Creates an array whose values are indices of `dictionary`.
    pub(crate) fn with_dictionary(
        length: usize,
        null_count: i64,
        offset: usize,
        buffers: Vec<*const c_void>,
        children: Vec<ArrowArray>,
        dictionary: Option<ArrowArray>,
        keep_alive: Box<dyn Send + Sync>,
    ) -> Self {
        let children: Vec<_> = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let dictionary = dictionary.map_or(ptr::null_mut(), |one| Box::into_raw(Box::new(one)));
        let mut owned = Box::new(ArrayPrivateData { buffers, children, dictionary, _keep_alive: keep_alive });
        Self {
            length: length.cast_signed() as i64,
            null_count,
            offset: offset.cast_signed() as i64,
            n_buffers: owned.buffers.len().cast_signed() as i64,
            n_children: owned.children.len().cast_signed() as i64,
            buffers: owned.buffers.as_mut_ptr(),
            children: owned.children.as_mut_ptr(),
            dictionary,
            release: Some(release_array),
            private_data: Box::into_raw(owned).cast(),
        }
    }
}

/// Frees a schema node made by this module, and those children that the consumer has not moved out.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the interface promises a valid, unreleased struct; `private_data` is the box that the constructor leaked.
    unsafe {
        let owned: Box<SchemaPrivateData> = Box::from_raw((*schema).private_data.cast());
        for &child in &owned.children {
            drop(Box::from_raw(child)); // a moved-out child has no release callback any more, so its drop does nothing
        }
        if !owned.dictionary.is_null() {
            drop(Box::from_raw(owned.dictionary));
        }
        (*schema).release = None;
        (*schema).private_data = ptr::null_mut();
    }
}

/// Frees an array node made by this module, and those children that the consumer has not moved out.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: as in `release_schema`.
    unsafe {
        let owned: Box<ArrayPrivateData> = Box::from_raw((*array).private_data.cast());
        for &child in &owned.children {
            drop(Box::from_raw(child));
        }
        if !owned.dictionary.is_null() {
            drop(Box::from_raw(owned.dictionary));
        }
        (*array).release = None;
        (*array).private_data = ptr::null_mut();
    }
}
