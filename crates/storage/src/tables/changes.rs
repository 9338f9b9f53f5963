//! Copies the changed entries of leaves for a checkpoint.
//!
//! The copies are packed into few large buffers. Freeing millions of small buffers on another
//! thread would make the loop's next allocation pay for the cleanup.

use super::leaf::{Entry, Generation, Leaf};

/// Changes of some leaves. The changes of each leaf are sorted by key; the leaves are in no order.
#[derive(Default)]
pub(crate) struct Changes {
    bytes: Vec<u8>,
    runs: Vec<Run>,
}

/// Changes of one leaf.
struct Run {
    table: u64,
    start: usize,
    end: usize,
}

impl Changes {
    /// Adds the changes of `leaf` from after one generation up to another.
    pub(super) fn push(&mut self, table: u64, leaf: &Leaf, after: Generation, until: Generation) {
        let start = self.bytes.len();
        leaf.copy_changes(after, until, &mut self.bytes);
        let end = self.bytes.len();
        if start < end {
            self.runs.push(Run { table, start, end });
        }
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn table(&self, run: usize) -> u64 {
        self.runs[run].table
    }

    /// Returns the entries of a run. There is at least one.
    pub(super) fn entries(&self, run: usize) -> impl Iterator<Item = Entry<'_>> {
        let Run { start, end, .. } = self.runs[run];
        let mut rest = &self.bytes[start..end];
        std::iter::from_fn(move || {
            let entry = (!rest.is_empty()).then(|| Entry::decode(rest))?;
            rest = &rest[entry.bytes()..];
            Some(entry)
        })
    }
}
