//! Who the server of a data folder is: the file `identity`.
//!
//! ```text
//! offset  bytes
//!      0      8  "RPXSERVR"
//!      8      2  format version
//!     10      4  CRC-32C of all that follows
//!     14      …  disk (u64), cores (u16), cluster and server (a byte; u64 and u32 if it has joined)
//! ```
//! Integers are little-endian. The disk's number is drawn when the folder is made, so that a
//! wiped folder is told from the one before (SAFETY R16).

use protocol::codec::Wire;
use protocol::identity::ServerId;

use crate::error::ServerError;
use crate::folder::Folder;

const NAME: &str = "identity";
const MAGIC: &[u8; 8] = b"RPXSERVR";
const FORMAT: u16 = 1;
const HEADER_BYTES: usize = 14;

/// A server's identity as its folder keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// Names the folder.
    pub disk: u64,
    /// Cores that have a log in the folder: one that is missing is lost, not new.
    pub cores: u16,
    /// The cluster that it belongs to and its number there, once it has joined.
    pub joined: Option<(u64, ServerId)>,
}

impl ServerIdentity {
    /// Reads it; none if the folder is new.
    ///
    /// # Errors
    /// The file is damaged or of a newer format; nothing was changed.
    pub fn read(folder: &Folder) -> Result<Option<Self>, ServerError> {
        let Some(bytes) = folder.read(NAME)? else {
            return Ok(None);
        };
        let path = folder.path().join(NAME);
        decode(&bytes).map(Some).map_err(|problem| {
            let path = path.display();
            ServerError::Folder(match problem {
                Problem::Damaged => format!(
                    "{path} is damaged: restore it from a copy, or start a new server on an empty \
                     folder"
                ),
                Problem::Format(found) => format!(
                    "{path} is of format {found}, this program knows {FORMAT}: use the release \
                     that wrote it, or a newer one; nothing was changed"
                ),
            })
        })
    }

    /// Keeps it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn write(&self, folder: &Folder) -> Result<(), ServerError> {
        folder.replace(NAME, &encode(self))
    }
}

enum Problem {
    Damaged,
    Format(u16),
}

fn encode(identity: &ServerIdentity) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    FORMAT.encode(&mut out);
    out.extend_from_slice(&[0; 4]);
    identity.disk.encode(&mut out);
    identity.cores.encode(&mut out);
    identity.joined.encode(&mut out);
    let checksum = crc32c::crc32c(&out[HEADER_BYTES..]);
    out[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> Result<ServerIdentity, Problem> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(Problem::Damaged)?;
    let (format, rest) = rest.split_first_chunk().ok_or(Problem::Damaged)?;
    let format = u16::from_le_bytes(*format);
    if format != FORMAT {
        return Err(Problem::Format(format));
    }
    let (checksum, body) = rest.split_first_chunk().ok_or(Problem::Damaged)?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
        return Err(Problem::Damaged);
    }
    let decoded = Wire::decode_all(body);
    let (disk, cores, joined) = decoded.map_err(|_| Problem::Damaged)?;
    Ok(ServerIdentity {
        disk,
        cores,
        joined,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_wrote_and_refuses_the_rest() {
        for joined in [None, Some((7, ServerId(3)))] {
            let identity = ServerIdentity {
                disk: 1 << 60,
                cores: 4,
                joined,
            };
            let bytes = encode(&identity);
            assert!(decode(&bytes).is_ok_and(|read| read == identity));
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                let format = (8..10).contains(&at);
                match decode(&changed) {
                    Err(Problem::Format(_)) => assert!(format),
                    Err(Problem::Damaged) => assert!(!format),
                    Ok(_) => panic!("byte {at} was changed and nobody noticed"),
                }
                assert!(decode(&bytes[..at]).is_err());
            }
        }
    }
}
