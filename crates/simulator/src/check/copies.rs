//! I5: at rest all replexes hold equal sets of (pk, version, row).

use super::partition_contents::{PartitionContents, of_replex};

/// Compares every replex, by number, with the primary one.
pub fn equal(
    rest: &PartitionContents,
    primary: usize,
    replexes: impl Iterator<Item = usize>,
) -> Result<(), String> {
    let primary = of_replex(rest, primary);
    for replex in replexes {
        let copy = of_replex(rest, replex);
        if copy != primary {
            let missing: Vec<_> = primary.iter().filter(|row| !copy.contains(row)).collect();
            let extra: Vec<_> = copy.iter().filter(|row| !primary.contains(row)).collect();
            return Err(format!(
                "replex {replex} lacks {missing:?} and has {extra:?} beyond the primary replex"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::partition_contents::PartitionRows;
    use protocol::identity::PartitionId;

    #[test]
    fn a_version_that_differs_is_a_difference() {
        let row = [0, 1, 2, 3, 4, 5, 6];
        let rows = |version| PartitionRows {
            rows: vec![(vec![1], version, row)],
            ..PartitionRows::default()
        };
        let id = |replex| PartitionId {
            replex,
            ..PartitionId::default()
        };
        let rest = PartitionContents::from([(id(0), rows(5)), (id(1), rows(5))]);
        assert_eq!(equal(&rest, 0, 0..2), Ok(()));
        let rest = PartitionContents::from([(id(0), rows(5)), (id(1), rows(6))]);
        assert!(equal(&rest, 0, 0..2).is_err());
        let rest = PartitionContents::from([(id(0), rows(5))]);
        assert!(equal(&rest, 0, 0..2).is_err());
    }
}
