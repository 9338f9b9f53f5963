//! The gate of planted bugs: a simulator that finds nothing must be shown to find something.
//!
//! Each bug of `protocol::planted` is planted in turn, and seeds are run until a checker notices.
//! A seed counts only if it passes without the bug. A bug that no seed shows fails the gate: then
//! either its hook is gone or a checker is blind.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use protocol::planted::{self, Bug};

use crate::run;
use crate::trace::Trace;

/// For `protocol/tests/histories` to find: clients here keep to their configuration, and never read
/// where a place is rebuilding; nor does anybody add or drop a copy of a table in use, and little moves.
const OF_HISTORIES: [Bug; 8] = [
    Bug::ReadWhileRebuilding,
    Bug::CollisionIgnored,
    Bug::StaleRowsKept,
    Bug::TakenOverResolved,
    Bug::ComparisonSkipped,
    Bug::ChangesNotListed,
    Bug::PartialTaken,
    Bug::GiverForgets,
];

/// How a bug was found.
struct Catch {
    /// Seeds run until then.
    seeds: u64,
    /// The seed that shows it.
    seed: u64,
    property: &'static str,
}

/// Plants every bug, or the named one, and prints a table of what found it.
pub fn run(name: Option<&str>, from: u64, seeds_max: u64) -> ExitCode {
    let bugs = match name.map(named) {
        None => {
            let here = Bug::ALL.iter().copied();
            here.filter(|bug| !OF_HISTORIES.contains(bug)).collect()
        }
        Some(Ok(bug)) => vec![bug],
        Some(Err(message)) => {
            eprintln!("simulator: {message}");
            return ExitCode::from(2);
        }
    };
    println!(
        "{:<28} {:<4} {:>6} {:>7}  found by",
        "bug", "rule", "seeds", "seed"
    );
    let begun = Instant::now();
    let (mut missed, mut needed) = (0, Vec::new());
    for bug in bugs {
        let (name, rule) = (bug.name(), bug.rule());
        match find(bug, from, seeds_max) {
            Some(Catch {
                seeds,
                seed,
                property,
            }) => {
                println!("{name:<28} {rule:<4} {seeds:>6} {seed:>7}  {property}");
                needed.push(seeds);
            }
            None => {
                println!("{name:<28} {rule:<4} {seeds_max:>6} {:>7}  NOBODY", "");
                missed += 1;
            }
        }
    }
    needed.sort_unstable();
    if let Some(median) = needed.get(needed.len() / 2) {
        eprintln!(
            "median seeds to find one: {median}, in {:.0} s",
            begun.elapsed().as_secs_f64()
        );
    }
    println!("{} caught, {missed} missed", needed.len());
    ExitCode::from(u8::from(missed > 0))
}

fn named(name: &str) -> Result<Bug, String> {
    Bug::named(name).ok_or_else(|| {
        let names: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        format!("there is no bug {name}; there are: {}", names.join(", "))
    })
}

/// Plants the named bug for the rest of the process.
///
/// # Errors
/// There is no such bug.
pub fn plant_named(name: &str) -> Result<(), String> {
    plant(Some(named(name)?));
    Ok(())
}

/// Plants a bug instead of the one before, or none.
fn plant(bug: Option<Bug>) {
    planted::select(bug);
    // `storage` does not know `protocol`: its bug has a switch of its own.
    let unchecked = bug == Some(Bug::ChecksumUnchecked);
    storage::record::CHECKSUM_UNCHECKED.store(unchecked, Ordering::Relaxed);
}

/// Runs seeds with the bug until one fails that passes without it.
fn find(bug: Bug, from: u64, seeds_max: u64) -> Option<Catch> {
    let mut begin = 0;
    while begin < seeds_max {
        plant(Some(bug));
        let found = first_failure(from + begin, seeds_max - begin);
        plant(None);
        let (seed, property) = found?;
        let seeds = seed - from + 1;
        if run::seed(seed, Trace::default()).violation.is_none() {
            return Some(Catch {
                seeds,
                seed,
                property,
            });
        }
        eprintln!("seed {seed} fails without {} as well", bug.name());
        begin = seeds;
    }
    None
}

/// The lowest of so many seeds that fails, and what found it.
fn first_failure(from: u64, count: u64) -> Option<(u64, &'static str)> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let next = AtomicU64::new(0);
    let found: Mutex<Option<(u64, &'static str)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = from + next.fetch_add(1, Ordering::Relaxed);
                    let lowest = *found.lock().unwrap_or_else(PoisonError::into_inner);
                    if seed >= from + count || lowest.is_some_and(|(lowest, _)| lowest < seed) {
                        break;
                    }
                    let Some(violation) = run::seed(seed, Trace::default()).violation else {
                        continue;
                    };
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    if found.is_none_or(|(lowest, _)| seed < lowest) {
                        *found = Some((seed, violation.property));
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}
