//! `cargo xtask writers` and `cargo xtask large`: run a test for longer than a commit's checks do.

use std::path::Path;

use crate::{cargo, needs_number};

/// An option of a command, and the environment variable in which the test reads it.
struct LongOption {
    name: &'static str,
    variable: &'static str,
    default: Option<u64>,
}

/// The options of `cargo xtask writers`, which `crates/replex/tests/all/sixty_writers.rs` reads.
const WRITERS: &[LongOption] = &[
    LongOption {
        name: "--rounds",
        variable: "REPLEX_WRITERS_ROUNDS",
        default: Some(20),
    },
    LongOption {
        name: "--seed",
        variable: "REPLEX_WRITERS_SEED",
        default: None,
    },
];

/// The options of `cargo xtask large`, which `crates/replex/tests/all/large_index.rs` reads.
const LARGE: &[LongOption] = &[LongOption {
    name: "--rows",
    variable: "REPLEX_LARGE_ROWS",
    default: Some(1_000_000),
}];

/// Runs the test of sixty writers for several rounds.
pub fn writers(root: &Path, arguments: &[String]) -> Result<(), String> {
    run(root, "sixty_writers::", WRITERS, arguments)
}

/// Runs the test of an index over a large table.
pub fn large(root: &Path, arguments: &[String]) -> Result<(), String> {
    run(root, "large_index::", LARGE, arguments)
}

fn run(
    root: &Path,
    test: &str,
    options: &[LongOption],
    arguments: &[String],
) -> Result<(), String> {
    let environment = environment(options, arguments)?;
    let settings = environment.iter();
    let settings: Vec<(&str, &str)> = settings.map(|(name, it)| (*name, it.as_str())).collect();
    let line = format!("test --package replex --test all --locked {test} -- --nocapture");
    cargo::run_with(root, line.split(' '), &settings)
}

fn environment(
    options: &[LongOption],
    arguments: &[String],
) -> Result<Vec<(&'static str, String)>, String> {
    let mut values: Vec<Option<u64>> = options.iter().map(|option| option.default).collect();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let known = options.iter().position(|option| option.name == argument);
        let Some(known) = known else {
            let names = options.iter().map(|option| format!("`{} N`", option.name));
            let names: Vec<String> = names.collect();
            return Err(format!(
                "There is no option `{argument}`. Options: {}.",
                names.join(", ")
            ));
        };
        let value = arguments.next().and_then(|text| text.parse::<u64>().ok());
        values[known] = Some(value.ok_or_else(|| needs_number(argument))?);
    }
    let given = options.iter().zip(values);
    let given = given.filter_map(|(option, value)| Some((option.variable, value?.to_string())));
    Ok(given.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Vec<(&'static str, String)>, String> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        environment(WRITERS, &words)
    }

    #[test]
    fn options_become_settings() {
        let rounds = |number: &str| ("REPLEX_WRITERS_ROUNDS", number.to_owned());
        assert_eq!(parsed(""), Ok(vec![rounds("20")]));
        let seed = ("REPLEX_WRITERS_SEED", "7".to_owned());
        assert_eq!(parsed("--rounds 3 --seed 7"), Ok(vec![rounds("3"), seed]));
        assert!(parsed("--rounds many").unwrap_err().contains("--rounds 10"));
        assert!(parsed("--minutes 3").unwrap_err().contains("`--seed N`"));
    }
}
