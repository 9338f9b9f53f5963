//! Decides in which order an Extractor's connections execute, commit and roll back transactions.
//!
//! The code does no I/O. A connection executes a group of consecutive transactions as one
//! transaction of the replica. A group's name is its last TSID, which is the replica's position
//! once it has committed. Groups consist of waiting transactions. A group has more than one only
//! where more wait than there are connections, and no transaction waits for a group to be full.
//!
//! Invariants: commits are in TSID order (R31). An independent group may execute before its turn,
//! but if an earlier group fails or is blocked by it, it is rolled back. A group that fails is
//! tried again one by one, when it is the oldest, with nothing else running. If it fails alone, the
//! replica differs from the primary.

use std::collections::{BTreeMap, BTreeSet};

use proxy_core::freshness::Tsid;
use proxy_core::freshness::execution::{Execution, GroupLimits, GroupSharing, Task};
use proxy_core::planted::{self, ProxyBug};

/// The most bytes of the transactions of one group, unless it has only one. So no group takes
/// longer than the longest transaction that is kept in memory.
const GROUP_LENGTH_MAX: usize = 256 * 1024;

/// The number of a connection that executes commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerNumber(pub usize);

/// A command for a connection. A group is named by its last transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerCommand {
    /// Execute without committing.
    Execute(WorkerNumber, Tsid),
    /// Commit the executed group.
    Commit(WorkerNumber, Tsid),
    /// Roll back the executed group.
    Rollback(WorkerNumber, Tsid),
    /// Every commit up to this position is applied. The replica has nothing to execute.
    Advance(Tsid),
}

/// The phase of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupPhase {
    Executing,
    Executed,
    Committing,
    RollingBack,
}

/// Transactions that a connection executes as one.
#[derive(Debug)]
pub struct CommitGroup {
    /// The group's transactions, consecutive except for those that have nothing to do.
    pub tsids: Vec<Tsid>,
    /// Whether no other group runs at the same time, because this one failed before.
    pub is_alone: bool,
    worker: WorkerNumber,
    phase: GroupPhase,
}

impl CommitGroup {
    fn first(&self) -> Tsid {
        self.tsids[0]
    }
}

/// The schedule of one replica. It decides which connection executes, commits or rolls back which
/// group.
#[derive(Debug)]
pub struct ReplaySchedule {
    /// The transactions that wait or are in groups, until their group has left the schedule and
    /// this was handled.
    execution: Execution,
    /// The transactions without changes whose turn has not come.
    empty: BTreeSet<Tsid>,
    /// The groups by name. This is TSID order, because no two groups overlap.
    groups: BTreeMap<Tsid, CommitGroup>,
    /// The groups that have left and that `execution` still has.
    left: Vec<Vec<Tsid>>,
    idle: Vec<WorkerNumber>,
    worker_count: usize,
    group_max: usize,
}

impl ReplaySchedule {
    /// Returns a schedule for this many connections. `group_max` is the most transactions of a
    /// group.
    pub fn new(worker_count: usize, group_max: usize) -> ReplaySchedule {
        assert!(worker_count > 0, "at least one connection executes");
        assert!(group_max > 0, "something has to be executed");
        ReplaySchedule {
            execution: Execution::default(),
            empty: BTreeSet::new(),
            groups: BTreeMap::new(),
            left: Vec::new(),
            idle: (0..worker_count).rev().map(WorkerNumber).collect(),
            worker_count,
            group_max,
        }
    }

    /// Returns the number of transactions that are not committed at the replica.
    pub fn count(&self) -> usize {
        let executing: usize = self.groups.values().map(|group| group.tsids.len()).sum();
        executing + self.execution.waiting_count() + self.empty.len()
    }

    /// Returns a group by its name.
    pub fn group(&self, name: Tsid) -> &CommitGroup {
        &self.groups[&name]
    }

    /// Adds the next transaction in TSID order.
    pub fn add(&mut self, tsid: Tsid, task: Task) {
        self.execution.add(tsid, task);
    }

