//! See `log_entries::log_scan`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::log_entries::log_scan(bytes));
