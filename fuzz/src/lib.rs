//! The entries that the fuzz targets call. Ordinary tests run them with spoilt bytes as well.
//!
//! `cargo +nightly fuzz run message` runs one (`cargo install cargo-fuzz` first); a name is that
//! of a file in `fuzz_targets`. Bytes that fail go into a test beside the decoder.

#[path = "../../crates/protocol/tests/codec/entries.rs"]
pub mod entries;

#[path = "../../crates/coordinator/tests/outside_data/entries.rs"]
pub mod coordinator_entries;

#[path = "../../crates/storage/tests/decoders/entries.rs"]
pub mod log_entries;
