//! Computes the cost of a layout after failures, and finds the hybrid with the lowest cost (Replex
//! sections 2.4, 3.2 and 5.3).
//!
//! Predictions come from `cover`, by which clients read, so that measured figures must equal
//! predicted ones (F4). Gathering read rates, and changing a table, is for others.

use alloc::vec::Vec;
use core::fmt;

use crate::cover::{Cover, CoverCosts, cover};
use crate::grid::Layout;

/// The most partitions of a replex, and the most second failures of each, that a prediction
/// examines. If there are more, it examines a sample at even distances. Partitions of a replex
/// differ only by their coordinates, so the sample is representative.
pub const SAMPLES_MAX: usize = 64;

/// The number of partitions that reads by one replex's sorting key visit after failures.
#[derive(Clone, Debug, PartialEq)]
pub struct Amplification {
    /// Index into [`Layout::replexes`].
    pub replex: usize,
    /// After the loss of the partition that the read needs.
    pub after_one: Spread,
    /// After the loss of that partition and of any one partition that the read would use instead.
    pub after_two: Spread,
}

/// Statistics of the number of visited partitions, over all cases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The largest number among the readable cases.
    pub max: u32,
    /// The mean of the readable cases; 0 if there are none.
    pub mean: f64,
    /// The number of cases in which some row cannot be read from any partition.
    pub unreadable: u32,
    /// The number of all cases.
    pub cases: u32,
}

impl fmt::Display for Spread {
    /// Returns the worst case, with the mean and the lost share where they differ from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread {
            max,
            mean,
            unreadable,
            cases,
        } = *self;
        if unreadable == cases {
            return f.write_str("lost");
        }
        write!(f, "{max}")?;
        if f64::from(max) - mean > 0.05 {
            write!(f, " (mean {mean:.1})")?;
        }
        if unreadable > 0 {
            write!(f, ", lost in {unreadable} of {cases} cases")?;
        }
        Ok(())
    }
}

impl Spread {
    fn of(cases: &[Option<u32>]) -> Spread {
        let readable: Vec<u32> = cases.iter().copied().flatten().collect();
        let total: u64 = readable.iter().map(|visited| u64::from(*visited)).sum();
        Spread {
            max: readable.iter().copied().max().unwrap_or(0),
            mean: if readable.is_empty() {
                0.0
            } else {
                total as f64 / readable.len() as f64
            },
            unreadable: (cases.len() - readable.len()) as u32,
            cases: cases.len() as u32,
        }
    }
}

/// Returns the best divisions (n1, n2) of a hybrid of A and B, with n1 · n2 = `partitions`. They
/// minimise the expected amplification λA · n2 + λB · n1 for the rates of reads by A and by B,
/// because a failure in A costs n2 and a failure in B costs n1. The optimum is n1 = √(p · λA / λB),
/// rounded to the better divisor. Among equal results the most even divisions are chosen.
pub fn best_divisions(partitions: u32, reads_a: u64, reads_b: u64) -> (u32, u32) {
    assert!(partitions > 0, "a replex has partitions");
    let divisors = (1..=partitions).filter(|n1| partitions.is_multiple_of(*n1));
    let best = divisors
        .map(|n1| (n1, partitions / n1))
        .min_by_key(|(n1, n2)| {
            let cost =
                u128::from(reads_a) * u128::from(*n2) + u128::from(reads_b) * u128::from(*n1);
            (cost, n1 + n2)
        });
    best.expect("1 divides every number")
}

/// Returns `count` factors of `partitions`, as even as its divisors allow, the largest first.
/// [`Layout::hybrids_between`] needs one factor more than it makes hybrids.
pub fn even_factors(partitions: u32, count: usize) -> Vec<u32> {
    assert!(partitions > 0, "a replex has partitions");
    let mut rest = partitions;
    let mut factors: Vec<u32> = Vec::with_capacity(count);
    for left in (1..=count).rev() {
        // The smallest divisor whose power reaches the rest leaves the others no larger.
        let fits = |it: &u32| {
            rest.is_multiple_of(*it)
                && it
                    .checked_pow(left as u32)
                    .is_none_or(|power| power >= rest)
        };
        let factor = (1..=rest).find(fits).expect("the rest itself fits");
        factors.push(factor);
        rest /= factor;
    }
    factors.sort_unstable_by(|a, b| b.cmp(a));
    factors
}

/// Returns the amplification of reads by each replex after one failure and after two, with the
/// costs of lookups.
pub fn amplification(layout: &Layout) -> Vec<Amplification> {
    layout
        .numbers()
        .map(|replex| amplification_of(layout, replex))
        .collect()
}

/// Returns the amplification of reads by one replex, as [`amplification`] does.
pub fn amplification_of(layout: &Layout, replex: usize) -> Amplification {
    let mut after_one = Vec::new();
    let mut after_two = Vec::new();
    let partitions: Vec<u32> = (0..layout.partition_count(replex)).collect();
    let other_copies: Vec<usize> = layout.other_thin(replex).collect();
    for partition in samples(&partitions) {
        let lost = (replex, partition);
        let first = cover(layout, lost, &|_, _| true, &CoverCosts::LOOKUP);
        let from_cover = first.as_ref().map(Cover::amplification);
        if !other_copies.is_empty() {
            // Another copy of a thin index answers, with its partitions that have the same entries.
            let twins = layout.twins(replex, partition);
            let of_copy = |copy: &usize| twins.iter().filter(|(of, _)| of == copy).count() as u32;
            let mut visited: Vec<u32> = other_copies.iter().map(of_copy).collect();
            visited.sort_unstable();
            after_one.push(visited.first().copied());
            after_two.push(visited.get(1).copied().or(from_cover));
            continue;
        }
        after_one.push(from_cover);
        let members = first.map_or(Vec::new(), |cover| cover.members);
        for second in samples(&members) {
            let available =
                |replex, partition| (replex, partition) != (second.replex, second.partition);
            let cover = cover(layout, lost, &available, &CoverCosts::LOOKUP);
            after_two.push(cover.as_ref().map(Cover::amplification));
        }
    }
    Amplification {
        replex,
        after_one: Spread::of(&after_one),
        after_two: Spread::of(&after_two),
    }
}

fn samples<T: Clone>(all: &[T]) -> impl Iterator<Item = T> {
    let count = all.len().min(SAMPLES_MAX);
    (0..count).map(move |index| all[index * all.len() / count].clone())
}
