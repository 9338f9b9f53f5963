//! See `entries::coordinator_state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::entries::coordinator_state(bytes));
