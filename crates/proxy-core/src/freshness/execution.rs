//! Algorithm 2: decides which transactions an Extractor may run at the same time at one replica.
//!
//! Invariants: a running transaction is independent of every earlier transaction that has not
//! committed and is not of its own group. A group is a list of consecutive transactions that run on
//! one connection. Transactions become visible in TSID order only (R31), so a group leaves the
//! running state when it has *committed*. The paper lets them commit out of order, which shows
//! readers states that the primary never had.
//!
//! Three differences from the paper:
//! - The paper executes each transaction separately. Here transactions that wait anyway run in
//!   groups, because each commit has a cost.
//! - The decision whether a transaction may run is made when a connection is free, not when the
//!   transaction arrives (line 5). By then, many of the transactions for which it would have waited
//!   have committed.
//! - If the oldest waiting transaction cannot run yet, the next ones are examined nevertheless (the
//!   paper's line 16 ends there). Without that, one hot row holds up unrelated transactions.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

use super::independence::independent;
use super::items::Tsid;
use super::sets::AccessSets;
use crate::planted::{self, ProxyBug};

/// The number of waiting transactions that are examined and cannot run. Each costs some
/// microseconds.
const WINDOW: usize = 16;

/// A transaction to execute.
#[derive(Debug)]
pub struct Task {
    /// The read and write sets of the transaction's statements.
    pub sets: AccessSets,
    /// The task's approximate size in bytes.
    pub length: usize,
    /// The transactions that may be in one group with this one.
    pub sharing: GroupSharing,
}

/// The transactions that may be in one group with a given transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSharing {
    /// Transactions before and after it.
    Any,
    /// None: it is a group of its own.
    Own,
    /// None, and nothing else runs meanwhile. No later transaction starts before it has committed,
    /// because it would be rolled back.
    Alone,
}

/// The limits of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// The most transactions; at least one.
    pub count: usize,
    /// The most bytes. A single transaction may exceed it.
    pub length: usize,
}

/// The running transactions of a replica, and the waiting ones in TSID order.
#[derive(Debug, Default)]
pub struct Execution {
    running: BTreeMap<Tsid, Task>,
    running_state: AccessSets,
    waiting: BTreeMap<Tsid, Task>,
    passed: BlockedOldest,
}

/// The oldest waiting transactions that are known to depend on a transaction that has not
/// committed.
#[derive(Debug, Default)]
struct BlockedOldest {
    count: usize,
    last: Option<Tsid>,
    state: AccessSets,
}

impl Execution {
    /// Adds a transaction. Transactions must come in TSID order.
    pub fn add(&mut self, tsid: Tsid, task: Task) {
        assert!(self.newest() < Some(tsid), "they come in TSID order");
        self.waiting.insert(tsid, task);
    }

    /// Starts a group, and returns its transactions; empty if nothing may run. The group is the
    /// oldest transaction that is independent of all earlier uncommitted ones, and as many of its
    /// successors with the same property as fit. Dependence on earlier transactions of the group
    /// does not matter, because they run before.
    pub fn start(&mut self, limits: GroupLimits) -> Vec<Tsid> {
        let group = match self.first_to_run() {
            Some(first) => self.group_from(first, limits),
            None => Vec::new(),
        };
        for tsid in &group {
            self.run(*tsid);
        }
        group
    }

    /// Starts the oldest waiting transaction as a group of its own, whatever its sets. Returns none
    /// if no transaction waits. The caller must know that no transaction is running.
    pub fn start_alone(&mut self) -> Option<Tsid> {
        assert!(self.running.is_empty(), "nothing else runs");
        let (tsid, _) = self.waiting.first_key_value()?;
        let tsid = *tsid;
        self.run(tsid);
        Some(tsid)
    }

    /// Records that a group has committed (line 15).
    pub fn complete(&mut self, group: &[Tsid]) {
        self.passed = BlockedOldest::default();
        for tsid in group {
            let is_oldest = self.running.keys().next() == Some(tsid);
            assert!(
                is_oldest
                    || planted::is(ProxyBug::CommitsOutOfOrder)
                    || planted::is(ProxyBug::GroupHasGaps),
                "they commit in TSID order"
            );
            self.leave(*tsid);
        }
    }

    /// Records that a group was rolled back. Its transactions wait again, in their places.
    pub fn put_back(&mut self, group: &[Tsid]) {
        self.passed = BlockedOldest::default();
        for tsid in group {
            let task = self.leave(*tsid);
            self.waiting.insert(*tsid, task);
        }
    }

    /// Makes a waiting transaction run alone.
    pub fn isolate(&mut self, tsid: Tsid) {
        let task = self.waiting.get_mut(&tsid).expect("it waits");
        task.sharing = GroupSharing::Alone;
    }

    /// Returns the oldest waiting transaction.
    pub fn oldest_waiting(&self) -> Option<(Tsid, &Task)> {
        let (tsid, task) = self.waiting.first_key_value()?;
        Some((*tsid, task))
    }

