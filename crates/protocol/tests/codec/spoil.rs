//! Valid bytes, spoilt a little or not at all, the same ones in each run: what the fuzzer does, so
//! that every run of the tests does some of it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const ROUNDS: u64 = 4000;
/// Numbers that lengths and tags are overwritten with.
const INTERESTING: [u32; 6] = [0, 1, 0xff, 1 << 16, 1 << 31, u32::MAX];

/// Xorshift, by Marsaglia: enough to spoil bytes with, and the same for ever.
pub struct Random(u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }

    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.next() as u8,
                2 => bytes.truncate(at),
                3 => {
                    let piece = self.bytes(9);
                    bytes.splice(at..at, piece);
                }
                _ => {
                    let number = INTERESTING[self.below(INTERESTING.len())].to_le_bytes();
                    let end = bytes.len().min(at + 4);
                    bytes[at..end].copy_from_slice(&number[..end - at]);
                }
            }
        }
    }
}

/// Runs an entry on bytes that are valid, spoilt or drawn at random.
pub fn holds_for_spoilt_bytes(
    name: &str,
    entry: fn(&[u8]),
    valid: impl Fn(&mut Random) -> Vec<u8>,
) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..ROUNDS {
        let mut bytes = match round % 8 {
            0 => random.bytes(200),
            _ => valid(&mut random),
        };
        if round % 8 > 1 {
            random.spoil(&mut bytes);
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| entry(&bytes))) {
            eprintln!("{name} failed in round {round} on {bytes:02x?}");
            resume_unwind(panic);
        }
    }
}
