//! What the system says of this process.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::metrics::Process;
use crate::{memory, sys};

/// When this process began, in seconds since 1970; `None` where the system has no `/proc`. It is found anew each time, and a
/// clock that is set changes it: whoever tells it keeps it.
#[must_use]
pub fn start_time() -> Option<f64> {
    let stat = fs::read("/proc/self/stat").ok()?;
    let since_boot = Duration::from_secs_f64(start_ticks(&stat)? as f64 / sys::ticks_per_second());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some((now.checked_sub(sys::since_boot()?)? + since_boot).as_secs_f64())
}

/// All but the time it began.
pub fn look(process: &mut Process) {
    process.resident_bytes = memory::rss();
    process.cpu = sys::cpu_time().map(|time| time.as_secs_f64());
    process.open_fds = open_fds();
}

/// The one that is open for counting does not count.
fn open_fds() -> Option<u64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(count.saturating_sub(1)).ok()
}

/// The twenty-second field. The second one is the program's name in parentheses, and may hold anything.
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
        let (mut process, mut later) = (Process::default(), Process::default());
        look(&mut process);
        let _open = fs::File::open("/proc/self/stat").expect("Linux");
        look(&mut later);
        assert!(process.cpu.expect("a clock") > 0.0 && later.cpu >= process.cpu);
        assert!(later.resident_bytes.expect("Linux") > 100_000);
        // Other tests open files, too.
        assert!(later.open_fds.expect("Linux") >= 4);
    }
}
