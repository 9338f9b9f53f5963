//! Runs statements over a store, one after the other, with the settings of a session.

mod accumulate;
mod aggregate;
mod aggregate_calls;
mod alter;
mod analyze;
mod block;
mod cascade;
mod change;
mod children;
mod conflict;
mod copies;
mod describe;
mod explain_json;
mod foreign_key;
mod insert_select;
mod joined;
mod order;
mod read;
mod returning;
pub(crate) mod row;
mod sender;
mod sequences;
mod size;
mod stream;

use std::fmt;
use std::sync::{Arc, Mutex};

use client::now_us;
use placement::{Alteration, ColumnType, TimeZone, Value};
use protocol::configuration::roles::RoleId;
use protocol::configuration::{Configuration, PlacedTable};
use protocol::identity::TableId;
use protocol::message::FillReport;
use session::statistics::TableStatistics;

use crate::error::{SqlError, StatementProgress, sqlstate};
use crate::parse::{ParseError, parse};
use crate::plan::{
    Context, SessionSettings, SeveredReference, StatementPlan, StatisticsSource, plan,
};
use crate::rights::RoleRights;
use crate::statement::{Set, Show, Statement};
use crate::store::{Store, StoreError};

use block::Block;
pub use change::CHANGE_ROWS_MAX;
pub use read::ROWS_HELD_MAX;
pub(crate) use read::{Flow, ReadContext, gather};
pub(crate) use sender::Sender;
pub use sender::{CONFLICT_ATTEMPTS_MAX, ROWS_IN_FLIGHT_MAX};
use sequences::{SequenceCalls, UsedSequences};
pub use stream::{RowSink, StreamOutcome};

/// The most attempts at a statement whose snapshots end while they are read.
pub(crate) const SNAPSHOT_ATTEMPTS_MAX: u32 = 4;

/// Keys or partitions of one statement that are read at the same time.
const LOOKUPS_AT_A_TIME: usize = 32;

/// A user's session with the store.
#[derive(Debug)]
pub struct SqlSession<S: Store> {
    store: S,
    settings: SessionSettings,
    notices: Mutex<Vec<String>>,
    sequences: Mutex<UsedSequences>,
    /// The open transaction.
    block: Option<Block<S::Snapshot>>,
}

/// The outcome of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementOutcome {
    /// Rows.
    Rows(ResultRows),
    /// Several titled tables, for `SHOW TABLE`.
    Description(Vec<(String, ResultRows)>),
    /// The statement is done. Contains psql's command tag, such as `INSERT 0 3`.
    Done(String),
    /// The statement is done and returns rows. Contains the tag, too.
    Returned(ResultRows, String),
}

/// The rows of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultRows {
    /// The columns of each row.
    pub columns: Vec<OutputColumn>,
    /// The rows, with one value per column.
    pub rows: Vec<Vec<Value>>,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    /// The column's name, which need not be unique.
    pub name: String,
    /// The type of the column's values; none if they are always NULL.
    pub column_type: Option<ColumnType>,
}

impl<S: Store> SqlSession<S> {
    /// Returns a session with the default settings.
    pub fn new(store: S) -> SqlSession<S> {
        SqlSession {
            store,
            settings: SessionSettings::default(),
            notices: Mutex::default(),
            sequences: Mutex::default(),
            block: None,
        }
    }

