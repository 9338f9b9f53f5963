//! See `entries::expression`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::entries::expression(bytes));
