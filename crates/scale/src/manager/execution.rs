//! Algorithm 2: which transactions an Extractor may run at the same time at one Extension.
//!
//! Invariants: running transactions are independent of one another and of every earlier one that
//! waits; transactions become visible in TSID order only (R31), so a transaction leaves the running
//! state when it has *committed*. The paper lets them commit out of order, which shows readers
//! states that the Primary never had.
//!
//! One departure: where the oldest that waits cannot run yet, the next ones are looked at all the same
//! (the paper's line 16 ends there). Without that, one hot row holds up what has nothing to do with it.

use std::collections::{BTreeMap, VecDeque};

use super::independence::independent;
use super::items::Tsid;
use super::sets::Sets;
use crate::planted::{self, Bug};

/// Of those that wait, so many are looked at when one has committed. Each costs some microseconds.
const WINDOW: usize = 16;

/// The running state, the waiting state and the queue.
#[derive(Debug, Default)]
pub struct Execution {
    running: BTreeMap<Tsid, Sets>,
    running_state: Sets,
    waiting: VecDeque<(Tsid, Sets)>,
    waiting_state: Sets,
}

impl Execution {
    /// A transaction, in TSID order; returns whether it may run now (lines 4 to 13).
    pub fn add(&mut self, tsid: Tsid, sets: Sets) -> bool {
        assert!(self.newest() < Some(tsid), "they come in TSID order");
        // Lines 5 and 6.
        if independent(&self.running_state, &sets) && independent(&self.waiting_state, &sets) {
            self.run(tsid, sets);
            true
        } else {
            // Lines 10 and 11.
            self.waiting_state.merge(&sets);
            self.waiting.push_back((tsid, sets));
            false
        }
    }

    /// A transaction has committed; returns those that may run now (lines 14 to 23).
    pub fn complete(&mut self, tsid: Tsid) -> Vec<Tsid> {
        let first = match planted::is(Bug::CommitsOutOfOrder) {
            true => self.running.remove_entry(&tsid),
            false => self.running.pop_first(),
        };
        let first = first.expect("something runs");
        assert_eq!(first.0, tsid, "they commit in TSID order");
        self.running_state.remove(&first.1);
        let mut started = Vec::new();
        // What the earlier ones touch that go on waiting.
        let mut before = Sets::default();
        let mut waiting = VecDeque::with_capacity(self.waiting.len());
        // Lines 16 and 17.
        for _ in 0..WINDOW {
            let Some((next, sets)) = self.waiting.pop_front() else {
                break;
            };
            if independent(&self.running_state, &sets) && independent(&before, &sets) {
                self.waiting_state.remove(&sets);
                self.run(next, sets);
                started.push(next);
            } else {
                before.merge(&sets);
                waiting.push_back((next, sets));
            }
        }
        waiting.append(&mut self.waiting);
        self.waiting = waiting;
        started
    }

    /// Transactions that run or wait.
    pub fn count(&self) -> usize {
        self.running.len() + self.waiting.len()
    }

    fn run(&mut self, tsid: Tsid, sets: Sets) {
        self.running_state.merge(&sets);
        self.running.insert(tsid, sets);
    }

    fn newest(&self) -> Option<Tsid> {
        let running = self.running.keys().next_back().copied();
        running.max(self.waiting.back().map(|(tsid, _)| *tsid))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::manager::fixture::{Transaction, paper, transaction};
    use crate::manager::{Row, Table, Touch};

    /// The example of section 4.2; W3 and W4 start when W1 has gone, as there.
    #[test]
    fn running_example_of_the_paper() {
        let mut execution = Execution::default();
        let started: Vec<bool> = (11..)
            .zip(paper::writes())
            .map(|(tsid, sets)| execution.add(Tsid(tsid), sets))
            .collect();
        assert_eq!(started, [true, true, false, false, true]);
        assert_eq!(execution.complete(Tsid(11)), [Tsid(13)]);
        assert_eq!(execution.complete(Tsid(12)), []);
        assert_eq!(execution.complete(Tsid(13)), [Tsid(14)]);
    }

    /// One that waits for a hot row holds up nobody who has nothing to do with that.
    #[test]
    fn later_ones_pass_those_that_wait() {
        let write = |row: u64| {
            let mut sets = Sets::default();
            sets.touch(Table(1), Touch::write_rows([Row(row)]));
            sets
        };
        let mut both = write(1);
        both.merge(&write(2));
        let mut execution = Execution::default();
        assert!(execution.add(Tsid(1), write(1)));
        assert!(execution.add(Tsid(2), write(3)));
        assert!(!execution.add(Tsid(3), write(3)));
        assert!(!execution.add(Tsid(4), both));
        assert!(!execution.add(Tsid(5), write(2)));
        // The third still waits for the second; the fifth for the fourth, which is to be before it.
        assert_eq!(execution.complete(Tsid(1)), [Tsid(4)]);
        assert_eq!(execution.complete(Tsid(2)), [Tsid(3)]);
        assert_eq!(execution.complete(Tsid(3)), []);
        assert_eq!(execution.complete(Tsid(4)), [Tsid(5)]);
    }

    proptest! {
        #[test]
        fn what_runs_together_touches_no_common_cell(
            history in prop::collection::vec((transaction(), any::<bool>()), 1..16),
        ) {
            let mut execution = Execution::default();
            let mut all = BTreeMap::new();
            let mut done = 0;
            for ((transaction, complete), number) in history.iter().zip(1..) {
                all.insert(Tsid(number), transaction.clone());
                execution.add(Tsid(number), transaction.sets());
                check(&execution, &all, done)?;
                if *complete {
                    done += 1;
                    execution.complete(Tsid(done));
                    check(&execution, &all, done)?;
                }
            }
            while execution.count() > 0 {
                done += 1;
                execution.complete(Tsid(done));
                check(&execution, &all, done)?;
            }
            prop_assert_eq!(done, all.len() as u64);
            prop_assert!(execution.running_state.is_empty());
            prop_assert!(execution.waiting_state.is_empty());
        }
    }

    /// Every running transaction conflicts with no earlier one that has not committed.
    fn check(
        execution: &Execution,
        all: &BTreeMap<Tsid, Transaction>,
        done: u64,
    ) -> Result<(), TestCaseError> {
        for tsid in execution.running.keys() {
            for (_, earlier) in all.range(Tsid(done + 1)..*tsid) {
                prop_assert!(!earlier.conflicts(&all[tsid]));
            }
        }
        Ok(())
    }
}
