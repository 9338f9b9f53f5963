//! Random numbers for workloads: a small generator, and the distributions of keys that YCSB uses.
//!
//! The zipfian distribution is that of Gray et al. (SIGMOD 1994), which YCSB uses with θ = 0.99. It
//! is scrambled as in YCSB, so that popular keys are not neighbours.

/// A generator of 64-bit numbers (splitmix64) that is small and fast. Its output for a seed never
/// changes.
#[derive(Clone, Debug)]
pub struct BenchRandom(u64);

impl BenchRandom {
    /// Returns a generator. Equal seeds give equal numbers.
    pub fn new(seed: u64) -> BenchRandom {
        BenchRandom(seed)
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below 0");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from 0 up to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a string of `length` lower-case letters and digits.
    pub fn text(&mut self, length: usize) -> String {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
        let mut text = String::with_capacity(length);
        while text.len() < length {
            let mut bits = self.next();
            for _ in 0..12.min(length - text.len()) {
                text.push(char::from(LETTERS[(bits & 31) as usize]));
                bits >>= 5;
            }
        }
        text
    }
}

/// Returns a bijection of 64-bit numbers that leaves no neighbours.
fn scramble(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Zipf's distribution over the ranks 0 to count − 1, with θ = 0.99.
#[derive(Clone, Debug)]
pub struct Zipfian {
    count: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

const THETA: f64 = 0.99;

impl Zipfian {
    /// Makes a distribution over `count` ranks, in time proportional to `count`.
    pub fn new(count: u64) -> Zipfian {
        assert!(count > 1, "one rank needs no distribution");
        let zeta: f64 = (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum();
        let zeta_two = 1.0 + 2f64.powf(-THETA);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - zeta_two / zeta);
        Zipfian {
            count,
            zeta,
            alpha: 1.0 / (1.0 - THETA),
            eta,
        }
    }

    /// Returns a rank; 0 is the most popular.
    pub fn rank(&self, random: &mut BenchRandom) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let rank = self.count as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }

    /// Draws a rank, and returns the key to which a hash maps the rank: a number below the count.
    /// So popular keys are not neighbours. Several ranks may have the same key.
    pub fn key(&self, random: &mut BenchRandom) -> u64 {
        scramble(self.rank(random).wrapping_add(1)) % self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipfian_ranks_follow_the_law() {
        let count = 1000;
        let zipfian = Zipfian::new(count);
        let mut random = BenchRandom::new(7);
        let draws = 400_000;
        let mut seen = vec![0u32; count as usize];
        for _ in 0..draws {
            seen[zipfian.rank(&mut random) as usize] += 1;
        }
        let zeta: f64 = (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum();
        // The method is exact for the first two ranks and close for the others.
        for (rank, tolerance) in [(1usize, 0.03), (2, 0.03), (10, 0.15), (100, 0.25)] {
            let expected = (rank as f64).powf(-THETA) / zeta * f64::from(draws);
            let ratio = f64::from(seen[rank - 1]) / expected;
            assert!((ratio - 1.0).abs() < tolerance, "rank {rank}: {ratio}");
        }
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let mut random = BenchRandom::new(1);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(
            seen.iter().all(|count| (9_500..10_500).contains(count)),
            "{seen:?}"
        );
    }

    #[test]
    fn text_has_its_length_and_varies() {
        let mut random = BenchRandom::new(1);
        assert_eq!(random.text(0), "");
        assert_eq!(random.text(101).len(), 101);
        assert_ne!(random.text(10), random.text(10));
    }
}
