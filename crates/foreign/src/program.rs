//! Runs programs with a time limit, and writes their output to a file.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Failure;

/// Between two looks at whether a program has ended.
const PAUSE: Duration = Duration::from_millis(100);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// The program ended by itself. Contains whether it reported success.
    Ended(bool),
    /// The program took too long, and was killed with all its children.
    TimedOut,
}

/// Runs a program for at most the given time. Its output goes to `log`.
pub fn run_for(command: &mut Command, log: &Path, most: Duration) -> Result<ProgramEnd, Failure> {
    let line = command_line(command);
    let file = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let errors = file.try_clone().map_err(|error| error.to_string())?;
    // A group of its own, so that all of it can be ended.
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors);
    let mut child = command
        .spawn()
        .map_err(|error| format!("{line}: {error}"))?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(ProgramEnd::Ended(status.success()));
        }
        if begun.elapsed() > most {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            if let Some(group) = group {
                // It may have ended just now.
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait().map_err(|error| error.to_string())?;
            return Ok(ProgramEnd::TimedOut);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Runs a program that must succeed, and returns its output.
pub fn run(command: &mut Command) -> Result<String, Failure> {
    let line = command_line(command);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{line}: {error}: install it"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let output = String::from_utf8_lossy(&output.stderr);
    Err(format!("{line} failed: {}", output.trim_end()))
}

/// Makes a command from a line of words without spaces, in a folder.
pub fn words(line: &str, folder: &Path) -> Command {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(folder);
    command
}

/// Returns the command line, for messages.
fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    format!("`{}`", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_over_its_time_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut sleeps = Command::new("sh");
        sleeps.args(["-c", "sleep 600 & echo $!; wait"]);
        let end = run_for(&mut sleeps, &log, Duration::from_millis(300)).unwrap();
        assert_eq!(end, ProgramEnd::TimedOut);
        let child = std::fs::read_to_string(&log).unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        let begun = Instant::now();
        while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{child} goes on");
            std::thread::sleep(PAUSE);
        }
    }

    #[test]
    fn failure_names_the_command() {
        let failure = run(&mut words("ls /nowhere-at-all", Path::new("/"))).unwrap_err();
        assert!(
            failure.starts_with("`ls /nowhere-at-all` failed"),
            "{failure}"
        );
    }
}
