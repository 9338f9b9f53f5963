//! Models operations: prepares go down a chain, a decision comes back up, and at each core the
//! operation changes its row.
//!
//! The last core of a chain decides and settles at once. A core whose copy is overwritten keeps the
//! old row as history while it holds for an opening, or knows a snapshot.

use super::case::CutCase;
use super::planted::CutBug;
use super::state::{CutStage, CutState, VERSION_MAX};

/// The model of drained cuts for one small cluster: its possible steps, and the invariants to
/// check. With `bug`, the model breaks one rule of docs/rules.md.
#[derive(Clone, Debug)]
pub struct CutRules {
    /// The cluster, and the events that may happen in it.
    pub case: CutCase,
    /// The planted bug.
    pub bug: Option<CutBug>,
}

impl CutRules {
    /// Returns whether this bug is planted.
    pub fn is(&self, bug: CutBug) -> bool {
        self.bug == Some(bug)
    }

    /// Returns the cores of an operation's chain, head first.
    pub fn chain(&self, operation: usize) -> &'static [usize] {
        self.case.chains[self.case.operations[operation].row]
    }

    /// Returns the indexes in an operation's chain whose cores exist in an epoch. The model does
    /// not replace the cores of a removed server.
    pub fn places(&self, state: &CutState, operation: usize, epoch: u8) -> Vec<usize> {
        let chain = self.chain(operation);
        let gone = |place: &usize| {
            let core = chain[*place];
            state.fenced >> core & 1 != 0 || state.removed >> core & 1 != 0 && epoch == state.epoch
        };
        (0..chain.len()).filter(|place| !gone(place)).collect()
    }

    /// Returns whether a core takes part in operations now: it runs, has recovered, and has not
    /// sealed its epoch.
    pub fn acts(&self, state: &CutState, core: usize) -> bool {
        let own = &state.cores[core];
        let sealed = state.sealed && own.epoch == state.epoch;
        state.fenced >> core & 1 == 0 && !own.recovering && !sealed
    }

    /// Returns whether a core accepts the messages that another core sends in that core's epoch.
    fn hears(&self, state: &CutState, from: usize, to: usize) -> bool {
        let same = state.cores[from].epoch == state.cores[to].epoch;
        same && self.acts(state, from) && self.acts(state, to)
    }

    /// Returns whether all earlier operations of the same row are settled at an index in the chain.
    fn is_first(&self, state: &CutState, operation: usize, place: usize) -> bool {
        let row = self.case.operations[operation].row;
        (0..operation).all(|other| {
            let same = self.case.operations[other].row == row;
            !same || state.operations[other].stages[place] == CutStage::Applied
        })
    }

    /// Begins an operation at its head, with a version above every version that the head knows. A
    /// paused head begins no operation.
    pub fn begin(&self, state: &mut CutState, operation: usize, jump: u8) -> bool {
        let head_epoch = |core: usize| state.cores[core].epoch;
        let places = self.chain(operation);
        let Some(head) = places.iter().position(|core| {
            self.places(state, operation, head_epoch(*core))
                .first()
                .is_some_and(|first| places[*first] == *core)
        }) else {
            return false;
        };
        let core = places[head];
        let begun = state.operations[operation].version != 0;
        let holds = state.cores[core].hold != 0;
        let version = state.cores[core].clock + 1 + jump;
        let first = self.is_first(state, operation, head);
        if begun
            || holds && !self.is(CutBug::CloseWithoutHold)
            || !self.acts(state, core)
            || !first
            || jump > state.jumps_left
            || version > VERSION_MAX
        {
            return false;
        }
        state.jumps_left -= jump;
        let acknowledged = self.acknowledged(state);
        let now = &mut state.operations[operation];
        now.version = version;
        now.after = acknowledged;
        state.cores[core].clock = version;
        self.log(state, operation, head);
        true
    }

    /// Returns the operations that were acknowledged to their clients, as a set.
    pub fn acknowledged(&self, state: &CutState) -> u8 {
        let operations = state.operations.iter().enumerate();
        let answered = operations.filter(|(_, operation)| operation.acknowledged);
        answered.fold(0, |set, (number, _)| set | 1 << number)
    }

    /// Logs the prepare at an index in the chain, and sends it to the next core. The last core
    /// decides instead.
    fn log(&self, state: &mut CutState, operation: usize, place: usize) {
        let core = self.chain(operation)[place];
        state.operations[operation].stages[place] = CutStage::Prepared;
        self.send(state, operation, place);
        let epoch = state.cores[core].epoch;
        if self.places(state, operation, epoch).last() == Some(&place) {
            self.settle(state, operation, place);
        }
    }

    fn send(&self, state: &mut CutState, operation: usize, place: usize) {
        let epoch = state.cores[self.chain(operation)[place]].epoch;
        let places = self.places(state, operation, epoch);
        if let Some(next) = places.iter().find(|next| **next > place) {
            state.operations[operation].sent[*next] |= 1 << epoch;
        }
    }

    /// Delivers a prepare.
    pub fn prepare(&self, state: &mut CutState, operation: usize, place: usize) -> bool {
        let chain = self.chain(operation);
        if place >= chain.len() {
            return false;
        }
        let core = chain[place];
        let now = state.operations[operation];
        let sent = now.sent[place] >> state.cores[core].epoch & 1 != 0;
        let new = now.stages[place] == CutStage::Unknown && now.version != 0;
        if !sent || !new || !self.acts(state, core) || !self.is_first(state, operation, place) {
            return false;
        }
        if !self.is(CutBug::ClockIgnoresVersions) {
            let clock = &mut state.cores[core].clock;
            *clock = now.version.max(*clock);
        }
        self.log(state, operation, place);
        true
    }

    /// Delivers the decision from the next core of the chain. Returns false if this is not
    /// possible.
    pub fn decide(&self, state: &mut CutState, operation: usize, place: usize) -> bool {
        let chain = self.chain(operation);
        if place >= chain.len() || state.operations[operation].stages[place] != CutStage::Prepared {
            return false;
        }
        let epoch = state.cores[chain[place]].epoch;
        let places = self.places(state, operation, epoch);
        let Some(below) = places.iter().find(|below| **below > place) else {
            return false;
        };
        let decided = state.operations[operation].stages[*below] == CutStage::Applied;
        if !decided || !self.hears(state, chain[*below], chain[place]) {
            return false;
        }
        self.settle(state, operation, place);
        true
    }

    /// Settles an operation at an index in the chain: the row changes, and the head answers its
    /// client.
    pub fn settle(&self, state: &mut CutState, operation: usize, place: usize) {
        let core = self.chain(operation)[place];
        let epoch = state.cores[core].epoch;
        let before = self.row_before(operation);
        let own = &mut state.cores[core];
        let holds = own.hold | own.second_hold != 0 && !self.is(CutBug::HistoryFromClose);
        if holds || own.known != 0 {
            own.history |= 1 << before;
        }
        let head = self.places(state, operation, epoch).first() == Some(&place);
        let now = &mut state.operations[operation];
        now.stages[place] = CutStage::Applied;
        now.acknowledged |= head;
    }

    /// Returns the previous operation of the same row, which this one overwrites. If there is none,
    /// returns the number of the row's initial state, which comes after the numbers of all
    /// operations.
    fn row_before(&self, operation: usize) -> usize {
        let row = self.case.operations[operation].row;
        let mut before = (0..operation).rev();
        let before = before.find(|other| self.case.operations[*other].row == row);
        before.unwrap_or(self.case.operations.len() + row)
    }

    /// Resends an operation that has no outcome.
    pub fn resend(&self, state: &mut CutState, operation: usize) -> bool {
        let chain = self.chain(operation);
        for (place, core) in chain.iter().enumerate() {
            let prepared = state.operations[operation].stages[place] == CutStage::Prepared;
            if prepared && self.acts(state, *core) {
                self.send(state, operation, place);
            }
        }
        true
    }

    /// Returns whether an operation is in progress at a core.
    pub fn is_under_way(&self, state: &CutState, core: usize) -> bool {
        (0..self.case.operations.len()).any(|operation| {
            let place = self
                .chain(operation)
                .iter()
                .position(|other| *other == core);
            place.is_some_and(|place| {
                state.operations[operation].stages[place] == CutStage::Prepared
            })
        })
    }
}
