//! Exhaustive models of the protocol. A model visits every state that small clusters can reach. If
//! a state violates a property, the command prints the shortest counterexample.
//!
//! Each module implements one part of the protocol again, independently of the other crates. So a
//! model checks the rules, and the simulator checks that the machines follow the rules. The search
//! is our own code and not a library, because it must keep few bytes for each state to visit many
//! states.

mod changes;
mod commit;
mod cuts;
mod fills;
mod leases;
mod packing;
mod planted;
mod seals;
mod search;
mod study;
mod transactions;

use std::process::ExitCode;
use std::time::Instant;

use search::SearchLimits;
use study::{Findings, StudiedBug, StudiedCase};

const HELP: &str = "\
Usage: model [CASE…] [--states N] [--memory GB] [--crashes N] [--losses N]
       model --planted [BUG]

Visits every state of each case (all of them, or those named), breadth first, and prints the
shortest counterexample if a state violates a property.

  --states N    of each case, stop after N states (5000000)
  --memory GB   stop before the search takes more (12)
  --crashes N   with so many crashes (up to 3) instead of the case's own number (commit only)
  --losses N    with so many removed members (up to 3; commit only)
  --planted     break each rule in turn, or as BUG does, and show that it is noticed

Cases:
";

struct Options {
    limits: SearchLimits,
    names: Vec<String>,
    crashes: Option<u8>,
    losses: Option<u8>,
    planted: bool,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{}", help());
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("model: {message}\n\n{}", help());
            return ExitCode::from(2);
        }
    };
    let failed = match options.planted {
        true => run_planted(&options),
        false => run_cases(&options),
    };
    ExitCode::from(u8::from(failed > 0))
}

/// Returns the cases of all models.
fn all_cases(crashes: Option<u8>, losses: Option<u8>) -> Vec<StudiedCase> {
    let mut cases = commit::studied_cases(crashes, losses);
    cases.extend(seals::studied_cases());
    cases.extend(leases::studied_cases());
    cases.extend(cuts::studied_cases());
    cases.extend(fills::studied_cases());
    cases.extend(transactions::studied_cases());
    cases
}

/// Returns the planted bugs of all models.
fn all_bugs() -> Vec<StudiedBug> {
    let mut bugs = commit::studied_bugs();
    bugs.extend(seals::studied_bugs());
    bugs.extend(leases::studied_bugs());
    bugs.extend(cuts::studied_bugs());
    bugs.extend(fills::studied_bugs());
    bugs.extend(transactions::studied_bugs());
    bugs
}

fn help() -> String {
    let cases = all_cases(None, None);
    let lines = cases
        .iter()
        .map(|case| format!("  {:<22} {}\n", case.name, case.about));
    let bugs = all_bugs();
    let bugs = bugs
        .iter()
        .map(|bug| format!("  {:<29} {:<4}{}\n", bug.name, bug.rule, bug.description));
    let (lines, bugs): (String, String) = (lines.collect(), bugs.collect());
    format!("{HELP}{lines}\nBugs:\n{bugs}")
}

fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options {
        limits: SearchLimits {
            states_max: 5_000_000,
            bytes_max: 12 << 30,
            progress: true,
        },
        names: Vec::new(),
        crashes: None,
        losses: None,
        planted: false,
    };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let text = arguments.next().unwrap_or_default();
            let number = text.parse::<usize>().ok().filter(|number| *number > 0);
            number.ok_or(format!("{argument} needs a number above 0, not {text:?}"))
        };
        match argument.as_str() {
            "--states" => options.limits.states_max = number()?.min(u32::MAX as usize),
            "--memory" => options.limits.bytes_max = number()? << 30,
            "--crashes" => options.crashes = Some(few(arguments.next())?),
            "--losses" => options.losses = Some(few(arguments.next())?),
            "--planted" => options.planted = true,
            "--help" | "-h" => return Ok(None),
            name if name.starts_with('-') => return Err(format!("there is no option {name}")),
            _ => options.names.push(argument),
        }
    }
    let names: Vec<&str> = match options.planted {
        true => all_bugs().iter().map(|bug| bug.name).collect(),
        false => all_cases(None, None).iter().map(|case| case.name).collect(),
    };
    let known = |name: &String| names.contains(&name.as_str());
    match options.names.iter().find(|name| !known(name)) {
        Some(unknown) => Err(format!("there is no case or bug {unknown}")),
        None => Ok(Some(options)),
    }
}

fn few(text: Option<String>) -> Result<u8, String> {
    let text = text.unwrap_or_default();
    let number = text.parse::<u8>().ok().filter(|number| *number <= 3);
    number.ok_or(format!("that many faults are not to be had: {text:?}"))
}

