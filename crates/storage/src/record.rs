//! Encodes the log's records. They are pure functions over buffers, which the simulator's disk
//! uses, too.
//!
//! A record is a header of [`HEADER_BYTES`] and its payload, padded to [`ALIGNMENT`]. Its CRC-32C
//! is seeded by the [`SegmentKey`] of the file it was written to, so that bytes left over from an
//! earlier use of a recycled file, or written to the wrong file, never pass. The layout is drawn in
//! `docs/reference/storage-format.md`. This module knows nothing of files and of the meaning of
//! payloads.

use placement::Position;

/// The number of bytes of a record before its payload.
pub const HEADER_BYTES: usize = 32;

/// Records start at multiples of this number of bytes, counted from the first record of the
/// segment.
pub const ALIGNMENT: usize = 8;

/// While a scan looks for a valid record after a bad one it checks at most this many times
/// the remaining bytes, so that crafted bytes cannot make it quadratic.
const RESYNC_WORK_FACTOR: usize = 8;

/// A planted bug: checksums are not checked (R24). The simulator must notice it.
#[cfg(feature = "planted")]
pub static CHECKSUM_UNCHECKED: std::sync::atomic::AtomicBool =
    std::sync::atomic::AtomicBool::new(false);

/// Identifies one use of one segment file. All uses in a log differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentKey {
    /// The log's identity: a random number, made when the log was created (R16).
    pub identity: u64,
    /// The position of the first record in the segment.
    pub first: Position,
    /// The number of times that a restart has copied this segment (R23).
    pub generation: u32,
}

impl SegmentKey {
    /// Returns the checksum that every record of this segment continues from.
    fn seed(&self) -> u32 {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.identity.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[16..].copy_from_slice(&self.generation.to_le_bytes());
        crc32c::crc32c(&bytes)
    }
}

/// A record as it was appended. The payload is borrowed from the scanned buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRecord<'a> {
    /// The position of the record.
    pub position: Position,
    /// The epoch of the configuration when the record was appended.
    pub epoch: u64,
    /// All records up to and including this position were durable when the record was appended.
    pub durable: Position,
    /// The payload from the state machine.
    pub payload: &'a [u8],
}

/// Returns the bytes that a record with this payload takes in a segment.
pub const fn record_bytes(payload_bytes: usize) -> usize {
    (HEADER_BYTES + payload_bytes).next_multiple_of(ALIGNMENT)
}

/// Encodes the records of one segment.
#[derive(Clone, Copy, Debug)]
pub struct Encoder {
    seed: u32,
}

impl Encoder {
    /// Returns an encoder for the segment `key`.
    pub fn new(key: &SegmentKey) -> Self {
        Self { seed: key.seed() }
    }

    /// Appends the encoding of `record` to `out`, [`record_bytes`] in all. The payload must be
    /// shorter than 4 GiB.
    pub fn encode(&self, record: &StoredRecord, out: &mut Vec<u8>) {
        let length = u32::try_from(record.payload.len()).expect("the log limits records");
        assert!(record.durable < record.position, "durable before appended");
        let start = out.len();
        let mut header = [0; HEADER_BYTES];
        header[4..8].copy_from_slice(&length.to_le_bytes());
        header[8..16].copy_from_slice(&record.position.0.to_le_bytes());
        header[16..24].copy_from_slice(&record.epoch.to_le_bytes());
        header[24..32].copy_from_slice(&record.durable.0.to_le_bytes());
        let checksum = crc32c::crc32c_append(self.seed, &header[4..]);
        let checksum = crc32c::crc32c_append(checksum, record.payload);
        header[..4].copy_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(record.payload);
        out.resize(start + record_bytes(record.payload.len()), 0);
    }
}

/// An item of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanItem<'a> {
    /// The next valid record.
    Record(StoredRecord<'a>),
    /// Invalid bytes with a valid record after them: damage, not a torn tail (R24).
    Gap(Gap),
}

/// A range of missing records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first missing position.
    pub from: Position,
    /// The first position after the gap. It equals `from` if a record is in the wrong place.
    pub to: Position,
}

