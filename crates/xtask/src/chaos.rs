//! `cargo xtask chaos`: the process test that kills servers, for longer than a commit waits.

use std::path::Path;

use crate::cargo;

/// As long as a release asks for.
const MINUTES_DEFAULT: u64 = 2;
/// A week: more is a slip of the hand.
const MINUTES_MAX: u64 = 7 * 24 * 60;

/// Runs the test for as long as `arguments` say. Its two settings are named in
/// `crates/replex/tests/kill.rs`.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let environment = environment(arguments)?;
    let environment: Vec<(&str, &str)> = environment
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let line = "test --package replex --test kill --locked -- --nocapture";
    cargo::run_with(root, line.split(' '), &environment)
}

fn environment(arguments: &[String]) -> Result<Vec<(&'static str, String)>, String> {
    let mut minutes = MINUTES_DEFAULT;
    let mut seed = None;
    let mut arguments = arguments.iter();
    while let Some(option) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
        let wrong = format!("`{option}` needs a whole number, for instance `{option} 10`.");
        match option.as_str() {
            "--minutes" => {
                minutes = value
                    .filter(|value| (1..=MINUTES_MAX).contains(value))
                    .ok_or(wrong)?;
            }
            "--seed" => seed = Some(value.ok_or(wrong)?),
            _ => {
                return Err(format!(
                    "There is no option `{option}`; there are `--minutes N` and `--seed S`."
                ));
            }
        }
    }
    let mut environment = vec![("REPLEX_KILL_SECONDS", (minutes * 60).to_string())];
    environment.extend(seed.map(|seed| ("REPLEX_KILL_SEED", seed.to_string())));
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
    fn minutes_and_seed_become_settings() {
        assert_eq!(parsed(""), Ok(vec![("REPLEX_KILL_SECONDS", "120".into())]));
        let expected = vec![
            ("REPLEX_KILL_SECONDS", "600".into()),
            ("REPLEX_KILL_SEED", "7".into()),
        ];
        assert_eq!(parsed("--seed 7 --minutes 10"), Ok(expected));
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
    }

    #[test]
    fn settings_are_those_of_the_test() {
        let test = Path::new(env!("CARGO_MANIFEST_DIR")).join("../replex/tests/kill.rs");
        let text = std::fs::read_to_string(test).unwrap();
        for (name, _) in parsed("--seed 1").unwrap() {
            assert!(text.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}
