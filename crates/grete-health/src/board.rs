//! A text that one process posts and another reads, without either waiting for the other.
//!
//! # Who writes and reads when
//!
//! The mapping holds two counts and two slots. Post number n goes to slot n % 2, between `begun = n` and `done = n`:
//!
//! ```text
//! writer                               reader
//! W1  begun = n        (relaxed)       R1  d = done           (acquire)   0: nothing was posted yet
//! W2  fence            (release)       R2  copy of slot d % 2 (relaxed)
//! W3  slot n % 2       (relaxed)       R3  fence              (acquire)
//! W4  done = n         (release)       R4  b = begun          (relaxed)   whole if b is d or d + 1
//! ```
//!
//! - W4 and R1 pair: whoever sees `done = d` finds all of post d in its slot, or what was written over it since.
//! - Over it goes post d + 2, and its W1 comes before. If R2 has read a single word of W3 of that post, then W2 and R3 pair,
//!   through that word: R4 sees `begun` at d + 2 or later, and the copy is thrown away. That holds on processors that reorder
//!   stores or loads (ARM), too: the fences are what orders them, and each word is an atomic of its own, so that reading what is
//!   just being written is no data race.
//! - Post d + 1 goes to the other slot. So a writer that is stopped or dies anywhere between W1 and W4 takes nothing away:
//!   post d stays legible. And a reader is too slow only if the writer has begun the next but one meanwhile, with an interval
//!   between: it tries again, a few times.
//! - There is one writer: the node. One that has gone mad can write anything there. Then counts, length and age are out of
//!   bounds, or the text is no text: all are looked at, nothing else follows from them, and what is wrong is left out.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::HealthError;
use crate::sys::{self, Shared};

/// Bytes of a text, at most.
pub const MAX_TEXT: usize = 512 << 10;
/// How often a copy is tried that the writer overtakes.
const TRIES: usize = 4;

const WORD: usize = size_of::<u64>();
const BEGUN: usize = 0;
const DONE: usize = 1;
/// Counts have a cache line of their own.
const FIRST_SLOT: usize = 8;
/// In a slot: bytes of the text, and whether some are missing; when it was posted; the text.
const LENGTH: usize = 0;
const POSTED: usize = 1;
const TEXT: usize = 2;
const SLOT: usize = TEXT + MAX_TEXT / WORD;
/// Beside the length.
const CUT: u64 = 1 << 63;

/// A place for one text in memory that a process shares with the child that it forks next. What is never written to takes no
/// memory.
#[derive(Debug)]
pub struct Board {
    shared: Shared,
    /// The number of the last post of this process.
    posted: Mutex<u64>,
}

/// What is said beside a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// How long ago it was posted.
    pub age: Duration,
    /// It was too long, and its end is missing.
    pub cut: bool,
}

/// Why there is no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// None was posted yet.
    Nothing,
    /// What is there cannot have been posted by a process in its senses, or changes faster than it can be read.
    Broken,
    /// This process has no part in it.
    Withheld,
}

impl Board {
    /// An empty one.
    ///
    /// # Errors
    /// When the system has no memory to give.
    pub fn new() -> Result<Self, HealthError> {
        let shared = Shared::new(FIRST_SLOT + 2 * SLOT);
        let shared = shared.map_err(|error| HealthError::Os { what: "sharing memory with a node", error })?;
        Ok(Self { shared, posted: Mutex::new(0) })
    }

    /// From now on it belongs to this process, and to the child that was forked before: children that come do not have it.
    pub fn keep(&self) {
        self.shared.keep();
    }

