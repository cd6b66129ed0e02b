//! A text that one process posts and another reads, without either waiting for the other: see [`crate::overtaking`] for who may
//! write and read when.
//!
//! What is read is not to be trusted: a node that has gone mad can write anything there. Then length or age are out of bounds,
//! or the text is no text. Both are looked at here, the text by who reads it, and what is wrong is left out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::HealthError;
use crate::overtaking;
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
        let (Some(begun), Some(done), Some(slot)) = (words.get(BEGUN), words.get(DONE), slot(words, number)) else {
            return false;
        };
        overtaking::write(begun, done, number, || {
            store(slot, LENGTH, kept.len() as u64 | if kept.len() < text.len() { CUT } else { 0 });
            store(slot, POSTED, sys::monotonic_nanos());
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
        let (begun, done) = words.get(BEGUN).zip(words.get(DONE)).ok_or(Unread::Broken)?;
        for _ in 0..TRIES {
            let read = overtaking::read(begun, done, |number| copy_slot(words, number, bytes));
            // Overtaken by a whole interval and more, or never: of a mad one there may be no next time.
            if let Some(read) = read {
                return read;
            }
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

/// Post `number` into `bytes`, in order or not.
fn copy_slot(words: &[AtomicU64], number: u64, bytes: &mut Vec<u8>) -> Result<Posted, Unread> {
    if number == 0 {
        return Err(Unread::Nothing);
    }
    let slot = slot(words, number).ok_or(Unread::Broken)?;
    let length = load(slot, LENGTH);
    let at = load(slot, POSTED);
    // Bounded before anything is copied: it may be garbage, or half of another post's.
    let count = usize::try_from(length & !CUT).ok().filter(|count| *count <= MAX_TEXT).ok_or(Unread::Broken)?;
    bytes.resize(count.next_multiple_of(WORD), 0);
    for (chunk, word) in bytes.as_chunks_mut::<WORD>().0.iter_mut().zip(slot.iter().skip(TEXT)) {
        *chunk = word.load(Ordering::Relaxed).to_le_bytes();
    }
    bytes.truncate(count);
    // Nothing was posted after now.
    let age = sys::monotonic_nanos().checked_sub(at).ok_or(Unread::Broken)?;
    Ok(Posted { age: Duration::from_nanos(age), cut: length & CUT != 0 })
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
