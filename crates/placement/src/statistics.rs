//! Computes the median and other percentiles of figures, by one definition for all reports.
//!
//! Between two neighbours a percentile is interpolated, so that the median of an even number of
//! figures is the mean of the middle two.

use alloc::vec::Vec;

/// Returns the middle value, or the mean of the middle two if their number is even; NaN without
/// values.
pub fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// Returns the value below which this fraction of the values lies; 0 gives the least value, 1 the
/// greatest. NaN without values.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    percentiles(values, &[share])[0]
}

/// Returns several percentiles of the same values, each as [`percentile`] has it.
///
/// # Panics
/// If a share is not between 0 and 1.
pub fn percentiles(values: &[f64], shares: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let value = |share: &f64| {
        assert!((0.0..=1.0).contains(share), "a share is from 0 to 1");
        let Some(last) = sorted.len().checked_sub(1) else {
            return f64::NAN;
        };
        let position = last as f64 * share;
        let below = position as usize;
        let above = last.min(below + 1);
        let part = position - below as f64;
        sorted[below] + (sorted[above] - sorted[below]) * part
    };
    shares.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn percentiles_count_from_the_least() {
        let values: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        let found = percentiles(&values, &[0.0, 0.5, 0.99, 0.995, 1.0]);
        assert_eq!(found, [1.0, 51.0, 100.0, 100.5, 101.0]);
    }
}