    /// Adds the next transaction in TSID order, which has no changes to execute.
    pub fn add_empty(&mut self, tsid: Tsid) {
        self.empty.insert(tsid);
    }

    /// Records that a connection has executed a group.
    pub fn executed(&mut self, name: Tsid) {
        let group = self.groups.get_mut(&name).expect("it was to be executed");
        assert_eq!(
            group.phase,
            GroupPhase::Executing,
            "only what executes is executed"
        );
        group.phase = GroupPhase::Executed;
    }

    /// Records that a connection failed to execute a group and has rolled it back. Returns whether
    /// the group was one transaction that ran alone, so that another attempt is useless.
    pub fn failed(&mut self, name: Tsid) -> bool {
        let group = self.put_back(name, GroupPhase::Executing);
        for tsid in &group.tsids {
            self.execution.isolate(*tsid);
        }
        group.is_alone
    }

    /// Records that a connection has committed a group.
    pub fn committed(&mut self, worker: WorkerNumber, name: Tsid) {
        let group = self.groups.remove(&name).expect("it was to be committed");
        assert_eq!(
            group.phase,
            GroupPhase::Committing,
            "it was sent the command"
        );
        assert_eq!(
            group.worker, worker,
            "the connection that executed it commits it"
        );
        self.idle.push(worker);
        // Those between had nothing to do.
        self.empty = self.empty.split_off(&name);
        self.left.push(group.tsids);
    }

    /// Records that a connection has rolled back a group.
    pub fn rolled_back(&mut self, name: Tsid) {
        self.put_back(name, GroupPhase::RollingBack);
    }

    /// Returns the commit or rollback that is next in order. Send it before anything else, because
    /// all others wait for it.
    pub fn urgent_commands(&mut self) -> Vec<WorkerCommand> {
        let mut commands = Vec::new();
        let waiting = self.execution.oldest_waiting().map(|(tsid, _)| tsid);
        let group = self.groups.iter_mut().next();
        let group = group.filter(|(_, group)| waiting.is_none_or(|tsid| group.first() < tsid));
        let oldest = group.as_ref().map(|(_, group)| group.first()).or(waiting);
        while let Some(empty) = self.empty.first().copied()
            && oldest.is_none_or(|oldest| empty < oldest)
        {
            self.empty.pop_first();
            commands.push(WorkerCommand::Advance(empty));
        }
        if let Some((name, group)) = group
            && group.phase == GroupPhase::Executed
        {
            group.phase = GroupPhase::Committing;
            commands.push(WorkerCommand::Commit(group.worker, *name));
        }
        commands
    }

    /// Returns the other commands that are due.
    pub fn commands(&mut self) -> Vec<WorkerCommand> {
        let mut commands = Vec::new();
        // Frees the transactions that have waited for the departed ones.
        for group in std::mem::take(&mut self.left) {
            self.execution.complete(&group);
        }
        let waiting = self.execution.oldest_waiting();
        let group = self.groups.values().next();
        let group = group.filter(|group| waiting.is_none_or(|(tsid, _)| group.first() < tsid));
        match (group, waiting) {
            (Some(group), _) if group.is_alone && group.phase == GroupPhase::Executing => {
                return commands;
            }
            (None, Some((_, task))) if task.sharing == GroupSharing::Alone => {
                self.clear_the_way(&mut commands);
                return commands;
            }
            _ => {}
        }
        if planted::is(ProxyBug::CommitsOutOfOrder) {
            for (name, group) in &mut self.groups {
                if group.phase == GroupPhase::Executed {
                    group.phase = GroupPhase::Committing;
                    commands.push(WorkerCommand::Commit(group.worker, *name));
                }
            }
        }
        self.start(&mut commands);
        commands
    }

    /// Prepares for the oldest transaction to run alone: rolls back all executed groups. Starts the
    /// transaction once no group is left.
    fn clear_the_way(&mut self, commands: &mut Vec<WorkerCommand>) {
        for (name, group) in &mut self.groups {
            if group.phase == GroupPhase::Executed {
                group.phase = GroupPhase::RollingBack;
                commands.push(WorkerCommand::Rollback(group.worker, *name));
            }
        }
        if self.groups.is_empty()
            && let Some(tsid) = self.execution.start_alone()
        {
            self.execute(vec![tsid], GroupSharing::Alone, commands);
        }
    }

