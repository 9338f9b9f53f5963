//! Running the workspace's test programs, as many at a time as there are processors.
//!
//! `cargo test` runs one program after the other. Many tests wait for other processes, which leaves
//! processors idle. The output of a program is printed when the program has ended, so outputs do
//! not mix.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::cargo;

/// The arguments of cargo that build libraries, binaries, integration tests and examples as tests.
/// Messages about programs go to standard output, all others to standard error.
const BUILD: &str = "test --workspace --features replex/proxy --tests --examples --locked --no-run \
                     --message-format=json-render-diagnostics";

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
    let run_some = || {
        let mut failed = Vec::new();
        while let Some(program) = next() {
            if !run_one(program, environment) {
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

/// Runs a program, and returns whether its tests passed.
fn run_one(program: &TestProgram, environment: &[(&str, &str)]) -> bool {
    let output = Command::new(&program.executable)
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output();
    let name = program.executable.display();
    match output {
        Ok(output) => {
            let passed = output.status.success();
            // One write, so that no other program's output comes between.
            println!(
                "     Running {name}\n{}{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
                match passed {
                    true => String::new(),
                    false => format!("{name} failed: {}\n", output.status),
                }
            );
            passed
        }
        Err(error) => {
            println!("     Running {name}\nit did not start: {error}");
            false
        }
    }
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
}
