//! I12: an acknowledged write is as durable as the table's setting promises (R26).
//!
//! At the end all processes are killed at once, and all unflushed records are lost. With `sync` the
//! rows before and after this are equal. They have all acknowledged writes, because the
//! linearisability checker reads them as one last lookup.

use crate::model::ModelRow;

/// Checks that a primary replex has the same rows, with their versions, before and after the power
/// cut.
pub fn survived(before: &[(u64, ModelRow)], after: &[(u64, ModelRow)]) -> Result<(), String> {
    if before == after {
        return Ok(());
    }
    let lost: Vec<_> = before.iter().filter(|row| !after.contains(row)).collect();
    let risen: Vec<_> = after.iter().filter(|row| !before.contains(row)).collect();
    Err(format!(
        "a power cut at rest lost {lost:?} and brought up {risen:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_risen_rows_are_named() {
        let row = [0, 1, 2, 3, 4, 5, 6];
        let (with, without) = ([(9, row)], []);
        assert_eq!(survived(&with, &with), Ok(()));
        assert!(survived(&with, &without).unwrap_err().contains("lost [(9"));
        assert!(
            survived(&without, &with)
                .unwrap_err()
                .contains("brought up [(9")
        );
    }
}