    /// Returns the number of waiting transactions.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the first waiting transaction that may run now (lines 16 and 17); none if there is
    /// none.
    fn first_to_run(&mut self) -> Option<Tsid> {
        let Execution {
            running,
            running_state,
            waiting,
            passed,
        } = self;
        let first_running = running.keys().next();
        let behind = passed.last.map_or(Bound::Unbounded, Bound::Excluded);
        for (tsid, task) in waiting.range((behind, Bound::Unbounded)) {
            if passed.count == WINDOW || task.sharing == GroupSharing::Alone {
                break;
            }
            // All that runs after the oldest is independent of it, even if the state of it
            // together is not.
            let is_oldest = passed.count == 0 && first_running.is_none_or(|first| tsid < first);
            if is_oldest
                || independent(running_state, &task.sets) && independent(&passed.state, &task.sets)
            {
                return Some(*tsid);
            }
            passed.count += 1;
            passed.last = Some(*tsid);
            passed.state.merge(&task.sets);
        }
        None
    }

    /// Returns the group that begins with this one. It ends at the first that cannot be in it, so
    /// that its transactions follow each other.
    fn group_from(&self, first: Tsid, limits: GroupLimits) -> Vec<Tsid> {
        let next_running = self.running.range(first..).next().map(|(tsid, _)| *tsid);
        let mut group = Vec::new();
        let mut length = 0;
        for (tsid, task) in self.waiting.range(first..) {
            let is_first = group.is_empty();
            let follows = next_running.is_none_or(|running| *tsid < running);
            let has_room = group.len() < limits.count && length + task.length <= limits.length;
            let may_follow = follows && has_room && task.sharing == GroupSharing::Any;
            if !is_first && !may_follow {
                break;
            }
            let is_independent = is_first
                || planted::is(ProxyBug::GroupTakesDependent)
                || independent(&self.running_state, &task.sets)
                    && independent(&self.passed.state, &task.sets);
            if !is_independent {
                match planted::is(ProxyBug::GroupHasGaps) {
                    true => continue,
                    false => break,
                }
            }
            group.push(*tsid);
            length += task.length;
            if task.sharing != GroupSharing::Any {
                break;
            }
        }
        group
    }

    fn run(&mut self, tsid: Tsid) {
        let task = self.waiting.remove(&tsid).expect("it waits");
        self.running_state.merge(&task.sets);
        self.running.insert(tsid, task);
    }

    fn leave(&mut self, tsid: Tsid) -> Task {
        let task = self.running.remove(&tsid).expect("it runs");
        self.running_state.remove(&task.sets);
        task
    }