    /// Returns the notices of the last statement, and removes them.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(
            self.notices
                .get_mut()
                .expect("nothing panics while it is held"),
        )
    }

    /// Forgets the sequences that the session has used, for `currval` and `lastval`.
    pub fn forget_sequences(&mut self) {
        self.sequences = Mutex::default();
    }

    /// Returns the store of the session.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Sets the time zone of the session.
    pub fn set_time_zone(&mut self, zone: TimeZone<'static>) {
        self.settings.zone = zone;
    }

    /// Sets the role by whose rights statements run, and which owns the tables that they create.
    /// None may do everything.
    pub fn set_role(&mut self, role: Option<RoleId>) {
        self.settings.role = role;
    }

    /// Says whether transactions that name no mode can only read.
    pub fn set_read_only(&mut self, read_only: bool) {
        self.settings.read_only = read_only;
    }

    /// Returns the settings of the session.
    pub fn settings(&self) -> SessionSettings {
        self.settings
    }

    /// Runs all statements of an SQL string, and stops at the first one that fails. If the string
    /// does not parse, it runs no statement.
    pub async fn run_text(&mut self, text: &str) -> Result<Vec<StatementOutcome>, ParseError> {
        let mut outcomes = Vec::new();
        for parsed in parse(text)? {
            let outcome = self.run(&parsed.statement, &[]).await;
            outcomes.push(outcome.map_err(|error| ParseError {
                error,
                line: parsed.line,
            })?);
        }
        Ok(outcomes)
    }

    /// Runs one statement. `parameters` are the values of `$1`, `$2`, …
    pub async fn run(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
    ) -> Result<StatementOutcome, SqlError> {
        if let Statement::Transaction(control) = statement {
            return self.control(control).await;
        }
        self.drop_abandoned();
        if self.block.is_some() {
            return match statement.defines() {
                true => self.define_in_block(statement, parameters).await,
                false => self.run_in_block(statement, parameters).await,
            };
        }
        self.check_alone(statement)?;
        if statement.needs_transaction() {
            return self.run_alone(statement, parameters).await;
        }
        self.run_at_once(statement, parameters).await
    }

    /// Runs one statement outside of any transaction.
    async fn run_at_once(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
    ) -> Result<StatementOutcome, SqlError> {
        // An old configuration may lack the table, or hold a dropped one. After a fetch it is
        // current, so two attempts are enough.
        let known = self.store.configuration();
        let first = self.attempt(statement, parameters, &known).await;
        let failure = match first {
            Ok(outcome) => return Ok(outcome),
            Err(Attempt::Failed(error)) => return Err(error),
            Err(Attempt::Planned(error)) => error,
            Err(Attempt::Stale(error)) => error.into(),
            Err(Attempt::SnapshotEnded(_)) => return self.run_again(statement, parameters).await,
        };
        let newest = match self.store.refresh().await {
            Ok(newest) => newest,
            // The privileges that are known hold.
            Err(_) if failure.is_denial() => return Err(failure),
            Err(error) => return Err(error.into()),
        };
        if newest.epoch == known.epoch {
            return Err(failure);
        }
        match self.attempt(statement, parameters, &newest).await {
            Err(Attempt::SnapshotEnded(_)) => self.run_again(statement, parameters).await,
            second => second.map_err(SqlError::from),
        }
    }

    /// Runs a statement again whose snapshot has ended: it has changed and returned nothing.
    async fn run_again(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
    ) -> Result<StatementOutcome, SqlError> {
        let mut attempts = 1;
        loop {
            attempts += 1;
            let newest = self.store.refresh().await?;
            match self.attempt(statement, parameters, &newest).await {
                Err(Attempt::SnapshotEnded(_)) if attempts < SNAPSHOT_ATTEMPTS_MAX => {}
                outcome => return outcome.map_err(SqlError::from),
            }
        }
    }

    async fn attempt(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        configuration: &Configuration,
    ) -> Result<StatementOutcome, Attempt> {
        let session = SessionState {
            settings: &mut self.settings,
            notices: &self.notices,
            sequences: &self.sequences,
        };
        attempt(&self.store, session, statement, parameters, configuration).await
    }
}

/// The parts of a session that a statement may change.
struct SessionState<'a> {
    settings: &'a mut SessionSettings,
    notices: &'a Mutex<Vec<String>>,
    sequences: &'a Mutex<UsedSequences>,
}

