//! Running cargo: the command line is echoed, its output goes straight through.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Runs cargo in `root`; an exit code other than zero is an error that repeats the command line.
pub fn run<'a>(root: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    run_with(root, arguments, &[])
}

/// Runs cargo with environment variables added.
pub fn run_with<'a>(
    root: &Path,
    arguments: impl IntoIterator<Item = &'a str>,
    environment: &[(&str, &str)],
) -> Result<(), String> {
    let (mut command, line) = command(root, arguments);
    let status = command
        .envs(environment.iter().copied())
        .status()
        .map_err(|error| format!("`{line}` did not start: {error}"))?;
    succeeded(&line, status)
}

/// Runs cargo in `root`, and returns what it prints to standard output.
pub fn output<'a>(
    root: &Path,
    arguments: impl IntoIterator<Item = &'a str>,
) -> Result<String, String> {
    let (mut command, line) = command(root, arguments);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("`{line}` did not start: {error}"))?;
    succeeded(&line, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Echoes a command line of cargo, and returns the command with its line.
fn command<'a>(root: &Path, arguments: impl IntoIterator<Item = &'a str>) -> (Command, String) {
    let mut command = Command::new(program());
    command.current_dir(root);
    let mut line = String::from("cargo");
    for argument in arguments {
        command.arg(argument);
        line += " ";
        line += argument;
    }
    eprintln!("$ {line}");
    (command, line)
}

fn succeeded(line: &str, status: ExitStatus) -> Result<(), String> {
    match status.success() {
        true => Ok(()),
        false => Err(format!("`{line}` failed: {status}")),
    }
}

/// Returns whether `cargo NAME` exists, installed beside cargo or as a component of the toolchain.
pub fn has_subcommand(name: &str) -> bool {
    Command::new(program())
        .args([name, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns the cargo program that has started this one. Cargo names it in the variable `CARGO`.
fn program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_repeats_the_command_line() {
        let message = run(Path::new("."), ["no-such-subcommand", "--flag"]).unwrap_err();
        assert!(
            message.contains("`cargo no-such-subcommand --flag` failed"),
            "{message}"
        );
    }

    #[test]
    fn subcommands_are_distinguished() {
        assert!(has_subcommand("fmt"));
        assert!(!has_subcommand("no-such-subcommand"));
    }
}
