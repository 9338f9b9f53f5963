//! Transactions of a session: the statements between `BEGIN` and `COMMIT`.
//!
//! A transaction that can write collects its changes, and sends them with the commit. Until then it
//! holds no locks. Its statements run over [`BlockStore`], which shows them its own changes, and
//! remembers each row whose content has mattered for a result. The commit compares these rows, and
//! fails with SQLSTATE 40001 if one of them has changed.
//!
//! A statement can read more rows than a commit can compare. If nothing is changed yet, the
//! transaction only reads from then on: it reads a snapshot in which everything is as it has read
//! it so far.
//!
//! A change that a statement has reported as done must apply at the commit as well. It is evaluated
//! there, so that two transactions can add to the same number. A transaction that only reads uses
//! one snapshot, and never fails for a conflict.

mod deferral;
mod definition;
mod pages;
mod references;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use placement::Value;
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, PlacedTable};
use protocol::identity::{Epoch, SnapshotId, TableId, Version};
use protocol::message::Read;
use protocol::operation::RequestResult;
use protocol::transaction::{
    AbortReason, RangeCheck, RowCheck, TransactionChange, TransactionResult, check_size,
    digest_of_rows,
};

use deferral::Deferrals;

use super::row::row_after;
use super::sender::{Sender, describe_pk};
use super::sequences::draws;
use super::{Attempt, SessionState, SqlSession, StatementOutcome, attempt, done};
use crate::error::{SqlError, TransactionFault};
use crate::plan::SessionSettings;
use crate::statement::{Statement, TransactionMode, TransactionStatement};
use crate::store::{SnapshotAnswer, Store, StoreError};

use store::range_changed;
pub(super) use store::{BlockStore, read_of_row};

/// The most attempts at a statement that is a transaction of its own.
const ALONE_ATTEMPTS_MAX: usize = 100;
/// The most attempts at such a statement if it reads too many rows, or rows that change too often,
/// for one moment.
const EXCEEDING_ATTEMPTS_MAX: usize = 3;
/// The longest life of a transaction that can write.
const LIFE_MAX: Duration = Duration::from_secs(300);

/// The transaction of a session.
#[derive(Debug)]
pub(super) struct Block<P> {
    mode: TransactionMode,
    begun: Instant,
    /// Whether a statement has failed, so that only a rollback is possible.
    failed: bool,
    /// Whether a statement has run. Then the mode stays as it is.
    used: bool,
    /// Whether it is for one statement alone, and ends with it.
    is_of_statement: bool,
    /// When foreign keys are checked.
    deferrals: Deferrals,
    /// The name of each savepoint, and the number of changes before it.
    savepoints: Vec<(String, usize)>,
    /// Why a transaction that began as one that can write only reads since.
    reads_since: Option<String>,
    /// The state that a transaction reads which cannot write.
    snapshot: Option<(P, SnapshotId)>,
    work: Mutex<Work>,
}

/// The rows and changes of a transaction.
#[derive(Debug, Default)]
struct Work {
    rows: BTreeMap<RowName, KnownRow>,
    changes: Vec<TransactionChange>,
    /// The ranges that the commit compares.
    ranges: Vec<RangeCheck>,
    /// The epoch of the configuration by which the rows and changes are understood.
    planned: Epoch,
    /// The number of the present statement.
    statement: u64,
    /// How many rows and ranges the present statement has made count.
    counted: usize,
    /// Whether the present statement has read what a commit cannot compare.
    exceeds: bool,
}

/// A table and a pk.
type RowName = (TableId, Vec<u8>);

/// A row as it is in its table, without the changes of the transaction.
#[derive(Clone, Debug)]
struct KnownRow {
    version: Option<Version>,
    values: Option<Vec<Value>>,
    /// Whether the commit compares it, because a result depends on it.
    counts: bool,
    /// The statement that has read it last.
    read_in: u64,
}