// tidy: long — a dispatching match over the plans.
/// Runs a statement over a store once, by a configuration.
async fn attempt<S: Store>(
    store: &S,
    session: SessionState<'_>,
    statement: &Statement,
    parameters: &[Value],
    configuration: &Configuration,
) -> Result<StatementOutcome, Attempt> {
    if let Statement::ExplainAsJson(explained) = statement {
        let explained = attempt(store, session, explained, parameters, configuration);
        return Box::pin(explained).await.map(explain_json::outcome);
    }
    check_rights(statement, configuration, session.settings.role)?;
    if let Statement::Explain(explained) | Statement::ExplainAnalyze(explained) = statement
        && let Some(table) = explained.read_table()
        && let Some(table) = configuration.table_named(table)
    {
        store.measure(table.id).await;
    }
    let SessionState {
        settings,
        notices,
        sequences: used,
    } = session;
    let statistics = StoreStatistics(store);
    let context = Context {
        configuration,
        settings: *settings,
        parameters,
        now_us: now_us(),
        statistics: &statistics,
        explains: false,
    };
    let reading = ReadContext {
        store,
        configuration,
        settings: *settings,
        notices,
        needs_one_state: false,
    };
    let calls = SequenceCalls {
        reading: &reading,
        context: &context,
        used,
        draws: true,
    };
    let selected = insert_select::with_rows(&calls, statement).await?;
    let statement = selected.as_ref().unwrap_or(statement);
    let computed = calls.of_statement(statement).await?;
    let statement = computed.as_ref().unwrap_or(statement);
    Ok(match plan(statement, &context).map_err(Attempt::Planned)? {
        plan @ (StatementPlan::Select(_)
        | StatementPlan::Aggregate(_)
        | StatementPlan::Insert(_)
        | StatementPlan::Change(_)
        | StatementPlan::Joined(_)) => reading.run(plan).await?,
        StatementPlan::Explain(lines) => describe::plan(lines),
        StatementPlan::ExplainAnalyze(lines, plan) => analyze::run(&reading, lines, *plan).await?,
        StatementPlan::Show(Show::Setting(setting)) => describe::setting(setting, *settings),
        StatementPlan::Show(show) => describe::show(&show, configuration),
        StatementPlan::Already(what) => {
            StatementOutcome::Done(format!("NOTICE: {what}, nothing was done"))
        }
        StatementPlan::Set(set) => {
            match set {
                Set::Scan(on) => settings.scan = on,
                Set::ScanRows(rows) => settings.scan_rows = rows,
                Set::StaleReads(on) => settings.stale_reads = on,
            }
            done("SET")
        }
        StatementPlan::SetAlready => done("SET"),
        StatementPlan::CreateTable {
            schema,
            sequences: own,
            if_not_exists,
            notices: made,
        } => {
            let name = schema.name.clone();
            let names: Vec<String> = own.iter().map(|it| it.name.clone()).collect();
            let owner = settings.role.unwrap_or_default();
            let created = store.create_table(*schema, own, owner, if_not_exists).await;
            if let Err(error) = created {
                return Err(of_definition(store, &name, error, state_of_create).await);
            }
            sequences::begin(store, &names).await;
            let notices = notices.lock();
            notices
                .expect("nothing panics while it is held")
                .extend(made);
            done("CREATE TABLE")
        }
        StatementPlan::CreateSequence {
            schema,
            if_not_exists,
            notice,
        } => {
            let name = schema.name.clone();
            let (own, owner) = (Vec::new(), settings.role.unwrap_or_default());
            let created = store.create_table(*schema, own, owner, if_not_exists).await;
            if let Err(error) = created {
                return Err(of_definition(store, &name, error, state_of_create).await);
            }
            sequences::begin(store, &[name]).await;
            let notices = notices.lock();
            notices
                .expect("nothing panics while it is held")
                .extend(notice);
            done("CREATE SEQUENCE")
        }
        StatementPlan::RestartSequence { sequence, value } => {
            store.reset_sequence(sequence, value, false).await?;
            done("ALTER SEQUENCE")
        }
        StatementPlan::DropSequence { names, if_exists } => {
            for name in names {
                let dropped = store.drop_table(&name, if_exists).await;
                if let Err(error) = dropped {
                    return Err(of_definition(store, &name, error, state_of_drop).await);
                }
            }
            done("DROP SEQUENCE")
        }
        StatementPlan::AddIndex { wanted, name } => {
            let bar = copies::CopyProgressBar::new(&name);
            let made = store.add_copy(*wanted, &|fill| bar.show(fill)).await;
            made.map_err(Attempt::of_definition)?;
            done("CREATE INDEX")
        }
        StatementPlan::DropIndex {
            table,
            name,
            if_exists,
        } => {
            let dropped = store.drop_copy(&table, &name, if_exists).await;
            dropped.map_err(Attempt::of_definition)?;
            done("DROP INDEX")
        }
        StatementPlan::ReplaceIndex {
            wanted,
            table,
            name,
            by,
        } => {
            let bar = copies::CopyProgressBar::new(&name);
            let show = |fill: &FillReport| bar.show(fill);
            if let Some(wanted) = wanted {
                let made = store.add_copy(*wanted, &show).await;
                made.map_err(Attempt::of_definition)?;
            }
            let replaced = store.replace_copy(&table, &name, &by, &show).await;
            replaced.map_err(Attempt::of_definition)?;
            done("ALTER INDEX")
        }
        StatementPlan::SetPartitions { table, partitions } => {
            let bar = copies::CopyProgressBar::new(&format!("{partitions} partitions"));
            let cut = store
                .set_partitions(&table, partitions, &|fill| bar.show(fill))
                .await;
            cut.map_err(Attempt::of_definition)?;
            done("ALTER TABLE")
        }
        StatementPlan::SetFailures { table, failures } => {
            let bar = copies::CopyProgressBar::new(&format!("copies of {table}"));
            let set = store
                .set_failures_tolerated(&table, failures, &|fill| bar.show(fill))
                .await;
            set.map_err(Attempt::of_definition)?;
            done("ALTER TABLE")
        }
        StatementPlan::Alter(plan) => alter::run(&reading, plan).await?,
        StatementPlan::Truncate {
            plan,
            restarted,
            notices: made,
        } => {
            let emptied = store.truncate(&plan.tables, plan.cascade).await;
            emptied.map_err(Attempt::of_definition)?;
            for (sequence, start) in restarted {
                store.reset_sequence(sequence, start, false).await?;
            }
            let notices = notices.lock();
            notices
                .expect("nothing panics while it is held")
                .extend(made);
            done("TRUNCATE TABLE")
        }
        StatementPlan::DropTable {
            names,
            if_exists,
            severed,
        } => {
            for SeveredReference {
                child,
                constraint,
                stays,
            } in severed
            {
                let notice = format!("drop cascades to constraint {constraint} on table {child}");
                let gone = vec![Alteration::DropConstraint { constraint }];
                let changed = store.alter_table(&child, gone).await;
                changed.map_err(Attempt::of_definition)?;
                if stays {
                    let notices = notices.lock();
                    notices
                        .expect("nothing panics while it is held")
                        .push(notice);
                }
            }
            for name in names {
                let dropped = store.drop_table(&name, if_exists).await;
                if let Err(error) = dropped {
                    return Err(of_definition(store, &name, error, state_of_drop).await);
                }
            }
            done("DROP TABLE")
        }
    })
}

