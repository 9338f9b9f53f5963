//! The gate of planted bugs. It proves that the simulator can find bugs: it plants each bug, and
//! fails if no checker detects it.
//!
//! Each bug of `protocol::planted` is planted in turn, and seeds are run until a checker detects
//! it. A few bugs need a coincidence that seeds seldom draw: tests of `machines` or `coordinator`
//! find them ([`found_by_tests`]), and they are planted here only by name. Seeds whose faults do
//! not include what a bug needs are left out. A bug in moves needs a drain, for example. A seed
//! counts only if it passes without the bug. A bug that no seed shows fails the gate: then either
//! its hook is gone or a checker is blind.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use placement::{Durability, median};
use protocol::planted::{self, Bug};

use crate::plan::RunPlan;
use crate::random::Random;
use crate::run;
use crate::trace::Trace;
use crate::undisturbed;

/// Returns whether a test of `machines` or `coordinator` plants the bug and finds it, because too
/// few seeds would.
fn found_by_tests(bug: Bug) -> bool {
    matches!(
        bug,
        Bug::AbortNeedsNoLease
            | Bug::ConfirmedSideLeftOut
            | Bug::DefinitionChangesAtOnce
            | Bug::EarlierAnswersCount
            | Bug::HeldDuringPart
            | Bug::OldReportKept
            | Bug::OldRowCollides
            | Bug::RangeBesideCopy
            | Bug::RangeIgnoresVotes
            | Bug::ReadIgnoresPart
            | Bug::ReplayedLineSettles
            | Bug::SeenCountsAsLogged
            | Bug::SnapshotDoesNotWait
            | Bug::SupersededIsRead
            | Bug::TablesTruncatedApart
            | Bug::UnchangedEntryLeftOut
            | Bug::WholeOperationsCompared
    )
}

/// Seeds that are run before one of them is looked at without the bug.
const BATCH: usize = 64;

/// Returns whether a seed's plan has what a bug needs to do harm.
// tidy: long — a dispatching match
fn suits(bug: Bug, seed: u64, plan: &RunPlan) -> bool {
    let faults = &plan.faults;
    let has_unique_thin = || plan.schema.thin.iter().any(|index| index.unique);
    match bug {
        Bug::AttemptNotLookedUp
        | Bug::ChecksNotJudged
        | Bug::CommitSeenBeforeKept
        | Bug::DecidesBeforeLastVote
        | Bug::LineOfTransactionsIgnored
        | Bug::LostEvaluationCounts
        | Bug::PartWaits
        | Bug::RangeNotCompared
        | Bug::RangeOfOldEpoch
        | Bug::ResolutionForgetsCommit
        | Bug::SettledBeforeKept
        | Bug::VoteBeforeDisk
        | Bug::WalkAgain
        | Bug::WalkSurvivesHold => plan.workload.transactions > 0.0,
        Bug::ReferenceNotDemanded | Bug::ReferenceIgnoresVotes | Bug::ChildrenNotDemanded => {
            !plan.schema.constraints.foreign_keys.is_empty()
        }
        Bug::LostCoordinatorGoesOn => {
            plan.workload.transactions > 0.0 && plan.replace_after_us < u64::MAX
        }
        Bug::SettledAfterOthers | Bug::SealAsksOwnTableOnly | Bug::StuckForGood => {
            plan.workload.transactions > 0.0 && plan.tables > 1
        }
        Bug::SealStopsAll => undisturbed::is_checked(seed),
        Bug::LeasesShared | Bug::ReaderUnlimited => plan.workload.snapshots > 0.0,
        Bug::RowsOutsideGiven => plan.schema.indexes.iter().any(|index| index.by_range),
        Bug::RangeOfCopyIgnored => {
            let mut thin = plan.schema.thin.iter();
            thin.any(|index| index.by_range && index.copies > 1) && faults.crash_every_us > 0
        }
        Bug::MarksLeftOut | Bug::MarkedIsTrusted | Bug::EntryTrusted => {
            !plan.schema.thin.is_empty()
        }
        Bug::SidesAdoptNothing => !plan.schema.thin.is_empty() && faults.crash_every_us > 0,
        Bug::MadeIndexServes => {
            faults.copies_every_us > 0 && !plan.schema.constraints.foreign_keys.is_empty()
        }
        Bug::LastCopyDropped => faults.copies_every_us > 0 && plan.replace_after_us < u64::MAX,
        Bug::CollisionIgnored
        | Bug::CopiesChangeAtOnce
        | Bug::OrderTakenForComplete
        | Bug::SuccessorPromotedEarly
        | Bug::OnlyCopiesRefilled
        | Bug::ReadWhileRebuilding => faults.copies_every_us > 0,
        Bug::FormerHeadsForgotten => faults.copies_every_us > 0 && plan.replace_after_us < u64::MAX,
        Bug::SuccessorsDroppedUnchecked => {
            faults.careless > 0.0 && plan.replace_after_us < u64::MAX
        }
        Bug::StaleRowsKept
        | Bug::ComparisonSkipped
        | Bug::ChangesNotListed
        | Bug::PartialTaken
        | Bug::GiverForgets => faults.drain_every_us > 0,
        Bug::TakenOverResolved => faults.cut_at_hand_over > 0.0,
        Bug::TwinKnowsDecision => {
            let mut thin = plan.schema.thin.iter();
            thin.any(|index| index.unique) && plan.replace_after_us < u64::MAX
        }
        Bug::ResolutionGuesses => faults.loss_at_record > 0.0 && plan.replace_after_us < u64::MAX,
        Bug::RefusalsIgnored | Bug::RestartedReportsNone => {
            faults.loss_every_us > 0 && plan.replace_after_us < u64::MAX
        }
        Bug::AppliedAsReceived => {
            faults.crash_every_us > 0 && plan.schema.durability == Durability::Replicated
        }
        Bug::MomentUnchecked => faults.loss_every_us > 0 && plan.schema.partitions > 1,
        Bug::DecidesWithoutReports
        | Bug::EntryLeftBehind
        | Bug::EntryForgotten
        | Bug::IncludedColumnKept => !plan.schema.thin.is_empty(),
        Bug::AdoptedIsDecided => {
            let is_replicated = plan.schema.durability == Durability::Replicated;
            let restarts = faults.crash_every_us > 0 || faults.stop_every_us > 0;
            !plan.schema.thin.is_empty() && is_replicated && restarts
        }
        Bug::UniqueEntriesUnchecked => has_unique_thin(),
        Bug::UniqueEntriesReleased => faults.crash_every_us > 0 && has_unique_thin(),
        Bug::FetchedAsRows => faults.loss_every_us > 0 && has_unique_thin(),
        Bug::SidesNotAsked => !plan.schema.thin.is_empty() && plan.faults.crash_every_us > 0,
        Bug::ReportedBeforeDurable => {
            !plan.schema.thin.is_empty() && plan.schema.durability == Durability::Sync
        }
        Bug::SidesLearnEarly | Bug::ResolvedWithoutEntry => {
            !plan.schema.thin.is_empty() && plan.replace_after_us < u64::MAX
        }
        Bug::SealConcernsAll => plan.tables > 1 && faults.seal_every_us > 0,
        Bug::VouchingOfAnyEpoch | Bug::VouchingOutlivesEpoch | Bug::SealedIsVouchedFor => {
            faults.coordinator_every_us > 0 && plan.replace_after_us < u64::MAX
        }
        Bug::EarlierTenureTrusted => plan.replace_after_us < u64::MAX,
        Bug::ChecksumUnchecked | Bug::CorruptionIsTornTail => faults.misread > 0.0,
        Bug::FailedFlushTrusted => faults.flush_failure > 0.0,
        _ => true,
    }
}

