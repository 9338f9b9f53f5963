//! Counts what a thread allocates, so that a test can check how much a decoder took at most.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

thread_local! {
    /// Bytes held now and at most, as far as this thread allocated and freed them.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    // A thread that is ending has no counter any more; no test measures it.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

#[allow(unsafe_code, reason = "only a global allocator sees every allocation")]
// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the pointer came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Returns the result of `run`, and the most bytes that this thread held during it beyond those
/// before.
pub fn most_bytes_during<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get().0;
    HELD.set((before, before));
    let result = run();
    let most = HELD.get().1 - before;
    (
        result,
        usize::try_from(most).expect("the most is not less than before"),
    )
}
