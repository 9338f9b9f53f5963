//! See `coordinator_entries::coordinator_state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::coordinator_entries::coordinator_state(bytes));