/// Checks that a role may run a statement. A refusal is of the configuration: a newer one may have
/// other privileges.
fn check_rights(
    statement: &Statement,
    configuration: &Configuration,
    role: Option<RoleId>,
) -> Result<(), Attempt> {
    let rights = RoleRights::of(configuration, role);
    let checked = rights.and_then(|rights| rights.check(statement));
    checked.map_err(Attempt::Planned)
}

/// Returns the error of a definition of a table that failed. If it was refused, `state` has the
/// SQLSTATE by the table that there is now, if any.
async fn of_definition<S: Store>(
    store: &S,
    name: &str,
    error: StoreError,
    state: impl Fn(Option<&PlacedTable>) -> Option<&'static str>,
) -> Attempt {
    let newest = match error.refused {
        true => store.refresh().await.ok(),
        false => None,
    };
    match newest.and_then(|newest| state(newest.table_named(name))) {
        Some(sqlstate) => SqlError::with_state(sqlstate, error.message).into(),
        None => Attempt::of_definition(error),
    }
}

/// Returns the SQLSTATE of a table that was not created.
fn state_of_create(known: Option<&PlacedTable>) -> Option<&'static str> {
    known.map(|_| sqlstate::DUPLICATE_TABLE)
}

/// Returns the SQLSTATE of a table that was not dropped.
fn state_of_drop(known: Option<&PlacedTable>) -> Option<&'static str> {
    let Some(PlacedTable { schema, .. }) = known else {
        return Some(sqlstate::UNDEFINED_TABLE);
    };
    let mut children = schema.constraints.referenced_by.iter();
    let refers = children.any(|child| *child != schema.name);
    (refers || schema.sequence.is_some()).then_some(sqlstate::DEPENDENT_OBJECTS)
}

