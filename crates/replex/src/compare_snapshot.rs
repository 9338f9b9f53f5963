//! Compares the copies of a table at one snapshot, and returns the rows that differ there.
//! Concurrent writes do not affect the result.
//!
//! Cores read a snapshot in the order of their own copy, so the rows of two copies cannot be merged
//! by key. Each row belongs to a bucket by the hash of its primary key. A first pass over every
//! copy sums its buckets. Further passes collect the rows of buckets whose sums differ, a limited
//! number at a time. Without a snapshot, `compare` reads the present rows instead.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol::codec::Bytes;
use protocol::configuration::PlacedTable;

use crate::compare::{
    ComparedCopy, CopyDifference, DIFFERENCES_MAX, belongs, difference, different,
};
use crate::compare_entries::EntryComparison;
use crate::inspect::{CopySum, InspectError, Inspector, are_equal, read};

/// Buckets of primary keys.
const BUCKETS: usize = 1 << 16;
/// Rows of one copy that a pass collects, about.
const COLLECTED_MAX: u64 = 100_000;

/// The comparison of all copies of a table, and of its thin indexes.
#[derive(Clone, Debug)]
pub struct CopyComparison {
    /// Each copy, counted and summed.
    pub copies: Vec<CopySum>,
    /// The rows that the copies do not agree on; of the same state as the sums, if these are of a
    /// snapshot.
    pub differences: Vec<CopyDifference>,
    /// Each thin index, compared with the rows of the primary copy.
    pub indexes: Vec<EntryComparison>,
}

impl Inspector {
    /// Sums every copy and every thin index of a table, and finds the rows and entries that differ
    /// if the sums do. All are of one snapshot if that is possible.
    ///
    /// # Errors
    /// As [`Inspector::sums`].
    pub async fn comparison(&mut self, table: &str) -> Result<CopyComparison, InspectError> {
        self.in_attempts(table, async |inspector| {
            inspector.comparison_once(table).await
        })
        .await
    }

    async fn comparison_once(&mut self, table: &str) -> Result<CopyComparison, InspectError> {
        let copies = self.copy_sums(table).await?;
        let differences = match are_equal(&copies) {
            true => Vec::new(),
            false => self.differences_once(table, None).await?,
        };
        Ok(CopyComparison {
            copies,
            differences,
            indexes: self.entry_comparisons_once(table).await?,
        })
    }

    /// Compares all of a table, at a snapshot if that is possible. `trust` names the copy that is
    /// right, where there is no majority.
    ///
    /// # Errors
    /// As [`Inspector::sums`].
    pub async fn differences(
        &mut self,
        table: &str,
        trust: Option<&str>,
    ) -> Result<Vec<CopyDifference>, InspectError> {
        self.in_attempts(table, async |inspector| {
            inspector.differences_once(table, trust).await
        })
        .await
    }

    /// Compares all of a table, at the snapshot that is open, or row by row of the present ones.
    async fn differences_once(
        &mut self,
        name: &str,
        trust: Option<&str>,
    ) -> Result<Vec<CopyDifference>, InspectError> {
        if !self.reads_snapshot() {
            return self.present_differences(name, trust).await;
        }
        let table = self.table(name)?;
        let mut copies = Vec::new();
        for replex in table.readable() {
            copies.push(self.bucket_sums(&table, replex).await?);
        }
        let all = 0..BUCKETS;
        let open: Vec<usize> = all
            .filter(|bucket| {
                let mut sums = copies.iter().map(|copy| copy[*bucket].1);
                let first = sums.next();
                sums.any(|sum| Some(sum) != first)
            })
            .collect();
        let rows_of = |bucket: &usize| copies.iter().map(|copy| copy[*bucket].0).max();
        let mut differences = Vec::new();
        let mut left = &open[..];
        while !left.is_empty() && differences.len() < DIFFERENCES_MAX {
            let mut rows = 0;
            let fits = |bucket: &&usize| {
                rows += rows_of(bucket).unwrap_or(0);
                rows <= COLLECTED_MAX
            };
            // One at least, however many rows it has.
            let count = left.iter().take_while(fits).count().max(1);
            let (wanted, rest) = left.split_at(count);
            left = rest;
            let mut found = Vec::new();
            for replex in table.readable() {
                found.push(self.rows_in(&table, replex, wanted).await?);
            }
            let keys = different(&table, &found);
            let of_key = |key: &Vec<u8>| difference(&table, key, &found, trust);
            differences.extend(keys.iter().map(of_key));
        }
        Ok(differences)
    }

    /// Counts and sums the buckets of a copy. A row in a wrong partition has another sum.
    async fn bucket_sums(
        &mut self,
        table: &PlacedTable,
        replex: usize,
    ) -> Result<Vec<(u64, u64)>, InspectError> {
        let mut sums = vec![(0, 0_u64); BUCKETS];
        for number in 0..table.layout.partition_count(replex) {
            let read = read(table.partition(replex, number), &Bytes::default());
            self.each_row(table, read, &mut |key, (number, version, row)| {
                let (rows, sum) = &mut sums[bucket_of(&key)];
                *rows += 1;
                let held = (number, version, row);
                let is_misplaced = !belongs(table, replex, &held);
                let own = hash_of(&(&key, held.1, &held.2, is_misplaced));
                *sum = sum.wrapping_add(own);
            })
            .await?;
        }
        Ok(sums)
    }

    /// Returns the rows of a copy in these buckets, which rise.
    async fn rows_in(
        &mut self,
        table: &PlacedTable,
        replex: usize,
        wanted: &[usize],
    ) -> Result<ComparedCopy, InspectError> {
        let mut rows = BTreeMap::<Vec<u8>, Vec<_>>::new();
        for number in 0..table.layout.partition_count(replex) {
            let read = read(table.partition(replex, number), &Bytes::default());
            self.each_row(table, read, &mut |key, held| {
                if wanted.binary_search(&bucket_of(&key)).is_ok() {
                    rows.entry(key).or_default().push(held);
                }
            })
            .await?;
        }
        Ok(ComparedCopy::whole(replex, rows))
    }
}

fn bucket_of(key: &[u8]) -> usize {
    (hash_of(&key) % BUCKETS as u64) as usize
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
