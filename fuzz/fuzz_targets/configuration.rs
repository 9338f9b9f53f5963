//! See `entries::configuration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::entries::configuration(bytes));
