//! The file that describes a store's folder: its identity, and whether its creation is complete.
//!
//! When a store is created, it is written first and changed last. So a crash in between can be
//! distinguished from a loss. The layout is in `docs/reference/storage-format.md`.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::error::StorageError;

const NAME: &str = "manifest";
const MAGIC: [u8; 8] = *b"RPLXSTO\n";
const FORMAT: u32 = 1;
const BYTES: usize = 28;

/// The contents of the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) identity: u64,
    pub(crate) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The store is being created: parts may be missing.
    Creating,
    /// The store is complete: a missing part is a loss.
    Ready,
}

impl Manifest {
    /// Returns the folder's manifest; none if there is none.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, StorageError> {
        let path = folder.join(NAME);
        let file = path.display().to_string();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StorageError::io(format!("read {file}"))(error)),
        };
        let bad = || StorageError::Lost {
            what: format!("{file} is damaged"),
        };
        let bytes: [u8; BYTES] = bytes.try_into().map_err(|_| bad())?;
        let word = |at: usize| {
            u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes are cut"))
        };
        if bytes[..8] != MAGIC || word(8) != crc32c::crc32c(&bytes[12..]) {
            return Err(bad());
        }
        if word(12) != FORMAT {
            let (found, known) = (word(12), FORMAT);
            return Err(StorageError::NewerFormat { file, found, known });
        }
        let identity = u64::from(word(16)) | u64::from(word(20)) << 32;
        let state = match word(24) {
            0 => State::Creating,
            1 => State::Ready,
            _ => return Err(bad()),
        };
        Ok(Some(Self { identity, state }))
    }

    /// Replaces the folder's manifest durably and as a whole (R23).
    pub(crate) fn replace(self, folder: &Path) -> Result<Self, StorageError> {
        let state: u32 = match self.state {
            State::Creating => 0,
            State::Ready => 1,
        };
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[12..16].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.identity.to_le_bytes());
        bytes[24..].copy_from_slice(&state.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        let (path, temporary) = (folder.join(NAME), folder.join("manifest.new"));
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(StorageError::io(format!("write {}", path.display())))?;
        Ok(self)
    }
}
