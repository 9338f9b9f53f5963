//! Estimates how many rows of a partition have the same values in the first columns of its order,
//! from a small sample. A client chooses between indexes by that.
//!
//! The sample has runs of neighbouring keys from several places. A run is too short to show how
//! many rows a very frequent value has. Then the core looks for the next value, and so on, a few
//! times: either the values end, or the part of the keys that these values take shows how many
//! there are.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::tables::{Tables, TablesError};
use placement::{
    ColumnType, KeyInterval, SortColumn, Value, decode_sorted, encode_prefix, key_between,
    part_before, prefix_end,
};
use protocol::identity::{PartitionId, Position};
use protocol::message::{PartitionStatistics, Reply, StatisticsRead};

use crate::core::CoreMachine;
use crate::core::answers::ReplyDestination;
use crate::core::step::Step;

/// The runs of a sample.
const RUNS: u32 = 4;
/// The most keys of a run.
const RUN_KEYS: usize = 256;
/// From this many neighbouring keys with equal values on, a run is too short to count them.
const FREQUENT: usize = RUN_KEYS / 2;
/// The most values that are sought one by one, for each number of leading columns.
const VALUES_MAX: u64 = 32;

impl CoreMachine {
    /// Answers with estimates about one partition.
    pub(crate) fn statistics<T: Tables>(
        &mut self,
        asker: ReplyDestination,
        read: &StatisticsRead,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if let Err(refusal) = self.check_readable(step.now, read.epoch, read.partition) {
            self.refuse(asker, refusal, step.output);
            return Ok(());
        }
        let statistics = self.sample(read.partition, step.tables)?;
        let reply = Reply::Statistics(statistics);
        self.answer(asker, Position(0), None, reply, step.output);
        Ok(())
    }

    fn sample<T: Tables>(
        &self,
        id: PartitionId,
        tables: &T,
    ) -> Result<PartitionStatistics, TablesError> {
        let table = &self.partitions[&id].table;
        let columns = &table.replexes[usize::from(id.replex)].entry_columns;
        let types = columns
            .iter()
            .map(|it| table.schema.columns[it.column].column_type);
        let sample = Sample {
            table: id.rows_table(),
            keys: table.keys_in_partition(id, (&[], None)),
            columns,
            types: types.collect(),
            tables,
        };
        sample.statistics()
    }
}

/// The keys of a partition from which a sample is taken.
struct Sample<'a, T> {
    table: u64,
    keys: KeyInterval<'a>,
    columns: &'a [SortColumn],
    types: Vec<ColumnType>,
    tables: &'a T,
}

/// The values of neighbouring keys.
type Run = Vec<Vec<Value>>;

impl<T: Tables> Sample<'_, T> {
    fn statistics(&self) -> Result<PartitionStatistics, TablesError> {
        let (start, end) = self.keys;
        let Some(first) = self.first_from(start)? else {
            return Ok(PartitionStatistics {
                rows: Some(0),
                ..PartitionStatistics::default()
            });
        };
        let last = self.last_before(end)?.unwrap_or_else(|| first.clone());
        let (first, last) = self.ends_of_values(first, last)?;
        let ends = (&first[..], &last[..]);
        let mut runs = Vec::new();
        for number in 0..RUNS {
            let start = match number {
                0 => start.to_vec(),
                _ => key_between(ends, number, RUNS),
            };
            let (run, is_all) = self.run(&start)?;
            runs.push(run);
            if number == 0 && is_all {
                break;
            }
        }
        let about = self.tables.entries_about(self.table);
        let rows = match &runs[..] {
            [all] => Some(all.len() as u64),
            _ => Some(about).filter(|about| *about > 0),
        };
        let mut rows_per_key: Vec<u64> = Vec::new();
        for count in 1..=self.columns.len() {
            let before = rows_per_key.last().copied().unwrap_or(u64::MAX);
            let (mut found, longest) = in_runs(&runs, count);
            if let Some(rows) = rows.filter(|_| longest >= FREQUENT && before >= FREQUENT as u64) {
                found = found.max(longest as u64);
                found = found.max(self.by_values(rows, ends, count)?);
            }
            rows_per_key.push(found.min(before));
        }
        Ok(PartitionStatistics {
            rows,
            rows_per_key,
            first: first.into(),
            last: last.into(),
        })
    }

    /// Returns the first and the last key without NULL in the first column, if there are such keys:
    /// the encoding of NULL is far from that of every value.
    fn ends_of_values(
        &self,
        first: Vec<u8>,
        last: Vec<u8>,
    ) -> Result<(Vec<u8>, Vec<u8>), TablesError> {
        let null = encode_prefix(self.columns, &[Value::Null]);
        let found = match self.columns[0].nulls_first {
            true if first.starts_with(&null) => {
                let after = prefix_end(&null).unwrap_or_default();
                (self.first_from(&after)?, Some(last.clone()))
            }
            false if last.starts_with(&null) => {
                (Some(first.clone()), self.last_before(Some(&null))?)
            }
            _ => (None, None),
        };
        Ok(match found {
            (Some(first), Some(last)) => (first, last),
            _ => (first, last),
        })
    }

    fn last_before(&self, end: Option<&[u8]>) -> Result<Option<Vec<u8>>, TablesError> {
        self.tables.last_key(self.table, self.keys.0, end)
    }

    fn first_from(&self, start: &[u8]) -> Result<Option<Vec<u8>>, TablesError> {
        self.tables.first_key(self.table, start, self.keys.1)
    }

    /// Returns up to [`RUN_KEYS`] keys from `start` on, and whether no key follows them.
    fn run(&self, start: &[u8]) -> Result<(Run, bool), TablesError> {
        let (mut run, mut is_all) = (Run::new(), true);
        let mut left = RUN_KEYS;
        self.tables
            .scan(self.table, start, self.keys.1, &mut |key, _| {
                if left == 0 {
                    is_all = false;
                    return ControlFlow::Break(());
                }
                left -= 1;
                run.extend(self.values(key));
                ControlFlow::Continue(())
            })?;
        Ok((run, is_all))
    }

    /// Returns the values of a key; none if it does not decode, which counts as no row.
    fn values(&self, key: &[u8]) -> Option<Vec<Value>> {
        decode_sorted(self.columns, &self.types, key).ok()
    }

    /// Estimates the rows for each combination of values in the first `count` columns, from the
    /// first combinations.
    fn by_values(&self, rows: u64, ends: (&[u8], &[u8]), count: usize) -> Result<u64, TablesError> {
        let mut at = ends.0.to_vec();
        for found in 1..=VALUES_MAX {
            let Some(values) = self.values(&at) else {
                return Ok(0);
            };
            let prefix = encode_prefix(self.columns, &values[..count]);
            let next = match prefix_end(&prefix) {
                Some(next) => self.first_from(&next)?,
                None => None,
            };
            match next {
                Some(next) => at = next,
                None => return Ok(rows / found),
            }
        }
        let part = part_before(ends, &at);
        Ok((rows as f64 * part / VALUES_MAX as f64) as u64)
    }
}

/// Returns the rows for each combination of values in the first `count` columns, on average over
/// the runs, and the most neighbouring rows with one combination.
fn in_runs(runs: &[Run], count: usize) -> (u64, usize) {
    let (mut rows, mut combinations, mut longest) = (0, 0, 0);
    for run in runs {
        for equal in run.chunk_by(|one, next| one[..count] == next[..count]) {
            rows += equal.len() as u64;
            combinations += 1;
            longest = longest.max(equal.len());
        }
    }
    (rows.div_ceil(combinations.max(1)).max(1), longest)
}