    /// The text takes the place of the last one. Of one that is too long whole families are kept, as many as fit: what begins
    /// with `# HELP`. Only one process posts, and reads not.
    ///
    /// False: this process has no part in it.
    pub fn post(&self, text: &[u8]) -> bool {
        // Held for the copy. Nobody waits for anything under it.
        let mut posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(words) = self.shared.words() else { return false };
        let kept = fitting(text);
        let number = posted.wrapping_add(1);
        let (Some(counts), Some(slot)) = (words.get(..FIRST_SLOT), slot(words, number)) else { return false };
        store(counts, BEGUN, number); // W1
        fence(Ordering::Release); // W2
        store(slot, LENGTH, kept.len() as u64 | if kept.len() < text.len() { CUT } else { 0 }); // W3, and the next lines
        store(slot, POSTED, sys::monotonic_nanos());
        let (whole, rest) = kept.as_chunks::<WORD>();
        let mut last = [0; WORD];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        for (word, chunk) in slot.iter().skip(TEXT).zip(whole.iter().chain([&last])) {
            word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
        }
        if let Some(done) = counts.get(DONE) {
            done.store(number, Ordering::Release); // W4
        }
        *posted = number;
        true
    }

    /// The last text, into `bytes`. It may be any bytes at all: who posted it is not to be trusted.
    ///
    /// # Errors
    /// Why there is none; `bytes` is empty then.
    pub fn read(&self, bytes: &mut Vec<u8>) -> Result<Posted, Unread> {
        let read = self.copy(bytes);
        if read.is_err() {
            bytes.clear();
        }
        read
    }

    fn copy(&self, bytes: &mut Vec<u8>) -> Result<Posted, Unread> {
        let words = self.shared.words().ok_or(Unread::Withheld)?;
        for _ in 0..TRIES {
            let done = words.get(DONE).map_or(0, |done| done.load(Ordering::Acquire)); // R1
            if done == 0 {
                return Err(Unread::Nothing);
            }
            let slot = slot(words, done).ok_or(Unread::Broken)?;
            let length = load(slot, LENGTH); // R2, and the next lines
            let at = load(slot, POSTED);
            // Bounded before anything is copied: it may be garbage, or half of another post's.
            let count = usize::try_from(length & !CUT).unwrap_or(usize::MAX).min(MAX_TEXT);
            bytes.resize(count.next_multiple_of(WORD), 0);
            for (chunk, word) in bytes.as_chunks_mut::<WORD>().0.iter_mut().zip(slot.iter().skip(TEXT)) {
                *chunk = word.load(Ordering::Relaxed).to_le_bytes();
            }
            bytes.truncate(count);
            fence(Ordering::Acquire); // R3
            let begun = load(words, BEGUN); // R4
            if begun.wrapping_sub(done) > 1 {
                continue;
            }
            // Nothing was posted after now, nor was more than fits. Else it is broken for good: no further try.
            let Some(age) = sys::monotonic_nanos().checked_sub(at).filter(|_| length & !CUT <= MAX_TEXT as u64) else {
                break;
            };
            return Ok(Posted { age: Duration::from_nanos(age), cut: length & CUT != 0 });
        }
        Err(Unread::Broken)
    }

    /// Writes what a broken process might: any words, from the beginning.
    #[cfg(test)]
    pub(crate) fn scribble(&self, words: impl IntoIterator<Item = u64>) {
        for (to, word) in self.shared.words().expect("ours").iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
    }
}

/// The text, or as many of its families as fit.
fn fitting(text: &[u8]) -> &[u8] {
    const NEXT: &[u8] = b"\n# HELP ";
    if text.len() <= MAX_TEXT {
        return text;
    }
    // The newline before a family belongs to the last one, and is the last byte that may be kept.
    let seen = text.get(..MAX_TEXT - 1 + NEXT.len()).unwrap_or(text);
    let end = seen.windows(NEXT.len()).rposition(|window| window == NEXT).map_or(0, |at| at + 1);
    text.get(..end).unwrap_or_default()
}