/// How a bug was found.
struct Catch {
    /// Seeds until then that draw what it needs.
    seeds: u64,
    /// The seed that shows it.
    seed: u64,
    property: &'static str,
}

/// Plants every bug, or the named bug, and prints for each the check that found it.
pub fn run(name: Option<&str>, from: u64, seeds_max: u64) -> ExitCode {
    let bugs = match name.map(named) {
        None => {
            let all = Bug::ALL.iter().copied();
            all.filter(|bug| !found_by_tests(*bug)).collect()
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
                println!("{name:<28} {rule:<4} {seeds_max:>6} {:>7}  NOT FOUND", "");
                missed += 1;
            }
        }
    }
    if !needed.is_empty() {
        let counts: Vec<f64> = needed.iter().map(|seeds| *seeds as f64).collect();
        eprintln!(
            "median seeds to find one: {}, in {:.0} s",
            median(&counts),
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

/// Plants the named bug until the process ends.
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

/// Runs at most `seeds_max` seeds with the bug, until a seed fails that passes without the bug.
fn find(bug: Bug, from: u64, seeds_max: u64) -> Option<Catch> {
    let suits = |seed: &u64| {
        let plan = RunPlan::of_seed(*seed, &mut Random::new(*seed));
        suits(bug, *seed, &plan)
    };
    let mut seeds = (from..).filter(suits);
    let mut seeds_run = 0;
    while seeds_run < seeds_max {
        let batch: Vec<u64> = seeds.by_ref().take(BATCH).collect();
        plant(Some(bug));
        let failure = first_failure(&batch);
        plant(None);
        if let Some((seed, property)) = failure {
            if run::seed(seed, Trace::default()).violation.is_none() {
                let before = batch.iter().take_while(|other| **other < seed);
                return Some(Catch {
                    seeds: seeds_run + before.count() as u64 + 1,
                    seed,
                    property,
                });
            }
            eprintln!("seed {seed} fails without {} as well", bug.name());
        }
        seeds_run += batch.len() as u64;
    }
    None
}

/// Returns the lowest of the seeds that fails, and the violated property; none if no seed fails.
fn first_failure(seeds: &[u64]) -> Option<(u64, &'static str)> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let next = AtomicUsize::new(0);
    let found: Mutex<Option<(u64, &'static str)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let lowest = *found.lock().unwrap_or_else(PoisonError::into_inner);
                    if lowest.is_some_and(|(lowest, _)| lowest < *seed) {
                        break;
                    }
                    let Some(violation) = run::seed(*seed, Trace::default()).violation else {
                        continue;
                    };
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    if found.is_none_or(|(lowest, _)| *seed < lowest) {
                        *found = Some((*seed, violation.property));
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}
