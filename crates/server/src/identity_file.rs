//! The file `identity` of a data folder, with the identity of the folder's server.
//!
//! Its record (see `envelope`, "RPXSERVR") is disk (u64), cores (u16), cluster and server (a byte;
//! u64 and u32 if it has joined), last (u64), incarnation (u32), attempt (a byte; u64 if there is
//! one), has_stopped and is_old (a byte each). The disk's number is drawn when the folder is made,
//! so that a wiped folder is distinguished from the one before (R16). A process writes its own
//! number as the attempt before it asks to join, and as the last one before it serves: so a copy of
//! the folder that is older than the last process is found out by the coordinator (R25).

use protocol::identity::{Epoch, Incarnation, ServerId};
use protocol::message::FolderReport;

use crate::envelope::{Envelope, EnvelopeError};
use crate::error::ServerError;
use crate::folder::DataFolder;

const NAME: &str = "identity";
const ENVELOPE: Envelope = Envelope {
    magic: b"RPXSERVR",
    format: 2,
};

/// A server's identity, as its folder has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// Identifies the folder.
    pub disk: u64,
    /// The number of cores with a log in the folder. If a log of one of these cores is missing, it
    /// was lost: the core is not new.
    pub cores: u16,
    /// The cluster, and the server's number there, once it has joined.
    pub joined: Option<(u64, ServerId)>,
    /// The instance that joined last, as the coordinator knows it; 0 for none.
    pub last: u64,
    /// The incarnation of that instance.
    pub incarnation: Incarnation,
    /// The instance of a process that has asked to join, and does not know the result yet.
    pub attempt: Option<u64>,
    /// Whether the last process ended cleanly: the log has everything, durably.
    pub has_stopped: bool,
    /// Whether the log is older than the coordinator's record of it.
    pub is_old: bool,
}

impl ServerIdentity {
    /// Reads the identity; none if the folder is new.
    ///
    /// # Errors
    /// The file is damaged or of a newer format; nothing was changed.
    pub fn read(folder: &DataFolder) -> Result<Option<Self>, ServerError> {
        let Some(bytes) = folder.read(NAME)? else {
            return Ok(None);
        };
        let path = folder.path().join(NAME);
        decode(&bytes).map(Some).map_err(|problem| {
            let path = path.display();
            ServerError::Folder(match problem {
                EnvelopeError::Damaged => format!(
                    "{path} is damaged: this server cannot come back; let the others take over its \
                     partitions (replex admin server remove), and start a new server on an empty folder"
                ),
                EnvelopeError::Format(found) => format!(
                    "{path} is of format {found}, this program knows {}: use the release that \
                     wrote it, or a newer one; nothing was changed",
                    ENVELOPE.format
                ),
            })
        })
    }

    /// Returns the report for the coordinator.
    pub fn report(&self, epoch: Epoch) -> FolderReport {
        FolderReport {
            disk: self.disk,
            last: self.last,
            incarnation: self.incarnation,
            epoch,
            has_stopped: self.has_stopped,
            is_old: self.is_old,
        }
    }

    /// Writes the identity.
    ///
    /// # Errors
    /// A system call fails.
    pub fn write(&self, folder: &DataFolder) -> Result<(), ServerError> {
        folder.replace(NAME, &encode(self))
    }
}

fn encode(identity: &ServerIdentity) -> Vec<u8> {
    ENVELOPE.encode(&(
        (identity.disk, identity.cores, identity.joined),
        (identity.last, identity.incarnation, identity.attempt),
        (identity.has_stopped, identity.is_old),
    ))
}

fn decode(bytes: &[u8]) -> Result<ServerIdentity, EnvelopeError> {
    let ((disk, cores, joined), (last, incarnation, attempt), (has_stopped, is_old)) =
        ENVELOPE.decode(bytes)?;
    Ok(ServerIdentity {
        disk,
        cores,
        joined,
        last,
        incarnation,
        attempt,
        has_stopped,
        is_old,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_identity_is_read() {
        for joined in [None, Some((7, ServerId(3)))] {
            let identity = ServerIdentity {
                disk: 1 << 60,
                cores: 4,
                joined,
                last: 1 << 50,
                incarnation: Incarnation(7),
                attempt: joined.map(|_| 9),
                has_stopped: joined.is_some(),
                is_old: joined.is_none(),
            };
            let bytes = encode(&identity);
            assert!(decode(&bytes).is_ok_and(|read| read == identity));
        }
    }
}
