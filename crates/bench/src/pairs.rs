//! Runs two systems in turn, A B A B …, so that noise affects both alike. The result is the median
//! of at least five rounds.

use placement::{median, percentile, percentiles};

/// The measured values of one quantity.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    values: Vec<f64>,
}

impl Measurements {
    /// Adds a value.
    pub fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    /// Returns the values in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = f64> {
        self.values.iter().copied()
    }

    /// Returns the median of the values; NaN without values.
    pub fn median(&self) -> f64 {
        median(&self.values)
    }

    /// Returns the median of the ratios of these values to the baseline's, pair by pair. Noise that
    /// affects both values of a pair cancels out.
    pub fn ratio(&self, baseline: &Measurements) -> f64 {
        assert_eq!(
            self.values.len(),
            baseline.values.len(),
            "they are measured in pairs"
        );
        let pairs = self.values.iter().zip(&baseline.values);
        let ratios: Vec<f64> = pairs.map(|(value, baseline)| value / baseline).collect();
        median(&ratios)
    }

    /// Returns the differences of these values and the baseline's, pair by pair.
    pub fn minus(&self, other: &Measurements) -> Measurements {
        assert_eq!(
            self.values.len(),
            other.values.len(),
            "they are measured in pairs"
        );
        let pairs = self.values.iter().zip(&other.values);
        Measurements {
            values: pairs.map(|(value, other)| value - other).collect(),
        }
    }

    /// Returns the least and the greatest value.
    pub fn range(&self) -> (f64, f64) {
        (percentile(&self.values, 0.0), percentile(&self.values, 1.0))
    }
}

/// Latencies of single operations, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    values: Vec<f64>,
}

impl Latencies {
    /// Adds a latency.
    pub fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    /// Adds all latencies of another collection.
    pub fn extend(&mut self, other: Latencies) {
        self.values.extend(other.values);
    }

    /// Returns the latency below which the fraction `share` of all latencies lies.
    pub fn percentile(&self, share: f64) -> f64 {
        percentile(&self.values, share)
    }

    /// Returns the median of values that are known only in whole units. Equal values are assumed to
    /// lie evenly around their unit, so the position of the median among them gives the fraction.
    #[cfg(feature = "proxy")]
    pub fn median_of_whole(&self) -> f64 {
        let mut values = self.values.clone();
        values.sort_unstable_by(f64::total_cmp);
        let Some(unit) = values.get(values.len() / 2) else {
            return f64::NAN;
        };
        let below = values.partition_point(|value| value < unit);
        let equal = values.partition_point(|value| value <= unit) - below;
        let middle = values.len() as f64 / 2.0;
        unit - 0.5 + (middle - below as f64) / equal as f64
    }

    /// Returns the mean of the latencies.
    #[cfg(feature = "proxy")]
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// Returns points of the cumulative distribution: pairs of latency and fraction, with more
    /// points towards the tail.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let shares = (0..=99).map(|percent| f64::from(percent) / 100.0);
        let tail = [0.995, 0.999, 0.9999];
        let shares: Vec<f64> = shares.chain(tail).collect();
        let values = percentiles(&self.values, &shares);
        values.into_iter().zip(shares).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: &[f64]) -> Measurements {
        Measurements {
            values: values.to_vec(),
        }
    }

    #[test]
    fn ratios_are_taken_within_pairs() {
        // The second pair ran on a machine twice as slow; the ratio does not mind.
        let ours = figures(&[3.0, 6.0, 3.0]);
        let baseline = figures(&[2.0, 4.0, 2.0]);
        assert_eq!(ours.ratio(&baseline), 1.5);
        assert_eq!(ours.median(), 3.0);
        assert_eq!(ours.range(), (3.0, 6.0));
    }

    #[test]
    fn the_median_of_an_even_number_is_between_two() {
        assert_eq!(figures(&[9.0, 1.0, 2.0, 4.0]).median(), 3.0);
        let baseline = figures(&[1.0, 1.0, 1.0, 1.0]);
        assert_eq!(figures(&[9.0, 1.0, 2.0, 4.0]).ratio(&baseline), 3.0);
        assert!(Measurements::default().median().is_nan());
    }

    #[test]
    fn percentiles_count_from_the_least() {
        let latencies = Latencies {
            values: (1..=101).rev().map(f64::from).collect(),
        };
        assert_eq!(latencies.percentile(0.5), 51.0);
        assert_eq!(latencies.percentile(0.99), 100.0);
        assert!(Latencies::default().percentile(0.5).is_nan());
    }

    #[cfg(feature = "proxy")]
    #[test]
    fn a_median_of_whole_units_is_finer_than_they_are() {
        // Evenly from 10 to 12, whole to the nearest: the middle is 11, wherever they are cut.
        let whole = |by: f64| Latencies {
            values: (0..1000)
                .map(|n| (10.0 + by + 2.0 * f64::from(n) / 1000.0).round())
                .collect(),
        };
        for by in [0.0, 0.3, 0.5, 0.9] {
            let median = whole(by).median_of_whole();
            assert!((median - 11.0 - by).abs() < 0.01, "{by}: {median}");
        }
        assert!(Latencies::default().median_of_whole().is_nan());
    }
}
