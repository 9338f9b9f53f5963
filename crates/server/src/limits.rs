//! Limits that the system sets for a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets the process have as many descriptors as its hard limit allows: each connection takes one,
/// and the soft limit is made for programs that use `select`.
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Where it fails the old limit holds, and accepting pauses at it.
    let _ = setrlimit(Resource::Nofile, raised);
}
