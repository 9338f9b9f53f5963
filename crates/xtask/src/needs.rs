//! What the steps of `cargo xtask ci` need beyond a Rust toolchain, installed where that can be done:
//! on Debian, as root.

use std::process::{Command, Stdio};

/// Debian's packages, and what is left out without them.
const PACKAGES: &[(&str, &str)] = &[
    (
        "libclang-dev",
        "crate scale does not build: PostgreSQL's grammar needs it",
    ),
    ("postgresql", "tests of the proxy"),
    ("python3-psycopg", "a test of the proxy with this driver"),
    ("python3-asyncpg", "a test of the proxy with this driver"),
    (
        "etcd-server",
        "tests of coordinators that share their state",
    ),
    ("nftables", "cut links in chaos"),
];

/// Installs what is missing. What cannot be is told, and no failure: tests of what is not there say so
/// and pass.
pub fn install() {
    if !is_present("apt-get", &["--version"]) {
        println!("this is no Debian: see to it that there are:");
        return tell(PACKAGES);
    }
    let missing = missing();
    if missing.is_empty() {
        return;
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    println!("installing {}", names.join(" "));
    // A list of packages that is old may do.
    run(&["update", "-q"]);
    let install = ["install", "-qy", "--no-install-recommends"];
    run(&[&install[..], &names].concat());
    let missing = self::missing();
    if !missing.is_empty() {
        println!("not installed, which takes root and a network; left out, or failing, are:");
        tell(&missing);
    }
}

fn missing() -> Vec<(&'static str, &'static str)> {
    let packages = PACKAGES.iter().copied();
    packages
        .filter(|(name, _)| !is_present("dpkg", &["-s", name]))
        .collect()
}

fn tell(packages: &[(&str, &str)]) {
    for (name, what) in packages {
        println!("  {name:16} {what}");
    }
}

/// Whether a program is there and says that all is well.
fn is_present(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    let command = command.args(arguments);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Its failure shows in what is missing afterwards.
fn run(arguments: &[&str]) {
    let mut command = Command::new("apt-get");
    let command = command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    if let Err(error) = command.status() {
        println!("apt-get: {error}");
    }
}
