//! Shared-memory segment in which one process publishes a text for another one, wait-free. `seqlock` has the protocol.
//!
//! The text is untrusted: a corrupt process can write anything to the segment. Then the length or the age is out of
//! bounds, or the text is invalid. `read` checks length and age, its caller checks the text; invalid data is discarded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::HealthError;
use crate::shm::mapping::SharedMapping;
use crate::shm::seqlock;

/// Maximum length of a text in bytes.
pub const MAX_TEXT: usize = 512 << 10;
/// How often a reader tries again when the writer overtakes it.
const MAX_READ_ATTEMPTS: usize = 4;

const WORD: usize = size_of::<u64>();
const BEGUN: usize = 0;
const DONE: usize = 1;
/// The counters have a cache line to themselves.
const FIRST_BUFFER: usize = 8;
/// Words of a buffer: length in bytes and the `TRUNCATED` bit; time of the publication; the text.
const LENGTH: usize = 0;
const PUBLISHED_AT: usize = 1;
const TEXT: usize = 2;
const BUFFER_WORDS: usize = TEXT + MAX_TEXT / WORD;
/// Bit of the length word: the end of the text is missing.
const TRUNCATED: u64 = 1 << 63;

/// Segment for one text, shared with the child that the process forks next. Pages that are never written take no
/// memory.
#[derive(Debug)]
pub struct SharedText {
    shared: SharedMapping,
    /// Number of this process's last publication.
    published: Mutex<u64>,
}

/// Metadata of a published text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishInfo {
    /// Time since the publication.
    pub age: Duration,
    /// The text was too long, and its end is missing.
    pub truncated: bool,
}

/// Reason why there is no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadError {
    /// No text was published yet.
    NotPublished,
    /// The segment holds invalid data, or changes faster than it can be read.
    Corrupt,
    /// The segment does not exist in this process.
    NotMapped,
}

impl SharedText {
    /// Creates an empty segment.
    ///
    /// # Errors
    /// [`HealthError::Os`] if the system has no memory to give.
    pub fn new() -> Result<Self, HealthError> {
        let shared = SharedMapping::new(FIRST_BUFFER + 2 * BUFFER_WORDS);
        let shared = shared.map_err(|error| HealthError::Os { what: "sharing memory with a node", error })?;
        Ok(Self { shared, published: Mutex::new(0) })
    }

    /// Keeps the segment to this process and the child that it has forked before; children forked later do not inherit
    /// it.
    pub fn exclude_from_later_forks(&self) {
        self.shared.exclude_from_later_forks();
    }

    /// Publishes a text in place of the last one. A text that is too long is truncated to whole metric families, which
    /// begin with `# HELP`. Only one process publishes, and it does not read.
    ///
    /// `false`: this process does not have the segment.
    pub fn publish(&self, text: &[u8]) -> bool {
        // Locked during the copy, in which the thread waits for nothing.
        let mut posted = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(words) = self.shared.words() else { return false };
        let kept = truncate_to_whole_families(text);
        let number = posted.wrapping_add(1);
        let (Some(begun), Some(done), Some(slot)) = (words.get(BEGUN), words.get(DONE), buffer_of(words, number))
        else {
            return false;
        };
        seqlock::write(begun, done, number, || {
            store(slot, LENGTH, kept.len() as u64 | if kept.len() < text.len() { TRUNCATED } else { 0 });
            store(slot, PUBLISHED_AT, grete_sys::clock::monotonic_nanos());
            let (whole, rest) = kept.as_chunks::<WORD>();
            let mut last = [0; WORD];
            last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            for (word, chunk) in slot.iter().skip(TEXT).zip(whole.iter().chain([&last])) {
                word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
            }
        });
        *posted = number;
        true
    }

    /// Copies the last text into `bytes`. The bytes are untrusted, as the process that published them may be corrupt.
    ///
    /// # Errors
    /// The reason why there is no text; `bytes` is empty then.
    pub fn read(&self, bytes: &mut Vec<u8>) -> Result<PublishInfo, ReadError> {
        let read = self.copy(bytes);
        if read.is_err() {
            bytes.clear();
        }
        read
    }

