//! A small generator: the same numbers for the same seed, in every run.

/// Xorshift, 64 bits.
pub struct Noise(u64);

impl Noise {
    /// From a seed; zero would stay zero.
    pub fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The next number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }
}
