//! Operating system clocks.
#![allow(unsafe_code)]

use std::time::Duration;

/// Returns `CLOCK_MONOTONIC` in nanoseconds; 0 if the system has no such clock. All processes of a machine share this
/// clock, and nothing can set it.
#[must_use]
pub fn monotonic_nanos() -> u64 {
    read(libc::CLOCK_MONOTONIC).and_then(|time| u64::try_from(time.as_nanos()).ok()).unwrap_or(0)
}

/// Returns the CPU time of all threads of this process; `None` if the system call fails.
#[must_use]
pub fn cpu_time() -> Option<Duration> {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the time since the system was started, including suspension; `None` if the system call fails.
#[cfg(target_os = "linux")]
#[must_use]
pub fn since_boot() -> Option<Duration> {
    read(libc::CLOCK_BOOTTIME)
}

fn read(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live and written by clock_gettime.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance() {
        let before = monotonic_nanos();
        assert!(before > 0 && monotonic_nanos() >= before);
        assert!(cpu_time().is_some());
        #[cfg(target_os = "linux")]
        assert!(since_boot().is_some());
    }
}
