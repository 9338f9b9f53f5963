//! Running the workspace's test programs, as many at a time as there are processors.
//!
//! `cargo test` runs one program after the other. Many tests wait for other processes, which leaves
//! processors idle. The output of a program is printed when the program has ended, so outputs do
//! not mix.
//!
//! A program that does not end is killed and fails, with what it printed until then: its last lines
//! name the tests that still ran. Nor does a process that a test leaves behind, and that keeps the
//! program's output open, keep the run from ending.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::cargo;

/// The arguments of cargo that build libraries, binaries, integration tests and examples as tests.
/// Messages about programs go to standard output, all others to standard error.
const BUILD: &str = "test --workspace --features replex/proxy --tests --examples --locked --no-run \
                     --message-format=json-render-diagnostics";

/// Limits of a test program.
#[derive(Clone, Copy)]
struct Limits {
    /// Time until it is killed. The longest takes a quarter of it.
    run: Duration,
    /// Time from its end until its output must have ended.
    output: Duration,
}

const LIMITS: Limits = Limits {
    run: Duration::from_secs(25 * 60),
    output: Duration::from_secs(10),
};

/// Time between two looks at whether a program has ended.
const POLL: Duration = Duration::from_millis(20);

/// A test program that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TestProgram {
    executable: PathBuf,
    /// The folder of its crate, in which it runs.
    folder: PathBuf,
}

/// Builds and runs all test programs, with environment variables added. An error lists the programs
/// with failing tests.
pub fn run(root: &Path, environment: &[(&str, &str)]) -> Result<(), String> {
    let messages = cargo::output(root, BUILD.split(' '))?;
    let programs: Vec<TestProgram> = messages.lines().filter_map(of_message).collect();
    if programs.is_empty() {
        return Err("cargo has built no test program".into());
    }
    let waiting = Mutex::new(programs.iter());
    let next = || {
        waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    };
    let begun = Instant::now();
    let run_some = || {
        let mut failed = Vec::new();
        while let Some(program) = next() {
            if !run_one(program, environment, begun) {
                failed.push(program.executable.display().to_string());
            }
        }
        failed
    };
    let lanes = thread::available_parallelism().map_or(1, usize::from);
    let failed: Vec<String> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(run_some)).collect();
        let ended = lanes.into_iter().map(|lane| lane.join());
        ended
            .flat_map(|failed| failed.expect("a lane does not panic"))
            .collect()
    });
    let count = programs.len();
    match failed.is_empty() {
        true => {
            println!("{count} test programs passed");
            Ok(())
        }
        false => Err(format!(
            "{} of {count} test programs failed:\n{}",
            failed.len(),
            failed.join("\n")
        )),
    }
}

/// Runs a program, and returns whether its tests passed. `begun` is when the first one began.
fn run_one(program: &TestProgram, environment: &[(&str, &str)], begun: Instant) -> bool {
    let started = begun.elapsed().as_secs_f32();
    let mut command = Command::new(&program.executable);
    command
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .envs(environment.iter().copied());
    let name = program.executable.display();
    let (output, failure) = match output_within(command, LIMITS) {
        Ok(Ended { output, fault }) => (output, fault),
        Err(error) => (String::new(), Some(format!("it did not start: {error}"))),
    };
    let passed = failure.is_none();
    let failure = failure.map_or_else(String::new, |failure| format!("{name} failed: {failure}\n"));
    // One write, so that no other program's output comes between.
    let ended = begun.elapsed().as_secs_f32();
    println!("     Running {name} (from {started:.1} to {ended:.1} s)\n{output}{failure}");
    passed
}

/// The end of a program.
struct Ended {
    /// Standard output and standard error of the program.
    output: String,
    /// Why it does not count as passed.
    fault: Option<String>,
}

