//! Functions of the GSSAPI library (RFC 2744), found at run time, behind types that release what they own.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::slice;
use std::sync::OnceLock;

/// Names under which the library is looked for: that of MIT Kerberos, then that of Heimdal.
const NAMES: [&CStr; 2] = [c"libgssapi_krb5.so.2", c"libgssapi.so.3"];

const GSS_C_INITIATE: c_int = 1;
const GSS_C_INDEFINITE: u32 = u32::MAX;
const GSS_C_MUTUAL_FLAG: u32 = 2;
const GSS_C_REPLAY_FLAG: u32 = 4;
const GSS_C_SEQUENCE_FLAG: u32 = 8;
const GSS_C_INTEG_FLAG: u32 = 32;
/// Proofs that both sides need: who the broker is, and that the last two messages were not changed on the way.
const FLAGS: u32 = GSS_C_MUTUAL_FLAG | GSS_C_REPLAY_FLAG | GSS_C_SEQUENCE_FLAG | GSS_C_INTEG_FLAG;
/// Flags without which a complete context is not trusted.
const NEEDED: u32 = GSS_C_MUTUAL_FLAG | GSS_C_INTEG_FLAG;
/// Part of a major status that is an error; the other bits are supplementary.
const ERRORS: u32 = 0xffff_0000;
const GSS_C_GSS_CODE: c_int = 1;
const GSS_C_MECH_CODE: c_int = 2;
/// Lines of text for one status, beyond which the library is not asked for more.
const MAX_STATUS_LINES: usize = 4;

/// Error of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// Major status: the error in terms of GSSAPI.
    pub(super) major: u32,
    /// Minor status: the error in terms of Kerberos.
    pub(super) minor: u32,
    /// Text of the library.
    pub(super) text: String,
}

/// Kind of a name.
#[derive(Debug, Clone, Copy)]
pub(super) enum NameKind {
    /// `kafka@host.example.com`
    Service,
    /// `alice@EXAMPLE.COM`
    Principal,
}

#[repr(C)]
struct Buffer {
    length: usize,
    value: *mut c_void,
}

impl Buffer {
    const EMPTY: Self = Self { length: 0, value: null_mut() };

    /// Refers to bytes that the library only reads, and that live longer than the call.
    fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }
}

#[repr(C)]
struct Oid {
    length: u32,
    elements: *const c_void,
}

// SAFETY: the elements are bytes of a static that never changes.
unsafe impl Sync for Oid {}

impl Oid {
    const fn of(bytes: &'static [u8]) -> Self {
        Self { length: bytes.len() as u32, elements: bytes.as_ptr().cast() }
    }
}

