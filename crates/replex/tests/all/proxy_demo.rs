//! `replex proxy demo` as a process: its claims, the files that it leaves, and its requirements.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::{is_empty, needs, postgres_is_there, program};

/// The claims of the demo, each with its mark.
const CLAIMS: &[&str] = &[
    "✓ The update went to the primary, reads of unwritten rows went to replicas",
    "✓ Both replicas answered reads",
    "✓ It was filled in ",
    "✓ It answers reads: ",
    " were answered without it; ",
    "✓ The primary keeps no log for it: the transactions buffer has the ",
    " were answered without it, and none failed",
    "✓ It has its earlier commits, and all commits since, ",
    "✓ Count and checksum of each table are equal in all four databases",
    "✓ Each of the ",
    " reads missed an earlier acknowledged commit",
    "✓ No read saw a transaction in parts",
    "All 12 claims held",
];

/// A demo whose databases are in this folder, which they must be able to reach.
fn demo(folder: &Path) -> Child {
    std::fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    Command::new(program())
        .args(["proxy", "demo"])
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn demo_proves_its_claims_and_cleans_up() {
    if !postgres_is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let output = demo(folder.path()).wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for claim in CLAIMS {
        assert!(stdout.contains(claim), "no {claim:?} in\n{stdout}");
    }
    assert!(!stdout.contains("NOT TRUE"), "{stdout}");
    assert!(is_empty(folder.path()));
}

/// The demo without PostgreSQL on this machine, as far as it can see, and with this in the place of
/// apt-get. None where that takes rights that are missing.
fn demo_without_postgres(apt_get: &str) -> Option<(TempDir, Command)> {
    let is_root = rustix::process::geteuid().is_root();
    let root = "root, which can hide PostgreSQL from the demo";
    needs::require(root, is_root.then_some(()))?;
    let folder = TempDir::new().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let fake = folder.path().join("apt-get");
    std::fs::write(&fake, format!("#!/bin/sh\n{apt_get}\n")).unwrap();
    std::fs::set_permissions(&fake, Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("unshare");
    let hidden = "mount -t tmpfs none /usr/lib/postgresql && exec \"$0\" proxy demo";
    command.args(["-m", "sh", "-c", hidden]).arg(program());
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    Some((folder, command))
}

#[test]
fn demo_installs_its_requirements() {
    let hidden = postgres_is_there().then(|| demo_without_postgres("umount /usr/lib/postgresql"));
    let Some((_folder, mut command)) = hidden.flatten() else {
        return;
    };
    let mut demo = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let mut printed = lines.by_ref().map(Result::unwrap);
    assert!(printed.any(|line| line.contains("Installing Debian's package postgresql")));
    assert!(printed.any(|line| line.contains("replica 2: serving")));
    kill_process(Pid::from_child(&demo), Signal::INT).unwrap();
    drop(lines.collect::<Vec<_>>());
    assert_eq!(demo.wait().unwrap().code(), Some(130));
}

#[test]
fn demo_reports_missing_requirements() {
    let hidden =
        postgres_is_there().then(|| demo_without_postgres("echo no network >&2; exit 100"));
    let Some((_folder, mut command)) = hidden.flatten() else {
        return;
    };
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("no network") && message.contains("`apt-get install postgresql`"),
        "{message}"
    );
}

#[test]
fn demo_that_is_interrupted_leaves_nothing() {
    if !postgres_is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut demo = demo(folder.path());
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let mut processes = Vec::new();
    for line in lines.by_ref() {
        let line = line.unwrap();
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, name, _, process, ..] = cells[..]
            && (name == "primary" || name.starts_with("replica "))
        {
            processes.push(process.to_owned());
        }
        if line.contains("replica 2: serving") {
            break;
        }
    }
    assert_eq!(processes.len(), 3);
    let pid = Pid::from_raw(demo.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    // It goes on writing until it notices.
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let status = demo.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{rest:#?}");
    for process in processes {
        assert!(
            !Path::new("/proc").join(&process).exists(),
            "{process} still runs"
        );
    }
    assert!(is_empty(folder.path()));
}