/// Runs a program until it ends or a limit has passed.
fn output_within(mut command: Command, limits: Limits) -> io::Result<Ended> {
    let (mut reader, writer) = io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = command.spawn()?;
    // The command holds the writing ends, which would keep the output from ending.
    drop(command);
    let output = Arc::new(Mutex::new(Vec::new()));
    let (output_ended, when_output_ended) = mpsc::channel::<()>();
    let collected = Arc::clone(&output);
    // Not joined: it ends with the last process that has the output open.
    thread::spawn(move || {
        let mut chunk = [0; 1 << 16];
        while let Ok(count @ 1..) = reader.read(&mut chunk) {
            let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
            collected.extend_from_slice(&chunk[..count]);
        }
        drop(output_ended);
    });
    let status = status_within(&mut child, limits.run)?;
    let closed =
        when_output_ended.recv_timeout(limits.output) != Err(mpsc::RecvTimeoutError::Timeout);
    let fault = match status {
        None => Some(format!(
            "it did not end within {} s, and was killed; a test that is said to run for over 60 s, \
             and has no result, hung",
            limits.run.as_secs()
        )),
        Some(status) if !status.success() => Some(status.to_string()),
        Some(_) if !closed => {
            Some("a process that one of its tests started still runs, and holds its output".into())
        }
        Some(_) => None,
    };
    let output = output.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Ended {
        output: String::from_utf8_lossy(&output).into_owned(),
        fault,
    })
}

/// Waits for a program to end. A program that runs longer than `limit` is killed: it has no status.
fn status_within(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    while started.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(POLL);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Returns the test program that one of cargo's messages in JSON reports.
fn of_message(message: &str) -> Option<TestProgram> {
    let (_, profile) = message.split_once(r#""profile":{"#)?;
    let (profile, _) = profile.split_once('}')?;
    let is_test = profile.contains(r#""test":true"#);
    let executable = is_test.then(|| text_of(message, "executable")).flatten()?;
    let manifest = PathBuf::from(text_of(message, "manifest_path")?);
    Some(TestProgram {
        executable: executable.into(),
        folder: manifest.parent()?.to_path_buf(),
    })
}

/// Returns the text of this name in a message; none if it is no text, or has an escape.
fn text_of(message: &str, name: &str) -> Option<String> {
    let start = message.find(&format!("\"{name}\":\""))? + name.len() + 4;
    let text = message[start..].split('"').next()?;
    (!text.contains('\\')).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_from_messages() {
        let message = r#"{"reason":"compiler-artifact","package_id":"p","manifest_path":"/r/crates/a/Cargo.toml","target":{"kind":["test"],"name":"t","test":true},"profile":{"opt_level":"1","overflow_checks":true,"test":true},"features":[],"filenames":["/r/t"],"executable":"/r/t","fresh":true}"#;
        let program = TestProgram {
            executable: "/r/t".into(),
            folder: "/r/crates/a".into(),
        };
        assert_eq!(of_message(message), Some(program));
        let library = message.replace(r#""executable":"/r/t""#, r#""executable":null"#);
        assert_eq!(of_message(&library), None);
        let built = message.replace(r#"true,"test":true}"#, r#"true,"test":false}"#);
        assert_eq!(of_message(&built), None);
    }

    /// Runs a line of shell within these seconds.
    fn shell(line: &str, run: f32) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        let limits = Limits {
            run: Duration::from_secs_f32(run),
            output: Duration::from_millis(100),
        };
        output_within(command, limits).unwrap()
    }

    #[test]
    fn output_and_failure_of_a_program() {
        let ended = shell("echo one; echo two >&2", 60.0);
        assert_eq!((ended.output.as_str(), ended.fault), ("one\ntwo\n", None));
        let ended = shell("echo one; exit 3", 60.0);
        assert_eq!(ended.output, "one\n");
        assert_eq!(ended.fault.as_deref(), Some("exit status: 3"));
    }

    #[test]
    fn program_that_does_not_end_is_killed_and_its_output_shown() {
        let ended = shell("echo started; exec sleep 600", 0.5);
        assert_eq!(ended.output, "started\n");
        assert!(
            ended
                .fault
                .unwrap()
                .starts_with("it did not end within 0 s")
        );
    }

    #[test]
    fn process_left_behind_with_the_output_is_a_failure() {
        let ended = shell("sleep 5 & echo passed", 60.0);
        assert_eq!(ended.output, "passed\n");
        assert!(ended.fault.unwrap().contains("holds its output"));
    }
}
