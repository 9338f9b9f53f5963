//! The bytes of a log of changes. The log is stored beside a value that is too large to be written
//! as a whole at each change.
//!
//! ```text
//! offset  bytes
//!      0      4  "RPXc"
//!      4      4  length of the change
//!      8      4  CRC-32C of length and change
//!     12      …  the change
//! ```
//! Integers are little-endian. Records follow each other, and each is durable before the next one
//! is written. So only the last one can be torn, by a crash while it was written: it was never
//! reported as kept. A bad record with a whole one after it is damage (R24).
//!
//! Not here: files, and what a change means.

use alloc::vec::Vec;

use crate::codec::Wire;

const MAGIC: &[u8; 4] = b"RPXc";
const HEADER_BYTES: usize = 12;

/// The error for a damaged log: a bad record before a valid one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDamaged {
    /// The offset of the first bad record.
    pub at: usize,
}

/// The changes of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeLog<T> {
    /// In the order in which they were written.
    pub changes: Vec<T>,
    /// The number of bytes of the complete records. A torn record may follow.
    pub whole_bytes: usize,
}

/// Returns the record of a change.
pub fn encode_record(change: &impl Wire) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&[0; 8]);
    change.encode(&mut out);
    let length = u32::try_from(out.len() - HEADER_BYTES).expect("a change is below 4 GiB");
    out[4..8].copy_from_slice(&length.to_le_bytes());
    let checksum = checksum(length, &out[HEADER_BYTES..]);
    out[8..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// Returns the changes of a log.
///
/// # Errors
/// A record is bad and is not the torn one at the end, or does not decode.
pub fn decode_log<T: Wire>(bytes: &[u8]) -> Result<ChangeLog<T>, LogDamaged> {
    let (mut changes, mut at) = (Vec::new(), 0);
    while let Some((change, size)) = record(&bytes[at..]) {
        // The checksum matches: these are the bytes that were written.
        changes.push(T::decode_kept(change).map_err(|_| LogDamaged { at })?);
        at += size;
    }
    let mut later = (at + 1..bytes.len()).filter(|later| bytes[*later..].starts_with(MAGIC));
    match later.any(|later| record(&bytes[later..]).is_some()) {
        true => Err(LogDamaged { at }),
        false => Ok(ChangeLog {
            changes,
            whole_bytes: at,
        }),
    }
}

/// Returns the change of the record at the start of `bytes`, and the record's size; none if there
/// is no whole one.
fn record(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length);
    let change = rest.get(..length as usize)?;
    let is_whole = checksum(length, change) == u32::from_le_bytes(*sum);
    is_whole.then_some((change, HEADER_BYTES + change.len()))
}

fn checksum(length: u32, change: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length.to_le_bytes()), change)
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;

    use super::*;

    fn log() -> (Vec<String>, Vec<u8>, Vec<usize>) {
        let changes: Vec<String> = ["first", "", "the third"].map(String::from).to_vec();
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for change in &changes {
            bytes.extend(encode_record(change));
            ends.push(bytes.len());
        }
        (changes, bytes, ends)
    }

    #[test]
    fn torn_record_is_left_out_wherever_it_is_torn() {
        let (changes, bytes, ends) = log();
        for length in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= length).count() - 1;
            let read = decode_log::<String>(&bytes[..length]).expect("it is torn, not damaged");
            assert_eq!(read.changes, changes[..whole]);
            assert_eq!(read.whole_bytes, ends[whole]);
            // A file that was made longer before its bytes were there.
            let mut longer = bytes[..length].to_vec();
            longer.resize(bytes.len() + 100, 0);
            let read = decode_log::<String>(&longer).expect("it is torn, not damaged");
            // The last bytes of a record may be zeros themselves.
            let whole = ends.iter().filter(|end| longer[..**end] == bytes[..**end]);
            assert_eq!(read.changes, changes[..whole.count() - 1]);
        }
    }

    #[test]
    fn changed_byte_before_the_last_record_is_damage() {
        let (_, bytes, ends) = log();
        for at in 0..ends[2] {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            let damaged = decode_log::<String>(&changed);
            let first = ends.iter().rev().find(|end| **end <= at).expect("0 is one");
            assert_eq!(damaged, Err(LogDamaged { at: *first }), "byte {at}");
        }
    }
}