    fn copy(&self, bytes: &mut Vec<u8>) -> Result<PublishInfo, ReadError> {
        let words = self.shared.words().ok_or(ReadError::NotMapped)?;
        let (begun, done) = words.get(BEGUN).zip(words.get(DONE)).ok_or(ReadError::Corrupt)?;
        for _ in 0..MAX_READ_ATTEMPTS {
            let read = seqlock::read(begun, done, |number| copy_buffer(words, number, bytes));
            // The writer has overtaken the copy by a whole interval and more. Attempts are limited, as a corrupt writer
            // may never stop.
            if let Some(read) = read {
                return read;
            }
        }
        Err(ReadError::Corrupt)
    }

    /// Writes what a corrupt process might: any words, from the beginning.
    #[cfg(test)]
    pub(crate) fn corrupt_for_test(&self, words: impl IntoIterator<Item = u64>) {
        for (to, word) in self.shared.words().expect("ours").iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
    }
}

/// Copies the text of publication `number` into `bytes`, valid or not.
fn copy_buffer(words: &[AtomicU64], number: u64, bytes: &mut Vec<u8>) -> Result<PublishInfo, ReadError> {
    if number == 0 {
        return Err(ReadError::NotPublished);
    }
    let slot = buffer_of(words, number).ok_or(ReadError::Corrupt)?;
    let length = load(slot, LENGTH);
    let at = load(slot, PUBLISHED_AT);
    // Checked before the copy: the length may be garbage, or part of a later publication.
    let count =
        usize::try_from(length & !TRUNCATED).ok().filter(|count| *count <= MAX_TEXT).ok_or(ReadError::Corrupt)?;
    bytes.resize(count.next_multiple_of(WORD), 0);
    for (chunk, word) in bytes.as_chunks_mut::<WORD>().0.iter_mut().zip(slot.iter().skip(TEXT)) {
        *chunk = word.load(Ordering::Relaxed).to_le_bytes();
    }
    bytes.truncate(count);
    // A publication in the future is invalid.
    let age = grete_sys::clock::monotonic_nanos().checked_sub(at).ok_or(ReadError::Corrupt)?;
    Ok(PublishInfo { age: Duration::from_nanos(age), truncated: length & TRUNCATED != 0 })
}

/// Returns the text, or as many of its families as fit.
fn truncate_to_whole_families(text: &[u8]) -> &[u8] {
    const NEXT: &[u8] = b"\n# HELP ";
    if text.len() <= MAX_TEXT {
        return text;
    }
    // The newline before a family belongs to the previous one, and is the last byte that may be kept.
    let seen = text.get(..MAX_TEXT - 1 + NEXT.len()).unwrap_or(text);
    let end = seen.windows(NEXT.len()).rposition(|window| window == NEXT).map_or(0, |at| at + 1);
    text.get(..end).unwrap_or_default()
}

fn buffer_of(words: &[AtomicU64], number: u64) -> Option<&[AtomicU64]> {
    let begin = FIRST_BUFFER + if number.is_multiple_of(2) { 0 } else { BUFFER_WORDS };
    words.get(begin..begin + BUFFER_WORDS)
}

fn store(words: &[AtomicU64], at: usize, value: u64) {
    if let Some(word) = words.get(at) {
        word.store(value, Ordering::Relaxed);
    }
}

