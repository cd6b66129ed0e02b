//! Resource usage of this process.

use std::fs;
use std::time::Duration;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;

/// User plus system time of the whole process.
pub fn cpu_time() -> Duration {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is a live, writable timespec with the C layout of 64-bit Linux.
    let failed = unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &raw mut time) } != 0;
    assert!(!failed, "clock_gettime(CLOCK_PROCESS_CPUTIME_ID) failed");
    Duration::new(time.seconds as u64, time.nanoseconds as u32)
}

/// Highest resident set so far in bytes. VmHWM rather than ru_maxrss: the latter keeps the parent's figure across exec.
pub fn peak_rss() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// How often this process, which has one thread, gave up its core by itself.
pub fn voluntary_switches() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
}
