//! Statistics of this process from libproc, on macOS.

use std::mem::MaybeUninit;

pub fn start_time() -> Option<f64> {
    let found = info::<libc::proc_bsdinfo>(libc::PROC_PIDTBSDINFO)?;
    Some(found.pbi_start_tvsec as f64 + found.pbi_start_tvusec as f64 / 1e6)
}

pub fn rss() -> Option<u64> {
    Some(info::<libc::proc_taskinfo>(libc::PROC_PIDTASKINFO)?.pti_resident_size)
}

/// Returns one kind of information about this process. `T`: the struct that libproc fills in for `flavor`.
fn info<T>(flavor: libc::c_int) -> Option<T> {
    let mut found = MaybeUninit::<T>::uninit();
    let size = libc::c_int::try_from(size_of::<T>()).ok()?;
    let pid = libc::pid_t::try_from(std::process::id()).ok()?;
    // SAFETY: the buffer has `size` bytes, and libproc writes at most as many.
    let written = unsafe { libc::proc_pidinfo(pid, flavor, 0, found.as_mut_ptr().cast(), size) };
    // SAFETY: all bytes were written, and both structs consist of plain numbers.
    (written == size).then(|| unsafe { found.assume_init() })
}
