//! Checks the properties: I1 to I3 in every state, that a seal of one table does not block the
//! other table, and that all operations end.

use super::operation::SealRules;
use super::state::{SealStage, SealState, SealStep};
use crate::changes::{Outcome, contradiction};
use crate::search::StateSpace;

impl SealRules {
    /// Returns a description of the property that a state violates, if it violates one.
    pub fn broken_invariant(&self, state: &SealState) -> Option<String> {
        let mut operations = 0..self.case.operations.len();
        operations.find_map(|operation| {
            self.contradicted(state, operation)
                .or_else(|| self.unprepared(state, operation))
                .or_else(|| self.stopped(state, operation))
        })
    }

    fn knows(&self, state: &SealState, operation: usize, outcome: Outcome) -> bool {
        let members = self.operation(operation).members.iter();
        let mut parts = members.zip(&state.operations[operation].parts);
        parts.any(|(core, part)| !state.changes.is_removed(*core) && part.outcome == outcome)
    }

    /// Returns a violation of I2 or I3: an outcome that was seen or decided is reversed, or the
    /// tables of an operation disagree.
    fn contradicted(&self, state: &SealState, operation: usize) -> Option<String> {
        let name = self.operation(operation).name;
        let now = state.operations[operation];
        let knows = |outcome| self.knows(state, operation, outcome);
        let known = (knows(Outcome::Commit), knows(Outcome::Abort));
        contradiction(name, (now.seen_commit, now.seen_abort), known)
    }

    /// Returns a violation of I1: a remaining member has not prepared a committed operation.
    fn unprepared(&self, state: &SealState, operation: usize) -> Option<String> {
        let now = state.operations[operation];
        if !now.seen_commit && !self.knows(state, operation, Outcome::Commit) {
            return None;
        }
        let members = self.operation(operation).members.iter().zip(&now.parts);
        let mut missing = members.filter(|(core, part)| {
            !state.changes.is_removed(**core) && part.stage != SealStage::Prepared
        });
        let (core, _) = missing.next()?;
        Some(format!(
            "I1: {} is committed, and {} has not prepared it",
            self.operation(operation).name,
            self.case.cores[*core]
        ))
    }

    /// Returns a violation of R44. While all members of an operation know its tables as they were
    /// when it began, the operation has a next step that waits for no seal of another table.
    fn stopped(&self, state: &SealState, operation: usize) -> Option<String> {
        let chosen = self.operation(operation);
        let now = state.operations[operation];
        let then = state.changes.of(now.begun);
        let current = state.changes.current();
        let tables = (0..2).filter(|table| chosen.tables >> table & 1 != 0);
        let same = |epochs: [u8; 2]| {
            let mut tables = tables.clone();
            tables.all(|table| epochs[table] == then.epochs[table])
        };
        let places = self.places(state, operation);
        let mut members = places.iter().map(|place| chosen.members[*place]);
        let known = members.all(|core| same(state.changes.view(core).epochs));
        let sealed = current.sealed & chosen.tables != 0;
        let concerned = sealed || !same(current.epochs) || !known;
        if now.begun == 0 || concerned || !self.is_unfinished(state, operation) {
            return None;
        }
        let mut steps = vec![SealStep::Decide(operation)];
        for place in 0..chosen.members.len() {
            steps.push(SealStep::Prepare(operation, place));
            steps.push(SealStep::Deliver(operation, place));
        }
        let moves = steps.iter().any(|step| {
            let mut next = *state;
            self.apply(&mut next, *step) && next != *state
        });
        let name = chosen.name;
        (!moves).then(|| format!("R44: {name} waits for a seal that does not concern it"))
    }

    /// Returns a description of the work that is unfinished in a state in which only faults can
    /// still happen.
    pub fn unfinished(&self, state: &SealState) -> Option<String> {
        if state.changes.current().sealed != 0 {
            return Some("I16: a table never serves again".into());
        }
        let mut operations = 0..self.case.operations.len();
        let operation = operations.find(|operation| self.is_unfinished(state, *operation))?;
        let name = self.operation(operation).name;
        Some(format!("I5, I16: {name} is never finished everywhere"))
    }
}
