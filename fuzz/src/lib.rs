//! What the fuzz targets call: the entries that the protocol's own tests run with spoilt bytes.
//!
//! `cargo +nightly fuzz run message` runs one (`cargo install cargo-fuzz` first); a name is that
//! of a file in `fuzz_targets`. Bytes that fail go into a test beside the decoder.

#[path = "../../crates/protocol/tests/codec/entries.rs"]
pub mod entries;
