//! The value of a coordinators' state key in etcd: the number of the state and the number of its
//! parts.
//!
//! A value of etcd is to stay well below 1.5 MB, and a state may be larger than that: its bytes are
//! in parts, under keys of their own. The manifest is the one key whose revision every change is
//! guarded by. Its record (see `envelope`, "RPXETCDM") is its fields, in order.

use protocol::codec::{DecodeError, Reader, Wire};

use crate::envelope::{Envelope, EnvelopeError};

const ENVELOPE: Envelope = Envelope {
    magic: b"RPXETCDM",
    format: 1,
};

/// The bytes of one part: in base64, with the fields around it, half of etcd's limit.
pub(super) const PART_BYTES: usize = 512 << 10;

/// The record of a state and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The state's version, which the keys of its parts contain.
    pub version: u64,
    /// The instance that wrote the manifest. If an answer was lost, a coordinator recognises its
    /// own state by this number.
    pub instance: u64,
    /// The number of bytes of all parts together.
    pub bytes: u64,
    /// The CRC-32C of all parts together.
    pub checksum: u32,
    /// The new location, if the state has moved; otherwise none.
    pub moved_to: Option<String>,
}

impl Manifest {
    /// Returns the manifest for a state's bytes.
    pub fn new(version: u64, instance: u64, bytes: &[u8]) -> Manifest {
        Manifest {
            version,
            instance,
            bytes: bytes.len() as u64,
            checksum: crc32c::crc32c(bytes),
            moved_to: None,
        }
    }

    /// Returns whether these are the bytes of the manifest's state.
    pub fn names(&self, bytes: &[u8]) -> bool {
        self.bytes == bytes.len() as u64 && self.checksum == crc32c::crc32c(bytes)
    }

    /// Returns the number of parts.
    pub fn parts(&self) -> u64 {
        self.bytes.div_ceil(PART_BYTES as u64)
    }

    pub fn encode(&self) -> Vec<u8> {
        ENVELOPE.encode(self)
    }

    /// Decodes a manifest. The error describes the fault.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, String> {
        ENVELOPE.decode(bytes).map_err(|problem| match problem {
            EnvelopeError::Damaged => "it is no coordinator's state, or damaged".to_owned(),
            EnvelopeError::Format(found) => format!(
                "it is of format {found}, this program knows {}: use the release that wrote it, or \
                 a newer one",
                ENVELOPE.format
            ),
        })
    }
}

impl Wire for Manifest {
    fn encode(&self, out: &mut Vec<u8>) {
        self.version.encode(out);
        self.instance.encode(out);
        self.bytes.encode(out);
        self.checksum.encode(out);
        self.moved_to.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Manifest {
            version: Wire::decode(reader)?,
            instance: Wire::decode(reader)?,
            bytes: Wire::decode(reader)?,
            checksum: Wire::decode(reader)?,
            moved_to: Wire::decode(reader)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_its_bytes_and_counts_their_parts() {
        let bytes = vec![7; PART_BYTES + 1];
        let manifest = Manifest::new(3, 9, &bytes);
        assert!(manifest.names(&bytes));
        assert!(!manifest.names(&bytes[1..]));
        assert!(!manifest.names(&vec![8; PART_BYTES + 1]));
        assert_eq!(manifest.parts(), 2);
        assert_eq!(Manifest::new(3, 9, &bytes[1..]).parts(), 1);
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
        assert!(Manifest::decode(b"hello").is_err());
    }
}