impl<P> Block<P> {
    fn new(mode: TransactionMode) -> Block<P> {
        Block {
            mode,
            begun: Instant::now(),
            failed: false,
            used: false,
            is_of_statement: false,
            deferrals: Deferrals::default(),
            savepoints: Vec::new(),
            reads_since: None,
            snapshot: None,
            work: Mutex::default(),
        }
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().expect("nothing panics while it is held")
    }

    /// Returns the position of a savepoint: the last one of this name.
    fn savepoint(&self, name: &str) -> Result<usize, SqlError> {
        let found = self.savepoints.iter().rposition(|(known, _)| known == name);
        found.ok_or_else(|| {
            let text = format!("there is no savepoint {name} in this transaction");
            SqlError::fault(TransactionFault::NoSavepoint, text)
        })
    }
}

impl Work {
    /// Moves the transaction on to a configuration.
    ///
    /// # Errors
    /// A table that it has read or changed has other columns by now (R50).
    fn follow(&mut self, configuration: &Configuration) -> Result<(), SqlError> {
        let before = std::mem::replace(&mut self.planned, configuration.epoch);
        if before == configuration.epoch {
            return Ok(());
        }
        let read = self.rows.keys().map(|(table, _)| *table);
        let ranges = self.ranges.iter().map(|it| it.read.partition.table);
        let changed = self.changes.iter().map(|it| it.table);
        let tables: BTreeSet<TableId> = read.chain(ranges).chain(changed).collect();
        let mut tables = tables.into_iter().filter_map(|id| configuration.table(id));
        let altered = tables.find(|table| before < table.columns_since);
        altered.map_or(Ok(()), |table| {
            Err(StoreError::begin_again(format!(
                "the columns of table {} have changed since the transaction began: begin it again",
                table.schema.name
            ))
            .into())
        })
    }

    /// Returns a row as the transaction sees it.
    ///
    /// # Errors
    /// A change that was reported as done does not apply to the row as it is now.
    fn current(&self, table: &PlacedTable, pk: &[u8]) -> Result<Option<Vec<Value>>, StoreError> {
        let known = self.rows.get(&(table.id, pk.to_vec()));
        let mut row = known.and_then(|known| known.values.clone());
        for change in self.changes_of(table.id, pk) {
            row =
                row_after(table, &change.mutation, row.as_ref()).map_err(|_| changed(table, pk))?;
        }
        Ok(row)
    }

    fn changes_of(&self, table: TableId, pk: &[u8]) -> impl Iterator<Item = &TransactionChange> {
        let changes = self.changes.iter();
        changes.filter(move |change| change.table == table && change.mutation.pk[..] == *pk)
    }

    /// Makes the commit compare a row.
    fn count(&mut self, name: &RowName) {
        let row = self.rows.get_mut(name).expect("it was read");
        self.counted += usize::from(!row.counts);
        row.counts = true;
    }
}

/// Returns the error for a row that has changed since the transaction has used it.
fn changed(table: &PlacedTable, pk: &[u8]) -> StoreError {
    StoreError::begin_again(format!(
        "the row of table {} with {} has changed since this transaction has used it",
        table.schema.name,
        describe_pk(table, pk)
    ))
}

impl<S: Store> SqlSession<S> {
    /// Returns whether a transaction is open, and whether it has failed.
    pub fn transaction(&self) -> Option<bool> {
        let block = self.block.as_ref().filter(|it| !it.is_of_statement);
        block.map(|block| block.failed)
    }

    /// Forgets the transaction of a statement that was canceled.
    pub(super) fn drop_abandoned(&mut self) {
        self.block.take_if(|block| block.is_of_statement);
    }

