//! Counting allocator, with which a target checks that memory is proportional to the input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    // Signed, as a thread may free memory that another thread allocated. Constants, so that they need no memory
    // themselves.
    static CURRENT: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    // While a thread ends, its counters may be gone already; memory freed then is not counted.
    let _ = CURRENT.try_with(|current| {
        current.set(current.get() + change);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(current.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged, beside the counting.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may exist side by side while bytes are copied.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs `work`. Returns its result, and the peak growth of this thread's memory in bytes.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = CURRENT.get();
    PEAK.set(before);
    let result = work();
    (result, usize::try_from(PEAK.get() - before).unwrap_or(0))
}

/// Runs `work`. Panics if it took more than `factor` times its input plus `cap` bytes.
pub fn bounded<T>(input: usize, factor: usize, cap: usize, work: impl FnOnce() -> T) -> T {
    let (result, peak) = peak(work);
    assert!(
        peak <= factor * input + cap,
        "{input} bytes of input took {peak} bytes, {factor} * input + {cap} are allowed"
    );
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_moment_counts() {
        let (_, most) = peak(|| {
            drop(vec![0u8; 100_000]);
            vec![0u8; 10]
        });
        assert!((100_000..101_000).contains(&most), "{most}");
    }

    #[test]
    #[should_panic(expected = "1000 bytes of input took")]
    fn what_exceeds_the_bound_panics() {
        bounded(1000, 2, 100, || vec![0u8; 2101]);
    }
}
