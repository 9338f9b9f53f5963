//! Checks the free space of a folder's disk from time to time.
//!
//! A server's log and tables have limits of their own. This module handles a disk that is small, or
//! that other programs fill. It does not see a user's quota, which shows when a segment cannot be
//! created.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time after which the figures are queried again.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A log's segment takes at most this part of the disk, but is not cut below `SEGMENT_BYTES_MIN`.
const SEGMENT_SHARE: u64 = 16;
/// One checkpoint saves at most this part of the disk: it has to fit beside the log that it frees.
const CHECKPOINT_SHARE: u64 = 16;
/// Holds the largest record four times.
const SEGMENT_BYTES_MIN: u64 = 16 << 20;
/// Files that must be there to be made.
const FILES_MIN: u64 = 16;

/// The disk of a folder.
pub struct DiskSpace {
    folder: PathBuf,
    /// Free bytes below which the disk is low.
    reserve_bytes: u64,
    figures: Cell<SpaceFigures>,
    is_low: Cell<bool>,
    looked_at: Cell<Option<Instant>>,
}

#[derive(Clone, Copy, Default)]
struct SpaceFigures {
    bytes: u64,
    free_bytes: u64,
    /// None where the file system has no limit of files.
    free_files: Option<u64>,
}

impl DiskSpace {
    /// Returns the disk with `folder`, which need not exist yet.
    pub fn of(folder: &Path) -> DiskSpace {
        DiskSpace {
            folder: folder.to_owned(),
            reserve_bytes: 0,
            figures: Cell::default(),
            is_low: Cell::new(false),
            looked_at: Cell::new(None),
        }
    }

    /// Returns the disk with this number of bytes as a reserve.
    pub fn with_reserve(mut self, bytes: u64) -> DiskSpace {
        self.reserve_bytes = bytes;
        self
    }

    /// Returns the bytes of a segment on this disk, at most `wanted`.
    pub fn segment_bytes(&self, wanted: u64) -> u64 {
        self.look();
        segment_bytes(self.figures.get().bytes, wanted)
    }

    /// Returns the bytes of log after which a checkpoint is due on this disk, at most `wanted`.
    pub fn checkpoint_bytes(&self, wanted: u64) -> u64 {
        self.look();
        checkpoint_bytes(self.figures.get().bytes, wanted)
    }

    /// Returns whether only the reserve for checkpoints is free. It stays true until a quarter more
    /// is free.
    pub fn is_low(&self) -> bool {
        if self
            .looked_at
            .get()
            .is_some_and(|at| at.elapsed() < LOOK_EVERY)
        {
            return self.is_low.get();
        }
        self.look();
        self.judge(self.figures.get())
    }

    fn judge(&self, figures: SpaceFigures) -> bool {
        let needed = match self.is_low.get() {
            true => self.reserve_bytes + self.reserve_bytes / 4,
            false => self.reserve_bytes,
        };
        let lacks_files = figures.free_files.is_some_and(|files| files < FILES_MIN);
        let is_low = figures.bytes > 0 && (figures.free_bytes < needed || lacks_files);
        self.is_low.set(is_low);
        is_low
    }

    /// Returns size and free space as text, for operators.
    pub fn summary(&self) -> String {
        let figures = self.figures.get();
        let mebibytes = |bytes: u64| bytes >> 20;
        let mut text = format!(
            "{} of {} MiB are free",
            mebibytes(figures.free_bytes),
            mebibytes(figures.bytes)
        );
        if let Some(files) = figures.free_files.filter(|files| *files < FILES_MIN) {
            text += &format!(", and {files} files can be made");
        }
        text
    }

    /// Returns counters for operators, by name.
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        let figures = self.figures.get();
        [
            ("disk_bytes", figures.bytes),
            ("disk_free_bytes", figures.free_bytes),
        ]
    }

    fn look(&self) {
        self.looked_at.set(Some(Instant::now()));
        let existing = self.folder.ancestors().find(|path| path.exists());
        // Where the system does not report it, only the log's own limits hold.
        if let Some(Ok(found)) = existing.map(rustix::fs::statvfs) {
            self.figures.set(SpaceFigures {
                bytes: found.f_blocks * found.f_frsize,
                free_bytes: found.f_bavail * found.f_frsize,
                free_files: (found.f_files > 0).then_some(found.f_favail),
            });
        }
    }
}

fn checkpoint_bytes(disk_bytes: u64, wanted: u64) -> u64 {
    match disk_bytes {
        0 => wanted,
        bytes => wanted.min((bytes / CHECKPOINT_SHARE).max(SEGMENT_BYTES_MIN)),
    }
}

fn segment_bytes(disk_bytes: u64, wanted: u64) -> u64 {
    match disk_bytes {
        0 => wanted,
        bytes if bytes / SEGMENT_SHARE >= wanted => wanted,
        _ => wanted.min(SEGMENT_BYTES_MIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_disk_has_smaller_segments_and_none_is_cut_too_small() {
        let wanted = 32 << 20;
        assert_eq!(segment_bytes(1 << 40, wanted), wanted);
        assert_eq!(segment_bytes(512 << 20, wanted), wanted);
        assert_eq!(segment_bytes(125 << 20, wanted), SEGMENT_BYTES_MIN);
        // Where the system does not report it.
        assert_eq!(segment_bytes(0, wanted), wanted);
    }

    #[test]
    fn a_checkpoint_is_due_before_the_log_fills_a_small_disk() {
        let wanted = 512 << 20;
        assert_eq!(checkpoint_bytes(1 << 40, wanted), wanted);
        assert_eq!(checkpoint_bytes(4 << 30, wanted), 256 << 20);
        assert_eq!(checkpoint_bytes(64 << 20, wanted), SEGMENT_BYTES_MIN);
        assert_eq!(checkpoint_bytes(0, wanted), wanted);
    }

    #[test]
    fn a_disk_is_low_below_its_reserve_until_a_quarter_more_is_free() {
        let space = DiskSpace::of(Path::new("/")).with_reserve(8 << 20);
        let is_low = |free_bytes, free_files| {
            space.judge(SpaceFigures {
                bytes: 1 << 30,
                free_bytes,
                free_files,
            })
        };
        assert!(!is_low(8 << 20, None));
        assert!(is_low((8 << 20) - 1, None));
        assert!(is_low(9 << 20, None), "it has just been full");
        assert!(!is_low(10 << 20, None));
        assert!(!is_low(9 << 20, None));
        assert!(is_low(1 << 29, Some(FILES_MIN - 1)), "no file can be made");
        assert!(!is_low(1 << 29, Some(FILES_MIN)));
    }
}
