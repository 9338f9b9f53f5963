//! Describes each step of a counterexample, and the state that the step changes.

use super::operation::SealRules;
use super::state::{SealStage, SealState, SealStep};
use crate::changes::Outcome;

fn table_name(table: u8) -> &'static str {
    if table == 1 { "A" } else { "B" }
}

impl SealRules {
    fn member(&self, operation: usize, place: usize) -> &str {
        self.case.cores[self.operation(operation).members[place]]
    }

    /// Returns a description of a step.
    pub fn step_in_words(&self, state: &SealState, step: SealStep) -> String {
        let name = |operation: usize| self.operation(operation).name;
        let core_name = |core: usize| self.case.cores[core];
        match step {
            SealStep::Begin(operation) => {
                let core = self.member(operation, self.first(operation));
                format!("{core} begins {}.", name(operation))
            }
            SealStep::Prepare(operation, place) => {
                let core = self.member(operation, place);
                format!(
                    "Prepare of {} reaches {core}, which votes yes.",
                    name(operation)
                )
            }
            SealStep::Refuse(operation, place) => {
                let core = self.member(operation, place);
                format!(
                    "Prepare of {} reaches {core}, which votes no.",
                    name(operation)
                )
            }
            SealStep::Decide(operation) => format!("{} is decided.", name(operation)),
            SealStep::Deliver(operation, place) => {
                let core = self.member(operation, place);
                format!("Decision of {} reaches {core}.", name(operation))
            }
            SealStep::Answer(operation) => {
                format!("The client of {} is answered.", name(operation))
            }
            SealStep::Learn(core) => {
                let next = state.changes.numbers[core] + 1;
                format!("{} takes up change {next}.", core_name(core))
            }
            SealStep::Resolve(core, operation) => {
                format!("{} resolves {}.", core_name(core), name(operation))
            }
            SealStep::Lose(core) => format!("{} is removed (it may run on).", core_name(core)),
            SealStep::Change(table) => format!("Table {} changes.", table_name(table)),
            SealStep::Serve(table) => format!("Table {} serves again.", table_name(table)),
            SealStep::ForgetSeal(core) => {
                format!("{} restarts, and has forgotten its seal.", core_name(core))
            }
        }
    }

    /// Returns a description of the changes that a step has made.
    pub fn changes_in_words(&self, before: &SealState, after: &SealState) -> Vec<String> {
        let mut changes = Vec::new();
        if before.changes.newest != after.changes.newest {
            let current = after.changes.current();
            let sealed = [1, 2]
                .into_iter()
                .filter(|table| current.sealed & table != 0);
            let sealed: Vec<&str> = sealed.map(table_name).collect();
            let sealed = match sealed.is_empty() {
                true => "nothing is sealed".into(),
                false => format!("sealed: {}", sealed.join(" and ")),
            };
            changes.push(format!("change {}, {sealed}", after.changes.newest));
        }
        for (number, chosen) in self.case.operations.iter().enumerate() {
            let (was, is) = (before.operations[number], after.operations[number]);
            for place in 0..chosen.members.len() {
                let (was, is) = (was.parts[place], is.parts[place]);
                let member = self.member(number, place);
                if was.stage != is.stage && is.stage == SealStage::Prepared {
                    changes.push(format!("{member} has {} prepared", chosen.name));
                }
                if was.outcome != is.outcome {
                    changes.push(match is.outcome {
                        Outcome::Undecided => format!("{member} forgets {}", chosen.name),
                        Outcome::Commit => {
                            format!("{member} knows that {} commits", chosen.name)
                        }
                        Outcome::Abort => format!("{member} knows that {} aborts", chosen.name),
                    });
                }
            }
            if is.seen_commit && !was.seen_commit {
                changes.push(format!("a client may have seen {} committed", chosen.name));
            }
            if is.seen_abort && !was.seen_abort {
                changes.push(format!("a client may have seen {} aborted", chosen.name));
            }
        }
        changes
    }
}
