//! Draws random numbers for names that must differ from all others: of clusters, disks and
//! processes.

use std::fs::File;
use std::io::Read;

use crate::error::ServerError;

/// Returns a random number that no other process has; never 0.
///
/// # Errors
/// The system has no random source.
pub fn number() -> Result<u64, ServerError> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(ServerError::io("draw a random number from /dev/urandom"))?;
    Ok(u64::from_le_bytes(bytes).max(1))
}
