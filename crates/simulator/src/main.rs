//! The simulator's command line: runs many seeds, prints the trace of one seed, or runs the gate of
//! planted bugs.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use simulator::run::{self, Outcome};
use simulator::trace::Trace;

const HELP: &str = "\
Usage: simulator [--seeds N] [--from S] [--threads T]
       simulator --seed S [--trace]
       simulator --planted [NAME] [--seeds N]
       simulator --planted NAME --seed S [--trace]

Runs whole clusters on one thread each, every one from its seed, with faults and with checkers.

  --seeds N     how many seeds to run (1000); with --planted, at most so many per bug (20000)
  --from S      the first seed (0)
  --seed S      one seed
  --trace       print everything that happens in it
  --threads T   seeds that run side by side (the number of processors)
  --planted     plant each known bug, or the named one, and show which checker finds it;
                needs the feature `planted`: cargo xtask mutants
";

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Default)]
struct Options {
    seeds: Option<u64>,
    from: u64,
    seed: Option<u64>,
    trace: bool,
    threads: Option<usize>,
    planted: Option<Option<String>>,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1).collect()) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("simulator: {message}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    // A machine's failed assertion is a finding, reported with its seed, not a crash of this
    // program.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(name) = &options.planted
        && let Some(ended) = planted(name.as_deref(), &options)
    {
        return ended;
    }
    if let Some(seed) = options.seed {
        let outcome = run::seed(seed, Trace { on: options.trace });
        report(seed, &outcome);
        let failed = u64::from(outcome.violation.is_some());
        println!("{} passed, {failed} failed", 1 - failed);
        return ExitCode::from(failed as u8);
    }
    many(&options)
}

fn parse(arguments: Vec<String>) -> Result<Option<Options>, String> {
    let mut options = Options::default();
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let text = arguments
                .next()
                .ok_or(format!("{argument} needs a number"))?;
            text.parse::<u64>()
                .map_err(|_| format!("{argument} needs a number, not {text:?}"))
        };
        match argument.as_str() {
            "--seeds" => options.seeds = Some(number()?),
            "--from" => options.from = number()?,
            "--seed" => options.seed = Some(number()?),
            "--threads" => options.threads = Some(number()?.max(1) as usize),
            "--trace" => options.trace = true,
            "--planted" => {
                options.planted = Some(arguments.next_if(|next| !next.starts_with("--")));
            }
            "--help" | "-h" => return Ok(None),
            other => return Err(format!("there is no option {other}")),
        }
    }
    if options.trace && options.seed.is_none() {
        return Err("--trace prints one seed: name it with --seed".into());
    }
    Ok(Some(options))
}

fn report(seed: u64, outcome: &Outcome) {
    if let Some(violation) = &outcome.violation {
        println!(
            "seed {seed} violates {}: {}",
            violation.property, violation.text
        );
        println!("replay: cargo xtask sim --seed {seed} --trace");
    }
}

/// The totals that all threads add to.
#[derive(Default)]
struct Sum {
    passed: u64,
    failed: Vec<u64>,
    events: u64,
    operations: u64,
    undecided: u64,
}

fn many(options: &Options) -> ExitCode {
    let count = options.seeds.unwrap_or(1_000);
    let threads = options.threads.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
    });
    let next = AtomicU64::new(0);
    let sum = Mutex::new(Sum::default());
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut printed = Instant::now();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    let seed = options.from + index;
                    let outcome = run::seed(seed, Trace::default());
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    sum.events += outcome.events;
                    sum.operations += outcome.operations;
                    sum.undecided += outcome.undecided;
                    if outcome.violation.is_some() {
                        report(seed, &outcome);
                        sum.failed.push(seed);
                    } else {
                        sum.passed += 1;
                    }
                    if printed.elapsed() > Duration::from_secs(5) {
                        printed = Instant::now();
                        let done = sum.passed + sum.failed.len() as u64;
                        eprintln!("{done} of {count} seeds, {} failed", sum.failed.len());
                    }
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!(
        "{} operations, {} events, {} histories undecided in {seconds:.1} s: {:.0} seeds/s on {threads} threads",
        sum.operations,
        sum.events,
        sum.undecided,
        count as f64 / seconds,
    );
    println!("{} passed, {} failed", sum.passed, sum.failed.len());
    ExitCode::from(u8::from(!sum.failed.is_empty()))
}

/// Runs the gate; with one seed, plants the bug and leaves the run to the caller.
#[cfg(feature = "planted")]
fn planted(name: Option<&str>, options: &Options) -> Option<ExitCode> {
    if let (Some(name), Some(_)) = (name, options.seed) {
        let error = simulator::gate::plant_named(name).err()?;
        eprintln!("simulator: {error}");
        return Some(ExitCode::from(2));
    }
    Some(simulator::gate::run(
        name,
        options.from,
        options.seeds.unwrap_or(20_000),
    ))
}

#[cfg(not(feature = "planted"))]
fn planted(_: Option<&str>, _: &Options) -> Option<ExitCode> {
    eprintln!("simulator: built without planted bugs: run `cargo xtask mutants`");
    Some(ExitCode::from(2))
}
