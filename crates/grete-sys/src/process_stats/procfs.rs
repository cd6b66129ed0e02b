//! Statistics of this process from `/proc`.

use std::fs::{self, File};
use std::io::Read;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub fn start_time() -> Option<f64> {
    let stat = fs::read("/proc/self/stat").ok()?;
    let since_boot = Duration::from_secs_f64(start_ticks(&stat)? as f64 / ticks_per_second());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some((now.checked_sub(crate::clock::since_boot()?)? + since_boot).as_secs_f64())
}

/// `/proc/self/statm` takes no lock of the memory map, so the call is fast for a process of any size.
pub fn rss() -> Option<u64> {
    // Opened each time: a file that stays open across a fork shows the process that opened it.
    let mut file = File::open("/proc/self/statm").ok()?;
    let mut text = [0; 256];
    let read = file.read(&mut text).ok()?;
    resident_pages(text.get(..read)?)?.checked_mul(page_size())
}

fn resident_pages(statm: &[u8]) -> Option<u64> {
    str::from_utf8(statm).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Returns field 22 (starttime). Field 2 is the program's name in parentheses, which may contain anything.
fn start_ticks(stat: &[u8]) -> Option<u64> {
    let name = stat.iter().rposition(|byte| *byte == b')')?;
    str::from_utf8(stat.get(name + 1..)?).ok()?.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Returns the size of a page in bytes.
fn page_size() -> u64 {
    // SAFETY: takes and returns plain numbers.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Returns the clock ticks per second in which `/proc` gives times.
fn ticks_per_second() -> f64 {
    // SAFETY: takes and returns plain numbers.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u32::try_from(ticks).map_or(100.0, f64::from).max(1.0)
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
    fn the_second_number_counts() {
        assert_eq!(resident_pages(b"5400 1234 900 2 0 700 0\n"), Some(1234));
        for nonsense in [&b""[..], b"5400", b"5400 -1", b"5400 x", b"\xff\xff \xff"] {
            assert_eq!(resident_pages(nonsense), None);
        }
    }

    #[test]
    fn this_process_began_a_while_ago() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let began = start_time().expect("Linux");
        assert!(began <= now + 0.1 && now - began < 3600.0, "{began} {now}");
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