/// Searches the cases; returns how many have a violation.
fn run_cases(options: &Options) -> usize {
    let chosen =
        |case: &StudiedCase| options.names.is_empty() || options.names.contains(&case.name.into());
    let cases = all_cases(options.crashes, options.losses);
    let (mut states, mut passed, mut failed) = (0, 0, 0);
    for case in cases.into_iter().filter(chosen) {
        println!("{}: {}", case.name, case.about);
        let started = Instant::now();
        let found = (case.search)(options.limits);
        let all = if found.complete { "all" } else { "the first" };
        let seconds = started.elapsed().as_secs_f64();
        println!("  {all} {}, {seconds:.1} s", figures(&found));
        states += found.states;
        match found.violation {
            None => passed += 1,
            Some((wrong, story)) => {
                failed += 1;
                println!("  violates {wrong}\n{story}");
            }
        }
    }
    println!("{states} states; {passed} passed, {failed} failed");
    failed
}

/// Plants the bugs; returns how many were missed.
fn run_planted(options: &Options) -> usize {
    let limits = SearchLimits {
        progress: false,
        ..options.limits
    };
    let chosen =
        |bug: &StudiedBug| options.names.is_empty() || options.names.contains(&bug.name.into());
    let (mut caught, mut missed) = (0, 0);
    for bug in all_bugs().into_iter().filter(chosen) {
        let found = (bug.search)(limits);
        println!(
            "{} ({}, in {}): {}",
            bug.name,
            bug.rule,
            bug.case,
            figures(&found)
        );
        match found.violation {
            None => {
                missed += 1;
                println!("  MISSED:{}", bug.description);
            }
            Some((wrong, story)) => {
                caught += 1;
                println!("  caught by {wrong}");
                if !options.names.is_empty() {
                    println!("{story}");
                }
            }
        }
    }
    println!("{caught} caught, {missed} missed");
    missed
}

fn figures(found: &Findings) -> String {
    let Findings {
        states,
        depth,
        bytes,
        ..
    } = found;
    format!("{states} states, {depth} steps deep, {} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(states_max: usize) -> SearchLimits {
        SearchLimits {
            states_max,
            bytes_max: 1 << 30,
            progress: false,
        }
    }

    #[test]
    fn small_cases_keep_the_invariants() {
        let searched = [
            "restarts-of-one",
            "one",
            "one-at-head",
            "one-far",
            "memory",
            "pair",
            "move",
            "thin",
            "thin-moved",
            "thin-memory",
            "thin-pair",
            "seals-refused",
            "seals-both",
            "seals-beside",
            "leases-once",
            "leases-restart",
            "leases-twice",
            "cuts-of-two",
            "cuts",
            "cuts-restart",
            "cuts-lost",
            "cuts-overlap",
            "fills",
            "fills-restart",
            "fills-lost",
            "splits",
            "splits-restart",
            "splits-lost",
            "tx",
            "tx-lost-twice",
            "tx-resent",
            "tx-collide",
            "tx-both",
            "tx-refused",
            "tx-hot-read",
            "tx-one-row-resent",
            "tx-skew",
            "tx-skew-copies",
            "tx-read",
            "tx-read-lost",
            "tx-memory-read",
            "tx-checked",
            "tx-memory",
            "tx-memory-decided",
            "tx-chain",
        ];
        let cases = all_cases(None, None);
        for name in searched {
            let case = cases.iter().find(|case| case.name == name);
            let found = (case.expect("it is listed").search)(limits(60_000));
            assert!(found.violation.is_none(), "{name}: {:?}", found.violation);
            assert!(found.states > 10_000, "{name} is searched");
        }
    }

    #[test]
    fn every_planted_bug_is_noticed_and_has_a_story() {
        for bug in all_bugs() {
            let found = (bug.search)(limits(1_300_000));
            let (wrong, story) = found
                .violation
                .unwrap_or_else(|| panic!("{} is missed", bug.name));
            assert!(!wrong.is_empty());
            assert!(story.lines().count() > 2, "{}", bug.name);
        }
    }

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<&str> = all_cases(None, None).iter().map(|case| case.name).collect();
        names.extend(all_bugs().iter().map(|bug| bug.name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn arguments_are_checked() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(String::from).collect() };
        assert!(
            parse(words("--states 5 one").into_iter())
                .unwrap()
                .is_some()
        );
        assert!(parse(words("--help").into_iter()).unwrap().is_none());
        for wrong in [
            "--states",
            "--states no",
            "--crashes 4",
            "--other",
            "none",
            "--planted one",
        ] {
            assert!(parse(words(wrong).into_iter()).is_err(), "{wrong}");
        }
    }
}
