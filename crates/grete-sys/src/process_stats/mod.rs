//! Statistics of this process from the operating system: start, memory, descriptors.
//!
//! `procfs`: Linux. `apple`: macOS. `unknown`: any other Unix, and `--cfg grete_portable` on Linux.
#![allow(unsafe_code)]

#[cfg_attr(all(target_os = "linux", not(grete_portable)), path = "procfs.rs")]
#[cfg_attr(target_vendor = "apple", path = "apple.rs")]
#[cfg_attr(not(any(target_vendor = "apple", all(target_os = "linux", not(grete_portable)))), path = "unknown.rs")]
mod source;

/// Returns the start time of this process in seconds since 1970; `None`: unknown. Linux computes the value anew in each
/// call, and the value changes when the system clock is set. A caller that exports the value must keep the first one.
#[must_use]
pub fn start_time() -> Option<f64> {
    source::start_time()
}

/// Returns the resident bytes; `None`: unknown.
#[must_use]
pub fn rss() -> Option<u64> {
    source::rss()
}

/// Returns the number of open descriptors, without the one that is open for counting; `None`: unknown.
#[must_use]
pub fn open_fds() -> Option<u64> {
    let count = std::fs::read_dir("/dev/fd").ok()?.count();
    u64::try_from(count.saturating_sub(1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_descriptors_are_counted() {
        let _open = std::fs::File::open("/dev/null").expect("a file");
        // Other tests open files, too.
        assert!(open_fds().expect("a directory of descriptors") >= 4);
    }

    #[cfg(all(target_os = "linux", grete_portable))]
    #[test]
    fn what_is_unknown_is_left_out() {
        assert_eq!((start_time(), rss()), (None, None));
    }
}