impl<S: Store> ReadContext<'_, S> {
    /// Runs a statement that reads or changes rows.
    async fn run(&self, plan: StatementPlan) -> Result<StatementOutcome, Attempt> {
        match plan {
            StatementPlan::Select(plan) => Ok(StatementOutcome::Rows(self.select(*plan).await?)),
            StatementPlan::Aggregate(plan) => {
                Ok(StatementOutcome::Rows(self.aggregate(plan).await?))
            }
            StatementPlan::Insert(plan) => change::insert(self, plan).await,
            StatementPlan::Change(plan) => change::change(self, plan).await,
            StatementPlan::Joined(plan) => joined::run(self, *plan).await,
            plan => unreachable!("{plan:?} reads and changes no rows"),
        }
    }
}

/// The estimates that a store knows.
struct StoreStatistics<'a, S>(&'a S);

impl<S: Store> StatisticsSource for StoreStatistics<'_, S> {
    fn of(&self, table: TableId) -> Option<Arc<TableStatistics>> {
        self.0.statistics(table)
    }
}

impl<S> fmt::Debug for StoreStatistics<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreStatistics")
    }
}

/// The reason why one attempt at a statement ended.
pub(crate) enum Attempt {
    /// The statement failed.
    Failed(SqlError),
    /// The statement is invalid for this configuration. A newer one may change that.
    Planned(SqlError),
    /// The attempt used an old configuration, and changed nothing.
    Stale(StoreError),
    /// The snapshot of the attempt has ended, and nothing was changed.
    SnapshotEnded(StoreError),
}

impl Attempt {
    fn of_definition(error: StoreError) -> Attempt {
        Attempt::Failed(error.into())
    }
}

impl From<SqlError> for Attempt {
    fn from(error: SqlError) -> Attempt {
        Attempt::Failed(error)
    }
}

impl From<StoreError> for Attempt {
    fn from(error: StoreError) -> Attempt {
        if error.snapshot_ended {
            Attempt::SnapshotEnded(error)
        } else if error.stale && !error.unknown {
            Attempt::Stale(error)
        } else {
            Attempt::Failed(error.into())
        }
    }
}

impl From<StoreError> for SqlError {
    fn from(error: StoreError) -> SqlError {
        if error.begin_again {
            let message = error.message;
            return SqlError::Serialization { message };
        }
        SqlError::Store {
            message: error.message,
            unknown: error.unknown,
            done: StatementProgress::default(),
        }
    }
}

/// Returns the columns of a `SHOW` or an `EXPLAIN`; none of another statement.
pub(crate) fn show_columns(
    statement: &Statement,
    configuration: &Configuration,
) -> Option<Vec<OutputColumn>> {
    let outcome = match statement {
        Statement::Explain(_) | Statement::ExplainAnalyze(_) => describe::plan(Vec::new()),
        Statement::ExplainAsJson(_) => explain_json::outcome(describe::plan(Vec::new())),
        Statement::Show(show) => describe::show(show, configuration),
        _ => return None,
    };
    match outcome {
        StatementOutcome::Rows(rows) => Some(rows.columns),
        StatementOutcome::Description(_) => Some(vec![description_column()]),
        StatementOutcome::Done(_) | StatementOutcome::Returned(..) => None,
    }
}

/// Returns the column of a description that is returned as one column of lines.
pub(crate) fn description_column() -> OutputColumn {
    OutputColumn {
        name: "description".into(),
        column_type: Some(ColumnType::Text),
    }
}

/// Returns the outcome of a statement that has no rows, as psql shows it.
fn done(what: &str) -> StatementOutcome {
    StatementOutcome::Done(what.to_owned())
}

#[cfg(test)]
mod aggregate_tests;
#[cfg(test)]
mod alter_tests;
#[cfg(test)]
mod analyze_tests;
#[cfg(test)]
mod array_tests;
#[cfg(test)]
mod block_tests;
#[cfg(test)]
mod constraint_tests;
#[cfg(test)]
mod estimates_tests;
#[cfg(test)]
mod generated_tests;
#[cfg(test)]
mod insert_select_tests;
#[cfg(test)]
mod interval_tests;
#[cfg(test)]
mod joined_tests;
#[cfg(test)]
mod json_tests;
#[cfg(test)]
mod returning_tests;
#[cfg(test)]
mod sequence_tests;
#[cfg(test)]
mod size_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod zone_tests;
