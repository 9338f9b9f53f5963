//! The newest configuration that a server knows: the file `configuration` of its folder.
//!
//! Nothing is served by it. It is there for the day on which the coordinator's state is lost, or is
//! an older copy, while servers are stopped (`docs/how-to/store-disks.md`). Its record (see
//! `envelope`, "RPXCONFG") is the configuration. A file that cannot be read is as good as none.

use protocol::configuration::Configuration;

use crate::envelope::Envelope;
use crate::error::ServerError;
use crate::folder::DataFolder;
use crate::journal::{self, JournalLevel};

const NAME: &str = "configuration";
const ENVELOPE: Envelope = Envelope {
    magic: b"RPXCONFG",
    format: 1,
};

/// Reads it; none if there is none that can be used.
///
/// # Errors
/// The system refuses.
pub fn read(folder: &DataFolder) -> Result<Option<Configuration>, ServerError> {
    let Some(bytes) = folder.read(NAME)? else {
        return Ok(None);
    };
    let configuration: Option<Configuration> = ENVELOPE.decode(&bytes).ok();
    Ok(configuration.filter(|it| it.check().is_ok()))
}

/// Keeps it. A failed write, on a full disk for instance, ends no server: it is logged.
pub fn write(folder: &DataFolder, configuration: &Configuration) {
    if let Err(error) = folder.replace(NAME, &ENVELOPE.encode(configuration)) {
        journal::line(
            JournalLevel::Warn,
            "configuration_not_kept",
            &[("epoch", &configuration.epoch.0), ("error", &error)],
        );
    }
}