/// Reads the records of a segment in order. It accepts any bytes without panicking or looping.
///
/// The iteration ends at the first byte that starts no valid record and has none after it;
/// [`SegmentScan::offset`] then is where the next record would go, [`SegmentScan::expected`] its
/// position.
#[derive(Clone, Debug)]
pub struct SegmentScan<'a> {
    seed: u32,
    bytes: &'a [u8],
    offset: usize,
    expected: Position,
    /// The durable position in the last valid record.
    durable: Position,
}

impl<'a> SegmentScan<'a> {
    /// Returns a scan of `bytes`, the records of segment `key`.
    pub fn new(key: &SegmentKey, bytes: &'a [u8]) -> Self {
        Self {
            seed: key.seed(),
            bytes,
            offset: 0,
            expected: key.first,
            durable: Position::ZERO,
        }
    }

    /// Returns the offset after the last valid record.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the expected position of the next record.
    pub fn expected(&self) -> Position {
        self.expected
    }

    fn candidate(&self, offset: usize) -> Option<Candidate<'a>> {
        let header = self.bytes.get(offset..offset.checked_add(HEADER_BYTES)?)?;
        let length = word(&header[4..8]) as usize;
        let start = offset + HEADER_BYTES;
        let payload = self.bytes.get(start..start.checked_add(length)?)?;
        let record = StoredRecord {
            position: Position(long(&header[8..16])),
            epoch: long(&header[16..24]),
            durable: Position(long(&header[24..32])),
            payload,
        };
        Some(Candidate {
            checksum: word(&header[..4]),
            header,
            record,
        })
    }

    fn valid(&self, candidate: &Candidate) -> bool {
        #[cfg(feature = "planted")]
        if CHECKSUM_UNCHECKED.load(std::sync::atomic::Ordering::Relaxed) {
            return true;
        }
        let checksum = crc32c::crc32c_append(self.seed, &candidate.header[4..]);
        crc32c::crc32c_append(checksum, candidate.record.payload) == candidate.checksum
    }

    fn advance(&mut self, offset: usize, record: &StoredRecord) {
        self.offset = (offset + record_bytes(record.payload.len())).min(self.bytes.len());
        self.expected = record.position.next();
        self.durable = record.durable;
    }

    /// Returns whether a record of this log can be there, behind a bad one. Recycled files are full
    /// of bytes that could be anything, so everything is checked that can be without its checksum.
    fn is_plausible(&self, offset: usize, record: &StoredRecord) -> bool {
        // Later positions are left over from overwritten data. Each missing record took a header at
        // least.
        let missing = record.position.0.checked_sub(self.expected.0);
        let room = ((offset - self.offset) / HEADER_BYTES) as u64;
        // Durable records stay durable.
        let durable = self.durable..record.position;
        missing.is_some_and(|missing| missing <= room) && durable.contains(&record.durable)
    }

    /// Returns the first valid record after the bad one at `self.offset`, and where it is.
    fn resync(&self) -> Option<(usize, Position)> {
        let rest = self.bytes.len() - self.offset;
        let mut work = rest.saturating_mul(RESYNC_WORK_FACTOR);
        let mut offset = self.offset + ALIGNMENT;
        while let Some(candidate) = self.candidate_or_short(offset) {
            if let Some(candidate) = candidate {
                let position = candidate.record.position;
                if self.is_plausible(offset, &candidate.record) {
                    let cost = candidate.record.payload.len() + HEADER_BYTES;
                    let Some(left) = work.checked_sub(cost) else {
                        // Bytes made to look like records: this tail cannot be trusted.
                        return Some((self.bytes.len(), position));
                    };
                    work = left;
                    if self.valid(&candidate) {
                        return Some((offset, position));
                    }
                }
            }
            offset += ALIGNMENT;
        }
        None
    }

    /// Returns the candidate for a record at an offset; none after the last offset at which a
    /// header fits, and `Some(None)` if the length is invalid.
    fn candidate_or_short(&self, offset: usize) -> Option<Option<Candidate<'a>>> {
        (offset + HEADER_BYTES <= self.bytes.len()).then(|| self.candidate(offset))
    }
}

