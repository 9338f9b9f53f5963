//! The outcome of each test of a suite: passed or failed.

use std::collections::BTreeMap;

/// The outcomes of the tests of one run, by name.
#[derive(Debug, Default)]
pub struct TestOutcomes {
    passed: BTreeMap<String, bool>,
    /// Whether the suite was ended because it took too long.
    pub timed_out: bool,
}

impl TestOutcomes {
    /// Records a test. A test that is reported more than once has passed if it passed every time.
    pub fn note(&mut self, name: impl Into<String>, has_passed: bool) {
        *self.passed.entry(name.into()).or_insert(true) &= has_passed;
    }

    /// Returns how many tests passed, and how many failed. Skipped tests do not count.
    pub fn sums(&self) -> (usize, usize) {
        let passed = self.passed.values().filter(|passed| **passed).count();
        (passed, self.passed.len() - passed)
    }

    /// Returns the tests that passed in this run and did not pass in the other run.
    pub fn differences(&self, there: &TestOutcomes) -> Vec<String> {
        let here = self.passed.iter().filter(|(_, passed)| **passed);
        let differ = here.filter(|(name, _)| there.passed.get(*name) != Some(&true));
        differ.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_that_fails_only_through_the_proxy_differs() {
        let (mut here, mut there) = (TestOutcomes::default(), TestOutcomes::default());
        for (name, passed) in [("a", true), ("b", true), ("c", false), ("d", true)] {
            here.note(name, passed);
        }
        for (name, passed) in [("a", true), ("b", false), ("c", true)] {
            there.note(name, passed);
        }
        assert_eq!(here.differences(&there), ["b", "d"]);
        assert_eq!(here.sums(), (3, 1));
    }

    #[test]
    fn a_test_fails_if_a_part_of_it_does() {
        let mut outcomes = TestOutcomes::default();
        outcomes.note("a", false);
        outcomes.note("a", true);
        assert_eq!(outcomes.sums(), (0, 1));
    }
}
