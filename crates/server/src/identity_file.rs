//! Who the server of a data folder is: the file `identity`.
//!
//! Its record (see `envelope`, "RPXSERVR") is disk (u64), cores (u16), cluster and server (a byte;
//! u64 and u32 if it has joined). The disk's number is drawn when the folder is made, so that a
//! wiped folder is told from the one before (SAFETY R16).

use protocol::identity::ServerId;

use crate::envelope::{Envelope, Problem};
use crate::error::ServerError;
use crate::folder::Folder;

const NAME: &str = "identity";
const ENVELOPE: Envelope = Envelope {
    magic: b"RPXSERVR",
    format: 1,
};

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
                    "{path} is of format {found}, this program knows {}: use the release that \
                     wrote it, or a newer one; nothing was changed",
                    ENVELOPE.format
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

fn encode(identity: &ServerIdentity) -> Vec<u8> {
    ENVELOPE.encode(&(identity.disk, identity.cores, identity.joined))
}

fn decode(bytes: &[u8]) -> Result<ServerIdentity, Problem> {
    let (disk, cores, joined) = ENVELOPE.decode(bytes)?;
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
    fn reads_what_it_wrote() {
        for joined in [None, Some((7, ServerId(3)))] {
            let identity = ServerIdentity {
                disk: 1 << 60,
                cores: 4,
                joined,
            };
            let bytes = encode(&identity);
            assert!(decode(&bytes).is_ok_and(|read| read == identity));
        }
    }
}
