//! The requirements of tests beyond a Rust toolchain. A test without it fails, unless the run
//! allows that tests are left out.
//!
//! Tests of several crates include this file.

#![allow(dead_code, reason = "each test includes all of it and uses a part")]

use std::process::{Command, Stdio};

/// Set by `cargo xtask ci --allow-missing`.
const ALLOW_MISSING: &str = "REPLEX_ALLOW_MISSING";

/// Debian's package of PostgreSQL's server and programs.
pub const POSTGRES: &str = "Debian's package postgresql";

/// Returns a test's requirement if it was found. Without it the test must end at once.
///
/// # Panics
/// If it was not found and the run does not allow that.
pub fn require<T>(need: &str, found: Option<T>) -> Option<T> {
    if found.is_none() {
        assert!(
            std::env::var_os(ALLOW_MISSING).is_some(),
            "this test needs {need}: provide it, or set {ALLOW_MISSING}=1, as `cargo xtask ci \
             --allow-missing` does, to leave the test out"
        );
        println!("LEFT OUT, nothing was tested: it needs {need}");
    }
    found
}

/// Requires a program that is found in `PATH` and succeeds with these arguments.
///
/// # Panics
/// As [`require`].
pub fn require_program(program: &str, arguments: &[&str]) -> Option<()> {
    let mut command = Command::new(program);
    let command = command.args(arguments).stdin(Stdio::null());
    let output = command.output();
    let runs = output.is_ok_and(|output| output.status.success());
    require(&format!("the program `{program}`"), runs.then_some(()))
}
