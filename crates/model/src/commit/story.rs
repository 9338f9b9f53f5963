//! Describes each step of a counterexample, and the state that the step changes.

use crate::commit::action::ModelStep;
use crate::commit::chain::CaseRules;
use crate::commit::state::{MessageContent, ModelDecision, ModelMessage, ModelState, Stage};

impl CaseRules<'_> {
    fn operation_name(&self, operation: usize) -> &str {
        self.case.operations[operation].name
    }

    /// Returns a description of a step.
    pub fn step_in_words(&self, state: &ModelState, action: ModelStep) -> String {
        let name = |member: usize| self.case.members[member];
        let at = |operation, place| name(self.member(operation, place));
        match action {
            ModelStep::Begin(operation) => {
                let head = at(operation, 0);
                format!("{head} begins {}.", self.operation_name(operation))
            }
            ModelStep::Deliver(message) => self.delivery(message),
            ModelStep::Vote(operation, place) => {
                let (member, operation) = (at(operation, place), self.operation_name(operation));
                format!("{member} has the keys for {operation}, which waited.")
            }
            ModelStep::GiveUp(operation, place) => {
                let (member, operation) = (at(operation, place), self.operation_name(operation));
                format!("{operation} has waited too long at {member}: Conflict.")
            }
            ModelStep::Flush(member, operation) => {
                let operation = self.operation_name(operation);
                format!(
                    "{} has on its disk what {operation} waits for.",
                    name(member)
                )
            }
            ModelStep::Resend(operation) => {
                let head = at(operation, 0);
                format!("{head} sends {} again.", self.operation_name(operation))
            }
            ModelStep::Crash(member, 0) => format!("{} crashes.", name(member)),
            ModelStep::Crash(member, _) => {
                format!(
                    "{} crashes; some of what it knows is on its disk.",
                    name(member)
                )
            }
            ModelStep::Restart(member) => format!("{} restarts: a new epoch.", name(member)),
            ModelStep::Learn(member) if state.resolving => {
                format!("{} seals its epoch and takes up the newest.", name(member))
            }
            ModelStep::Learn(member) => format!("{} takes up the newest epoch.", name(member)),
            ModelStep::Report(from, to) => {
                format!(
                    "{} reports to {} what both take part in.",
                    name(from),
                    name(to)
                )
            }
            ModelStep::Lose(member) => {
                let runs = if state.members[member].up {
                    " (it may run on)"
                } else {
                    ""
                };
                format!("{} is removed{runs}: a new epoch.", name(member))
            }
            ModelStep::Resolve(member) => format!("{} takes the resolution.", name(member)),
            ModelStep::Serve => {
                "The newest epoch serves; removed members' leases have ended.".into()
            }
        }
    }

    fn delivery(&self, message: ModelMessage) -> String {
        let member = self.case.members[self.member(message.operation, message.to)];
        let operation = self.operation_name(message.operation);
        match message.content {
            MessageContent::Prepare { .. } => format!("Prepare of {operation} reaches {member}."),
            MessageContent::Decision { .. } => format!("Decision of {operation} reaches {member}."),
            MessageContent::Report { .. } => {
                format!("A report of a side member of {operation} reaches {member}.")
            }
            MessageContent::Confirm { .. } => format!("Confirm of {operation} reaches {member}."),
        }
    }

    /// Returns a description of the changes that a step has made.
    pub fn changes_in_words(&self, before: &ModelState, after: &ModelState) -> Vec<String> {
        let mut changes = Vec::new();
        for (operation, chain) in self.case.operations.iter().enumerate() {
            for (place, own) in chain.places.iter().enumerate() {
                let member = self.case.members[own.member];
                let was = before.parts[operation][place];
                let is = after.parts[operation][place];
                let name = chain.name;
                if was.stage != is.stage || was.refusals != is.refusals {
                    let refuses = is.refusals >> place & 1 != 0;
                    changes.push(match is.stage {
                        Stage::None => format!("{member} knows nothing of {name}"),
                        Stage::Waiting => format!("{name} waits for keys at {member}"),
                        Stage::Prepared if refuses => format!("{member} votes no on {name}"),
                        Stage::Prepared => format!("{member} votes yes on {name}"),
                    });
                }
                if was.decision != is.decision {
                    changes.push(match is.decision {
                        None => format!("{member} does not know what became of {name}"),
                        Some(ModelDecision::Commit) => {
                            format!("{member} knows that {name} commits")
                        }
                        Some(ModelDecision::Abort) => format!("{member} knows that {name} aborts"),
                    });
                }
            }
            let seen = |what: &str, was: u8, is: u8| {
                let new = is & !was & 1 << operation != 0;
                new.then(|| format!("a client may have seen {} {what}", chain.name))
            };
            changes.extend(seen("committed", before.seen_commit, after.seen_commit));
            changes.extend(seen("aborted", before.seen_abort, after.seen_abort));
        }
        for (member, name) in self.case.members.iter().enumerate() {
            let (was, is) = (before.members[member], after.members[member]);
            if was.recovering && !is.recovering && is.up {
                changes.push(format!("{name} has received everything and serves again"));
            }
        }
        changes
    }
}
