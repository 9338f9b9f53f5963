//! `cargo xtask ci`: the steps that a commit must pass, in one table, cheapest first.
//!
//! Each step is one command that a person can run alone. Nothing is built in two profiles: tests,
//! documentation and the simulator's share all use the dev profile, which is optimised enough for
//! them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::tidy::{self, Tree};
use crate::{cargo, needs, test_programs};

/// Seeds that the simulator runs for every commit; `cargo xtask sim` runs more.
const SIMULATOR_SEEDS: &str = "1000";

/// The output of `cargo xtask ci --help`.
pub const HELP: &str = "Usage: cargo xtask ci [--allow-missing] [STEP…]\n\n\
    Runs the steps below in order, or only those named, and stops at the first that fails.\n\
    The last line is `N passed, N failed`, counting steps. Nothing in the tree is changed.\n\n\
    --allow-missing   leave tests out whose tools are missing; without it they fail\n\n  \
    needs      Debian's packages that other steps use are installed, as root; the disk has room\n  \
    format     every file is formatted\n  \
    tidy       cargo xtask tidy\n  \
    lints      compiler and clippy warnings, as errors\n  \
    tests      unit tests, scenarios and process tests of all crates\n  \
    doctests   examples in the documentation\n  \
    docs       the documentation builds and its links resolve\n  \
    simulator  a share of simulated clusters; cargo xtask sim runs more\n  \
    leftovers  the steps above left no file behind";

/// The inputs of a step.
struct Context<'a> {
    root: &'a Path,
    /// Paths in the tree before the first step.
    paths_before: &'a BTreeSet<String>,
    missing: Missing,
}

/// The handling of tests whose tools are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Fail,
    LeftOut,
}

struct Step {
    name: &'static str,
    /// The remedy for a failure.
    remedy: &'static str,
    run: fn(&Context<'_>) -> Result<(), String>,
}

const STEPS: &[Step] = &[
    Step {
        name: "needs",
        remedy: "Remove files, such as `target`, or folders that killed tests have left in the folder \
                 for temporary files.",
        run: |context| {
            needs::install();
            needs::room(context.root)
        },
    },
    Step {
        name: "format",
        remedy: "`cargo xtask fix` formats everything. If rustfmt is missing: `rustup component \
                 add rustfmt`.",
        run: |context| cargo::run(context.root, ["fmt", "--all", "--check"]),
    },
    Step {
        name: "tidy",
        remedy: "Each line above names a file, a line and the remedy.",
        run: |context| tidy::run(context.root, &[]),
    },
    Step {
        name: "lints",
        remedy: "`cargo xtask fix` repairs what a machine can. If clippy is missing: `rustup \
                 component add clippy`. If Cargo.lock is out of date: `cargo check`, and commit it.",
        run: |context| {
            let line =
                "clippy --workspace --features replex/proxy --all-targets --locked -- -D warnings";
            cargo::run(context.root, line.split(' '))?;
            // Also the build of the demo.
            cargo::run(
                context.root,
                "clippy -p replex --locked -- -D warnings".split(' '),
            )
        },
    },
    Step {
        name: "tests",
        remedy: "`cargo test -p CRATE NAME` runs one test alone, with CRATE and NAME from above. \
                 Where tools are missing, `cargo xtask ci --allow-missing` leaves their tests out.",
        // Libraries, binaries, integration tests and examples, but not documentation: that is
        // the next step, and nothing runs twice.
        run: |context| {
            let allowed: &[(&str, &str)] = match context.missing {
                Missing::Fail => &[],
                Missing::LeftOut => &[(needs::ALLOW_MISSING, "1")],
            };
            test_programs::run(context.root, allowed)
        },
    },
    Step {
        name: "doctests",
        remedy: "`cargo test -p CRATE --doc` runs the examples of one crate.",
        run: |context| {
            cargo::run(
                context.root,
                "test --workspace --features replex/proxy --doc --locked".split(' '),
            )
        },
    },
    Step {
        name: "docs",
        remedy: "`cargo doc --no-deps` shows the same messages as warnings.",
        run: |context| {
            let line = "doc --workspace --features replex/proxy --no-deps --locked";
            cargo::run_with(
                context.root,
                line.split(' '),
                &[("RUSTDOCFLAGS", "-D warnings")],
            )
        },
    },
    Step {
        name: "simulator",
        remedy: "The simulator printed the command that replays the failing seed.",
        run: |context| {
            let line = "run --package simulator --locked -- --seeds";
            cargo::run(context.root, line.split(' ').chain([SIMULATOR_SEEDS]))
        },
    },
    Step {
        name: "leftovers",
        remedy: "Let the test that made them use a temporary folder.",
        run: no_leftovers,
    },
];

/// Runs all steps, or the steps that `arguments` name.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (options, names): (Vec<_>, Vec<_>) = arguments
        .iter()
        .cloned()
        .partition(|argument| argument == "--allow-missing");
    let steps = chosen(&names)?;
    let paths_before = Tree::paths_on_disk(root)?;
    let context = Context {
        root,
        paths_before: &paths_before,
        missing: match options.is_empty() {
            true => Missing::Fail,
            false => Missing::LeftOut,
        },
    };
    let mut times: Vec<(&str, Duration)> = Vec::new();
    let mut failure = None;
    for (index, step) in steps.iter().enumerate() {
        println!("\n== {} of {}: {}", index + 1, steps.len(), step.name);
        let started = Instant::now();
        let outcome = (step.run)(&context);
        let elapsed = started.elapsed();
        match outcome {
            Ok(()) => {
                println!("== {}: passed in {}", step.name, seconds(elapsed));
                times.push((step.name, elapsed));
            }
            Err(message) => {
                println!("{message}");
                println!("== {}: FAILED after {}", step.name, seconds(elapsed));
                println!("   {}", step.remedy);
                failure = Some(step.name);
                break;
            }
        }
    }
    println!("{}", closing(&steps, &times, failure));
    // The count is the last line, so a failure adds no message to it.
    if failure.is_none() {
        Ok(())
    } else {
        Err(String::new())
    }
}