/// 1.2.840.113554.1.2.2: the mechanism Kerberos 5 (RFC 4121).
static KERBEROS: Oid = Oid::of(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02");
/// 1.2.840.113554.1.2.1.4: a name of the kind service@host.
static SERVICE: Oid = Oid::of(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04");
/// 1.2.840.113554.1.2.2.1: a principal.
static PRINCIPAL: Oid = Oid::of(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01");

#[repr(C)]
struct OidSet {
    count: usize,
    elements: *const Oid,
}

#[repr(C)]
struct KeyValue {
    key: *const c_char,
    value: *const c_char,
}

#[repr(C)]
struct KeyValueSet {
    count: u32,
    elements: *const KeyValue,
}

type Handle = *mut c_void;
type ImportName = unsafe extern "C" fn(*mut u32, *const Buffer, *const Oid, *mut Handle) -> u32;
type Release = unsafe extern "C" fn(*mut u32, *mut Handle) -> u32;
type ReleaseBuffer = unsafe extern "C" fn(*mut u32, *mut Buffer) -> u32;
type DisplayStatus = unsafe extern "C" fn(*mut u32, u32, c_int, *const Oid, *mut u32, *mut Buffer) -> u32;
type AcquireCred =
    unsafe extern "C" fn(*mut u32, Handle, u32, *const OidSet, c_int, *mut Handle, *mut *mut OidSet, *mut u32) -> u32;
type AcquireCredFrom = unsafe extern "C" fn(
    *mut u32,
    Handle,
    u32,
    *const OidSet,
    c_int,
    *const KeyValueSet,
    *mut Handle,
    *mut *mut OidSet,
    *mut u32,
) -> u32;
type InitSecContext = unsafe extern "C" fn(
    *mut u32,
    Handle,
    *mut Handle,
    Handle,
    *const Oid,
    u32,
    u32,
    *const c_void,
    *const Buffer,
    *mut *mut Oid,
    *mut Buffer,
    *mut u32,
    *mut u32,
) -> u32;
type DeleteSecContext = unsafe extern "C" fn(*mut u32, *mut Handle, *mut Buffer) -> u32;
type Wrap = unsafe extern "C" fn(*mut u32, Handle, c_int, u32, *const Buffer, *mut c_int, *mut Buffer) -> u32;
type Unwrap = unsafe extern "C" fn(*mut u32, Handle, *const Buffer, *mut Buffer, *mut c_int, *mut u32) -> u32;

/// Loaded library.
pub(super) struct Library {
    /// Name of its file.
    pub(super) name: &'static str,
    import_name: ImportName,
    release_name: Release,
    release_cred: Release,
    release_buffer: ReleaseBuffer,
    display_status: DisplayStatus,
    acquire_cred: AcquireCred,
    /// `None`: the library knows no stores of credentials (MIT Kerberos before 1.11, Heimdal 7).
    acquire_cred_from: Option<AcquireCredFrom>,
    init_sec_context: InitSecContext,
    delete_sec_context: DeleteSecContext,
    wrap: Wrap,
    unwrap: Unwrap,
}

/// Returns the library of this process; loads it at the first use. The error names each file and what is wrong.
pub(super) fn library() -> Result<&'static Library, String> {
    static LOADED: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LOADED.get() {
        return Ok(library);
    }
    let library = Library::open(&NAMES)?;
    Ok(LOADED.get_or_init(|| library))
}

impl Library {
    /// Loads the first of these files that is a GSSAPI library.
    pub(super) fn open(names: &[&'static CStr]) -> Result<Self, String> {
        let mut problems = Vec::new();
        for name in names {
            match Self::open_one(name) {
                Ok(library) => return Ok(library),
                Err(problem) => problems.push(problem),
            }
        }
        Err(problems.join("; "))
    }

    fn open_one(name: &'static CStr) -> Result<Self, String> {
        // SAFETY: the name is a C string. Initializers of the library run, as they do for a program that links it. The
        // handle is never closed, so all symbols stay valid.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE) };
        if handle.is_null() {
            return Err(last_dl_error());
        }
        let name = name.to_str().unwrap_or_default();
        let find = |symbol: &CStr| {
            // SAFETY: an open handle and a C string.
            let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
            if found.is_null() { Err(format!("{name} has no {}", symbol.to_string_lossy())) } else { Ok(found) }
        };
        // SAFETY: each symbol is the function of this name of RFC 2744 (gss_acquire_cred_from: of MIT Kerberos and
        // Heimdal 8), and the types above are their declarations on Linux. A data pointer and a function pointer have
        // the same representation there.
        unsafe {
            Ok(Self {
                name,
                import_name: std::mem::transmute::<Handle, ImportName>(find(c"gss_import_name")?),
                release_name: std::mem::transmute::<Handle, Release>(find(c"gss_release_name")?),
                release_cred: std::mem::transmute::<Handle, Release>(find(c"gss_release_cred")?),
                release_buffer: std::mem::transmute::<Handle, ReleaseBuffer>(find(c"gss_release_buffer")?),
                display_status: std::mem::transmute::<Handle, DisplayStatus>(find(c"gss_display_status")?),
                acquire_cred: std::mem::transmute::<Handle, AcquireCred>(find(c"gss_acquire_cred")?),
                acquire_cred_from: find(c"gss_acquire_cred_from")
                    .ok()
                    .map(|found| std::mem::transmute::<Handle, AcquireCredFrom>(found)),
                init_sec_context: std::mem::transmute::<Handle, InitSecContext>(find(c"gss_init_sec_context")?),
                delete_sec_context: std::mem::transmute::<Handle, DeleteSecContext>(find(c"gss_delete_sec_context")?),
                wrap: std::mem::transmute::<Handle, Wrap>(find(c"gss_wrap")?),
                unwrap: std::mem::transmute::<Handle, Unwrap>(find(c"gss_unwrap")?),
            })
        }
    }

    /// Returns whether credentials can come from a given keytab or ticket cache.
    pub(super) fn has_stores(&self) -> bool {
        self.acquire_cred_from.is_some()
    }

    /// Reads a name.
    pub(super) fn name_of(&'static self, text: &str, kind: NameKind) -> Result<Name, Problem> {
        let mut name = Name { library: self, handle: null_mut() };
        let mut minor = 0;
        let kind = match kind {
            NameKind::Service => &SERVICE,
            NameKind::Principal => &PRINCIPAL,
        };
        // SAFETY: the buffer and the OID live longer than the call; minor and handle are valid out pointers.
        let major =
            unsafe { (self.import_name)(&raw mut minor, &Buffer::of(text.as_bytes()), kind, &raw mut name.handle) };
        self.check(major, minor).map(|_| name)
    }

    /// Gets credentials to log in with. `store`: where they come from, as keys of the library and values; empty: the
    /// library's own places.
    pub(super) fn credentials(
        &'static self,
        principal: Option<&Name>,
        store: &[(&CStr, CString)],
    ) -> Result<Credentials, Problem> {
        let mut credentials = Credentials { library: self, handle: null_mut() };
        let mechanisms = OidSet { count: 1, elements: &raw const KERBEROS };
        let name = principal.map_or(null_mut(), |name| name.handle);
        let elements: Vec<_> =
            store.iter().map(|(key, value)| KeyValue { key: key.as_ptr(), value: value.as_ptr() }).collect();
        let set = KeyValueSet { count: elements.len() as u32, elements: elements.as_ptr() };
        let (mut minor, handle) = (0, &raw mut credentials.handle);
        let major = match self.acquire_cred_from {
            // SAFETY: name, set and mechanisms live longer than the call, which copies what it keeps; minor and handle
            // are valid out pointers, and null says that the other results are not wanted.
            Some(acquire) if !store.is_empty() => unsafe {
                acquire(
                    &raw mut minor,
                    name,
                    GSS_C_INDEFINITE,
                    &raw const mechanisms,
                    GSS_C_INITIATE,
                    &raw const set,
                    handle,
                    null_mut(),
                    null_mut(),
                )
            },
            // SAFETY: as above.
            _ => unsafe {
                (self.acquire_cred)(
                    &raw mut minor,
                    name,
                    GSS_C_INDEFINITE,
                    &raw const mechanisms,
                    GSS_C_INITIATE,
                    handle,
                    null_mut(),
                    null_mut(),
                )
            },
        };
        self.check(major, minor).map(|_| credentials)
    }

    /// Returns the major status, or the error with the library's text for it. Must be the next call after the failed
    /// one: the library keeps the text for each thread.
    fn check(&self, major: u32, minor: u32) -> Result<u32, Problem> {
        if major & ERRORS == 0 {
            return Ok(major);
        }
        let mut text = self.status_text(minor, GSS_C_MECH_CODE);
        // A token that cannot be read has no error of Kerberos.
        if minor == 0 || text.is_empty() || text == "Success" {
            text = self.status_text(major, GSS_C_GSS_CODE);
        }
        Err(Problem { major, minor, text })
    }

    fn status_text(&self, code: u32, kind: c_int) -> String {
        let mut lines: Vec<String> = Vec::new();
        let mut more = 0;
        for _ in 0..MAX_STATUS_LINES {
            let (mut minor, mut buffer) = (0, Buffer::EMPTY);
            // SAFETY: all out pointers are valid, and the OID is static.
            let major = unsafe {
                (self.display_status)(&raw mut minor, code, kind, &raw const KERBEROS, &raw mut more, &raw mut buffer)
            };
            let line = String::from_utf8_lossy(&self.taken(buffer)).into_owned();
            if major & ERRORS != 0 {
                break;
            }
            if !line.is_empty() {
                lines.push(line);
            }
            if more == 0 {
                break;
            }
        }
        lines.join(", ")
    }

    /// Copies a buffer that the library has filled, and releases it.
    fn taken(&self, mut buffer: Buffer) -> Vec<u8> {
        let bytes = if buffer.value.is_null() || buffer.length == 0 {
            Vec::new()
        } else {
            // SAFETY: the library has filled the buffer with this many bytes, and it is not released yet.
            unsafe { slice::from_raw_parts(buffer.value.cast::<u8>(), buffer.length) }.to_vec()
        };
        let mut minor = 0;
        // SAFETY: the buffer is one of the library, or empty, which is allowed.
        unsafe { (self.release_buffer)(&raw mut minor, &raw mut buffer) };
        bytes
    }
}

/// Returns the text of the last failed dlopen.
fn last_dl_error() -> String {
    // SAFETY: dlerror takes nothing; it returns null or a C string that lives until the next call on this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the library cannot be loaded".to_owned();
    }
    // SAFETY: not null, so a C string, which is copied at once.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Name of a principal.
pub(super) struct Name {
    library: &'static Library,
    handle: Handle,
}

impl Drop for Name {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the handle is one of the library, released once, or null, which is allowed.
        unsafe { (self.library.release_name)(&raw mut minor, &raw mut self.handle) };
    }
}

/// Credentials of the client.
pub(super) struct Credentials {
    library: &'static Library,
    handle: Handle,
}

impl Drop for Credentials {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the handle is one of the library, released once, or null, which is allowed.
        unsafe { (self.library.release_cred)(&raw mut minor, &raw mut self.handle) };
    }
}

/// Next token of a context.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) token: Vec<u8>,
    pub(super) is_complete: bool,
    /// Whether the broker has proved who it is, and messages can be signed; only of a complete context.
    pub(super) is_trusted: bool,
}