impl<'a> Iterator for SegmentScan<'a> {
    type Item = ScanItem<'a>;

    fn next(&mut self) -> Option<ScanItem<'a>> {
        let here = self
            .candidate(self.offset)
            .filter(|candidate| candidate.record.position == self.expected)
            .filter(|candidate| candidate.record.durable < self.expected)
            .filter(|candidate| candidate.record.position.0 < u64::MAX)
            .filter(|candidate| self.valid(candidate));
        if let Some(candidate) = here {
            self.advance(self.offset, &candidate.record);
            return Some(ScanItem::Record(candidate.record));
        }
        let (offset, position) = self.resync()?;
        let gap = Gap {
            from: self.expected,
            to: position,
        };
        self.offset = offset;
        self.expected = position;
        Some(ScanItem::Gap(gap))
    }
}

#[derive(Clone, Copy)]
struct Candidate<'a> {
    checksum: u32,
    header: &'a [u8],
    record: StoredRecord<'a>,
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("the caller cuts four bytes"))
}

fn long(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("the caller cuts eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: SegmentKey = SegmentKey {
        identity: 7,
        first: Position(100),
        generation: 2,
    };

    /// Payloads of lengths that exercise the padding.
    fn payload(index: u64) -> Vec<u8> {
        (0..index * 5 % 23).map(|byte| byte as u8 ^ 0x5a).collect()
    }

    fn encoded(count: u64) -> (Vec<u8>, Vec<usize>) {
        let encoder = Encoder::new(&KEY);
        let (mut bytes, mut ends) = (vec![], vec![]);
        for index in 0..count {
            let record = StoredRecord {
                position: Position(KEY.first.0 + index),
                epoch: index / 3,
                durable: Position(KEY.first.0 + index - 1),
                payload: &payload(index),
            };
            encoder.encode(&record, &mut bytes);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    fn positions(bytes: &[u8]) -> (Vec<u64>, Vec<Gap>) {
        let (mut records, mut gaps) = (vec![], vec![]);
        for item in SegmentScan::new(&KEY, bytes) {
            match item {
                ScanItem::Record(record) => {
                    assert_eq!(record.payload, payload(record.position.0 - KEY.first.0));
                    records.push(record.position.0 - KEY.first.0);
                }
                ScanItem::Gap(gap) => gaps.push(gap),
            }
        }
        (records, gaps)
    }

    #[test]
    fn round_trip_with_zeroes_behind() {
        let (mut bytes, ends) = encoded(9);
        bytes.resize(bytes.len() + 4096, 0);
        assert_eq!(positions(&bytes), ((0..9).collect(), vec![]));
        let mut scan = SegmentScan::new(&KEY, &bytes);
        scan.by_ref().for_each(drop);
        assert_eq!(scan.offset(), ends[8]);
        assert_eq!(scan.expected(), Position(109));
    }

    #[test]
    fn torn_tail_at_every_byte_is_a_cut() {
        let (bytes, ends) = encoded(5);
        for keep in 0..=bytes.len() {
            let mut torn = bytes[..keep].to_vec();
            torn.resize(bytes.len() + 64, 0);
            // Padding and a payload's trailing zeroes need not be written to be there.
            let whole = (0..5)
                .filter(|&index| torn[..ends[index]] == bytes[..ends[index]])
                .count() as u64;
            assert_eq!(positions(&torn), ((0..whole).collect(), vec![]), "{keep}");
        }
    }

    #[test]
    fn flipped_bit_shows_as_gap_unless_last() {
        let (bytes, ends) = encoded(5);
        let padding = |at: usize| {
            let index = ends.iter().position(|&end| at < end).unwrap();
            at >= ends[index]
                - (record_bytes(payload(index as u64).len())
                    - HEADER_BYTES
                    - payload(index as u64).len())
        };
        for at in (0..bytes.len()).filter(|&at| !padding(at)) {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let hit = ends.iter().position(|&end| at < end).unwrap() as u64;
                let (records, gaps) = positions(&flipped);
                if hit == 4 {
                    assert_eq!((records, gaps), ((0..4).collect(), vec![]));
                } else {
                    let others = (0..5).filter(|&index| index != hit).collect::<Vec<_>>();
                    let gap = Gap {
                        from: Position(100 + hit),
                        to: Position(101 + hit),
                    };
                    assert_eq!((records, gaps), (others, vec![gap]), "byte {at} bit {bit}");
                }
            }
        }
    }

    #[test]
    fn record_of_another_use_is_ignored() {
        let (bytes, _) = encoded(4);
        for key in [
            SegmentKey { identity: 8, ..KEY },
            SegmentKey {
                generation: 3,
                ..KEY
            },
            SegmentKey {
                first: Position(101),
                ..KEY
            },
        ] {
            assert_eq!(SegmentScan::new(&key, &bytes).next(), None);
        }
    }

    #[test]
    fn duplicated_record_behind_the_tail_is_ignored() {
        let (mut bytes, ends) = encoded(4);
        let copy = bytes[ends[1]..ends[2]].to_vec();
        bytes.extend_from_slice(&copy);
        assert_eq!(positions(&bytes), ((0..4).collect(), vec![]));
    }

    #[test]
    fn record_in_a_later_place_is_damage() {
        let (bytes, ends) = encoded(4);
        let mut moved = bytes[..ends[1]].to_vec();
        moved.resize(ends[1] + 40, 0);
        moved.extend_from_slice(&bytes[ends[1]..ends[2]]);
        let gap = Gap {
            from: Position(102),
            to: Position(102),
        };
        assert_eq!(positions(&moved), (vec![0, 1, 2], vec![gap]));
    }

    #[test]
    fn crafted_headers_end_the_scan_in_bounded_work() {
        // Every aligned place claims to be the next record, with all the rest as payload.
        let bytes_count = 1 << 20;
        let mut bytes = vec![0; bytes_count];
        for at in (0..bytes_count - HEADER_BYTES).step_by(HEADER_BYTES) {
            let length = (bytes_count - at - HEADER_BYTES) as u32;
            bytes[at + 4..at + 8].copy_from_slice(&length.to_le_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&100_u64.to_le_bytes());
        }
        let items = SegmentScan::new(&KEY, &bytes).collect::<Vec<_>>();
        assert!(matches!(items[..], [ScanItem::Gap(_)]), "{items:?}");
    }

    #[test]
    fn leftovers_that_look_like_records_are_no_damage() {
        let (mut bytes, ends) = encoded(4);
        let tail = 1 << 20;
        bytes.resize(ends[3] + tail, 0);
        // Remains of an earlier use of the file: plausible lengths, with either a position that
        // cannot have been reached so soon, or a durable position below that of the last record.
        let leftovers = [(17_104_u64, 103_u64, tail / 2), (20_000, 101, tail)];
        for (position, durable, reach) in leftovers {
            let mut bytes = bytes.clone();
            for at in (ends[3]..ends[3] + reach - HEADER_BYTES).step_by(HEADER_BYTES) {
                let length = (bytes.len() - at - HEADER_BYTES) as u32;
                bytes[at + 4..at + 8].copy_from_slice(&length.to_le_bytes());
                bytes[at + 8..at + 16].copy_from_slice(&position.to_le_bytes());
                bytes[at + 24..at + 32].copy_from_slice(&durable.to_le_bytes());
            }
            assert_eq!(positions(&bytes), ((0..4).collect(), vec![]));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut last = Position::ZERO;
            for item in SegmentScan::new(&KEY, &bytes) {
                if let ScanItem::Record(record) = item {
                    prop_assert!(record.position > last);
                    last = record.position;
                }
            }
        }

        #[test]
        fn damaged_logs_yield_only_written_records(
            hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let (mut bytes, _) = encoded(20);
            for (at, value) in hits {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            let (records, _) = positions(&bytes);
            prop_assert!(records.is_sorted());
        }
    }
}
