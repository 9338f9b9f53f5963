//! An exhaustive model of commit, restart and resolution: every state that small clusters can
//! reach, with members that crash and forget, are removed and run on, and messages that are late,
//! lost or doubled (R1-R5, R8, R15, R16, R18), with `sync` and with
//! `replicated`.
//!
//! It states the protocol once more, in its own words, and depends on nothing of ours: what it
//! shows holds for the rules, and the simulator shows that the machines follow them. The search is
//! its own and not a library's, because states of some 60 bytes with 20 bytes kept for each are
//! what makes many of them affordable.
//!
//! Left out: time (leases end at a step of the model), forgetting what is finished (R14), reads as
//! such (where an outcome is settled it is noted that a client could see it), the order of
//! operations on one pk (R6), torn records (R23, R24).

mod action;
mod case;
mod chain;
mod check;
mod planted;
mod resolution;
mod restart;
mod search;
mod state;
mod story;

use std::process::ExitCode;
use std::time::Instant;

use case::Case;
use chain::CaseRules;
use planted::ModelBug;
use search::{SearchLimits, SearchResult};

const HELP: &str = "\
Usage: model [CASE…] [--states N] [--memory GB] [--crashes N] [--losses N]
       model --planted [BUG]

Visits every state of each case (all of them, or those named), breadth first, and prints the
shortest story of a violation if there is one.

  --states N    of each case, stop after N states (5000000)
  --memory GB   stop before the search takes more (12)
  --crashes N   with so many crashes (up to 3) instead of the case's own number
  --losses N    with so many removed members (up to 3)
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

fn help() -> String {
    let cases = case::cases();
    let lines = cases
        .iter()
        .map(|case| format!("  {:<16} {}\n", case.name, case.describe()));
    let bugs = ModelBug::ALL.iter().map(|bug| {
        format!(
            "  {:<27} {:<4}{}\n",
            bug.name(),
            bug.rule(),
            bug.description()
        )
    });
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
    let known = |name: &String| match options.planted {
        true => ModelBug::named(name).is_some(),
        false => case::named(name).is_some(),
    };
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
        |case: &Case| options.names.is_empty() || options.names.contains(&case.name.into());
    let (mut states, mut passed, mut failed) = (0, 0, 0);
    for mut case in case::cases().into_iter().filter(chosen) {
        case.faults.crashes = options.crashes.unwrap_or(case.faults.crashes);
        case.faults.losses = options.losses.unwrap_or(case.faults.losses);
        println!("{}: {}", case.name, case.describe());
        let world = CaseRules::new(&case, None);
        let started = Instant::now();
        let found = search::search(&world, options.limits);
        let all = if found.complete { "all" } else { "the first" };
        let seconds = started.elapsed().as_secs_f64();
        println!("  {all} {}, {seconds:.1} s", figures(&found));
        states += found.states;
        match found.violation {
            None => passed += 1,
            Some((wrong, steps)) => {
                failed += 1;
                println!("  violates {wrong}\n{}", story::story(&world, &steps));
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
        |bug: &&ModelBug| options.names.is_empty() || options.names.contains(&bug.name().into());
    let (mut caught, mut missed) = (0, 0);
    for bug in ModelBug::ALL.iter().filter(chosen) {
        let case = bug.case();
        let world = CaseRules::new(&case, Some(*bug));
        let found = search::search(&world, limits);
        println!(
            "{} ({}, in {}): {}",
            bug.name(),
            bug.rule(),
            case.name,
            figures(&found)
        );
        match found.violation {
            None => {
                missed += 1;
                println!("  MISSED:{}", bug.description());
            }
            Some((wrong, steps)) => {
                caught += 1;
                println!("  caught by {wrong}");
                if !options.names.is_empty() {
                    println!("{}", story::story(&world, &steps));
                }
            }
        }
    }
    println!("{caught} caught, {missed} missed");
    missed
}

fn figures(found: &SearchResult) -> String {
    let SearchResult {
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
        for name in [
            "restarts-of-one",
            "one",
            "one-at-head",
            "one-far",
            "memory",
            "pair",
            "move",
        ] {
            let case = case::named(name).unwrap();
            let found = search::search(&CaseRules::new(&case, None), limits(60_000));
            assert!(found.violation.is_none(), "{name}: {:?}", found.violation);
            assert!(found.states > 10_000, "{name} is searched");
        }
    }

    #[test]
    fn every_planted_bug_is_noticed_and_has_a_story() {
        for bug in ModelBug::ALL {
            let case = bug.case();
            let world = CaseRules::new(&case, Some(*bug));
            let found = search::search(&world, limits(300_000));
            let (wrong, steps) = found
                .violation
                .unwrap_or_else(|| panic!("{} is missed", bug.name()));
            assert!(!wrong.is_empty());
            assert!(
                story::story(&world, &steps).contains("begins"),
                "{}",
                bug.name()
            );
        }
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
