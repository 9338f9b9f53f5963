//! Segment files of the log: their names and their first block.
//!
//! A segment holds one block of [`BLOCK_BYTES`] with the header, then records. It gets its name
//! only after its header is durable, so a named segment without a valid header is damage, never
//! an accident of timing. The layout is drawn in `docs/reference/storage-format.md`.

use placement::Position;

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::record::SegmentKey;

/// The bytes before the first record. They are a separate block, so that writing records never
/// rewrites them.
pub const BLOCK_BYTES: usize = 4096;

/// The format of log files that this program writes, and the newest one that it reads.
pub const FORMAT: u32 = 1;

const MAGIC: [u8; 8] = *b"RPLXLOG\n";
const HEADER_BYTES: usize = 48;

/// The contents of the first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The use of the file.
    pub key: SegmentKey,
    /// All records up to this position were durable when the segment was created.
    pub durable: Position,
}

/// The reason why a first block is not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// A newer program wrote it: magic and checksum are valid, but the format is unknown.
    Newer(u32),
    /// The block is damaged.
    Bad,
}

impl SegmentHeader {
    /// Returns the encoded header, for the start of the first block.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[12..16].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.key.identity.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.key.first.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.durable.0.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.key.generation.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the start of a first block.
    ///
    /// # Errors
    /// See [`HeaderError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let bytes: &[u8; HEADER_BYTES] = bytes
            .get(..HEADER_BYTES)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(HeaderError::Bad)?;
        let word = |at: usize| {
            u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes are cut"))
        };
        let long = |at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes are cut"))
        };
        if bytes[..8] != MAGIC || word(8) != crc32c::crc32c(&bytes[12..]) {
            return Err(HeaderError::Bad);
        }
        if word(12) != FORMAT {
            return Err(HeaderError::Newer(word(12)));
        }
        Ok(Self {
            key: SegmentKey {
                identity: long(16),
                first: Position(long(24)),
                generation: word(40),
            },
            durable: Position(long(32)),
        })
    }
}

/// Returns the name of a segment: first position, then generation. Names sort like positions.
pub fn segment_name(key: &SegmentKey) -> String {
    format!("{:020}-{:06}.log", key.first.0, key.generation)
}

/// Returns the first position and the generation in a segment's name; none for another file's name.
pub fn parse_segment_name(name: &str) -> Option<(Position, u32)> {
    let (first, generation) = name.strip_suffix(".log")?.split_once('-')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let shaped = first.len() == 20 && generation.len() >= 6 && digits(first) && digits(generation);
    shaped.then_some(())?;
    Some((Position(first.parse().ok()?), generation.parse().ok()?))
}

/// Creates a segment from the spare file named `spare`. Afterwards its header, its name and the
/// folder are durable.
pub(crate) fn begin(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    spare: &str,
    header: &SegmentHeader,
) -> Result<(), StorageError> {
    let name = segment_name(&header.key);
    let mut block = [0; BLOCK_BYTES];
    block[..HEADER_BYTES].copy_from_slice(&header.encode());
    file.write_at(0, &block)
        .and_then(|()| file.sync())
        .and_then(|()| disk.rename(spare, &name))
        .and_then(|()| disk.sync_folder())
        .map_err(StorageError::io(format!("begin log segment {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: SegmentHeader = SegmentHeader {
        key: SegmentKey {
            identity: 0x0123_4567_89ab_cdef,
            first: Position(77),
            generation: 3,
        },
        durable: Position(76),
    };

    #[test]
    fn header_round_trip() {
        assert_eq!(SegmentHeader::decode(&HEADER.encode()), Ok(HEADER));
    }

    #[test]
    fn every_flipped_bit_is_bad() {
        for at in 0..HEADER_BYTES * 8 {
            let mut bytes = HEADER.encode();
            bytes[at / 8] ^= 1 << (at % 8);
            assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderError::Bad), "{at}");
        }
        for length in 0..HEADER_BYTES {
            let bytes = HEADER.encode();
            assert_eq!(
                SegmentHeader::decode(&bytes[..length]),
                Err(HeaderError::Bad)
            );
        }
    }

    #[test]
    fn newer_format_is_distinguished_from_damage() {
        let mut bytes = HEADER.encode();
        bytes[12] = 2;
        let checksum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderError::Newer(2)));
    }

    #[test]
    fn names_round_trip_and_others_are_refused() {
        let name = segment_name(&HEADER.key);
        assert_eq!(name, "00000000000000000077-000003.log");
        assert_eq!(parse_segment_name(&name), Some((Position(77), 3)));
        for other in [
            "spare-1",
            "77-3.log",
            "lock",
            "",
            "-.log",
            "x0000000000000000077-000003.log",
        ] {
            assert_eq!(parse_segment_name(other), None, "{other}");
        }
    }
}
