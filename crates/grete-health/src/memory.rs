//! What this process occupies.

use std::fs::File;
use std::io::Read;

use crate::sys;

/// Resident bytes; `None` where the system has no `/proc`. It takes no lock of the process's memory map, so it is quick
/// however large that is.
#[must_use]
pub fn rss() -> Option<u64> {
    // Opened each time: a file that stays open shows the process that opened it, after a fork, too.
    let mut file = File::open("/proc/self/statm").ok()?;
    let mut text = [0; 256];
    let read = file.read(&mut text).ok()?;
    resident_pages(text.get(..read)?)?.checked_mul(sys::page_size())
}

fn resident_pages(statm: &[u8]) -> Option<u64> {
    str::from_utf8(statm).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_counts() {
        assert_eq!(resident_pages(b"5400 1234 900 2 0 700 0\n"), Some(1234));
        for nonsense in [&b""[..], b"5400", b"5400 -1", b"5400 x", b"\xff\xff \xff"] {
            assert_eq!(resident_pages(nonsense), None);
        }
    }

    #[test]
    fn this_process_occupies_what_it_has_touched() {
        // Not by difference: other tests give memory back meanwhile.
        let touched = vec![1_u8; 256 << 20];
        let occupied = rss().expect("Linux");
        let most = 4 * touched.len() as u64;
        assert!((touched.len() as u64..most).contains(&occupied), "{occupied} {}", touched.len());
    }
}
