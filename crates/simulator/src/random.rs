//! Generates random numbers that are the same in every version: xoshiro256** seeded by splitmix64
//! (Blackman, Vigna).
//!
//! A failing seed must replay on every machine and with every later version of every library, so
//! the generator is these few lines. It is no good for secrets.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Returns the stream that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let state = [(); 4].map(|()| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Self { state }
    }

    /// Returns a separate stream, so that the number of draws in one part of the simulator does not
    /// change the draws in another part.
    pub fn fork(&mut self) -> Self {
        Self::new(self.bits())
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number below `bound`, which is at least 1. The bias of the multiplication is below
    /// 2^-32 for bounds that occur here.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing is below zero");
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Decides at random with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        // No draw where there is no choice: a fault that is off costs nothing.
        probability > 0.0 && ((self.bits() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// Returns a random element of `among`.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len() as u64) as usize]
    }

    /// Returns an index, with probability proportional to its weight.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut drawn = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if drawn < *weight {
                return index;
            }
            drawn -= weight;
        }
        unreachable!("the draw is below the sum")
    }

    /// Returns a number that is exponentially distributed around `mean`, at least 1 and at most 32
    /// times the mean.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        // The logarithm in whole numbers, because libraries differ in the last bit of a float's:
        // each leading zero bit adds ln 2, the next eight bits interpolate.
        let bits = self.bits() | 1;
        let zeros = u64::from(bits.leading_zeros());
        let fraction = (bits << (zeros + 1).min(63)) >> 56;
        let units = (zeros + 1) * 256 - fraction;
        (units.saturating_mul(mean) * 177 / (256 * 256)).clamp(1, mean.saturating_mul(32).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_never_changes() {
        let mut random = Random::new(42);
        let drawn = [(); 4].map(|()| random.bits());
        // From the authors' reference code, seeded with splitmix64(42).
        assert_eq!(
            drawn,
            [
                1_546_998_764_402_558_742,
                6_990_951_692_964_543_102,
                12_544_586_762_248_559_009,
                17_057_574_109_182_124_193
            ]
        );
    }

    #[test]
    fn draws_stay_in_their_bounds_and_reach_them() {
        let mut random = Random::new(1);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[random.between(3, 7) as usize - 3] += 1;
            assert_eq!(random.weighted(&[0, 5, 0]), 1);
            assert!(!random.chance(0.0));
            assert!(random.chance(1.0));
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut random = Random::new(7);
        let sum: u64 = (0..100_000).map(|_| random.exponential(1_000)).sum();
        assert!((90_000_000..110_000_000).contains(&sum), "{sum}");
    }
}
