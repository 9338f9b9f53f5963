//! Describes each step of a counterexample, and the state that the step changes.

use super::state::{ModelState, Stage, TransactionStep, history};
use super::walk::TransactionRules;
use crate::changes::Outcome;

fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Undecided => "is undecided",
        Outcome::Commit => "commits",
        Outcome::Abort => "aborts",
    }
}

impl TransactionRules {
    /// Returns a description of a step.
    // tidy: long — a dispatching match: a text for each kind of step.
    pub fn step_in_words(&self, state: &ModelState, step: TransactionStep) -> String {
        let name = |number: usize| self.transaction(number).name;
        let core_name = |core: usize| self.case.cores[core];
        match step {
            TransactionStep::Begin(number) => format!("A client sends {}.", name(number)),
            TransactionStep::Walk(number) => {
                let walk = self.walk(state, number);
                let core = walk[usize::from(state.transactions[number].walked)];
                format!(
                    "The walk of {} arrives at {}.",
                    name(number),
                    core_name(core)
                )
            }
            TransactionStep::Send(number) => {
                format!("The coordinator of {} sends the prepare.", name(number))
            }
            TransactionStep::Release(number, core) => {
                format!("{} releases the walk of {}.", core_name(core), name(number))
            }
            TransactionStep::Prepare(number, core) => {
                format!("Prepare of {} reaches {}.", name(number), core_name(core))
            }
            TransactionStep::Refuse(number, core) => format!(
                "Prepare of {} reaches {}, where a constraint fails.",
                name(number),
                core_name(core)
            ),
            TransactionStep::Check(number, row) => {
                let core = self.checker(state, number, row);
                let row = ["x", "y"][row];
                format!("{} checks {row} at {}.", name(number), core_name(core))
            }
            TransactionStep::AskMembers(number) => {
                format!("The coordinator of {} asks all members.", name(number))
            }
            TransactionStep::DropWalk(number, core) => {
                format!("{} drops the walk of {}.", core_name(core), name(number))
            }
            TransactionStep::Close(number, core) => {
                format!("{} records that {} aborts.", core_name(core), name(number))
            }
            TransactionStep::Forget(number) => format!("All members forget {}.", name(number)),
            TransactionStep::Read(core, row) => {
                format!("A client reads {} at {}.", ["x", "y"][row], core_name(core))
            }
            TransactionStep::Decide(number) => format!("{} is decided.", name(number)),
            TransactionStep::GiveUp(number) => {
                format!("The coordinator of {} gives it up.", name(number))
            }
            TransactionStep::Deliver(number, core) => {
                format!("Decision of {} reaches {}.", name(number), core_name(core))
            }
            TransactionStep::Answer(number) => {
                format!("The client of {} is answered.", name(number))
            }
            TransactionStep::Settle(number, core) => {
                format!("{} settles {}.", core_name(core), name(number))
            }
            TransactionStep::Crash(core) => format!("{} restarts.", core_name(core)),
            TransactionStep::AskOthers(core) => {
                format!("{} has the answers of all others.", core_name(core))
            }
            TransactionStep::Learn(core) => {
                let next = state.changes.numbers[core] + 1;
                format!("{} takes up change {next}.", core_name(core))
            }
            TransactionStep::Resolve(core, number) => {
                format!("{} resolves {}.", core_name(core), name(number))
            }
            TransactionStep::Lose(core) => {
                format!("{} is removed (it may run on).", core_name(core))
            }
            TransactionStep::Serve(table) => {
                let table = if table == 1 { "A" } else { "B" };
                format!("Table {table} serves again.")
            }
        }
    }

    /// Returns a description of the changes that a step has made.
    pub fn changes_in_words(&self, before: &ModelState, after: &ModelState) -> Vec<String> {
        let mut changes = Vec::new();
        if before.changes.newest != after.changes.newest {
            let text = match after.changes.current().sealed {
                0 => "nothing is sealed",
                1 => "table A is sealed",
                2 => "table B is sealed",
                _ => "both tables are sealed",
            };
            changes.push(format!("change {}: {text}", after.changes.newest));
        }
        for (number, chosen) in self.case.transactions.iter().enumerate() {
            let (was, is) = (before.transactions[number], after.transactions[number]);
            for (core, core_name) in self.case.cores.iter().enumerate() {
                let (was, is) = (was.parts[core], is.parts[core]);
                if was.stage != is.stage {
                    changes.push(match is.stage {
                        Stage::Unknown => format!("{core_name} forgets {}", chosen.name),
                        Stage::Walked => format!("{core_name} evaluates {}", chosen.name),
                        Stage::Prepared => format!("{core_name} votes yes on {}", chosen.name),
                        Stage::Refused => format!("{core_name} votes no on {}", chosen.name),
                    });
                }
                if was.outcome != is.outcome {
                    let outcome = outcome_words(is.outcome);
                    changes.push(format!("{core_name} knows that {} {outcome}", chosen.name));
                }
            }
            if is.known && !was.known {
                changes.push(format!("the request of {} is known there", chosen.name));
            }
            if is.seen_commit && !was.seen_commit {
                changes.push(format!("{} may have been seen committed", chosen.name));
            }
            if is.seen_abort && !was.seen_abort {
                changes.push(format!("{} may have been seen aborted", chosen.name));
            }
        }
        for row in 0..2 {
            for (core, core_name) in self.case.cores.iter().enumerate() {
                let value = after.rows[row][core];
                if before.rows[row][core] != value {
                    let mut names: Vec<&str> = history(value)
                        .map(|number| self.transaction(number).name)
                        .collect();
                    names.reverse();
                    let row = ["x", "y"][row];
                    changes.push(format!("{core_name} has {row} = [{}]", names.join(", ")));
                }
            }
        }
        changes
    }
}
