//! Describes each step of a counterexample, and the state that the step changes.

use super::lease::LeaseRules;
use super::state::{ASKER, LeaseState, LeaseStep, TableConfiguration};

impl LeaseRules {
    fn names(&self, set: u8) -> String {
        let cores = self.case.cores.iter().enumerate();
        let names: Vec<&str> = cores
            .filter(|(core, _)| set >> core & 1 != 0)
            .map(|(_, name)| *name)
            .collect();
        match names.is_empty() {
            true => "no server".into(),
            false => names.join(", "),
        }
    }

    /// Returns a description of a step.
    pub fn step_in_words(&self, state: &LeaseState, step: LeaseStep) -> String {
        let name = |core: usize| self.case.cores[core];
        let asker = name(ASKER);
        match step {
            LeaseStep::Tick => "A lease's worth of time passes.".into(),
            LeaseStep::Ask(voucher) => format!("{asker} asks {} to vouch for it.", name(voucher)),
            LeaseStep::Vouch(voucher, false) => {
                let number = state.cores[voucher].number;
                format!("{} vouches for {asker}, at number {number}.", name(voucher))
            }
            LeaseStep::Vouch(voucher, true) => {
                format!(
                    "The process of {} before vouches for {asker}.",
                    name(voucher)
                )
            }
            LeaseStep::Receive(voucher) => {
                format!("The answer of {} reaches {asker}.", name(voucher))
            }
            LeaseStep::Heartbeat => format!("The coordinator answers a heartbeat of {asker}."),
            LeaseStep::Learn(core) => {
                let next = state.cores[core].number + 1;
                format!("{} takes up change {next}.", name(core))
            }
            LeaseStep::Report(core) => format!("{} reports its seal.", name(core)),
            LeaseStep::Restart(core) => format!("{} restarts.", name(core)),
            LeaseStep::Seal(removed) => {
                format!("The table is sealed; {} is removed.", self.names(removed))
            }
            LeaseStep::Serve(_) => "The coordinator lets the table serve.".into(),
            LeaseStep::BeginMove => "A place begins to move.".into(),
            LeaseStep::CancelMove => "The move ends.".into(),
            LeaseStep::DropCopy => "A copy is dropped.".into(),
            LeaseStep::RaiseTolerance => "The table tolerates one more failure.".into(),
            LeaseStep::ChangeOther => "Another table changes.".into(),
            LeaseStep::Write => format!("A write is acknowledged, {asker} is no part of it."),
        }
    }

    /// Returns a description of the changes that a step has made.
    pub fn changes_in_words(&self, before: &LeaseState, after: &LeaseState) -> Vec<String> {
        let mut changes = Vec::new();
        if before.newest != after.newest {
            let TableConfiguration {
                epoch,
                sealed,
                holders,
                ..
            } = after.current();
            let sealed = if sealed { ", sealed" } else { "" };
            changes.push(format!(
                "change {}: the table's epoch is {epoch}{sealed}, on {}",
                after.newest,
                self.names(holders)
            ));
        }
        changes
    }
}
