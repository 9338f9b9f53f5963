//! `cargo xtask chaos`: runs the process test of all failures for longer than a commit's checks do.

use std::path::Path;

use crate::cargo;
use crate::needs::ALLOW_MISSING;
use crate::needs_number;

/// As long as a release asks for.
const MINUTES_DEFAULT: u64 = 2;
/// A week: more is a slip of the hand.
const MINUTES_MAX: u64 = 7 * 24 * 60;

/// Runs the test for as long as `arguments` ask. Its settings are named in
/// `crates/replex/tests/all/chaos.rs`.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let environment = environment(arguments)?;
    let settings = environment
        .iter()
        .map(|(name, value)| (*name, value.as_str()));
    // Failures that this machine cannot make are left out.
    let environment: Vec<(&str, &str)> = settings.chain([(ALLOW_MISSING, "1")]).collect();
    let line = "test --package replex --test all --locked chaos:: -- --nocapture";
    cargo::run_with(root, line.split(' '), &environment)
}

fn environment(arguments: &[String]) -> Result<Vec<(&'static str, String)>, String> {
    let mut minutes = MINUTES_DEFAULT;
    let mut seed = None;
    let mut only = None;
    let mut arguments = arguments.iter();
    while let Some(option) = arguments.next() {
        let text = arguments.next();
        let value = text.and_then(|value| value.parse::<u64>().ok());
        let wrong = needs_number(option);
        match option.as_str() {
            "--minutes" => {
                minutes = value
                    .filter(|value| (1..=MINUTES_MAX).contains(value))
                    .ok_or(wrong)?;
            }
            "--seed" => seed = Some(value.ok_or(wrong)?),
            "--only" => {
                let missing = "`--only` needs failures, for instance `--only Kill,PowerAll`.";
                only = Some(text.ok_or(missing)?.clone());
            }
            _ => {
                return Err(format!(
                    "There is no option `{option}`; there are `--minutes N`, `--seed S` and \
                     `--only KIND,KIND`."
                ));
            }
        }
    }
    let mut environment = vec![("REPLEX_CHAOS_SECONDS", (minutes * 60).to_string())];
    environment.extend(seed.map(|seed| ("REPLEX_CHAOS_SEED", seed.to_string())));
    environment.extend(only.map(|kinds| ("REPLEX_CHAOS_ONLY", kinds)));
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Vec<(&'static str, String)>, String> {
        environment(
            &line
                .split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn options_become_settings() {
        assert_eq!(parsed(""), Ok(vec![("REPLEX_CHAOS_SECONDS", "120".into())]));
        let expected = vec![
            ("REPLEX_CHAOS_SECONDS", "600".into()),
            ("REPLEX_CHAOS_SEED", "7".into()),
            ("REPLEX_CHAOS_ONLY", "Kill,Lose".into()),
        ];
        let line = "--only Kill,Lose --seed 7 --minutes 10";
        assert_eq!(parsed(line), Ok(expected));
    }

    #[test]
    fn wrong_options_are_named() {
        for line in ["--minutes", "--minutes x", "--minutes 0", "--minutes -1"] {
            assert!(parsed(line).unwrap_err().contains("`--minutes`"), "{line}");
        }
        assert!(
            parsed("--hours 1")
                .unwrap_err()
                .contains("no option `--hours`")
        );
        assert!(parsed("--only").unwrap_err().contains("`--only`"));
    }

    #[test]
    fn settings_equal_those_of_the_test() {
        let test = Path::new(env!("CARGO_MANIFEST_DIR")).join("../replex/tests/all/chaos.rs");
        let text = std::fs::read_to_string(test).unwrap();
        for (name, _) in parsed("--seed 1 --only Kill").unwrap() {
            assert!(text.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}