fn load(words: &[AtomicU64], at: usize) -> u64 {
    words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::iter::repeat_n;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    fn text(board: &SharedText) -> Result<(Vec<u8>, PublishInfo), ReadError> {
        let mut bytes = b"before".to_vec();
        let posted = board.read(&mut bytes);
        assert!(posted.is_ok() || bytes.is_empty());
        posted.map(|posted| (bytes, posted))
    }

    #[test]
    fn the_last_text_is_read() {
        let board = SharedText::new().expect("memory");
        assert_eq!(text(&board), Err(ReadError::NotPublished));
        for length in [0, 1, 7, 8, 9, 100_000, 3, MAX_TEXT] {
            let long = vec![b'a' + (length % 26) as u8; length];
            assert!(board.publish(&long));
            let (read, posted) = text(&board).expect("it is there");
            assert!(read == long, "{length}");
            assert!(!posted.truncated && posted.age < Duration::from_secs(60), "{posted:?}");
        }
        assert!(board.publish(b""));
        assert_eq!(text(&board).expect("it is there").0, b"");
    }

    #[test]
    fn long_text_is_truncated_to_whole_families() {
        let board = SharedText::new().expect("memory");
        let family = |name: &str, lines: usize| format!("# HELP {name} x\n{}", format!("{name} 1\n").repeat(lines));
        let first = family("a", 1000) + &family("b", 1000);
        board.publish((first.clone() + &family("c", MAX_TEXT / 4)).as_bytes());
        let (read, posted) = text(&board).expect("it is there");
        assert!(read == first.as_bytes() && posted.truncated, "{}", read.len());
        // A family that is too long by itself, and one that fits to the byte.
        board.publish(family("a", MAX_TEXT).as_bytes());
        let (read, posted) = text(&board).expect("it is there");
        assert!(read.is_empty() && posted.truncated);
        let rest = MAX_TEXT - first.len();
        board.publish((first.clone() + &"#".repeat(rest - 1) + "\n# HELP c x\n").as_bytes());
        let (read, posted) = text(&board).expect("it is there");
        assert!(read.len() == MAX_TEXT && posted.truncated);
    }

    /// A reader that is overtaken all the time gets whole texts, or none.
    #[test]
    fn no_text_is_torn() {
        let board = SharedText::new().expect("memory");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Each text repeats one letter, which its length determines.
                for number in 0..40_000_usize {
                    let length = number % 26 + 26 * (number % 97);
                    board.publish(&vec![b'a' + (length % 26) as u8; length]);
                }
                over.store(true, Ordering::Relaxed);
            });
            let mut whole = 0_u32;
            while !over.load(Ordering::Relaxed) || whole == 0 {
                match text(&board) {
                    Ok((read, _)) => {
                        let letter = b'a' + (read.len() % 26) as u8;
                        assert!(read.iter().all(|byte| *byte == letter), "torn: {:?}", String::from_utf8_lossy(&read));
                        whole += 1;
                    }
                    Err(why) => assert!(matches!(why, ReadError::NotPublished | ReadError::Corrupt), "{why:?}"),
                }
            }
        });
    }

    /// The previous text stays, wherever the writer stops for good while publishing.
    #[test]
    fn writer_death_during_publish_keeps_the_previous_text() {
        let board = SharedText::new().expect("memory");
        for number in 1..=4_u64 {
            let last = format!("grete_jobs_total {number}\n");
            board.publish(last.as_bytes());
            let words = board.shared.words().expect("ours");
            store(words, BEGUN, number + 1); // W1, and a part of W3
            buffer_of(words, number + 1)
                .expect("there")
                .iter()
                .take(3)
                .for_each(|word| word.store(!0, Ordering::Relaxed));
            assert_eq!(text(&board).expect("it is there").0, last.as_bytes());
        }
    }

    #[test]
    fn garbage_is_left_out() {
        let board = SharedText::new().expect("memory");
        let ages = |at: u64| {
            [1, 1, 0, 0, 0, 0, 0, 0].into_iter().chain(repeat_n(0, BUFFER_WORDS)).chain([8, at, 0x4141_4141_4141_4141])
        };
        board.corrupt_for_test(ages(grete_sys::clock::monotonic_nanos()));
        assert_eq!(text(&board).expect("as a process in its senses has it").0, b"AAAAAAAA");
        board.corrupt_for_test(ages(u64::MAX));
        assert_eq!(text(&board), Err(ReadError::Corrupt), "posted in the future");
        for (begun, done) in [(0, 1), (5, 4 + (1 << 32)), (u64::MAX, 1), (7, 4), (u64::MAX, u64::MAX)] {
            board.corrupt_for_test([begun, done].into_iter().chain(repeat_n(u64::MAX, 2 * BUFFER_WORDS)));
            assert_eq!(text(&board), Err(ReadError::Corrupt), "{begun} {done}");
        }
        for length in [MAX_TEXT as u64 + 1, u64::MAX, u64::MAX >> 1] {
            board.corrupt_for_test([2, 2, 0, 0, 0, 0, 0, 0, length, 0]);
            assert_eq!(text(&board), Err(ReadError::Corrupt), "{length}");
        }
    }

    #[test]
    fn text_stays_readable_after_excluding_later_forks() {
        let board = SharedText::new().expect("memory");
        board.exclude_from_later_forks();
        board.exclude_from_later_forks();
        assert!(board.publish(b"kept"));
        assert_eq!(text(&board).expect("it is there").0, b"kept");
    }
}
