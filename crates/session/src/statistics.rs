//! Estimates about the rows of a table, combined from those of some partitions.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use placement::{KeyInterval, part_before};
use protocol::message::PartitionStatistics;

/// Estimates about a table, by the number of the replex. A replex is missing if no partition of it
/// answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableStatistics {
    replexes: BTreeMap<usize, ReplexStatistics>,
}

/// Estimates about the rows of one replex, or the entries of a thin index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplexStatistics {
    /// The number of partitions that can have rows.
    partitions: usize,
    /// The statistics of those that were asked.
    sampled: Vec<PartitionStatistics>,
}

impl TableStatistics {
    /// Adds the statistics of one of the `partitions` of a replex.
    pub fn add(&mut self, replex: usize, partitions: usize, sampled: PartitionStatistics) {
        let known = self.replexes.entry(replex).or_default();
        known.partitions = partitions;
        known.sampled.push(sampled);
    }

    /// Returns the estimates about a replex. Returns none if a partition that was asked does not
    /// know its number of rows, or if all of them are empty and the table is not.
    pub fn of(&self, replex: usize) -> Option<&ReplexStatistics> {
        let known = self.replexes.get(&replex)?;
        let is_counted = known.sampled.iter().all(|it| it.rows.is_some());
        let shows_rows = known.rows() > 0.0 || self.rows() == 0.0;
        (is_counted && shows_rows).then_some(known)
    }

    /// Returns the rows of the table.
    pub fn rows(&self) -> f64 {
        let of_replexes = self.replexes.values().map(ReplexStatistics::rows);
        of_replexes.fold(0.0, f64::max)
    }
}

impl ReplexStatistics {
    /// Returns the rows of one partition.
    pub fn rows_of_partition(&self) -> f64 {
        self.average(|it| it.rows.unwrap_or(0) as f64)
    }

    /// Returns the rows of all partitions.
    pub fn rows(&self) -> f64 {
        self.rows_of_partition() * self.partitions as f64
    }

    /// Returns the rows of one partition that have the same values in the first `columns` columns
    /// of its order, on average over the partitions with rows.
    pub fn rows_per_key(&self, columns: usize) -> f64 {
        let per_key = self.sampled.iter().filter_map(|it| {
            let known = columns
                .checked_sub(1)
                .and_then(|at| it.rows_per_key.get(at));
            known.or(it.rows_per_key.last()).map(|rows| *rows as f64)
        });
        let (count, sum) = per_key.fold((0, 0.0), |(count, sum), rows| (count + 1, sum + rows));
        sum / f64::from(count.max(1))
    }

    /// Returns whether every partition was asked.
    pub fn is_whole(&self) -> bool {
        self.sampled.len() == self.partitions
    }

    /// Returns the rows of all partitions with keys in this range, as if the keys of a partition
    /// were spread evenly.
    pub fn rows_within(&self, (start, end): KeyInterval<'_>) -> f64 {
        let of_partition = self.average(|it| {
            let ends = (&it.first[..], &it.last[..]);
            let before = part_before(ends, start);
            let until = end.map_or(1.0, |end| part_before(ends, end));
            it.rows.unwrap_or(0) as f64 * (until - before).max(0.0)
        });
        of_partition * self.partitions as f64
    }

    fn average(&self, value: impl Fn(&PartitionStatistics) -> f64) -> f64 {
        let sum: f64 = self.sampled.iter().map(value).sum();
        sum / self.sampled.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_averaged() {
        let mut table = TableStatistics::default();
        for (rows, per_key) in [(100, 10), (300, 20)] {
            let sampled = PartitionStatistics {
                rows: Some(rows),
                rows_per_key: [per_key, 1].into(),
                first: Vec::from([0]).into(),
                last: Vec::from([200]).into(),
            };
            table.add(2, 12, sampled);
        }
        let known = table.of(2).expect("it was added");
        assert_eq!(known.rows(), 2_400.0);
        assert_eq!([1, 2, 3].map(|it| known.rows_per_key(it)), [15.0, 1.0, 1.0]);
        assert_eq!(known.rows_within((&[50], Some(&[100]))), 600.0);
        assert_eq!(known.rows_within((&[100], None)), 1_200.0);
        assert_eq!(known.rows_within((&[201], None)), 0.0);
        assert_eq!(table.of(1), None);
        let empty = PartitionStatistics {
            rows: Some(0),
            ..PartitionStatistics::default()
        };
        table.add(2, 12, empty.clone());
        let known = table.of(2).expect("one is empty");
        assert_eq!(known.rows_per_key(1), 15.0);
        assert_eq!(known.rows(), 1_600.0);
        table.add(3, 12, empty);
        assert_eq!(table.of(3), None, "the rows are in other partitions");
        table.add(2, 12, PartitionStatistics::default());
        assert_eq!(table.of(2), None, "one of the partitions is unknown");
    }
}