/// Context of one login: the client's side.
pub(super) struct Context {
    library: &'static Library,
    handle: Handle,
    credentials: Credentials,
    target: Name,
}

impl Context {
    pub(super) fn new(library: &'static Library, credentials: Credentials, target: Name) -> Self {
        Self { library, handle: null_mut(), credentials, target }
    }

    /// Takes the broker's token (`None`: there is none yet) and makes the next one of the client.
    pub(super) fn step(&mut self, input: Option<&[u8]>) -> Result<Step, Problem> {
        let input = input.map(Buffer::of);
        let (mut minor, mut output, mut flags) = (0, Buffer::EMPTY, 0);
        // SAFETY: credentials, context and target are handles of the library (the context is null at the first call, as
        // asked for); the input lives longer than the call; the out pointers are valid, and null says that a result is
        // not wanted.
        let major = unsafe {
            (self.library.init_sec_context)(
                &raw mut minor,
                self.credentials.handle,
                &raw mut self.handle,
                self.target.handle,
                &raw const KERBEROS,
                FLAGS,
                0,
                null(),
                input.as_ref().map_or(null(), |input| input),
                null_mut(),
                &raw mut output,
                &raw mut flags,
                null_mut(),
            )
        };
        let checked = self.library.check(major, minor);
        let token = self.library.taken(output);
        let major = checked?;
        Ok(Step { token, is_complete: major == 0, is_trusted: flags & NEEDED == NEEDED })
    }

