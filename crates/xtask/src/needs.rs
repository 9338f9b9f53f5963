//! The requirements of the steps of `cargo xtask ci` beyond a Rust toolchain: packages, installed
//! where that is possible, on Debian, as root; and room on the disk.

use std::env::temp_dir;
use std::path::Path;
use std::process::{Command, Stdio};

/// Lets tests whose tools are missing be left out. `tests/needs.rs` reads it.
pub const ALLOW_MISSING: &str = "REPLEX_ALLOW_MISSING";

/// The room on the disk that a run takes, in MiB: a build from scratch, and the tests, whose
/// clusters allocate their logs before they write them.
const BUILD_MIB: u64 = 6 << 10;
const TESTS_MIB: u64 = 3 << 10;

/// A package of Debian.
struct Package {
    name: &'static str,
    /// The failure without it.
    without: &'static str,
    /// A program that does as well, wherever it comes from, with arguments that show that it runs.
    program: Option<(&'static str, &'static str)>,
}

const PACKAGES: &[Package] = &[
    Package {
        name: "postgresql",
        without: "tests of the proxy",
        program: None,
    },
    Package {
        name: "python3-psycopg",
        without: "a test of the proxy with this driver",
        program: None,
    },
    Package {
        name: "python3-asyncpg",
        without: "a test of the proxy with this driver",
        program: None,
    },
    Package {
        name: "npm",
        without: "a test of the proxy with the driver node-postgres",
        program: Some(("npm", "--version")),
    },
    Package {
        name: "golang-go",
        without: "a test of the proxy with the driver pgx",
        program: Some(("go", "version")),
    },
    Package {
        name: "default-jdk-headless",
        without: "a test of the proxy with the driver pgjdbc",
        program: Some(("java", "--version")),
    },
    Package {
        name: "maven",
        without: "a test of the proxy with the driver pgjdbc",
        program: Some(("mvn", "--version")),
    },
    Package {
        name: "etcd-server",
        without: "tests of coordinators that share their state",
        program: None,
    },
    Package {
        name: "nftables",
        without: "cut links in chaos and in a test of the proxy",
        program: Some(("nft", "--version")),
    },
    Package {
        name: "iproute2",
        without: "cut links in chaos and in a test of the proxy",
        program: Some(("ip", "-V")),
    },
    Package {
        name: "strace",
        without: "disks that hang or fail",
        program: Some(("strace", "--version")),
    },
];

/// Checks that the disk has room for a run. On a full disk tests fail in ways that show no cause.
pub fn room(root: &Path) -> Result<(), String> {
    let is_built = root.join("target/debug/deps").exists();
    let build = if is_built { 0 } else { BUILD_MIB };
    for (folder, needed) in [
        (root.to_owned(), build + TESTS_MIB),
        (temp_dir(), TESTS_MIB),
    ] {
        // A system whose `df` speaks otherwise is not checked.
        let Some(free) = free_mib(&folder) else {
            continue;
        };
        if free < needed {
            return Err(format!(
                "{} has {free} MiB free, and this run takes {needed} MiB",
                folder.display()
            ));
        }
    }
    Ok(())
}

/// Returns the free room of a folder's file system in MiB.
fn free_mib(folder: &Path) -> Option<u64> {
    let output = Command::new("df").arg("-Pm").arg(folder).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
}

/// Installs missing packages. A package that cannot be installed is listed, and is no failure here:
/// its tests fail, or are left out with `--allow-missing`.
pub fn install() {
    if !is_present("apt-get", &["--version"]) {
        println!("this is not Debian: provide the contents of these packages");
        return list(PACKAGES.iter());
    }
    let missing: Vec<&Package> = missing().collect();
    if missing.is_empty() {
        return;
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    println!("installing {}", names.join(" "));
    // A list of packages that is old may do.
    run(&["update", "-q"]);
    let install = ["install", "-qy", "--no-install-recommends"];
    run(&[&install[..], &names].concat());
    let mut missing = self::missing().peekable();
    if missing.peek().is_some() {
        println!("not installed, which takes root and a network; failing without them are:");
        list(missing);
    }
}

fn missing() -> impl Iterator<Item = &'static Package> {
    PACKAGES.iter().filter(|package| {
        let stand_in = package.program;
        !stand_in.is_some_and(|(program, argument)| is_present(program, &[argument]))
            && !is_present("dpkg", &["-s", package.name])
    })
}

fn list(packages: impl Iterator<Item = &'static Package>) {
    for Package { name, without, .. } in packages {
        println!("  {name:20} {without}");
    }
}

/// Returns whether a program is there and succeeds.
fn is_present(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    let command = command.args(arguments);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Runs `apt-get`. A failure shows in the packages that are missing afterwards.
fn run(arguments: &[&str]) {
    let mut command = Command::new("apt-get");
    let command = command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    if let Err(error) = command.status() {
        println!("apt-get: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn free_room_is_known() {
        assert!(free_mib(&temp_dir()).is_some());
        assert_eq!(free_mib(Path::new("/no such folder")), None);
    }

    #[test]
    fn tests_read_the_variable_that_is_set() {
        let needs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/needs.rs");
        let text = std::fs::read_to_string(needs).unwrap();
        assert!(text.contains(&format!("\"{ALLOW_MISSING}\"")));
    }
}
