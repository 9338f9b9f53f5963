//! The developers' command, run as `cargo xtask COMMAND`: one table of commands, each with its
//! help.
//!
//! It knows the repository's layout and cargo, and nothing of the crates that it checks: it
//! depends on none of ours and on nothing of others, so that it builds in seconds before anything
//! else does.

mod bindings;
mod cargo;
mod chaos;
mod ci;
mod fuzz;
mod long_tests;
mod needs;
mod test_programs;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One word after `cargo xtask`.
pub struct XtaskCommand {
    /// The word itself.
    pub name: &'static str,
    /// One line for the overview.
    pub summary: &'static str,
    /// The text of `--help` below the summary.
    pub help: &'static str,
    /// An error without a message was printed already.
    run: fn(root: &Path, arguments: &[String]) -> Result<(), String>,
}

/// Every command there is; documents may name these and no others.
pub const COMMANDS: &[XtaskCommand] = &[
    XtaskCommand {
        name: "ci",
        summary: "Run everything that a commit must pass; change nothing",
        help: ci::HELP,
        run: ci::run,
    },
    XtaskCommand {
        name: "fix",
        summary: "Apply the automatic fixes of compiler and linter, then format",
        help: "Usage: cargo xtask fix\n\n\
               Rewrites files in place, uncommitted changes included. Problems that it cannot fix, such\n\
               as a function that is too long, is left for `cargo xtask ci` to report.",
        run: fix,
    },
    XtaskCommand {
        name: "tidy",
        summary: "Make the checks that compilers do not: lengths, crate edges, documents",
        help: tidy::HELP,
        run: tidy::run,
    },
    XtaskCommand {
        name: "sim",
        summary: "Run the simulator: whole clusters with faults, each from one seed",
        help: "Usage: cargo xtask sim [--seeds N] [--from S] [--seed S] [OPTION…]\n\n\
               --seeds N   run N seeds\n\
               --from S    start at seed S\n\
               --seed S    replay this one seed\n\n\
               Everything is passed on to the simulator; `cargo xtask sim -- --help` prints its\n\
               own help. It is built with profile `sim`: optimised, with overflow checks and\n\
               debug assertions.",
        run: sim,
    },
    XtaskCommand {
        name: "model",
        summary: "Visit every state of small clusters: commit, restarts, resolution",
        help: "Usage: cargo xtask model [CASE…] [OPTION…]\n       \
               cargo xtask model --planted [BUG]\n\n\
               Everything is passed on to the model; `cargo xtask model -- --help` prints its own\n\
               help, with the cases and the bugs. It is built with profile `sim`. A share of it\n\
               runs in the tests of every `cargo xtask ci`.",
        run: model,
    },
    XtaskCommand {
        name: "mutants",
        summary: "Plant known bugs one by one and show that the simulator catches each",
        help: "Usage: cargo xtask mutants [OPTION…]\n\n\
               Builds the simulator with the planted bugs compiled in (feature `planted`) and\n\
               runs it with `--planted`; further options are passed on to it: a name\n\
               plants that bug only. Without options, the proxy is tried with one, too; those of\n\
               its simulation are in its unit tests.",
        run: mutants,
    },
    XtaskCommand {
        name: "chaos",
        summary: "Real servers under load and every failure: kills, cuts, lost power, bad disks",
        help: "Usage: cargo xtask chaos [--minutes N] [--seed S] [--only KIND,KIND…]\n\n\
               --minutes N   go on for N minutes (default 2)\n\
               --seed S      repeat the order and the moments of another run as far as processes\n              \
               can\n\
               --only KINDS  of Kill, KillAll, Pause, Rolling, Lose, CutOneWay, CutSome, CutOff,\n              \
               PowerOne, PowerAll and Sync only these\n\n\
               Cuts and lost power need root, `ip`, `nft` and `mkfs.ext4`, failing syncs `strace`;\n\
               what this machine cannot make is left out. The same test makes each failure once in\n\
               every `cargo xtask ci`.",
        run: chaos::run,
    },
    XtaskCommand {
        name: "writers",
        summary: "Sixty writers while indexes of every kind come and go and servers are killed",
        help: "Usage: cargo xtask writers [--rounds N] [--seed S]\n\n\
               --rounds N    so many rounds (default 20), each of some seconds\n\
               --seed S      repeat the changes of another run as far as processes can\n\n\
               After each round every index must have just the rows that the writers know. One\n\
               round runs in every `cargo xtask ci`.",
        run: long_tests::writers,
    },
    XtaskCommand {
        name: "large",
        summary: "An index is made over a large table and splits while clients write",
        help: "Usage: cargo xtask large [--rows N]\n\n\
               --rows N    so many rows (default 1000000, which takes some minutes)\n\n\
               The index must have just the rows that the writers know. A table of 20,000 rows is\n\
               part of every `cargo xtask ci`.",
        run: long_tests::large,
    },
    XtaskCommand {
        name: "foreign",
        summary: "Run test suites of other projects straight and through the proxy, and compare",
        help: "Usage: cargo xtask foreign [SUITE…] [--store] [--list]\n\n\
               Fetches each suite with the tool of its language (apt-get, pip, go, mvn, npm; for two\n\
               of them git) into target/foreign, runs it against a PostgreSQL and through the proxy\n\
               in front of one with two replicas, or with --store against a store, and prints the\n\
               differences. Differences that are known\n\
               are in crates/foreign/known, each with its reason; any other fails the run. Takes from\n\
               one minute to an hour for each suite, and is not part of `cargo xtask ci`.",
        run: foreign,
    },
    XtaskCommand {
        name: "fuzz",
        summary: "Feed the decoders bytes that a fuzzer makes up",
        help: "Usage: cargo xtask fuzz [--seconds N] [TARGET…]\n\n\
               Runs each target of fuzz/fuzz_targets, or those named, for N seconds (default 60).\n\
               New inputs are kept in fuzz/corpus, failures in fuzz/artifacts; bytes that fail\n\
               go into a test beside the decoder. Needs a nightly compiler and the tool cargo-fuzz.\n\
               The same entries run with made-up bytes in every `cargo xtask ci`.",
        run: fuzz::run,
    },
    XtaskCommand {
        name: "bindings",
        summary: "Generate the bindings of PostgreSQL's parser again, after an upgrade of it",
        help: "Usage: cargo xtask bindings\n\n\
               Builds a copy of the crate pg_raw_parse with the real bindgen, and keeps what that\n\
               generates in crates/bindgen/generated, so that no other build needs libclang. This\n\
               one does (Debian's libclang-dev), and a network.",
        run: bindings,
    },
    XtaskCommand {
        name: "deny",
        summary: "Check licences, advisories and sources of dependencies with cargo-deny",
        help: "Usage: cargo xtask deny\n\n\
               Follows deny.toml. Needs the tool cargo-deny and a network, so it is not part of\n\
               `cargo xtask ci`.",
        run: deny,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            if !message.is_empty() {
                eprintln!("{message}");
            }
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<(), String> {
    let Some((name, rest)) = arguments.split_first() else {
        return Err(overview());
    };
    if is_help(name) {
        println!("{}", overview());
        return Ok(());
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return Err(format!("There is no command `{name}`.\n\n{}", overview()));
    };
    if rest.first().is_some_and(|argument| is_help(argument)) {
        println!("{}\n\n{}", command.summary, command.help);
        return Ok(());
    }
    let folder = std::env::current_dir()
        .map_err(|error| format!("Cannot find the current folder: {error}"))?;
    (command.run)(&workspace_root(&folder)?, rest)
}

fn is_help(argument: &str) -> bool {
    matches!(argument, "help" | "--help" | "-h")
}

fn overview() -> String {
    let mut text = String::from("Usage: cargo xtask COMMAND [OPTION…]\n\nCommands:\n");
    for command in COMMANDS {
        text += &format!("  {:<8} {}\n", command.name, command.summary);
    }
    text += "\n`cargo xtask COMMAND --help` shows more.";
    text
}

/// Returns the nearest folder, from `folder` upwards, that holds this crate.
fn workspace_root(folder: &Path) -> Result<PathBuf, String> {
    folder
        .ancestors()
        .find(|ancestor| ancestor.join("crates/xtask/Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .ok_or_else(|| {
            format!(
                "{} is not inside the repository; run this from within it",
                folder.display()
            )
        })
}

/// Rejects arguments where a command takes none.
fn no_arguments(arguments: &[String]) -> Result<(), String> {
    match arguments.first() {
        None => Ok(()),
        Some(first) => Err(format!(
            "This command takes no arguments, but got `{first}`."
        )),
    }
}

/// Applies the suggestions of clippy, and formats the code. Clippy also applies the compiler's own
/// suggestions, so `cargo fix` would find nothing more.
fn fix(root: &Path, arguments: &[String]) -> Result<(), String> {
    no_arguments(arguments)?;
    let lints = "clippy --fix --allow-dirty --allow-staged --workspace --all-targets";
    cargo::run(root, lints.split(' '))?;
    cargo::run(root, ["fmt", "--all"])
}

fn sim(root: &Path, arguments: &[String]) -> Result<(), String> {
    let arguments = without_separator(arguments);
    let command = ["run", "--profile", "sim", "--package", "simulator", "--"];
    cargo::run(root, command.into_iter().chain(arguments))
}

fn model(root: &Path, arguments: &[String]) -> Result<(), String> {
    let arguments = without_separator(arguments);
    let command = ["run", "--profile", "sim", "--package", "model", "--"];
    cargo::run(root, command.into_iter().chain(arguments))
}

fn mutants(root: &Path, arguments: &[String]) -> Result<(), String> {
    // Bugs of fills and moves are found by histories as well, with fewer faults and in a moment.
    let histories = "test --package machines --features planted --test scenarios";
    cargo::run(root, histories.split(' '))?;
    // Some bugs need a coincidence that the simulator seldom draws. Tests create it.
    let coincidences = "test --package machines --features planted --lib --test ranges --test recovery --test sides --test snapshots --test transactions";
    let name = ["the_planted_bug"];
    cargo::run(root, coincidences.split(' ').chain(name))?;
    let seals = "test --package coordinator --features planted --lib";
    cargo::run(root, seals.split(' ').chain(name))?;
    if arguments.is_empty() {
        let control = "test --package proxy --features planted --test all history::delayed_commit";
        let bug = [("REPLEX_HIHOOI_PLANTED", "CommitsOutOfOrder")];
        cargo::run_with(root, control.split(' '), &bug)?;
    }
    let arguments = without_separator(arguments);
    let command = "run --profile sim --package simulator --features planted -- --planted";
    cargo::run(root, command.split(' ').chain(arguments))
}

fn foreign(root: &Path, arguments: &[String]) -> Result<(), String> {
    // It starts the proxy that was built beside it.
    cargo::run(root, "build --package replex --features proxy".split(' '))?;
    let command = ["run", "--quiet", "--package", "foreign", "--"];
    cargo::run(
        root,
        command.into_iter().chain(without_separator(arguments)),
    )
}

/// Returns the arguments without a leading `--`, which marks that a following `--help` is not for
/// this program.
fn without_separator(arguments: &[String]) -> impl Iterator<Item = &str> {
    let skipped = usize::from(arguments.first().is_some_and(|first| first == "--"));
    arguments[skipped..].iter().map(String::as_str)
}

/// Returns the error for an option without the number that belongs to it.
fn needs_number(option: &str) -> String {
    format!("`{option}` needs a whole number, for instance `{option} 10`.")
}

fn bindings(root: &Path, arguments: &[String]) -> Result<(), String> {
    no_arguments(arguments)?;
    bindings::run(root)
}

fn deny(root: &Path, arguments: &[String]) -> Result<(), String> {
    no_arguments(arguments)?;
    if !cargo::has_subcommand("deny") {
        return Err(
            "cargo-deny is not installed. Install it with `cargo install --locked \
                    cargo-deny`, then run `cargo xtask deny` again."
                .into(),
        );
    }
    cargo::run(root, ["deny", "check"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn every_command_has_help_that_names_it() {
        for command in COMMANDS {
            let usage = format!("Usage: cargo xtask {}", command.name);
            assert!(command.help.starts_with(&usage), "{}", command.name);
            assert!(dispatch(&[command.name.into(), "--help".into()]).is_ok());
            assert!(overview().contains(command.summary));
        }
    }

    #[test]
    fn unknown_command_lists_the_existing_commands() {
        let message = dispatch(&words("cii")).unwrap_err();
        assert!(message.contains("no command `cii`"), "{message}");
        assert!(message.contains("  ci "), "{message}");
    }

    #[test]
    fn no_command_is_an_error() {
        assert!(dispatch(&[]).unwrap_err().starts_with("Usage"));
    }

    #[test]
    fn surplus_arguments_are_named() {
        assert!(
            no_arguments(&words("--fast"))
                .unwrap_err()
                .contains("--fast")
        );
        assert!(no_arguments(&[]).is_ok());
    }

    #[test]
    fn separator_is_dropped_once() {
        let arguments = words("-- --help --");
        let passed: Vec<&str> = without_separator(&arguments).collect();
        assert_eq!(passed, ["--help", "--"]);
        let arguments = words("--seed 7");
        assert_eq!(without_separator(&arguments).count(), 2);
    }

    #[test]
    fn root_is_found_from_a_folder_below_and_missed_outside() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let root = workspace_root(&here).unwrap();
        assert!(root.join("Cargo.toml").is_file());
        assert!(
            workspace_root(Path::new("/"))
                .unwrap_err()
                .contains("not inside")
        );
    }
}