    /// Runs a statement in a transaction of its own, and again if another operation was in the way.
    pub(super) async fn run_alone(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
    ) -> Result<StatementOutcome, SqlError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            self.block = Some(Block {
                is_of_statement: true,
                ..Block::new(TransactionMode::ReadWrite)
            });
            let outcome = match self.try_in_block(statement, parameters).await {
                Ok(outcome) => self.commit().await.map(|_| outcome),
                Err(error) => Err(error),
            };
            let exceeds = self.block.take().is_some_and(|block| block.work().exceeds);
            match outcome {
                Err(SqlError::Serialization { message }) if exceeds => {
                    if attempts == EXCEEDING_ATTEMPTS_MAX {
                        return Err(SqlError::transaction(format!(
                            "{message}: change fewer rows at a time, by an index"
                        )));
                    }
                }
                Err(SqlError::Serialization { .. }) if attempts < ALONE_ATTEMPTS_MAX => {}
                outcome => return outcome,
            }
        }
    }

    /// Returns whether the open transaction cannot write; without one, whether the next one cannot.
    pub fn is_read_only(&self) -> bool {
        let block = self.block.as_ref();
        let mode = block.map_or(self.default_mode(), |block| block.mode);
        mode == TransactionMode::ReadOnly
    }

    /// Returns the mode of transactions that name none.
    fn default_mode(&self) -> TransactionMode {
        match self.settings.read_only {
            true => TransactionMode::ReadOnly,
            false => TransactionMode::ReadWrite,
        }
    }

    /// Checks that a statement outside of a transaction can run, by the mode of the session.
    pub(super) fn check_alone(&self, statement: &Statement) -> Result<(), SqlError> {
        let block: Block<S::Snapshot> = Block::new(self.default_mode());
        if block.mode == TransactionMode::ReadOnly && statement.defines() {
            return Err(SqlError::fault(
                TransactionFault::ReadOnly,
                definition::READ_ONLY,
            ));
        }
        block.check_statement(statement)
    }

    /// Makes an open transaction fail, because of an error outside of a statement.
    pub fn fail_transaction(&mut self) {
        if let Some(block) = &mut self.block {
            block.failed = true;
        }
    }

    /// Runs a statement about the transaction of the session.
    pub(super) async fn control(
        &mut self,
        statement: &TransactionStatement,
    ) -> Result<StatementOutcome, SqlError> {
        let outside = |what: &str| {
            let text = format!("{what} is for transactions: BEGIN one first");
            SqlError::fault(TransactionFault::NotOpen, text)
        };
        match statement {
            TransactionStatement::Begin(mode) => {
                if self.block.is_some() {
                    self.notice("a transaction is open already, and goes on".into());
                } else {
                    let mode = mode.unwrap_or(self.default_mode());
                    self.block = Some(Block::new(mode));
                }
                Ok(done("BEGIN"))
            }
            TransactionStatement::Set(mode) => {
                let block = self.block.as_mut();
                let block = block.ok_or_else(|| outside("SET TRANSACTION"))?;
                if block.used {
                    block.failed = true;
                    let text = "SET TRANSACTION must come before any other statement";
                    return Err(SqlError::fault(TransactionFault::Open, text));
                }
                block.mode = mode.unwrap_or(block.mode);
                Ok(done("SET"))
            }
            TransactionStatement::SetConstraints(statement) => {
                self.set_constraints(statement).await
            }
            TransactionStatement::Commit => self.commit().await,
            TransactionStatement::Rollback => {
                if self.block.take().is_none() {
                    self.notice("no transaction is open, and nothing was undone".into());
                }
                Ok(done("ROLLBACK"))
            }
            TransactionStatement::Savepoint(name) => {
                let block = self.block.as_mut().ok_or_else(|| outside("SAVEPOINT"))?;
                block.check()?;
                let changes = block.work().changes.len();
                block.savepoints.push((name.clone(), changes));
                Ok(done("SAVEPOINT"))
            }
            TransactionStatement::Release(name) => {
                let block = self.block.as_mut();
                let block = block.ok_or_else(|| outside("RELEASE SAVEPOINT"))?;
                block.check()?;
                let found = block.savepoint(name).inspect_err(|_| block.failed = true)?;
                block.savepoints.truncate(found);
                Ok(done("RELEASE"))
            }
            TransactionStatement::RollbackTo(name) => {
                let block = self.block.as_mut();
                let block = block.ok_or_else(|| outside("ROLLBACK TO SAVEPOINT"))?;
                let found = block.savepoint(name).inspect_err(|_| block.failed = true)?;
                // The savepoint stays, and later ones end. Rows that were read still count.
                block.savepoints.truncate(found + 1);
                block.failed = false;
                let changes = block.savepoints[found].1;
                block.work().changes.truncate(changes);
                Ok(done("ROLLBACK"))
            }
        }
    }

    fn notice(&mut self, text: String) {
        let notices = self.notices.get_mut();
        notices.expect("nothing panics while it is held").push(text);
    }

    /// Runs a statement in the open transaction.
    pub(super) async fn run_in_block(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
    ) -> Result<StatementOutcome, SqlError> {
        let outcome = self.try_in_block(statement, parameters).await;
        if outcome.is_err() {
            self.fail_transaction();
        }
        outcome
    }

    async fn try_in_block(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
    ) -> Result<StatementOutcome, SqlError> {
        let block = self.block.as_mut().expect("callers have one");
        block.check()?;
        block.check_statement(statement)?;
        block.used |= !matches!(statement, Statement::Show(_) | Statement::Set(_));
        {
            let work = block.work.get_mut();
            let work = work.expect("nothing panics while it is held");
            work.statement += 1;
            work.counted = 0;
        }
        let first = self.changes_so_far();
        let mut configuration = self.store.configuration();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let block = self.block.as_mut().expect("callers have one");
            if block.mode == TransactionMode::ReadOnly && statement.read_table().is_some() {
                block.open(&self.store, &configuration).await?;
            }
            let work = block.work.get_mut();
            let work = work.expect("nothing panics while it is held");
            work.exceeds = false;
            work.follow(&configuration)?;
            let store = BlockStore::new(&self.store, block, statement);
            // A stale read would show other rows than the commit compares.
            let mut plain = SessionSettings {
                stale_reads: false,
                ..self.settings
            };
            let settings = match statement {
                Statement::Set(_) | Statement::Show(_) => &mut self.settings,
                _ => &mut plain,
            };
            let session = SessionState {
                settings,
                notices: &self.notices,
                sequences: &self.sequences,
            };
            let outcome = attempt(&store, session, statement, parameters, &configuration).await;
            let failure = match outcome {
                Ok(outcome) => {
                    store.check_references(&configuration, first).await?;
                    store.compare_if_several().await?;
                    return Ok(outcome);
                }
                Err(Attempt::Failed(error)) if block.can_only_read(statement) => {
                    self.only_read(error.to_string(), &configuration).await?;
                    attempts -= 1;
                    continue;
                }
                Err(Attempt::Failed(error)) => return Err(error),
                Err(Attempt::SnapshotEnded(error)) => {
                    let message = format!("{}: begin the transaction again", error.message);
                    return Err(SqlError::Serialization { message });
                }
                Err(Attempt::Planned(error)) => error,
                Err(Attempt::Stale(error)) => error.into(),
            };
            let newest = self.store.refresh().await?;
            if attempts > 1 || newest.epoch == configuration.epoch {
                return Err(failure);
            }
            configuration = newest;
        }
    }

    /// Lets the transaction only read from now on, for this reason: it reads a snapshot of all
    /// tables. Everything that it has read so far must be the same there.
    async fn only_read(
        &mut self,
        why: String,
        configuration: &Configuration,
    ) -> Result<(), SqlError> {
        let block = self.block.as_mut().expect("callers have one");
        block.open(&self.store, configuration).await?;
        let snapshot = block.snapshot.as_ref().map(|(_, id)| *id);
        let (names, ranges) = {
            let work = block.work();
            let counting = work.rows.iter().filter(|(_, row)| row.counts);
            let names: Vec<(RowName, Option<Version>)> = counting
                .map(|(name, row)| (name.clone(), row.version))
                .collect();
            (names, work.ranges.clone())
        };
        for ((table, pk), version) in names {
            let read = read_of_row(configuration, table, &pk)?;
            let page = self.store.page(Read { snapshot, ..read }).await?;
            if page.rows().next().map(|(version, _)| version) != version {
                let table = configuration.table(table);
                let table = table.expect("its row was just read");
                return Err(changed(table, &pk).into());
            }
        }
        for check in ranges {
            let table = configuration.table(check.read.partition.table);
            let table = table.ok_or_else(|| StoreError::dropped(check.read.partition.table))?;
            let is_old = check.read.epoch < table.epoch;
            let read = Read {
                snapshot,
                ..check.read
            };
            let is_same = !is_old && {
                let page = self.store.page(read).await?;
                digest_of_rows(page.rows(), check.versions) == check.digest
            };
            if !is_same {
                return Err(range_changed(table).into());
            }
        }
        let block = self.block.as_mut().expect("it was there");
        block.mode = TransactionMode::ReadOnly;
        block.reads_since = Some(why);
        Ok(())
    }

    fn changes_so_far(&self) -> usize {
        let block = self.block.as_ref().expect("callers have one");
        block.work().changes.len()
    }

    /// Ends the open transaction: all of its changes take effect, or none.
    async fn commit(&mut self) -> Result<StatementOutcome, SqlError> {
        let Some(block) = self.block.take() else {
            self.notice("no transaction is open, and nothing was committed".into());
            return Ok(done("COMMIT"));
        };
        self.commit_block(block).await
    }

    async fn commit_block(&self, block: Block<S::Snapshot>) -> Result<StatementOutcome, SqlError> {
        if block.failed {
            return Ok(done("ROLLBACK"));
        }
        block.check()?;
        let work = block.work.into_inner();
        let work = work.expect("nothing panics while it is held");
        if work.changes.is_empty() {
            // Its last read has shown that everything it has read is of one moment.
            return Ok(done("COMMIT"));
        }
        let counting = work.rows.iter().filter(|(_, row)| row.counts);
        let checks = counting.map(|((table, pk), row)| RowCheck {
            table: *table,
            pk: Bytes(pk.clone()),
            version: row.version,
        });
        let checks: Vec<RowCheck> = checks.collect();
        check_size(&work.changes, &checks, &work.ranges).map_err(SqlError::transaction)?;
        let (changes, ranges) = (work.changes.clone(), work.ranges.clone());
        let sent = self
            .store
            .transact(work.planned, changes, checks.clone(), ranges);
        // A table that it has used was emptied, dropped, or has other columns.
        let sent = sent
            .await
            .map_err(|error| match error.stale && !error.unknown {
                true => StoreError::begin_again(error.message),
                false => error,
            });
        match sent? {
            TransactionResult::Committed { .. } => Ok(done("COMMIT")),
            TransactionResult::Aborted { table, reason } => {
                let configuration = self.store.configuration();
                Err(self.aborted(&configuration, table, &reason, (&work.changes, &checks)))
            }
        }
    }

    /// Returns the error for a commit that was refused.
    fn aborted(
        &self,
        configuration: &Configuration,
        table: TableId,
        reason: &AbortReason,
        (changes, checks): (&[TransactionChange], &[RowCheck]),
    ) -> SqlError {
        let Some(table) = configuration.table(table) else {
            return SqlError::transaction("a table of the transaction was dropped");
        };
        let sender = Sender {
            store: &self.store,
            table,
            planned: configuration.epoch,
        };
        if *reason != AbortReason::Conflict
            && let Some(refused) = RequestResult::of_abort(reason)
            && let Err(error) = sender.changed(refused)
        {
            return error.into();
        }
        if let AbortReason::ReferenceViolated(_) = reason {
            let table = table.id;
            let reason = reason.clone();
            let aborted = TransactionResult::Aborted { table, reason };
            if let Err(error) = sender.changed(RequestResult::Transaction(aborted)) {
                return error.into();
            }
        }
        let row = match reason {
            AbortReason::NotApplied { change, .. } => {
                let change = changes.get(*change as usize);
                change.map(|it| (it.table, &it.mutation.pk))
            }
            AbortReason::Changed { check } => {
                let check = checks.get(*check as usize);
                check.map(|it| (it.table, &it.pk))
            }
            _ => None,
        };
        if let AbortReason::Changed { check } = reason
            && *check as usize >= checks.len()
        {
            return range_changed(table).into();
        }
        let row = row.and_then(|(table, pk)| Some((configuration.table(table)?, pk)));
        match row {
            Some((table, pk)) => changed(table, pk).into(),
            None => SqlError::Serialization {
                message: format!(
                    "another operation was in the way in table {}",
                    table.schema.name
                ),
            },
        }
    }
}