    fn newest(&self) -> Option<Tsid> {
        let [running, waiting] =
            [&self.running, &self.waiting].map(|tasks| tasks.keys().next_back());
        running.max(waiting).copied()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::freshness::fixture::{TestTransaction, transaction};
    use crate::freshness::paper;
    use crate::freshness::{RowHash, TableAccess, TableOid};

    const ONE: GroupLimits = GroupLimits {
        count: 1,
        length: 0,
    };

    fn task(sets: AccessSets) -> Task {
        Task {
            sets,
            length: 10,
            sharing: GroupSharing::Any,
        }
    }

    fn write(row: u64) -> AccessSets {
        let mut sets = AccessSets::default();
        sets.touch(TableOid(1), TableAccess::write_rows([RowHash(row)]));
        sets
    }

    /// Starts all transactions that may run now, and returns their groups.
    fn start_all(execution: &mut Execution, limits: GroupLimits) -> Vec<Vec<u64>> {
        let groups = core::iter::from_fn(|| {
            let group = execution.start(limits);
            (!group.is_empty()).then(|| group.iter().map(|tsid| tsid.0).collect())
        });
        groups.collect()
    }

    /// The example of section 4.2; W3 and W4 start when W1 has gone, as there.
    #[test]
    fn running_example_of_the_paper() {
        let mut execution = Execution::default();
        for (tsid, sets) in (11..).zip(paper::writes()) {
            execution.add(Tsid(tsid), task(sets));
        }
        assert_eq!(start_all(&mut execution, ONE), [[11], [12], [15]]);
        execution.complete(&[Tsid(11)]);
        assert_eq!(start_all(&mut execution, ONE), [[13]]);
        execution.complete(&[Tsid(12)]);
        assert!(start_all(&mut execution, ONE).is_empty());
        execution.complete(&[Tsid(13)]);
        assert_eq!(start_all(&mut execution, ONE), [[14]]);
    }

    /// A transaction that waits for a hot row holds up none that has nothing to do with that row.
    #[test]
    fn independent_transactions_pass_waiting_ones() {
        let mut both = write(1);
        both.merge(&write(2));
        let mut execution = Execution::default();
        for (tsid, sets) in (1..).zip([write(1), write(3), write(3), both, write(2)]) {
            execution.add(Tsid(tsid), task(sets));
        }
        assert_eq!(start_all(&mut execution, ONE), [[1], [2]]);
        // The third still waits for the second; the fifth for the fourth, which is to be before it.
        execution.complete(&[Tsid(1)]);
        assert_eq!(start_all(&mut execution, ONE), [[4]]);
        execution.complete(&[Tsid(2)]);
        assert_eq!(start_all(&mut execution, ONE), [[3]]);
        execution.complete(&[Tsid(3)]);
        assert!(start_all(&mut execution, ONE).is_empty());
        execution.complete(&[Tsid(4)]);
        assert_eq!(start_all(&mut execution, ONE), [[5]]);
    }

    /// A transaction that depends on the group itself may be in it; a transaction that depends on
    /// others ends it.
    #[test]
    fn groups_contain_consecutive_transactions() {
        let limits = GroupLimits {
            count: 3,
            length: 100,
        };
        let mut execution = Execution::default();
        for (tsid, row) in (1..).zip([1, 1, 1, 2, 2, 1, 3]) {
            execution.add(Tsid(tsid), task(write(row)));
        }
        // The sixth depends on the first; the last is after it, and runs for itself.
        assert_eq!(
            start_all(&mut execution, limits),
            [vec![1, 2, 3], vec![4, 5], vec![7]]
        );
        // Put back, the last waits until the sixth has gone or is before it in the same group.
        execution.put_back(&[Tsid(7)]);
        execution.complete(&[Tsid(1), Tsid(2), Tsid(3)]);
        assert_eq!(start_all(&mut execution, limits), [[6, 7]]);
    }

    #[test]
    fn groups_are_bounded() {
        let limits = GroupLimits {
            count: 9,
            length: 30,
        };
        let mut execution = Execution::default();
        for tsid in 1..=8 {
            let sharing = match tsid {
                5 => GroupSharing::Own,
                7 => GroupSharing::Alone,
                _ => GroupSharing::Any,
            };
            let task = Task {
                sharing,
                ..task(write(tsid))
            };
            execution.add(Tsid(tsid), task);
        }
        assert_eq!(
            start_all(&mut execution, limits),
            [vec![1, 2, 3], vec![4], vec![5], vec![6]]
        );
        let [first, rest] = [1..=3, 4..=6].map(|tsids| tsids.map(Tsid).collect::<Vec<_>>());
        execution.complete(&first);
        execution.complete(&rest);
        assert_eq!(execution.start(limits), []);
        assert_eq!(execution.start_alone(), Some(Tsid(7)));
    }

    proptest! {
        #[test]
        fn concurrent_groups_touch_no_common_cell(
            history in prop::collection::vec((transaction(), 0..4_u8), 1..16),
            count in 1_usize..5,
        ) {
            let limits = GroupLimits { count, length: 1000 };
            let mut execution = Execution::default();
            let mut all = BTreeMap::new();
            let mut groups = BTreeMap::new();
            let mut history = (1..).zip(history);
            loop {
                let next = history.next();
                let is_over = next.is_none();
                let what = next.as_ref().map_or(0, |(_, (_, what))| *what);
                if let Some((number, (transaction, _))) = next {
                    execution.add(Tsid(number), task(transaction.sets()));
                    all.insert(Tsid(number), transaction);
                }
                if what != 3 {
                    let group = execution.start(limits);
                    check(&execution, &all, &group)?;
                    if let Some(first) = group.first() {
                        groups.insert(*first, group);
                    }
                }
                // The oldest group commits if nothing before it waits; or the newest is taken back.
                let waits = execution.oldest_waiting().map(|(tsid, _)| tsid);
                let may_commit = |first: &Tsid| waits.is_none_or(|waits| *first < waits);
                if what == 2 && let Some((_, group)) = groups.pop_last() {
                    execution.put_back(&group);
                } else if what == 0 && groups.keys().next().is_some_and(may_commit) {
                    let (_, group) = groups.pop_first().expect("there is one");
                    for tsid in &group {
                        prop_assert_eq!(all.pop_first().map(|(tsid, _)| tsid), Some(*tsid));
                    }
                    execution.complete(&group);
                }
                if is_over && all.is_empty() {
                    break;
                }
            }
            prop_assert!(execution.running_state.is_empty());
        }
    }

    /// Checks that a group's transactions follow each other, and conflict with no earlier
    /// transaction outside of the group. `all` has the transactions that have not committed.
    fn check(
        execution: &Execution,
        all: &BTreeMap<Tsid, TestTransaction>,
        group: &[Tsid],
    ) -> Result<(), TestCaseError> {
        let Some(first) = group.first() else {
            return Ok(());
        };
        let following = all.range(first..).map(|(tsid, _)| *tsid);
        prop_assert_eq!(following.take(group.len()).collect::<Vec<_>>(), group);
        for tsid in group {
            prop_assert!(execution.running.contains_key(tsid));
            for (_, earlier) in all.range(..first) {
                prop_assert!(!earlier.conflicts(&all[tsid]));
            }
        }
        Ok(())
    }
}
