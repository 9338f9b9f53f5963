//! In which order an Extractor's connections execute, commit and take back transactions.
//!
//! Pure. Invariants: commits are in TSID order (R31); an independent transaction may execute before
//! its turn, but if one before it fails or is in its way, it is taken back, and the oldest is tried
//! again with nothing else running. If it fails alone, the Extension differs from the Primary.

use std::collections::BTreeMap;

use crate::manager::execution::Execution;
use crate::manager::{Sets, Tsid};
use crate::planted::{self, Bug};

/// A connection's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worker(pub usize);

/// What a connection, or nobody, is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Execute without committing.
    Execute(Worker, Tsid),
    /// Commit what was executed.
    Commit(Worker, Tsid),
    /// Take back what was executed.
    Rollback(Worker, Tsid),
    /// All up to here is applied, without work at the Extension.
    Advance(Tsid),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Dependent on what is before it.
    Waiting,
    Ready,
    Executing(Worker),
    Executed(Worker),
    Committing,
    RollingBack(Worker),
    /// There is nothing to do.
    Empty,
}

#[derive(Debug)]
struct Item {
    phase: Phase,
    /// It failed before, and is tried again when it is the oldest, alone.
    alone: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Schedule {
    execution: Execution,
    items: BTreeMap<Tsid, Item>,
    /// Those that have left, and that `execution` still has.
    left: Vec<Tsid>,
    idle: Vec<Worker>,
}

impl Schedule {
    /// For this many connections.
    pub fn new(worker_count: usize) -> Schedule {
        Schedule {
            execution: Execution::default(),
            items: BTreeMap::new(),
            left: Vec::new(),
            idle: (0..worker_count).rev().map(Worker).collect(),
        }
    }

    /// Transactions that are not yet committed here.
    pub fn count(&self) -> usize {
        self.items.len()
    }

    /// Whether one that executes runs with nothing else running, since it failed before.
    pub fn is_alone(&self, tsid: Tsid) -> bool {
        self.items.get(&tsid).is_some_and(|item| item.alone)
    }

    /// The next transaction in TSID order; `is_empty` if it has nothing to do.
    pub fn add(&mut self, tsid: Tsid, sets: Sets, is_empty: bool) {
        let may_run = self.execution.add(tsid, sets);
        let phase = match (is_empty, may_run) {
            (true, _) => Phase::Empty,
            (false, true) => Phase::Ready,
            (false, false) => Phase::Waiting,
        };
        let alone = false;
        self.items.insert(tsid, Item { phase, alone });
    }

    /// A connection has executed it.
    pub fn executed(&mut self, tsid: Tsid) {
        let item = self.item(tsid);
        match item.phase {
            Phase::Executing(worker) => item.phase = Phase::Executed(worker),
            other => panic!("only what executes is executed: {other:?}"),
        }
    }

    /// A connection could not execute it, and has taken it back. Returns whether it was alone: then
    /// trying again changes nothing.
    pub fn failed(&mut self, tsid: Tsid) -> bool {
        let is_oldest = self.items.keys().next() == Some(&tsid);
        let item = self.item(tsid);
        let Phase::Executing(worker) = item.phase else {
            panic!("only what executes can fail: {:?}", item.phase)
        };
        let was_alone = item.alone && is_oldest;
        item.phase = Phase::Ready;
        item.alone = true;
        self.idle.push(worker);
        was_alone
    }

    /// A connection has committed it.
    pub fn committed(&mut self, worker: Worker, tsid: Tsid) {
        assert_eq!(self.item(tsid).phase, Phase::Committing, "it was told to");
        self.idle.push(worker);
        self.leave(tsid);
    }

    /// A connection has taken it back.
    pub fn rolled_back(&mut self, tsid: Tsid) {
        let item = self.item(tsid);
        let Phase::RollingBack(worker) = item.phase else {
            panic!("only what is taken back was: {:?}", item.phase)
        };
        item.phase = Phase::Ready;
        self.idle.push(worker);
    }

    /// Whose turn it is: to be told before anything else is done, as all others wait for it.
    pub fn turns(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        while let Some((tsid, item)) = self.items.iter_mut().next() {
            let tsid = *tsid;
            match item.phase {
                Phase::Empty => {
                    commands.push(Command::Advance(tsid));
                    self.leave(tsid);
                }
                Phase::Executed(worker) => {
                    item.phase = Phase::Committing;
                    commands.push(Command::Commit(worker, tsid));
                }
                _ => break,
            }
        }
        commands
    }

    /// What else is to be done now.
    pub fn commands(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        self.free();
        match self.items.values().next() {
            Some(item) if item.alone && item.phase == Phase::Ready => {
                self.clear_the_way(&mut commands);
                return commands;
            }
            Some(item) if item.alone && matches!(item.phase, Phase::Executing(_)) => {
                return commands;
            }
            _ => {}
        }
        if planted::is(Bug::CommitsOutOfOrder) {
            for (tsid, item) in &mut self.items {
                if let Phase::Executed(worker) = item.phase {
                    item.phase = Phase::Committing;
                    commands.push(Command::Commit(worker, *tsid));
                }
            }
        }
        self.start(&mut commands);
        commands
    }

    /// The oldest goes alone: whatever else was executed is taken back first.
    fn clear_the_way(&mut self, commands: &mut Vec<Command>) {
        let mut is_clear = true;
        for (tsid, item) in self.items.iter_mut().skip(1) {
            match item.phase {
                Phase::Executed(worker) => {
                    item.phase = Phase::RollingBack(worker);
                    commands.push(Command::Rollback(worker, *tsid));
                    is_clear = false;
                }
                Phase::Executing(_) | Phase::RollingBack(_) => is_clear = false,
                _ => {}
            }
        }
        if is_clear
            && let Some(worker) = self.idle.pop()
            && let Some((tsid, item)) = self.items.iter_mut().next()
        {
            item.phase = Phase::Executing(worker);
            commands.push(Command::Execute(worker, *tsid));
        }
    }

