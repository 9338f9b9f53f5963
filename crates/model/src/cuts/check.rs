//! Checks the properties: a snapshot shows one state of the tables at one moment, and no later read
//! contradicts it.

use super::operation::CutRules;
use super::state::{CutOpening, CutStage, CutState};

impl CutRules {
    /// Returns a description of the property that a state violates, if it violates one.
    pub fn broken_invariant(&self, state: &CutState) -> Option<String> {
        if state.torn {
            return Some("R37, R39: two reads at one version differ, or one is incomplete".into());
        }
        let mut openings = state.openings.iter();
        openings.find_map(|opening| {
            self.too_old(opening)
                .or_else(|| self.out_of_order(state, opening))
        })
    }

    /// Returns operations that a snapshot has, and those that it could have by the rows that were
    /// read, as sets.
    fn visible(&self, opening: &CutOpening) -> (u8, u8) {
        let (mut visible, mut read) = (0, 0);
        for (number, operation) in self.case.operations.iter().enumerate() {
            let found = opening.read[operation.row];
            let newest = found.checked_sub(2).map(usize::from);
            read |= u8::from(found != 0) << number;
            visible |= u8::from(newest.is_some_and(|newest| newest >= number)) << number;
        }
        (visible, read)
    }

    /// Returns a violation of R38: a statement does not see an operation that was acknowledged
    /// before the statement began.
    fn too_old(&self, opening: &CutOpening) -> Option<String> {
        let (visible, read) = self.visible(opening);
        let missing = opening.must & read & !visible;
        (missing != 0).then(|| {
            let name = self.case.operations[missing.trailing_zeros() as usize].name;
            format!("R38: {name} was acknowledged before a statement that does not see it")
        })
    }

    /// Returns a violation of R36: a snapshot has an operation, and lacks another one that was
    /// acknowledged before the first began.
    fn out_of_order(&self, state: &CutState, opening: &CutOpening) -> Option<String> {
        let (visible, read) = self.visible(opening);
        let numbers = (0..self.case.operations.len()).filter(|number| visible >> number & 1 != 0);
        let mut later =
            numbers.filter(|number| state.operations[*number].after & read & !visible != 0);
        let name = self.case.operations[later.next()?].name;
        Some(format!(
            "R36: a snapshot has {name}, and lacks what was acknowledged before it began"
        ))
    }

    /// Returns a description of the work that is unfinished in a state in which only faults can
    /// still happen.
    pub fn unfinished(&self, state: &CutState) -> Option<String> {
        if state.sealed || state.cores.iter().any(|core| core.recovering) {
            return Some("I16: the cluster never serves again".into());
        }
        let mut operations = 0..self.case.operations.len();
        let operation = operations.find(|operation| {
            let places = self.places(state, *operation, state.epoch);
            let stages = state.operations[*operation].stages;
            let first = places.first().map(|place| stages[*place]);
            places
                .iter()
                .any(|place| Some(stages[*place]) != first || stages[*place] == CutStage::Prepared)
        })?;
        let name = self.case.operations[operation].name;
        Some(format!("I5, I16: {name} is never finished everywhere"))
    }
}
