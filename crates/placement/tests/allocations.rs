//! The hot path asks nothing of the allocator: reading a row in place and finding its partitions.

mod cases;

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::hint::black_box;

use cases::flights;
use placement::{Layout, RowView, Value, encode_row};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged. The counter is a
// constant-initialised cell without a destructor, so touching it allocates nothing.
#[allow(unsafe_code, reason = "the trait of an allocator is unsafe")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(pointer, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn routing_a_row_allocates_nothing() {
    let schema = flights(12, 2);
    let mut layout = Layout::base(&schema);
    layout
        .add(layout.hybrid("h", &[(0, 3), (1, 4)]).unwrap())
        .unwrap();
    let text = |it: &str| Value::Text(it.into());
    let values = [Value::Int64(7), text("N14228"), text("EWR"), text("IAH")];
    let bytes = encode_row(&schema.columns, &values).unwrap();
    let before = ALLOCATIONS.get();
    let row = RowView::parse(&schema.columns, &bytes).unwrap();
    for column in 0..values.len() {
        black_box(row.column(column));
    }
    for replex in 0..layout.replexes.len() {
        black_box(layout.partition_of_row(replex, &row));
    }
    assert_eq!(ALLOCATIONS.get(), before);
    // The counter does count.
    black_box(layout.slots(&|column| row.column(column)));
    assert_eq!(ALLOCATIONS.get(), before + 1);
}
