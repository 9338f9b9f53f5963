//! Equal shares of CPU for servers, so that a cluster on one machine has the shape of a cluster: what
//! one server cannot do in a second another cannot do for it.
//!
//! By the kernel's control groups (version 1, controller `cpu`), which need root.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const CONTROLLER: &str = "/sys/fs/cgroup/cpu";
/// A group is named by its process behind this.
const PREFIX: &str = "replex-bench-";
/// A server may use this of each period: a twentieth of a core. The quota is the kernel's least, so
/// that nobody stands still for long. With half as much, servers that were asked for more than they
/// could do while others were filled lost their leases.
const QUOTA_US: u32 = 1_000;
const PERIOD_US: u32 = 20_000;

/// What a server may use, for people.
pub const SHARE: &str = "a twentieth of a core";

/// A group with a quota; dropped, it is removed, if its processes have ended.
#[derive(Debug)]
pub struct Quota(PathBuf);

impl Quota {
    /// Holds a process to its share from now on.
    ///
    /// # Errors
    /// There is no such controller, or no right to it.
    pub fn of(process: u32) -> io::Result<Quota> {
        let folder = Path::new(CONTROLLER).join(format!("{PREFIX}{process}"));
        fs::create_dir(&folder)?;
        let quota = Quota(folder);
        fs::write(quota.0.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
        fs::write(quota.0.join("cpu.cfs_quota_us"), QUOTA_US.to_string())?;
        fs::write(quota.0.join("cgroup.procs"), process.to_string())?;
        Ok(quota)
    }
}

/// Removes groups that a run left which was killed: those without their process.
///
/// # Errors
/// There is no such controller.
pub fn remove_leftovers() -> io::Result<()> {
    for entry in fs::read_dir(CONTROLLER)? {
        let entry = entry?;
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Another run may have been quicker.
            let _ = fs::remove_dir(entry.path());
        }
    }
    Ok(())
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Fails only while its process still runs, whose owner is dropped before this.
        let _ = fs::remove_dir(&self.0);
    }
}
