//! The fuzzer's entries under a generator of our own, so that every run of the tests exercises
//! them with the same bytes.

mod entries;

const ROUNDS: u32 = 20_000;

/// Xorshift, by Marsaglia: the same bytes for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn entries_hold_for_any_bytes() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..ROUNDS {
        let length = random.next() % 90;
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        // Offsets of changes, kept near the records that the first bytes ask for.
        for (index, byte) in bytes.iter_mut().enumerate().skip(1) {
            *byte &= if index % 3 == 2 { 0x07 } else { 0x3f };
        }
        if let Err(panic) = std::panic::catch_unwind(|| entries::log_scan(&bytes)) {
            eprintln!("log_scan failed in round {round} on {bytes:02x?}");
            std::panic::resume_unwind(panic);
        }
    }
}
