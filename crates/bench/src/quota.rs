//! Limits servers and databases to equal shares of CPU, so that a cluster on one machine behaves
//! like a cluster on several: no server can use the CPU time of another.
//!
//! It uses the kernel's control groups (version 1, controller `cpu`), which need root.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cpu;

const CONTROLLER: &str = "/sys/fs/cgroup/cpu";
/// The prefix of a group's name, before its process.
const PREFIX: &str = "replex-bench-";
/// The period of a quota. It is short, so that no process is blocked for long.
const PERIOD_US: u32 = 20_000;
/// The kernel takes no smaller quota.
const QUOTA_US_MIN: u32 = 1_000;

/// A fraction of one core that limits the CPU time of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreShare {
    /// The share is a core divided by this number.
    parts: u32,
}

impl CoreShare {
    /// Returns one of `parts` equal parts of a core.
    ///
    /// # Panics
    /// If the kernel cannot enforce such a small part.
    pub const fn of_core(parts: u32) -> CoreShare {
        assert!(
            PERIOD_US / parts >= QUOTA_US_MIN,
            "the kernel takes no such quota"
        );
        CoreShare { parts }
    }

    /// Returns the CPU time of this share in each period, in µs.
    fn quota_us(self) -> u32 {
        PERIOD_US / self.parts
    }
}

impl Display for CoreShare {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "1/{} of a core", self.parts)
    }
}

/// A control group with a CPU quota. Dropping this value removes the group if its processes have
/// ended.
#[derive(Debug)]
pub struct Quota(PathBuf);

impl Quota {
    /// Limits a process and all its present and future children together to a fraction of a core.
    ///
    /// # Errors
    /// The machine has no CPU controller of control groups, or this user may not use it.
    pub fn of(process: u32, share: CoreShare) -> io::Result<Quota> {
        let quota = Quota::empty(&process.to_string(), share.quota_us())?;
        let procs = quota.0.join("cgroup.procs");
        fs::write(&procs, process.to_string())?;
        // Processes that it starts from here on are in the group already.
        for child in cpu::children(process)? {
            let moved = fs::write(&procs, child.to_string());
            // A process that has ended meanwhile needs no quota.
            if moved.is_err() && Path::new("/proc").join(child.to_string()).exists() {
                moved?;
            }
        }
        Ok(quota)
    }

    /// Returns a group without processes.
    fn empty(name: &str, quota_us: u32) -> io::Result<Quota> {
        let folder = Path::new(CONTROLLER).join(format!("{PREFIX}{name}"));
        fs::create_dir(&folder)?;
        let quota = Quota(folder);
        fs::write(quota.0.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
        fs::write(quota.0.join("cpu.cfs_quota_us"), quota_us.to_string())?;
        Ok(quota)
    }
}

/// Checks that this machine permits CPU quotas.
///
/// # Errors
/// The machine has no CPU controller of control groups, or this user may not use it.
#[cfg(feature = "proxy")]
pub fn try_out() -> io::Result<()> {
    remove_leftovers()?;
    Quota::empty(&format!("try-{}", std::process::id()), QUOTA_US_MIN).map(drop)
}

/// Removes control groups whose process has ended, which a killed run has left.
///
/// # Errors
/// The machine has no CPU controller of control groups.
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
        // Fails only while its process still runs. The owner of the process is dropped before this.
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_of_each_period() {
        for (parts, quota_us) in [(1, 20_000), (10, 2_000), (20, 1_000)] {
            assert_eq!(CoreShare::of_core(parts).quota_us(), quota_us);
        }
        assert_eq!(CoreShare::of_core(10).to_string(), "1/10 of a core");
    }

    #[test]
    #[should_panic(expected = "no such quota")]
    fn shares_below_the_minimum_of_the_kernel_are_refused() {
        CoreShare::of_core(21);
    }
}
