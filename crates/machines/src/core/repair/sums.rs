//! Computes the hashes by which cores detect that rows differ.

use protocol::message::RowPage;

/// A running hash over a range's entries, in order.
#[derive(Default)]
pub(crate) struct RangeSum(xxhash_rust::xxh3::Xxh3);

impl RangeSum {
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.0.update(&(key.len() as u64).to_le_bytes());
        self.0.update(key);
        self.0.update(&(value.len() as u64).to_le_bytes());
        self.0.update(value);
    }

    pub fn value(&self) -> u64 {
        self.0.digest()
    }
}

/// Returns a hash of a page's rows and versions.
pub(crate) fn page_sum(page: &RowPage) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&page.rows)
}