    /// Signs a message; encrypts nothing.
    pub(super) fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Problem> {
        let (mut minor, mut output) = (0, Buffer::EMPTY);
        // SAFETY: the context is a handle of the library, or null, which is an error; the message lives longer than the
        // call, and the out pointers are valid.
        let major = unsafe {
            let input = Buffer::of(message);
            (self.library.wrap)(&raw mut minor, self.handle, 0, 0, &raw const input, null_mut(), &raw mut output)
        };
        let checked = self.library.check(major, minor);
        let wrapped = self.library.taken(output);
        checked.map(|_| wrapped)
    }

    /// Checks the signature of a message and returns its content.
    pub(super) fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Problem> {
        let (mut minor, mut output) = (0, Buffer::EMPTY);
        // SAFETY: as for `wrap`.
        let major = unsafe {
            let input = Buffer::of(message);
            (self.library.unwrap)(
                &raw mut minor,
                self.handle,
                &raw const input,
                &raw mut output,
                null_mut(),
                null_mut(),
            )
        };
        let checked = self.library.check(major, minor);
        let content = self.library.taken(output);
        checked.map(|_| content)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            let mut minor = 0;
            // SAFETY: the handle is one of the library, deleted once; no token for the broker is wanted.
            unsafe { (self.library.delete_sec_context)(&raw mut minor, &raw mut self.handle, null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_or_another_one_is_named() {
        let error = Library::open(&[c"libgrete-has-none.so.9", c"libc.so.6"]).err().expect("none is GSSAPI");
        assert!(error.contains("libgrete-has-none.so.9") && error.contains("cannot open"), "{error}");
        #[cfg(target_env = "gnu")]
        assert!(error.contains("libc.so.6 has no gss_import_name"), "{error}");
    }
}