    /// Distributes the waiting transactions that may run now among the idle connections.
    fn start(&mut self, commands: &mut Vec<WorkerCommand>) {
        while !self.idle.is_empty() {
            let share = self.execution.waiting_count() / self.worker_count;
            let limits = GroupLimits {
                count: share.clamp(1, self.group_max),
                length: GROUP_LENGTH_MAX,
            };
            let tsids = self.execution.start(limits);
            if tsids.is_empty() {
                break;
            }
            self.execute(tsids, GroupSharing::Any, commands);
        }
    }

    fn execute(
        &mut self,
        tsids: Vec<Tsid>,
        sharing: GroupSharing,
        commands: &mut Vec<WorkerCommand>,
    ) {
        let worker = self.idle.pop().expect("a connection is idle");
        let name = *tsids.last().expect("a group is of something");
        commands.push(WorkerCommand::Execute(worker, name));
        let group = CommitGroup {
            tsids,
            is_alone: sharing == GroupSharing::Alone,
            worker,
            phase: GroupPhase::Executing,
        };
        self.groups.insert(name, group);
    }

    /// Removes a group and returns it. Its transactions wait again.
    fn put_back(&mut self, name: Tsid, phase: GroupPhase) -> CommitGroup {
        let group = self.groups.remove(&name).expect("it was to be executed");
        assert_eq!(group.phase, phase, "it was not sent this command");
        self.execution.put_back(&group.tsids);
        self.idle.push(group.worker);
        group
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use proxy_core::freshness::{AccessSets, RowHash, TableAccess, TableOid};

    fn write(row: u64) -> Task {
        let mut sets = AccessSets::default();
        sets.touch(TableOid(1), TableAccess::write_rows([RowHash(row)]));
        Task {
            sets,
            length: 100,
            sharing: GroupSharing::Any,
        }
    }

    /// Returns the urgent commands and all others.
    fn all(schedule: &mut ReplaySchedule) -> Vec<WorkerCommand> {
        let mut commands = schedule.urgent_commands();
        commands.extend(schedule.commands());
        commands
    }

    fn tsids(schedule: &ReplaySchedule, name: u64) -> Vec<u64> {
        let tsids = &schedule.group(Tsid(name)).tsids;
        tsids.iter().map(|tsid| tsid.0).collect()
    }

    #[test]
    fn later_one_executes_early_and_commits_in_order() {
        let mut schedule = ReplaySchedule::new(2, 1);
        schedule.add(Tsid(1), write(1));
        schedule.add(Tsid(2), write(2));
        let [first, second] = [WorkerNumber(0), WorkerNumber(1)];
        let execute = [
            WorkerCommand::Execute(first, Tsid(1)),
            WorkerCommand::Execute(second, Tsid(2)),
        ];
        assert_eq!(all(&mut schedule), execute);
        schedule.executed(Tsid(2));
        assert_eq!(all(&mut schedule), []);
        schedule.executed(Tsid(1));
        assert_eq!(all(&mut schedule), [WorkerCommand::Commit(first, Tsid(1))]);
        schedule.committed(first, Tsid(1));
        assert_eq!(all(&mut schedule), [WorkerCommand::Commit(second, Tsid(2))]);
    }

    #[test]
    fn failed_group_is_retried_alone_and_once() {
        let mut schedule = ReplaySchedule::new(2, 1);
        schedule.add(Tsid(1), write(1));
        schedule.add(Tsid(2), write(2));
        schedule.add(Tsid(3), write(3));
        all(&mut schedule);
        schedule.executed(Tsid(2));
        assert!(!schedule.failed(Tsid(1)));
        let back = WorkerCommand::Rollback(WorkerNumber(1), Tsid(2));
        assert_eq!(all(&mut schedule), [back]);
        schedule.rolled_back(Tsid(2));
        let again = all(&mut schedule);
        assert!(matches!(again[..], [WorkerCommand::Execute(_, Tsid(1))]));
        assert_eq!(all(&mut schedule), []);
        assert!(schedule.failed(Tsid(1)));
    }

    #[test]
    fn empty_commit_advances_in_order() {
        let mut schedule = ReplaySchedule::new(1, 1);
        schedule.add(Tsid(1), write(1));
        schedule.add_empty(Tsid(2));
        all(&mut schedule);
        schedule.executed(Tsid(1));
        all(&mut schedule);
        schedule.committed(WorkerNumber(0), Tsid(1));
        assert_eq!(all(&mut schedule), [WorkerCommand::Advance(Tsid(2))]);
        assert_eq!(schedule.count(), 0);
    }

    /// Waiting transactions are shared out among the connections. No transaction waits for later
    /// ones.
    #[test]
    fn groups_contain_waiting_transactions() {
        let mut schedule = ReplaySchedule::new(2, 4);
        schedule.add(Tsid(1), write(1));
        assert_eq!(
            all(&mut schedule),
            [WorkerCommand::Execute(WorkerNumber(0), Tsid(1))]
        );
        for tsid in 2..=9 {
            schedule.add(Tsid(tsid), write(tsid));
        }
        assert_eq!(
            all(&mut schedule),
            [WorkerCommand::Execute(WorkerNumber(1), Tsid(5))]
        );
        assert_eq!(tsids(&schedule, 5), [2, 3, 4, 5]);
        schedule.executed(Tsid(1));
        all(&mut schedule);
        schedule.committed(WorkerNumber(0), Tsid(1));
        assert_eq!(
            all(&mut schedule),
            [WorkerCommand::Execute(WorkerNumber(0), Tsid(7))]
        );
        assert_eq!(tsids(&schedule, 7), [6, 7]);
        assert_eq!(schedule.count(), 8);
    }

    /// Transactions without changes are passed over inside a group, and a group that fails is tried
    /// one by one.
    #[test]
    fn group_that_fails_is_done_one_by_one() {
        let mut schedule = ReplaySchedule::new(1, 4);
        schedule.add(Tsid(1), write(1));
        schedule.add_empty(Tsid(2));
        schedule.add(Tsid(3), write(1));
        let execute = |name| WorkerCommand::Execute(WorkerNumber(0), Tsid(name));
        assert_eq!(all(&mut schedule), [execute(3)]);
        assert_eq!(tsids(&schedule, 3), [1, 3]);
        assert!(!schedule.failed(Tsid(3)));
        assert_eq!(all(&mut schedule), [execute(1)]);
        assert!(schedule.group(Tsid(1)).is_alone);
        schedule.executed(Tsid(1));
        assert_eq!(
            all(&mut schedule),
            [WorkerCommand::Commit(WorkerNumber(0), Tsid(1))]
        );
        schedule.committed(WorkerNumber(0), Tsid(1));
        let rest = [WorkerCommand::Advance(Tsid(2)), execute(3)];
        assert_eq!(all(&mut schedule), rest);
        assert!(schedule.group(Tsid(3)).is_alone);
        assert!(schedule.failed(Tsid(3)));
    }

    /// The known changes of the transactions: their rows, none for a transaction without changes.
    struct Run {
        rows: Vec<Option<u64>>,
        committed: u64,
        failures: BTreeSet<Tsid>,
        /// By name: the groups that are executed, and not committed.
        executing: BTreeMap<Tsid, Vec<Tsid>>,
    }

    impl Run {
        fn row(&self, tsid: u64) -> Option<u64> {
            self.rows[tsid as usize - 1]
        }

        /// A group follows, and conflicts with no earlier and no running transaction.
        fn begins(&mut self, group: &CommitGroup) -> Result<(), TestCaseError> {
            let (first, last) = (group.tsids[0].0, group.tsids[group.tsids.len() - 1].0);
            let between = (first..=last).filter(|tsid| self.row(*tsid).is_some());
            prop_assert_eq!(between.map(Tsid).collect::<Vec<_>>(), &group.tsids[..]);
            if group.tsids.iter().any(|tsid| self.failures.contains(tsid)) {
                prop_assert!(group.is_alone);
                prop_assert_eq!(group.tsids.len(), 1);
                prop_assert!(self.executing.is_empty());
            }
            let touches = |tsid: u64| {
                let row = self.row(tsid);
                row.is_some() && group.tsids.iter().any(|member| self.row(member.0) == row)
            };
            for earlier in self.committed + 1..first {
                prop_assert!(!touches(earlier), "{} is before", earlier);
            }
            for other in self.executing.values().flatten() {
                prop_assert!(!touches(other.0), "{} runs", other);
            }
            self.executing.insert(Tsid(last), group.tsids.clone());
            Ok(())
        }

        fn commits(&mut self, name: Tsid) -> Result<(), TestCaseError> {
            let group = self.executing.remove(&name).expect("it was executed");
            let before = self.committed + 1..group[0].0;
            prop_assert!(before.clone().all(|tsid| self.row(tsid).is_none()));
            prop_assert_eq!(before.count(), 0, "those advance");
            self.committed = name.0;
            Ok(())
        }
    }

    proptest! {
        /// Under any failures and any order of the connections' answers, all transactions commit,
        /// in order, in groups of consecutive transactions. No two running groups conflict.
        #[test]
        fn everything_commits_in_order(
            rows in prop::collection::vec(prop::option::weighted(0.8, 0_u64..6), 1..40),
            (workers, group_max) in (1_usize..4, 1_usize..6),
            answers in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 400),
        ) {
            let mut schedule = ReplaySchedule::new(workers, group_max);
            let mut run = Run {
                rows,
                committed: 0,
                failures: BTreeSet::new(),
                executing: BTreeMap::new(),
            };
            let mut coming = (1..).zip(run.rows.clone());
            let mut open = Vec::new();
            let mut answers = answers.into_iter();
            loop {
                for command in all(&mut schedule) {
                    match command {
                        WorkerCommand::Advance(tsid) => {
                            prop_assert_eq!(tsid, Tsid(run.committed + 1));
                            run.committed += 1;
                        }
                        WorkerCommand::Execute(_, name) => {
                            prop_assert!(schedule.group(name).tsids.len() <= group_max);
                            run.begins(schedule.group(name))?;
                            open.push(command);
                        }
                        other => open.push(other),
                    }
                }
                let (index, luck) = answers.next().unwrap_or((any_first(), 1));
                if (open.is_empty() || luck >= 3) && let Some((tsid, row)) = coming.next() {
                    match row {
                        Some(row) => schedule.add(Tsid(tsid), write(row)),
                        None => schedule.add_empty(Tsid(tsid)),
                    }
                    continue;
                }
                if open.is_empty() {
                    break;
                }
                match open.remove(index.index(open.len())) {
                    // Each fails once at most, so never alone.
                    WorkerCommand::Execute(_, name)
                        if luck == 0 && !schedule.group(name).is_alone =>
                    {
                        let group = run.executing.remove(&name).expect("it executes");
                        run.failures.extend(group);
                        prop_assert!(!schedule.failed(name));
                    }
                    WorkerCommand::Execute(_, name) => schedule.executed(name),
                    WorkerCommand::Commit(worker, name) => {
                        run.commits(name)?;
                        schedule.committed(worker, name);
                    }
                    WorkerCommand::Rollback(_, name) => {
                        run.executing.remove(&name);
                        schedule.rolled_back(name);
                    }
                    WorkerCommand::Advance(_) => unreachable!("those are not kept"),
                }
            }
            prop_assert_eq!(run.committed as usize, run.rows.len());
            prop_assert_eq!(schedule.count(), 0);
        }
    }

    fn any_first() -> prop::sample::Index {
        use proptest::strategy::{Strategy as _, ValueTree as _};
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let tree = any::<prop::sample::Index>().new_tree(&mut runner);
        tree.expect("an index is made").current()
    }
}
