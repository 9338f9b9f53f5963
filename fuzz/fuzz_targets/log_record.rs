//! See `entries::log_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::entries::log_record(bytes));