fn slot(words: &[AtomicU64], number: u64) -> Option<&[AtomicU64]> {
    let begin = FIRST_SLOT + if number.is_multiple_of(2) { 0 } else { SLOT };
    words.get(begin..begin + SLOT)
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

    fn text(board: &Board) -> Result<(Vec<u8>, Posted), Unread> {
        let mut bytes = b"before".to_vec();
        let posted = board.read(&mut bytes);
        assert!(posted.is_ok() || bytes.is_empty());
        posted.map(|posted| (bytes, posted))
    }

    #[test]
    fn the_last_text_is_read() {
        let board = Board::new().expect("memory");
        assert_eq!(text(&board), Err(Unread::Nothing));
        for length in [0, 1, 7, 8, 9, 100_000, 3, MAX_TEXT] {
            let long = vec![b'a' + (length % 26) as u8; length];
            assert!(board.post(&long));
            let (read, posted) = text(&board).expect("it is there");
            assert!(read == long, "{length}");
            assert!(!posted.cut && posted.age < Duration::from_secs(60), "{posted:?}");
        }
        assert!(board.post(b""));
        assert_eq!(text(&board).expect("it is there").0, b"");
    }

    #[test]
    fn of_a_long_text_whole_families_are_kept() {
        let board = Board::new().expect("memory");
        let family = |name: &str, lines: usize| format!("# HELP {name} x\n{}", format!("{name} 1\n").repeat(lines));
        let first = family("a", 1000) + &family("b", 1000);
        board.post((first.clone() + &family("c", MAX_TEXT / 4)).as_bytes());
        let (read, posted) = text(&board).expect("it is there");
        assert!(read == first.as_bytes() && posted.cut, "{}", read.len());
        // One that is too long by itself, and one that fits to the byte.
        board.post(family("a", MAX_TEXT).as_bytes());
        let (read, posted) = text(&board).expect("it is there");
        assert!(read.is_empty() && posted.cut);
        let rest = MAX_TEXT - first.len();
        board.post((first.clone() + &"#".repeat(rest - 1) + "\n# HELP c x\n").as_bytes());
        let (read, posted) = text(&board).expect("it is there");
        assert!(read.len() == MAX_TEXT && posted.cut);
    }

    /// A reader that is overtaken all the time gets whole texts, or none.
    #[test]
    fn no_text_is_torn() {
        let board = Board::new().expect("memory");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Each text is one letter, and its length says which.
                for number in 0..40_000_usize {
                    let length = number % 26 + 26 * (number % 97);
                    board.post(&vec![b'a' + (length % 26) as u8; length]);
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
                    Err(why) => assert!(matches!(why, Unread::Nothing | Unread::Broken), "{why:?}"),
                }
            }
        });
    }

    /// Wherever in a post the writer is stopped for good, the text before stays.
    #[test]
    fn who_dies_while_posting_takes_nothing_away() {
        let board = Board::new().expect("memory");
        for number in 1..=4_u64 {
            let last = format!("grete_jobs_total {number}\n");
            board.post(last.as_bytes());
            let words = board.shared.words().expect("ours");
            store(words, BEGUN, number + 1); // W1, and a part of W3
            slot(words, number + 1).expect("there").iter().take(3).for_each(|word| word.store(!0, Ordering::Relaxed));
            assert_eq!(text(&board).expect("it is there").0, last.as_bytes());
        }
    }

    #[test]
    fn garbage_is_left_out() {
        let board = Board::new().expect("memory");
        let ages = |at: u64| {
            [1, 1, 0, 0, 0, 0, 0, 0].into_iter().chain(repeat_n(0, SLOT)).chain([8, at, 0x4141_4141_4141_4141])
        };
        board.scribble(ages(sys::monotonic_nanos()));
        assert_eq!(text(&board).expect("as a process in its senses has it").0, b"AAAAAAAA");
        board.scribble(ages(u64::MAX));
        assert_eq!(text(&board), Err(Unread::Broken), "posted in the future");
        for (begun, done) in [(0, 1), (5, 4 + (1 << 32)), (u64::MAX, 1), (7, 4), (u64::MAX, u64::MAX)] {
            board.scribble([begun, done].into_iter().chain(repeat_n(u64::MAX, 2 * SLOT)));
            assert_eq!(text(&board), Err(Unread::Broken), "{begun} {done}");
        }
        for length in [MAX_TEXT as u64 + 1, u64::MAX, u64::MAX >> 1] {
            board.scribble([2, 2, 0, 0, 0, 0, 0, 0, length, 0]);
            assert_eq!(text(&board), Err(Unread::Broken), "{length}");
        }
    }

    #[test]
    fn what_a_process_keeps_it_still_has() {
        let board = Board::new().expect("memory");
        board.keep();
        board.keep();
        assert!(board.post(b"kept"));
        assert_eq!(text(&board).expect("it is there").0, b"kept");
    }
}
