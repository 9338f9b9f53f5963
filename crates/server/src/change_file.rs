//! Stores a value in two files of a folder: a complete earlier value, and a log of the changes
//! since (`protocol::change_log`).
//!
//! A change appends one record. Once the log is longer than the value, the value is written again
//! and the log begins again. A crash between the two leaves changes in the log that the value
//! already has, and the owner skips them. A crash during the write of a record leaves a torn
//! record, which was never reported as stored. A process that starts writes the value first, so
//! that no record follows a torn one. This module does not know the meaning of values and changes.

use std::fs::File;
use std::io::Write;

use crate::error::ServerError;
use crate::folder::DataFolder;

/// A log of this many bytes is not too long, however short the value is.
const LOG_BYTES_MIN: u64 = 1 << 20;

/// The files of one value, for the process that writes them.
#[derive(Debug)]
pub(crate) struct ChangeFile {
    name: &'static str,
    /// None until this process has written the value.
    log: Option<File>,
    log_bytes: u64,
    log_bytes_max: u64,
}

/// A value as its files have it.
#[derive(Debug)]
pub(crate) struct WrittenValue {
    /// The bytes of the value as it once was.
    pub value: Vec<u8>,
    /// The bytes of the log of its later changes.
    pub log: Vec<u8>,
}

impl ChangeFile {
    /// Returns the value of this name, which this process has not written yet.
    pub fn new(name: &'static str) -> ChangeFile {
        ChangeFile {
            name,
            log: None,
            log_bytes: 0,
            log_bytes_max: LOG_BYTES_MIN,
        }
    }

    /// Returns the contents of the files; none if there is no value.
    ///
    /// # Errors
    /// A system call fails.
    pub fn read(&self, folder: &DataFolder) -> Result<Option<WrittenValue>, ServerError> {
        let Some(value) = folder.read(self.name)? else {
            return Ok(None);
        };
        let log = folder.read(&self.log_name())?;
        Ok(Some(WrittenValue {
            value,
            log: log.unwrap_or_default(),
        }))
    }

    /// Returns whether the next write must replace the whole value, not append a change.
    pub fn wants_value(&self) -> bool {
        self.log.is_none() || self.log_bytes > self.log_bytes_max
    }

    /// Writes the whole value; it is durable when this returns.
    ///
    /// # Errors
    /// A system call fails. The file may then contain the old or the new value (R23).
    pub fn replace(&mut self, folder: &DataFolder, value: &[u8]) -> Result<(), ServerError> {
        self.log = None;
        folder.replace(self.name, value)?;
        self.log = Some(folder.create(&self.log_name())?);
        self.log_bytes = 0;
        self.log_bytes_max = LOG_BYTES_MIN.max(value.len() as u64);
        Ok(())
    }

    /// Appends the record of a change; it is durable when this returns.
    ///
    /// # Errors
    /// The same as for [`ChangeFile::replace`], which the caller must call next.
    pub fn append(&mut self, folder: &DataFolder, record: &[u8]) -> Result<(), ServerError> {
        // After a failure the log is not written to again.
        let mut log = self.log.take().expect("callers have looked");
        let what = || {
            format!(
                "append to {}",
                folder.path().join(self.log_name()).display()
            )
        };
        let written = log.write_all(record).and_then(|()| log.sync_data());
        written.map_err(ServerError::io(what()))?;
        self.log_bytes += record.len() as u64;
        self.log = Some(log);
        Ok(())
    }

    fn log_name(&self) -> String {
        format!("{}.changes", self.name)
    }
}
