//! The certificates of this process, for all of its connections to its cluster.
//!
//! They are read once, before the command begins. Without them connections are not encrypted.

use std::path::Path;
use std::sync::OnceLock;

use cluster_tls::{CredentialFiles, Credentials};

use crate::failure::CommandFailure;

static CREDENTIALS: OnceLock<Credentials> = OnceLock::new();

/// Reads the certificates from a folder, if one is named, and uses them from now on.
///
/// # Errors
/// A file is missing or damaged.
pub fn read(folder: Option<&Path>, files: CredentialFiles) -> Result<(), CommandFailure> {
    if let Some(folder) = folder {
        let read = Credentials::read(folder, files).map_err(CommandFailure::Usage)?;
        // A process runs one command.
        let _ = CREDENTIALS.set(read);
    }
    Ok(())
}

/// Returns the certificates of this process, if it has any.
pub fn current() -> Option<Credentials> {
    CREDENTIALS.get().cloned()
}
