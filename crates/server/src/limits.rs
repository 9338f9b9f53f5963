//! The limits that the operating system sets for a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files of the process to its hard limit. Each connection needs one, and
/// the soft limit is made for programs that use `select`.
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Where it fails the old limit holds, and accepting pauses at it.
    let _ = setrlimit(Resource::Nofile, raised);
}
