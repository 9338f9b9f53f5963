//! Writes the output file of a command. A regular file is replaced only once the new content is
//! complete, so it never has a part of the content. A device or a FIFO is written directly.
//! Symbolic links are followed.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

/// The most links that are followed, as Linux has it.
const LINKS_MAX: usize = 40;
/// The most names that are tried for the unfinished file.
const PART_NAMES_MAX: u32 = 100;

/// A file that is being written.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    /// The unfinished file that will replace the target; none if the output is written through.
    replacement: Option<Replacement>,
}

/// An unfinished file, beside the file that it will replace.
#[derive(Debug)]
struct Replacement {
    part: PathBuf,
    target: PathBuf,
    /// The metadata of the file that will be replaced; none if there is no such file.
    replaced: Option<Metadata>,
}

/// The target of a path, links followed.
enum OutputTarget {
    /// A device, a FIFO or the like at this path, which is written through.
    Through(PathBuf),
    /// A descriptor of this process.
    Descriptor(PathBuf),
    /// A regular file.
    Regular(PathBuf, Metadata),
    /// A path at which there is no file yet.
    Vacant(PathBuf),
}

impl OutputFile {
    /// Opens a file to write. If it is a FIFO, this waits for a reader of the FIFO.
    ///
    /// # Errors
    /// Errors of the file system. Also if the path names a directory.
    pub fn open(path: &Path) -> io::Result<OutputFile> {
        let (target, replaced) = match place(path)? {
            OutputTarget::Through(path) => {
                let file = OpenOptions::new().write(true).open(path)?;
                let replacement = None;
                return Ok(OutputFile { file, replacement });
            }
            OutputTarget::Descriptor(path) => {
                let file = descriptor(&path)?;
                let replacement = None;
                return Ok(OutputFile { file, replacement });
            }
            OutputTarget::Regular(target, metadata) => {
                // It could be replaced without a permission to write it, and must not be.
                OpenOptions::new().write(true).open(&target)?;
                (target, Some(metadata))
            }
            OutputTarget::Vacant(target) => (target, None),
        };
        let (file, part) = create_part(&target)?;
        let replacement = Some(Replacement {
            part,
            target,
            replaced,
        });
        Ok(OutputFile { file, replacement })
    }

    /// Returns the open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns whether the output is a regular file, which appears when it is complete.
    pub fn is_regular(&self) -> bool {
        self.replacement.is_some()
    }

    /// Publishes the file, with the permissions and the owner of the file that it replaces.
    ///
    /// # Errors
    /// Errors of the file system. The earlier file stays.
    pub fn finish(self) -> io::Result<()> {
        let Some(replacement) = &self.replacement else {
            return Ok(());
        };
        if let Some(replaced) = &replacement.replaced {
            let own = self.file.metadata()?;
            if (own.uid(), own.gid()) != (replaced.uid(), replaced.gid()) {
                // Only root may change a file's owner; otherwise the owner is the user that writes
                // it.
                let _ = chown(
                    &replacement.part,
                    Some(replaced.uid()),
                    Some(replaced.gid()),
                );
            }
            self.file.set_permissions(replaced.permissions())?;
        }
        self.file.sync_all()?;
        fs::rename(&replacement.part, &replacement.target)?;
        let folder = folder(&replacement.target);
        File::open(folder)?.sync_all()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // It is gone where it was renamed.
        let _ = fs::remove_file(&self.part);
    }
}

fn place(path: &Path) -> io::Result<OutputTarget> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(OutputTarget::Vacant(path));
            }
            Err(error) => return Err(error),
        };
        if metadata.is_dir() {
            return Err(io::Error::other("it is a directory: name a file in it"));
        }
        if metadata.is_file() {
            return Ok(OutputTarget::Regular(path, metadata));
        }
        if !metadata.is_symlink() {
            return Ok(OutputTarget::Through(path));
        }
        // Links of /proc stand for open files, with any text.
        let folder = fs::canonicalize(folder(&path))?;
        if folder.starts_with("/proc") {
            return Ok(OutputTarget::Descriptor(path));
        }
        path = folder.join(fs::read_link(&path)?);
    }
    Err(io::Error::other("it is a link that leads back to itself"))
}

/// Opens a descriptor of this process by its path. Output continues at the end of what was written.
/// Descriptors 1 and 2 share their positions with stdout and stderr.
fn descriptor(path: &Path) -> io::Result<File> {
    let number = path.file_name().and_then(|name| name.to_str());
    match number {
        Some("1") => Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
        Some("2") => Ok(io::stderr().as_fd().try_clone_to_owned()?.into()),
        _ => OpenOptions::new().append(true).open(path),
    }
}

/// Returns the folder that a file is in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Returns a new file beside the target, under a name that no other has.
fn create_part(target: &Path) -> io::Result<(File, PathBuf)> {
    let name = target
        .file_name()
        .ok_or_else(|| io::Error::other("it names no file"))?;
    for number in 0..PART_NAMES_MAX {
        let mut part = std::ffi::OsString::from(".");
        part.push(name);
        part.push(format!(".{}-{number}.part", std::process::id()));
        let part = folder(target).join(part);
        match OpenOptions::new().write(true).create_new(true).open(&part) {
            Ok(file) => return Ok((file, part)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(
        "files that are not whole, .NAME.part, stand beside it: remove them",
    ))
}
