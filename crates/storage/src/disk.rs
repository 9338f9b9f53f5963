//! The operations of a file system that the log needs, as a trait, so that tests can make a disk
//! fail.
//!
//! There is one folder without subfolders. Nothing is durable before [`DiskFile::sync`], and no
//! name before [`Disk::sync_folder`] (R23). Implementations must not buffer or retry.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A folder of files.
pub trait Disk: Send + Sync + 'static {
    /// Returns the names of all files, in no order.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Creates a file, empty; replaces one of the same name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file, replacing the one of the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_folder(&self) -> io::Result<()>;
}

/// One open file.
pub trait DiskFile: Send + Sync {
    /// Returns the length of the file in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset` on.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything written durable. After an error the contents are unknown (R23).
    fn sync(&self) -> io::Result<()>;
}

/// A folder of the operating system.
pub struct FolderDisk {
    path: PathBuf,
}

impl FolderDisk {
    /// Returns the folder `path`, created if it is missing.
    ///
    /// # Errors
    /// The folder can be neither found nor created.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        if !path.is_dir() {
            fs::create_dir_all(&path)?;
            if let Some(parent) = path.parent().filter(|parent| parent.is_dir()) {
                File::open(parent)?.sync_all()?;
            }
        }
        Ok(Self { path })
    }
}

impl Disk for FolderDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.path)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path.join(name))?;
        Ok(Box::new(file))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(self.path.join(name))?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl DiskFile for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
