//! OS statistics of this process, from `/proc`.

use std::fs::{self, File};
use std::io::Read;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::metrics::ProcessMetrics;
use crate::sys;

/// Returns the start time of this process in seconds since 1970; `None`: the system has no `/proc`. The value is
/// computed anew in each call, and changes when the system clock is set. A caller that exports the value must keep the
/// first one.
#[must_use]
pub(crate) fn start_time() -> Option<f64> {
    let stat = fs::read("/proc/self/stat").ok()?;
    let since_boot = Duration::from_secs_f64(start_ticks(&stat)? as f64 / sys::ticks_per_second());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some((now.checked_sub(grete_sys::clock::since_boot()?)? + since_boot).as_secs_f64())
}

/// Fills in all OS statistics except the start time.
pub(crate) fn read_process_stats(process: &mut ProcessMetrics) {
    process.resident_bytes = rss();
    process.cpu_seconds = grete_sys::clock::cpu_time().map(|time| time.as_secs_f64());
    process.open_fds = open_fds();
}

/// Returns the resident bytes; `None`: the system has no `/proc`. `/proc/self/statm` takes no lock of the memory map,
/// so the call is fast for a process of any size.
#[must_use]
pub fn rss() -> Option<u64> {
    // Opened each time: a file that stays open across a fork shows the process that opened it.
    let mut file = File::open("/proc/self/statm").ok()?;
    let mut text = [0; 256];
    let read = file.read(&mut text).ok()?;
    resident_pages(text.get(..read)?)?.checked_mul(sys::page_size())
}

fn resident_pages(statm: &[u8]) -> Option<u64> {
    str::from_utf8(statm).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Counts the open descriptors, without the one that is open for counting.
fn open_fds() -> Option<u64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(count.saturating_sub(1)).ok()
}

/// Returns field 22 (starttime). Field 2 is the program's name in parentheses, which may contain anything.
fn start_ticks(stat: &[u8]) -> Option<u64> {
    let name = stat.iter().rposition(|byte| *byte == b')')?;
    str::from_utf8(stat.get(name + 1..)?).ok()?.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_skipped() {
        let stat = b"17 (a) b) S 1 17 17 0 -1 4194304 96 0 0 0 0 0 0 0 20 0 1 0 4711 2 3\n";
        assert_eq!(start_ticks(stat), Some(4711));
        for nonsense in [&b""[..], b"17 (a", b"17 (a) S 1", b"\xff) \xff"] {
            assert_eq!(start_ticks(nonsense), None);
        }
    }

    #[test]
    fn this_process_began_a_while_ago_and_has_done_something() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let began = start_time().expect("Linux");
        assert!(began <= now + 0.1 && now - began < 3600.0, "{began} {now}");
        let (mut process, mut later) = (ProcessMetrics::default(), ProcessMetrics::default());
        read_process_stats(&mut process);
        let _open = fs::File::open("/proc/self/stat").expect("Linux");
        read_process_stats(&mut later);
        assert!(process.cpu_seconds.expect("a clock") > 0.0 && later.cpu_seconds >= process.cpu_seconds);
        assert!(later.resident_bytes.expect("Linux") > 100_000);
        // Other tests open files, too.
        assert!(later.open_fds.expect("Linux") >= 4);
    }

    #[test]
    fn the_second_number_counts() {
        assert_eq!(resident_pages(b"5400 1234 900 2 0 700 0\n"), Some(1234));
        for nonsense in [&b""[..], b"5400", b"5400 -1", b"5400 x", b"\xff\xff \xff"] {
            assert_eq!(resident_pages(nonsense), None);
        }
    }

    #[test]
    fn this_process_occupies_what_it_has_touched() {
        // An absolute value, not a difference: other tests free memory meanwhile.
        let touched = vec![1_u8; 256 << 20];
        let occupied = rss().expect("Linux");
        let most = 4 * touched.len() as u64;
        assert!((touched.len() as u64..most).contains(&occupied), "{occupied} {}", touched.len());
    }
}
