//! `cargo xtask fuzz`: runs every fuzz target in turn, each for some time.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cargo;
use crate::tidy::Tree;

/// Long enough to get past the headers of every format.
const SECONDS_DEFAULT: u32 = 60;

/// The options of the command line.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    seconds: u32,
    /// Names of targets; none means all.
    targets: Vec<String>,
}

/// Runs the targets that `arguments` name, or all.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let mut request = parse(arguments)?;
    let known = targets(&Tree::paths_on_disk(root)?);
    if let Some(unknown) = request
        .targets
        .iter()
        .find(|target| !known.contains(*target))
    {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(format!(
            "There is no target `{unknown}`; there are: {}.",
            known.join(", ")
        ));
    }
    if request.targets.is_empty() {
        request.targets.extend(known);
    }
    if !cargo::has_subcommand("fuzz") {
        return Err(
            "cargo-fuzz is not installed. Install it with `cargo install --locked \
                    cargo-fuzz`, and a nightly compiler with `rustup toolchain install nightly`."
                .into(),
        );
    }
    let limit = format!("-max_total_time={}", request.seconds);
    for target in &request.targets {
        // The compiler that started us is a stable one, and cargo-fuzz would take it.
        let environment = [("RUSTUP_TOOLCHAIN", "nightly"), ("CARGO", "cargo")];
        cargo::run_with(root, ["fuzz", "run", target, "--", &limit], &environment)?;
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Request, String> {
    let mut request = Request {
        seconds: SECONDS_DEFAULT,
        targets: Vec::new(),
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => {
                let value = arguments.next().and_then(|value| value.parse().ok());
                request.seconds = value.filter(|seconds| *seconds > 0).ok_or(
                    "`--seconds` needs a whole number from 1, for instance `--seconds 600`",
                )?;
            }
            option if option.starts_with('-') => {
                return Err(format!(
                    "There is no option `{option}`; there is `--seconds N`."
                ));
            }
            target => request.targets.push(target.into()),
        }
    }
    Ok(request)
}

/// Returns names of the files in `fuzz/fuzz_targets`.
fn targets(paths: &BTreeSet<String>) -> BTreeSet<String> {
    paths
        .iter()
        .filter_map(|path| path.strip_prefix("fuzz/fuzz_targets/")?.strip_suffix(".rs"))
        .map(String::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        parse(
            &line
                .split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn seconds_and_targets_in_any_order() {
        let request = Request {
            seconds: 7,
            targets: vec!["row".into(), "key".into()],
        };
        assert_eq!(parsed("row --seconds 7 key"), Ok(request));
        let request = Request {
            seconds: SECONDS_DEFAULT,
            targets: Vec::new(),
        };
        assert_eq!(parsed(""), Ok(request));
    }

    #[test]
    fn wrong_options_are_named() {
        for line in ["--seconds", "--seconds x", "--seconds 0", "--seconds -1"] {
            assert!(parsed(line).unwrap_err().contains("`--seconds`"), "{line}");
        }
        assert!(
            parsed("--second 1")
                .unwrap_err()
                .contains("no option `--second`")
        );
    }

    #[test]
    fn targets_are_files() {
        let paths = [
            "fuzz/fuzz_targets/row.rs",
            "fuzz/src/lib.rs",
            "fuzz/fuzz_targets/a.txt",
        ];
        let paths = paths.map(String::from).into();
        assert_eq!(targets(&paths), BTreeSet::from(["row".to_string()]));
    }
}
