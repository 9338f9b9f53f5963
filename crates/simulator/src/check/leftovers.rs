//! A core's disk has no rows that the core no longer needs: rows of copies that were dropped or
//! given up, and of partitions that moved to another core, unless they may return.

use protocol::identity::{PartitionId, TableId};

/// Checks that a core keeps only sorted tables of partitions that it holds, or that may return to
/// it.
pub fn none(
    kept: impl IntoIterator<Item = u64>,
    table: TableId,
    is_own: impl Fn(PartitionId) -> bool,
) -> Result<(), String> {
    for number in kept {
        let partition = PartitionId {
            table,
            replex: (number >> 24 & 0x7f) as u8,
            number: (number & 0xffff) as u32,
        };
        if number >> 32 == u64::from(table.0) && !is_own(partition) {
            return Err(format!(
                "sorted table {number:#x} of {partition} is kept where it is not"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sorted_table_of_a_partition_is_its_own() {
        let id = |replex| PartitionId {
            table: TableId(3),
            replex,
            number: 5,
        };
        let kept = |id: PartitionId| {
            let tables = [id.rows_table(), id.departures_table()];
            tables
                .into_iter()
                .chain([id.entries_table(2), id.marks_table()])
        };
        for table in kept(id(4)) {
            assert_eq!(none([table], TableId(3), |it| it == id(4)), Ok(()));
            assert!(none([table], TableId(3), |it| it == id(2)).is_err());
            assert_eq!(none([table], TableId(2), |_| false), Ok(()));
        }
    }
}
