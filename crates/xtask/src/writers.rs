//! `cargo xtask writers`: runs the test of sixty writers for more rounds than a commit's checks do.

use std::path::Path;

use crate::{cargo, needs_number};

const ROUNDS_DEFAULT: u64 = 20;

/// Runs the test as often as `arguments` ask. Its settings are named in
/// `crates/replex/tests/all/sixty_writers.rs`.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let environment = environment(arguments)?;
    let settings = environment.iter();
    let settings: Vec<(&str, &str)> = settings.map(|(name, it)| (*name, it.as_str())).collect();
    let line = "test --package replex --test all --locked sixty_writers:: -- --nocapture";
    cargo::run_with(root, line.split(' '), &settings)
}

fn environment(arguments: &[String]) -> Result<Vec<(&'static str, String)>, String> {
    let mut rounds = ROUNDS_DEFAULT;
    let mut seed = None;
    let mut arguments = arguments.iter();
    while let Some(option) = arguments.next() {
        let value = arguments.next().and_then(|text| text.parse::<u64>().ok());
        let value = value.ok_or_else(|| needs_number(option));
        match option.as_str() {
            "--rounds" => rounds = value?,
            "--seed" => seed = Some(value?),
            _ => {
                return Err(format!(
                    "There is no option `{option}`; there are `--rounds N` and `--seed S`."
                ));
            }
        }
    }
    let mut environment = vec![("REPLEX_WRITERS_ROUNDS", rounds.to_string())];
    environment.extend(seed.map(|seed| ("REPLEX_WRITERS_SEED", seed.to_string())));
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Vec<(&'static str, String)>, String> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        environment(&words)
    }

    #[test]
    fn options_become_settings() {
        let rounds = |number: &str| ("REPLEX_WRITERS_ROUNDS", number.to_owned());
        assert_eq!(parsed(""), Ok(vec![rounds("20")]));
        let seed = ("REPLEX_WRITERS_SEED", "7".to_owned());
        assert_eq!(parsed("--rounds 3 --seed 7"), Ok(vec![rounds("3"), seed]));
        assert!(parsed("--rounds many").unwrap_err().contains("--rounds 10"));
        assert!(parsed("--minutes 3").unwrap_err().contains("--seed S"));
    }
}