    fn start(&mut self, commands: &mut Vec<Command>) {
        let ready = |item: &Item| item.phase == Phase::Ready && !item.alone;
        for (tsid, item) in self.items.iter_mut().filter(|(_, item)| ready(item)) {
            let Some(worker) = self.idle.pop() else { break };
            item.phase = Phase::Executing(worker);
            commands.push(Command::Execute(worker, *tsid));
        }
    }

    fn leave(&mut self, tsid: Tsid) {
        self.items.remove(&tsid);
        self.left.push(tsid);
    }

    /// Lets those go on that have waited for what has left.
    fn free(&mut self) {
        for tsid in std::mem::take(&mut self.left) {
            for next in self.execution.complete(tsid) {
                let item = self.item(next);
                if item.phase == Phase::Waiting {
                    item.phase = Phase::Ready;
                }
            }
        }
    }

    fn item(&mut self, tsid: Tsid) -> &mut Item {
        self.items.get_mut(&tsid).expect("it was added")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::manager::{Row, Table, Touch};

    fn write(row: u64) -> Sets {
        let mut sets = Sets::default();
        sets.touch(Table(1), Touch::write_rows([Row(row)]));
        sets
    }

    /// Whose turn it is, and what else is to be done.
    fn all(schedule: &mut Schedule) -> Vec<Command> {
        let mut commands = schedule.turns();
        commands.extend(schedule.commands());
        commands
    }

    #[test]
    fn later_one_executes_early_and_commits_in_order() {
        let mut schedule = Schedule::new(2);
        schedule.add(Tsid(1), write(1), false);
        schedule.add(Tsid(2), write(2), false);
        let [first, second] = [Worker(0), Worker(1)];
        let execute = [
            Command::Execute(first, Tsid(1)),
            Command::Execute(second, Tsid(2)),
        ];
        assert_eq!(all(&mut schedule), execute);
        schedule.executed(Tsid(2));
        assert_eq!(all(&mut schedule), []);
        schedule.executed(Tsid(1));
        assert_eq!(all(&mut schedule), [Command::Commit(first, Tsid(1))]);
        schedule.committed(first, Tsid(1));
        assert_eq!(all(&mut schedule), [Command::Commit(second, Tsid(2))]);
    }

    #[test]
    fn what_fails_is_tried_again_alone_and_once() {
        let mut schedule = Schedule::new(2);
        schedule.add(Tsid(1), write(1), false);
        schedule.add(Tsid(2), write(2), false);
        schedule.add(Tsid(3), write(3), false);
        all(&mut schedule);
        schedule.executed(Tsid(2));
        assert!(!schedule.failed(Tsid(1)));
        let back = Command::Rollback(Worker(1), Tsid(2));
        assert_eq!(all(&mut schedule), [back]);
        schedule.rolled_back(Tsid(2));
        let again = all(&mut schedule);
        assert!(matches!(again[..], [Command::Execute(_, Tsid(1))]));
        assert_eq!(all(&mut schedule), []);
        assert!(schedule.failed(Tsid(1)));
    }

    #[test]
    fn what_is_empty_advances_in_its_turn() {
        let mut schedule = Schedule::new(1);
        schedule.add(Tsid(1), write(1), false);
        schedule.add(Tsid(2), Sets::default(), true);
        all(&mut schedule);
        schedule.executed(Tsid(1));
        all(&mut schedule);
        schedule.committed(Worker(0), Tsid(1));
        assert_eq!(all(&mut schedule), [Command::Advance(Tsid(2))]);
        assert_eq!(schedule.count(), 0);
    }

    proptest! {
        /// Whatever fails and in whatever order connections answer, all commit, in order.
        #[test]
        fn everything_commits_in_order(
            rows in prop::collection::vec(prop::option::of(0_u64..4), 1..20),
            answers in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8), 200),
        ) {
            let mut schedule = Schedule::new(3);
            for (row, tsid) in rows.iter().zip(1..) {
                schedule.add(Tsid(tsid), row.map(write).unwrap_or_default(), row.is_none());
            }
            let mut open = Vec::new();
            let mut committed = 0;
            let mut failures = std::collections::BTreeSet::new();
            let mut answers = answers.into_iter();
            loop {
                for command in all(&mut schedule) {
                    match command {
                        Command::Advance(tsid) => {
                            committed += 1;
                            prop_assert_eq!(tsid, Tsid(committed));
                        }
                        other => open.push(other),
                    }
                }
                if open.is_empty() {
                    break;
                }
                let (index, luck) = answers.next().unwrap_or((any_first(), 1));
                match open.remove(index.index(open.len())) {
                    // Each fails once at most, so never alone.
                    Command::Execute(_, tsid) if luck == 0 && failures.insert(tsid) => {
                        prop_assert!(!schedule.failed(tsid));
                    }
                    Command::Execute(_, tsid) => schedule.executed(tsid),
                    Command::Commit(worker, tsid) => {
                        committed += 1;
                        prop_assert_eq!(tsid, Tsid(committed));
                        schedule.committed(worker, tsid);
                    }
                    Command::Rollback(_, tsid) => schedule.rolled_back(tsid),
                    Command::Advance(_) => unreachable!("those are not kept"),
                }
            }
            prop_assert_eq!(committed as usize, rows.len());
        }
    }

    fn any_first() -> prop::sample::Index {
        use proptest::strategy::{Strategy as _, ValueTree as _};
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let tree = any::<prop::sample::Index>().new_tree(&mut runner);
        tree.expect("an index is made").current()
    }
}
