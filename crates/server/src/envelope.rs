//! The header of small records in files and in etcd: the kind of the record, its format, and a
//! checksum.
//!
//! ```text
//! offset  bytes
//!      0      8  what it is
//!      8      2  format version
//!     10      4  CRC-32C of all that follows
//!     14      …  the record
//! ```
//! Integers are little-endian. The content belongs to its owner.

use protocol::codec::Wire;

const HEADER_BYTES: usize = 14;

/// The format of a file with one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The first bytes.
    pub magic: &'static [u8; 8],
    /// The only format that this program reads and writes.
    pub format: u16,
}

/// The reason why bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvelopeError {
    /// The bytes are damaged.
    Damaged,
    /// The bytes have this format, which this program does not support.
    Format(u16),
}

impl Envelope {
    /// Returns the encoded record in its envelope.
    pub fn encode(self, record: &impl Wire) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        self.format.encode(&mut out);
        out.extend_from_slice(&[0; 4]);
        record.encode(&mut out);
        let checksum = crc32c::crc32c(&out[HEADER_BYTES..]);
        out[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Decodes a record in its envelope.
    pub fn decode<T: Wire>(self, bytes: &[u8]) -> Result<T, EnvelopeError> {
        let rest = bytes
            .strip_prefix(self.magic)
            .ok_or(EnvelopeError::Damaged)?;
        let (format, rest) = rest.split_first_chunk().ok_or(EnvelopeError::Damaged)?;
        let format = u16::from_le_bytes(*format);
        if format != self.format {
            return Err(EnvelopeError::Format(format));
        }
        let (checksum, body) = rest.split_first_chunk().ok_or(EnvelopeError::Damaged)?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
            return Err(EnvelopeError::Damaged);
        }
        T::decode_kept(body).map_err(|_| EnvelopeError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_envelope_is_read_and_others_are_refused() {
        let envelope = Envelope {
            magic: b"RPXTESTS",
            format: 3,
        };
        let record = (7_u64, "seven".to_owned());
        let bytes = envelope.encode(&record);
        assert_eq!(envelope.decode(&bytes), Ok(record));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let read = envelope.decode::<(u64, String)>(&changed);
            let is_format = matches!(read, Err(EnvelopeError::Format(_)));
            assert!(read.is_err(), "byte {at} was changed without an error");
            assert_eq!(is_format, (8..10).contains(&at));
            let short = envelope.decode::<(u64, String)>(&bytes[..at]);
            assert!(short.is_err());
        }
    }
}