/// Returns the steps to run, in the order of the table for any order of `names`.
fn chosen(names: &[String]) -> Result<Vec<&'static Step>, String> {
    if let Some(unknown) = names
        .iter()
        .find(|name| STEPS.iter().all(|step| step.name != **name))
    {
        let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(format!(
            "There is no step `{unknown}`; there are: {}.",
            known.join(", ")
        ));
    }
    let wanted = |step: &&Step| names.is_empty() || names.iter().any(|name| name == step.name);
    Ok(STEPS.iter().filter(wanted).collect())
}

/// Returns the summary: times, steps that did not run, and alone on the last line the count.
fn closing(steps: &[&Step], times: &[(&str, Duration)], failure: Option<&str>) -> String {
    let mut text = String::new();
    for (name, elapsed) in times {
        text += &format!("\n   {name:<10} {:>9}", seconds(*elapsed));
    }
    let total = times.iter().map(|(_, elapsed)| *elapsed).sum();
    text += &format!("\n   {:<10} {:>9}\n", "passed in", seconds(total));
    let failed = usize::from(failure.is_some());
    if let Some(name) = failure {
        text += &format!("   failed: {name}; `cargo xtask ci {name}` repeats it alone\n");
        let not_run: Vec<&str> = steps[times.len() + failed..]
            .iter()
            .map(|step| step.name)
            .collect();
        if !not_run.is_empty() {
            text += &format!("   not run: {}\n", not_run.join(", "));
        }
    }
    text + &format!("\n{} passed, {failed} failed", times.len())
}

fn seconds(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}

fn no_leftovers(context: &Context<'_>) -> Result<(), String> {
    let paths_now = Tree::paths_on_disk(context.root)?;
    let new: Vec<&str> = paths_now
        .difference(context.paths_before)
        .map(String::as_str)
        .collect();
    if new.is_empty() {
        Ok(())
    } else {
        Err(format!("New files: {}", new.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_exactly_the_steps() {
        let listed: Vec<&str> = HELP
            .lines()
            .filter_map(|line| line.strip_prefix("  "))
            .filter_map(|line| line.split(' ').next())
            .collect();
        let steps: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(listed, steps);
    }

    #[test]
    fn steps_can_be_chosen_and_keep_their_order() {
        let names = ["tests".to_string(), "format".to_string()];
        let steps: Vec<&str> = chosen(&names)
            .unwrap()
            .iter()
            .map(|step| step.name)
            .collect();
        assert_eq!(steps, ["format", "tests"]);
        assert_eq!(chosen(&[]).unwrap().len(), STEPS.len());
    }

    #[test]
    fn unknown_step_is_named_with_the_existing_steps() {
        let Err(message) = chosen(&["test".into()]) else {
            panic!("accepted")
        };
        assert!(
            message.contains("`test`") && message.contains("doctests"),
            "{message}"
        );
    }

    #[test]
    fn closing_line_counts_and_stands_alone() {
        let steps = chosen(&[]).unwrap();
        let time = Duration::from_millis(1_250);
        let passed: Vec<_> = steps.iter().map(|step| (step.name, time)).collect();
        let text = closing(&steps, &passed, None);
        assert_eq!(text.lines().last(), Some("9 passed, 0 failed"));

        let text = closing(&steps, &passed[..3], Some("lints"));
        assert_eq!(text.lines().last(), Some("3 passed, 1 failed"));
        assert!(
            text.contains("not run: tests, doctests, docs, simulator, leftovers\n"),
            "{text}"
        );
    }

    #[test]
    fn new_file_is_a_leftover() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let all = Tree::paths_on_disk(root).unwrap();
        let context = Context {
            root,
            paths_before: &all,
            missing: Missing::Fail,
        };
        assert_eq!(no_leftovers(&context), Ok(()));

        let mut fewer = all.clone();
        assert!(fewer.remove("src/ci.rs"));
        let context = Context {
            root,
            paths_before: &fewer,
            missing: Missing::Fail,
        };
        assert_eq!(no_leftovers(&context), Err("New files: src/ci.rs".into()));
    }
}
