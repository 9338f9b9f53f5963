//! The files `configuration` and `configuration.changes` of a server's folder, with the newest
//! configuration that the server knows.
//!
//! The server does not serve from it. The coordinator needs it if its own state is lost or an older
//! copy (`docs/how-to/store-disks.md`). The record (see `envelope`, "RPXCONFG") is the
//! configuration. `change_file` has the later changes. Unreadable files count as missing.

use std::sync::Arc;

use protocol::change_log::{ChangeLog, decode_log, encode_record};
use protocol::configuration::{Configuration, ConfigurationChanges};

use crate::change_file::ChangeFile;
use crate::envelope::Envelope;
use crate::error::ServerError;
use crate::folder::DataFolder;
use crate::journal::{self, JournalLevel};

const NAME: &str = "configuration";
const ENVELOPE: Envelope = Envelope {
    magic: b"RPXCONFG",
    format: 2,
};

/// The configuration files of one server, as the process that writes them sees them.
#[derive(Debug)]
pub struct ConfigurationFile {
    files: ChangeFile,
    /// The configuration that is there, as far as this process has written it.
    written: Option<Arc<Configuration>>,
}

impl Default for ConfigurationFile {
    fn default() -> Self {
        ConfigurationFile {
            files: ChangeFile::new(NAME),
            written: None,
        }
    }
}

impl ConfigurationFile {
    /// Reads the configuration. Returns none if the folder has no usable configuration.
    ///
    /// # Errors
    /// A system call fails.
    pub fn read(&self, folder: &DataFolder) -> Result<Option<Configuration>, ServerError> {
        let files = self.files.read(folder)?;
        let read = files.and_then(|files| decode(&files.value, &files.log));
        Ok(read.filter(|it| it.check().is_ok()))
    }

    /// Writes a configuration. A failure, for example because of a full disk, is only logged. The
    /// next call then writes the whole configuration.
    pub fn write(&mut self, folder: &DataFolder, configuration: &Arc<Configuration>) {
        let before = self.written.take();
        let before = before.filter(|before| before.cluster == configuration.cluster);
        let written = match before.filter(|_| !self.files.wants_value()) {
            Some(before) => {
                let changes = ConfigurationChanges::from_to(&before, configuration);
                self.files.append(folder, &encode_record(&changes))
            }
            None => self
                .files
                .replace(folder, &ENVELOPE.encode(&**configuration)),
        };
        match written {
            Ok(()) => self.written = Some(Arc::clone(configuration)),
            Err(error) => journal::line(
                JournalLevel::Warn,
                "configuration_not_kept",
                &[("epoch", &configuration.epoch.0), ("error", &error)],
            ),
        }
    }
}

fn decode(value: &[u8], log: &[u8]) -> Option<Configuration> {
    let mut configuration: Configuration = ENVELOPE.decode(value).ok()?;
    let log: ChangeLog<ConfigurationChanges> = decode_log(log).ok()?;
    for changes in log.changes {
        if changes.epoch > configuration.epoch {
            configuration = changes.apply(&configuration)?;
        }
    }
    Some(configuration)
}
