//! A data folder: only one process uses it at a time, and its small files are replaced atomically.
//!
//! A file is written under another name, flushed, renamed, and the folder flushed (R23): after a
//! crash there is the old file or the new one, whole. This module does not know the meaning of the
//! files. Logs and tables are in crate `storage`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::ServerError;

const LOCK_FILE: &str = "lock";

/// A folder that this process has locked, until the value is dropped.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    /// The lock is the kernel's, and goes with the descriptor: a killed process leaves none.
    _lock: File,
}

impl DataFolder {
    /// Opens the folder, or creates it, and locks it.
    ///
    /// # Errors
    /// Another process has the folder open, or a system call fails.
    pub fn open(path: &Path) -> Result<DataFolder, ServerError> {
        let shown = path.display();
        create_folder(path).map_err(ServerError::io(format!("create the folder {shown}")))?;
        let lock_path = path.join(LOCK_FILE);
        let what = format!("open {}", lock_path.display());
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(ServerError::io(what))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The holder is named as a help; without it the error is as true.
                let _ = lock.read_to_string(&mut holder);
                return Err(ServerError::FolderInUse {
                    folder: path.to_owned(),
                    process: holder.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(error)) => {
                return Err(ServerError::io(format!("lock the folder {shown}"))(error));
            }
        }
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
            .map_err(ServerError::io(format!("write {}", lock_path.display())))?;
        Ok(DataFolder {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bytes of a file; none if there is no such file.
    ///
    /// # Errors
    /// A system call fails.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ServerError> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ServerError::io(format!("read {}", path.display()))(error)),
        }
    }

    /// Replaces a file. The change is durable when this returns.
    ///
    /// # Errors
    /// A system call fails. The file may then contain the old or the new value, and the process
    /// must end (R23).
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), ServerError> {
        let path = self.path.join(name);
        let temporary = self.path.join(format!("{name}.new"));
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(ServerError::io(format!("replace {}", path.display())))
    }

    /// Creates a file, or empties an existing one. The change is durable when this returns.
    ///
    /// # Errors
    /// A system call fails.
    pub fn create(&self, name: &str) -> Result<File, ServerError> {
        let path = self.path.join(name);
        let create = || {
            let file = File::create(&path)?;
            file.sync_all()?;
            File::open(&self.path)?.sync_all()?;
            Ok(file)
        };
        create().map_err(ServerError::io(format!("create {}", path.display())))
    }

    /// Removes a file, if it exists. The change is durable when this returns.
    ///
    /// # Errors
    /// A system call fails.
    pub fn remove(&self, name: &str) -> Result<(), ServerError> {
        let path = self.path.join(name);
        let remove = || match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => File::open(&self.path)?.sync_all(),
        };
        remove().map_err(ServerError::io(format!("remove {}", path.display())))
    }
}

fn create_folder(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    match path.parent() {
        Some(parent) if parent.is_dir() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}