impl<P> Block<P> {
    /// Checks that the transaction can go on.
    fn check(&self) -> Result<(), SqlError> {
        if self.failed {
            return Err(SqlError::fault(
                TransactionFault::Failed,
                "a statement of this transaction has failed: end it with ROLLBACK, or go back with \
                 ROLLBACK TO SAVEPOINT",
            ));
        }
        if self.mode == TransactionMode::ReadWrite && self.begun.elapsed() > LIFE_MAX {
            return Err(SqlError::transaction(format!(
                "the transaction is older than {} seconds: begin it again",
                LIFE_MAX.as_secs()
            )));
        }
        Ok(())
    }

    /// Returns whether the transaction can go on as one that only reads: it has changed nothing,
    /// and this statement, which has just failed, only reads more than a commit can compare.
    fn can_only_read(&self, statement: &Statement) -> bool {
        let work = self.work();
        let reads = matches!(statement, Statement::Select(_));
        reads && work.exceeds && work.changes.is_empty()
    }

    /// Checks that a statement can run in the transaction.
    fn check_statement(&self, statement: &Statement) -> Result<(), SqlError> {
        match statement {
            Statement::ExplainAnalyze(analyzed) | Statement::ExplainAsJson(analyzed) => {
                self.check_statement(analyzed)
            }
            Statement::Select(select)
                if self.mode == TransactionMode::ReadOnly
                    && self.reads_since.is_none()
                    && draws(select) =>
            {
                Err(SqlError::fault(
                    TransactionFault::ReadOnly,
                    "the transaction is READ ONLY, and cannot call nextval or setval: begin one that \
                     is not",
                ))
            }
            Statement::Insert(_)
            | Statement::InsertRows(_)
            | Statement::Update(_)
            | Statement::Delete(_)
                if self.mode == TransactionMode::ReadOnly =>
            {
                let message = match &self.reads_since {
                    None => "the transaction is READ ONLY: begin one that is not, to change rows"
                        .to_owned(),
                    Some(why) => format!(
                        "the transaction cannot change rows since it has read more than its commit \
                         can compare: change them in a transaction that reads less ({why})"
                    ),
                };
                Err(SqlError::fault(TransactionFault::ReadOnly, message))
            }
            _ => Ok(()),
        }
    }

    /// Opens the snapshot that a transaction reads, of all tables that there are.
    async fn open<S: Store<Snapshot = P>>(
        &mut self,
        store: &S,
        configuration: &Configuration,
    ) -> Result<(), SqlError> {
        if self.snapshot.is_some() {
            return Ok(());
        }
        let tables = configuration.tables.iter().map(|table| table.id);
        match store.snapshot(tables.collect()).await? {
            SnapshotAnswer::Open(snapshot, id) => {
                self.snapshot = Some((snapshot, id));
                Ok(())
            }
            SnapshotAnswer::Impossible(why) => Err(SqlError::transaction(format!(
                "no snapshot can be opened for this transaction: {why}"
            ))),
        }
    }
}
