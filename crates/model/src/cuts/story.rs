//! Describes each step of a counterexample, and the state that the step changes.

use super::operation::CutRules;
use super::state::{CutStage, CutState, CutStep};

impl CutRules {
    /// Returns a description of a step.
    pub fn step_in_words(&self, step: CutStep) -> String {
        let core_name = |core: usize| self.case.cores[core];
        let name = |operation: usize| self.case.operations[operation].name;
        let at = |operation: usize, place: usize| core_name(self.chain(operation)[place]);
        let opening = |number: usize| format!("opening {}", number + 1);
        match step {
            CutStep::Begin(operation, 0) => format!("{} begins at its head.", name(operation)),
            CutStep::Begin(operation, _) => {
                format!(
                    "{} begins at its head, whose clock has jumped.",
                    name(operation)
                )
            }
            CutStep::Prepare(operation, place) => {
                format!(
                    "Prepare of {} reaches {}.",
                    name(operation),
                    at(operation, place)
                )
            }
            CutStep::Decide(operation, place) => {
                format!(
                    "Decision of {} reaches {}.",
                    name(operation),
                    at(operation, place)
                )
            }
            CutStep::Resend(operation) => format!("{} is sent again.", name(operation)),
            CutStep::Open(number) => format!("A statement asks for {}.", opening(number)),
            CutStep::Join(number) => format!("Another statement joins {}.", opening(number)),
            CutStep::Hold(number, core) => {
                format!("{} holds for {}.", core_name(core), opening(number))
            }
            CutStep::Expire(core) => format!("The hold of {} expires.", core_name(core)),
            CutStep::Close(number) => {
                format!(
                    "All have answered {}: its version is chosen.",
                    opening(number)
                )
            }
            CutStep::Release(number, core) => {
                format!("Close of {} reaches {}.", opening(number), core_name(core))
            }
            CutStep::Trim(core) => format!("The history of {} is trimmed.", core_name(core)),
            CutStep::Restart(core, loses) => {
                let forgets = if loses {
                    ", and has forgotten what was not durable"
                } else {
                    ""
                };
                format!("{} restarts{forgets}: a new epoch.", core_name(core))
            }
            CutStep::Recover(core) => format!("{} has recovered.", core_name(core)),
            CutStep::Learn(core) => format!("{} takes up the next epoch.", core_name(core)),
            CutStep::Lose(core) => {
                format!(
                    "{} is removed (it may run on): a new epoch.",
                    core_name(core)
                )
            }
            CutStep::Serve => "The newest epoch is resolved and serves.".into(),
        }
    }

    /// Returns a description of the changes that a step has made.
    pub fn changes_in_words(&self, before: &CutState, after: &CutState) -> Vec<String> {
        let mut changes = Vec::new();
        for (number, operation) in self.case.operations.iter().enumerate() {
            let name = operation.name;
            let (was, is) = (before.operations[number], after.operations[number]);
            if was.version != is.version {
                changes.push(format!("{name} has version {}", is.version));
            }
            for (place, core) in self.chain(number).iter().enumerate() {
                let core = self.case.cores[*core];
                if was.stages[place] != is.stages[place] {
                    changes.push(match is.stages[place] {
                        CutStage::Unknown => format!("{core} knows nothing of {name}"),
                        CutStage::Prepared => format!("{core} has {name} prepared"),
                        CutStage::Applied => format!("{core} has the row of {name}"),
                    });
                }
            }
            if is.acknowledged && !was.acknowledged {
                changes.push(format!("{name} is acknowledged"));
            }
        }
        for (number, (was, is)) in before.openings.iter().zip(&after.openings).enumerate() {
            if was.version != is.version {
                let version = is.version;
                changes.push(format!(
                    "the version of opening {} is {version}",
                    number + 1
                ));
            }
            for (core, name) in self.case.cores.iter().enumerate() {
                if is.answered & !was.answered & 1 << core != 0 {
                    let clock = after.cores[core].clock;
                    changes.push(format!("{name} answers: its clock is {clock}"));
                }
            }
            if is.given && !was.given {
                changes.push("its statements have the version".into());
            }
            if is.void && !was.void {
                changes.push(format!("opening {} is void", number + 1));
            }
            for (was, is) in was.read.iter().zip(is.read) {
                if *was != is {
                    changes.push(match is.checked_sub(2) {
                        Some(operation) => {
                            let name = self.case.operations[usize::from(operation)].name;
                            format!("it reads the row of {name}")
                        }
                        None if is == 1 => "it reads the row before all operations".into(),
                        None => "it finds no row".into(),
                    });
                }
            }
        }
        changes
    }
}
