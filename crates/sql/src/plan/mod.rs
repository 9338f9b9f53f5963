//! Plans statements: determines their meaning for a configuration. The code is pure, so that it can
//! be tested without a cluster.
//!
//! A plan names the partitions of a replex to read, their filters, and the mutations to send. A
//! plan may become invalid: if the configuration has changed, the client detects that (R15) and the
//! statement is planned again.

mod access;
mod access_path;
mod aggregate;
mod alter;
mod change;
mod cost;
mod defaults;
mod drop;
mod explain;
mod facts;
mod group;
mod hyperspace;
mod insert;
mod joined;
mod outputs;
mod reading;
mod reference;
mod select;
mod sequence;
pub(crate) mod text;

use std::fmt;
use std::sync::Arc;

use placement::{Column, ColumnType, Schema, TimeZone, Value};
use protocol::configuration::roles::RoleId;
use protocol::configuration::{Configuration, PlacedTable};
use protocol::expression::{Assignment, Expression};
use protocol::identity::TableId;
use protocol::operation::Mutation;
use session::statistics::TableStatistics;

pub use access::{Access, AccessKind, KEYS_MAX, Segment, ValueRange};
pub(crate) use access_path::too_large;
pub use alter::{AddedReference, AlterPlan, FurtherStep, Requirement};
pub use cost::{EstimatedChoice, ReadEstimate};
pub(crate) use defaults::{DefaultRow, generated_column};
pub use drop::SeveredReference;
pub use facts::RangeEnd;
pub(crate) use insert::encode;
pub use joined::{JoinedPlan, SourceRows};
pub(crate) use joined::{all_hold, common_type_of_values, further_column, unnested_type};
use reading::check_size;
pub(crate) use reading::{rows_of_columns, whole_table};
pub(crate) use reference::index_for_reference;
pub(crate) use sequence::{no_relation, sequence_named};

use crate::bind::Scope;
use crate::error::{SqlError, sqlstate};
use crate::parse::{as_using, has_index, with_index};
use crate::statement::{
    AggregateFunction, CreateIndex, SCAN_ROWS, Set, SetUsing, Show, Statement, TableName, Truncate,
};

/// The settings of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// Whether statements that no index serves may read tables of any size.
    pub scan: bool,
    /// The most rows of a table that such statements may read otherwise.
    pub scan_rows: u64,
    /// Whether reads may miss operations in progress (R10).
    pub stale_reads: bool,
    /// The time zone of local times.
    pub zone: TimeZone<'static>,
    /// Whether transactions that name no mode can only read.
    pub read_only: bool,
    /// The role, by whose rights statements run; none may do everything.
    pub role: Option<RoleId>,
}

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        SessionSettings {
            scan: false,
            scan_rows: SCAN_ROWS,
            stale_reads: false,
            zone: TimeZone::UTC,
            read_only: false,
            role: None,
        }
    }
}

/// The context in which a statement is planned.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Tables and servers.
    pub configuration: &'a Configuration,
    /// The settings of the session.
    pub settings: SessionSettings,
    /// The values of `$1`, `$2`, … A text may stand for any type.
    pub parameters: &'a [Value],
    /// The value of `now()`, in microseconds since 1970 UTC.
    pub now_us: i64,
    /// Estimates about tables.
    pub statistics: &'a dyn StatisticsSource,
    /// Whether the plan is shown, so that estimates are wanted although there is no choice.
    pub explains: bool,
}

/// Returns estimates about tables.
pub trait StatisticsSource: fmt::Debug + Sync {
    /// Returns the estimates about a table; none if none are known.
    fn of(&self, table: TableId) -> Option<Arc<TableStatistics>>;
}

/// Estimates of a source that has none.
#[derive(Clone, Copy, Debug)]
pub struct WithoutStatistics;

impl StatisticsSource for WithoutStatistics {
    fn of(&self, _: TableId) -> Option<Arc<TableStatistics>> {
        None
    }
}

/// The plan of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementPlan {
    /// Creates a table at the coordinator.
    CreateTable {
        /// The table; valid on its own.
        schema: Box<Schema>,
        /// The sequences of its columns.
        sequences: Vec<Schema>,
        /// Whether one of the same name is left as it is.
        if_not_exists: bool,
        /// For people: what is made beside what the statement names.
        notices: Vec<String>,
    },
    /// Creates a sequence at the coordinator.
    CreateSequence {
        /// The table of the sequence.
        schema: Box<Schema>,
        /// Whether one of the same name is left as it is.
        if_not_exists: bool,
        /// For people: why it survives few failures.
        notice: Option<String>,
    },
    /// Sets the next value of a sequence.
    RestartSequence {
        /// The sequence.
        sequence: TableId,
        /// The value.
        value: i64,
    },
    /// Drops sequences at the coordinator, one after the other.
    DropSequence {
        /// The sequences' names.
        names: Vec<String>,
        /// Whether they need not exist.
        if_exists: bool,
    },
    /// Adds a copy to a table at the coordinator.
    AddIndex {
        /// The table with it; valid on its own.
        wanted: Box<Schema>,
        /// The index's name.
        name: String,
    },
    /// Drops a copy of a table at the coordinator.
    DropIndex {
        /// The table.
        table: String,
        /// The copy.
        name: String,
        /// Whether it need not exist.
        if_exists: bool,
    },
    /// Makes an index of another kind at the coordinator, in place of an existing one.
    ReplaceIndex {
        /// The table with the new index; none if it has it already.
        wanted: Option<Box<Schema>>,
        /// The table.
        table: String,
        /// The index that is replaced, whose name the new one gets.
        name: String,
        /// The name of the new one until then.
        by: String,
    },
    /// Changes the number of partitions of a table at the coordinator.
    SetPartitions {
        /// The table.
        table: String,
        /// How many.
        partitions: u32,
    },
    /// Changes the number of failures that a table survives, with copies that this takes.
    SetFailures {
        /// The table.
        table: String,
        /// How many.
        failures: u8,
    },
    /// Changes the definition of a table at the coordinator.
    Alter(AlterPlan),
    /// Removes all rows of tables at the coordinator. The notices name the tables that are emptied
    /// beside those of the statement.
    Truncate {
        /// The tables.
        plan: Truncate,
        /// The sequences that begin again, with their first values.
        restarted: Vec<(TableId, i64)>,
        /// For people: the tables that are emptied, too.
        notices: Vec<String>,
    },
    /// Drops tables at the coordinator, one after the other.
    DropTable {
        /// The tables' names, in the order in which they can be dropped.
        names: Vec<String>,
        /// Whether they need not exist.
        if_exists: bool,
        /// The foreign keys that are dropped before.
        severed: Vec<SeveredReference>,
    },
    /// Writes new rows.
    Insert(InsertPlan),
    /// Reads rows.
    Select(Box<SelectPlan>),
    /// Computes results from groups of rows.
    Aggregate(AggregatePlan),
    /// Changes or removes rows.
    Change(ChangePlan),
    /// Changes or removes the rows that match rows of a further table.
    Joined(Box<JoinedPlan>),
    /// Returns these lines.
    Explain(Vec<String>),
    /// Runs a plan, and returns these lines and its work.
    ExplainAnalyze(Vec<String>, Box<StatementPlan>),
    /// Returns rows about tables, servers or settings.
    Show(Show),
    /// Changes a setting.
    Set(Set),
    /// Sets a setting to its only allowed value.
    SetAlready,
    /// Does nothing, because the requested state exists already. Contains its description.
    Already(String),
}

impl StatementPlan {
    fn joined(plan: JoinedPlan) -> StatementPlan {
        StatementPlan::Joined(Box::new(plan))
    }
}

/// A read of rows of one table, from one replex.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadPlan {
    /// The table.
    pub table: TableId,
    /// The access path of the read.
    pub access: Access,
    /// The limit of the read. Set if no index serves it and the statement does not request a scan.
    pub unasked: Option<UnaskedScan>,
    /// The condition that the partitions check; none is no condition.
    pub filter: Option<Expression>,
    /// The columns that the partitions return, ascending; none is all.
    pub projection: Option<Vec<u16>>,
    /// Whether to read from the last key to the first.
    pub descending: bool,
    /// The estimates by which the access was chosen; none if there were none.
    pub estimated: Option<EstimatedChoice>,
}

/// A read that no index serves, without a requested scan. It is allowed only for small tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnaskedScan {
    /// The most rows that the table may have. With more, the read is refused.
    pub rows_max: u64,
    /// The number of rows that `LIMIT` and `OFFSET` need; none is the whole table.
    pub rows_wanted: Option<u64>,
}

/// A `SELECT`.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectPlan {
    /// The read; none computes one row from constants.
    pub read: Option<ReadPlan>,
    /// The output expressions, over the columns that were read.
    pub items: Vec<OutputItem>,
    /// The order of rows; empty is any order.
    pub order: Vec<SortKey>,
    /// Whether each segment of the read is already in this order.
    pub ordered_by_index: bool,
    /// The most rows to return.
    pub limit: Option<u64>,
    /// The number of rows to skip first.
    pub offset: u64,
}

/// A `SELECT` whose results are computed from groups of rows. All of its reads show one state.
///
/// A group's row has the values of the keys, then those of the aggregates.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregatePlan {
    /// The reads, all of one table; empty computes from one row without columns.
    pub reads: Vec<AggregateRead>,
    /// Whether there is one group for each list of keys. Otherwise all rows are one group, which
    /// is there without rows, too.
    pub has_keys: bool,
    /// The names of the columns of a group's row, for people.
    pub names: Vec<String>,
    /// The keys, over the columns that the only read returns.
    pub keys: Vec<Expression>,
    /// The aggregates of each group.
    pub aggregates: Vec<AggregateCall>,
    /// The condition of the groups, over a group's row.
    pub having: Option<Expression>,
    /// The output expressions, over a group's row.
    pub items: Vec<OutputItem>,
    /// Whether equal rows of the result are returned once.
    pub distinct: bool,
    /// The order of rows, over a group's row; empty is any order.
    pub order: Vec<SortKey>,
    /// The most rows to return.
    pub limit: Option<u64>,
    /// The number of rows to skip first.
    pub offset: u64,
}

/// A read for aggregates.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateRead {
    /// The read.
    pub read: ReadPlan,
    /// The part of its rows that is needed.
    pub part: AggregatePart,
}

/// The part of the rows of a read that its aggregates need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregatePart {
    /// Their number, which the partitions count.
    Count,
    /// The first row of each range, in the order of an index. It has the smallest or largest value.
    First,
    /// All rows.
    All,
}

/// One aggregate of each group.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// The function.
    pub function: AggregateFunction,
    /// Its argument, over the columns that its read returns; none counts rows.
    pub argument: Option<Expression>,
    /// The type of the argument; none if its values are always NULL.
    pub argument_type: Option<ColumnType>,
    /// Whether each value counts once.
    pub distinct: bool,
    /// The condition of the rows that count, over the columns that its read returns.
    pub filter: Option<Expression>,
    /// The text between the values.
    pub separator: String,
    /// The order of the values.
    pub order: Vec<SortKey>,
    /// The position of its read.
    pub read: usize,
}

/// One column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputItem {
    /// The item's name.
    pub name: String,
    /// The item's value, over the columns that were read.
    pub expression: Expression,
    /// The item's type; none if its value is always NULL.
    pub column_type: Option<ColumnType>,
}

/// One expression of an `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// The value, over the columns that were read.
    pub expression: Expression,
    /// Whether to sort from the largest to the smallest.
    pub descending: bool,
    /// Whether NULLs come first.
    pub nulls_first: bool,
}

/// An `INSERT`: one mutation for each row, each in a separate operation.
#[derive(Clone, Debug, PartialEq)]
pub struct InsertPlan {
    /// The table.
    pub table: TableId,
    /// The mutations, in the order of the statement.
    pub mutations: Vec<Mutation>,
    /// Whether each mutation waits for the previous one. A dense index needs its values in order,
    /// and of rows with the same unique key the first one must be kept.
    pub in_order: bool,
    /// Whether all rows are inserted in one transaction or not at all.
    pub only_together: bool,
    /// The duplicates for which a row is skipped.
    pub left_out: SkippedDuplicates,
    /// The expressions to return of each row that is inserted or updated.
    pub returning: Vec<OutputItem>,
}

/// The duplicates for which a row is skipped. All others are errors. For the primary key,
/// [`Action::InsertOrKeep`](protocol::operation::Action) skips the row by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkippedDuplicates {
    /// No duplicates.
    Nothing,
    /// Duplicates in the unique index with this replex number.
    By(usize),
    /// Duplicates in any unique index.
    ByAny,
}

impl SkippedDuplicates {
    /// Returns whether a row is skipped for a duplicate in this replex.
    pub fn covers(self, replex: usize) -> bool {
        match self {
            SkippedDuplicates::Nothing => false,
            SkippedDuplicates::By(number) => number == replex,
            SkippedDuplicates::ByAny => true,
        }
    }
}

/// An `UPDATE` or `DELETE`.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangePlan {
    /// The table.
    pub table: TableId,
    /// The change of each row.
    pub change: ChangeKind,
    /// The rows to change.
    pub target: ChangeTarget,
    /// The condition that the primary partition checks atomically with each change.
    pub condition: Option<Expression>,
    /// Whether each mutation waits for the previous one, because a dense index needs its values in
    /// order.
    pub in_order: bool,
    /// The expressions to return of each row that is changed.
    pub returning: Vec<OutputItem>,
}

/// The kind of change of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeKind {
    /// Sets new values.
    Update(Vec<Assignment>),
    /// Removes the row.
    Delete,
}

/// The rows to change.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeTarget {
    /// The rows with these memcomparable primary keys.
    Keys(Vec<Vec<u8>>),
    /// The rows that a read finds. It reads the columns of the primary key, in the order of the
    /// schema.
    Rows(Box<ReadPlan>),
}

/// Plans a statement.
// tidy: long — one arm per statement
pub fn plan(statement: &Statement, context: &Context<'_>) -> Result<StatementPlan, SqlError> {
    match statement {
        Statement::CreateTable {
            schema,
            if_not_exists,
            references,
            serials,
        } => {
            let mut schema = schema.clone();
            let notices = reference::add(&mut schema, references, context)?;
            let sequences = sequence::own_sequences(&mut schema, serials, context)?;
            schema.validate()?;
            Ok(StatementPlan::CreateTable {
                schema,
                sequences,
                if_not_exists: *if_not_exists,
                notices,
            })
        }
        Statement::CreateIndex(index) => create_index(index, context),
        Statement::DropIndex {
            table,
            name,
            if_exists,
        } => drop_index(table.as_deref(), name, *if_exists, context),
        Statement::SetUsing(set) => set_using(set, context),
        Statement::SetPartitions { table, partitions } => {
            context.table(table)?;
            Ok(StatementPlan::SetPartitions {
                table: table.clone(),
                partitions: *partitions,
            })
        }
        Statement::SetFailures { table, failures } => {
            context.table(table)?;
            Ok(StatementPlan::SetFailures {
                table: table.clone(),
                failures: *failures,
            })
        }
        Statement::AlterTable(statement) => alter::plan(statement, context),
        Statement::Truncate(statement) => alter::truncate(statement, context),
        Statement::Comment(statement) => alter::comment(statement, context),
        Statement::Transaction(_) => {
            unreachable!("the session runs it without a plan")
        }
        Statement::CreateSequence {
            name,
            options,
            if_not_exists,
        } => sequence::create(name, options, *if_not_exists, context),
        Statement::RestartSequence {
            name,
            restart,
            if_exists,
        } => sequence::restart(name, *restart, *if_exists, context),
        Statement::DropSequence { names, if_exists } => sequence::drop(names, *if_exists, context),
        Statement::DropTable {
            names,
            if_exists,
            cascade,
        } => drop::tables(names, *if_exists, *cascade, context.configuration),
        Statement::Insert(statement) => insert::plan(statement, context).map(StatementPlan::Insert),
        Statement::InsertRows(rows) => insert::plan_rows(rows, context).map(StatementPlan::Insert),
        Statement::Select(statement) => {
            let plan = select::plan(statement, context)?;
            let reads: Vec<&ReadPlan> = match &plan {
                StatementPlan::Aggregate(plan) => plan.reads.iter().map(|it| &it.read).collect(),
                StatementPlan::Select(plan) => plan.read.iter().collect(),
                _ => unreachable!("a SELECT has one of these plans"),
            };
            for read in reads {
                check_size(context.columns(read.table), read.filter.as_ref())?;
            }
            Ok(plan)
        }
        Statement::Update(statement) => match &statement.from {
            Some(from) => joined::update(statement, from, context).map(StatementPlan::joined),
            None => change::update(statement, context).map(StatementPlan::Change),
        },
        Statement::Delete(statement) => match &statement.using {
            Some(using) => joined::delete(statement, using, context).map(StatementPlan::joined),
            None => change::delete(statement, context).map(StatementPlan::Change),
        },
        Statement::Explain(statement) => {
            if let Statement::Insert(insert) = &**statement
                && let Some(select) = &insert.select
            {
                let table = context.table(&insert.table.name)?;
                let select = Statement::Select((**select).clone());
                let plan = plan(&select, &context.explaining())?;
                let mut lines = vec![format!("Insert into {} the rows of", table.schema.name)];
                lines.extend(explain::lines(&plan, context));
                return Ok(StatementPlan::Explain(lines));
            }
            let lines = explain::lines(&plan(statement, &context.explaining())?, context);
            Ok(StatementPlan::Explain(lines))
        }
        Statement::ExplainAnalyze(statement) => {
            let plan = plan(statement, &context.explaining())?;
            let lines = explain::lines(&plan, context);
            Ok(StatementPlan::ExplainAnalyze(lines, Box::new(plan)))
        }
        Statement::ExplainAsJson(explained) => plan(explained, context),
        Statement::Show(show) => {
            if let Show::Table(name) | Show::IndexRanges(name) = show {
                context.relation(name)?;
            }
            Ok(StatementPlan::Show(show.clone()))
        }
        Statement::Set(set) => Ok(StatementPlan::Set(*set)),
        Statement::SetAlready => Ok(StatementPlan::SetAlready),
    }
}

/// Finds out whether an index is wanted that the table does not have.
fn create_index(index: &CreateIndex, context: &Context<'_>) -> Result<StatementPlan, SqlError> {
    let table = context.table(&index.table)?;
    let exists = |name: &str| {
        let replexes = table.layout.replexes.iter().map(|it| &it.name);
        let further = table.schema.further.iter().map(|it| &it.name);
        replexes.chain(further).any(|it| it == name)
    };
    if exists(&index.name) && index.if_not_exists {
        return Ok(StatementPlan::Already(format!(
            "index {} of table {} exists",
            index.name, index.table
        )));
    }
    if exists(&index.name) {
        return Err(SqlError::with_state(
            sqlstate::DUPLICATE_TABLE,
            format!(
                "table {} has an index {} already: choose another name, or write IF NOT EXISTS",
                index.table, index.name
            ),
        ));
    }
    Ok(StatementPlan::AddIndex {
        wanted: Box::new(with_index(&table.schema, index)?),
        name: index.name.clone(),
    })
}

/// Finds out which index has to be made in place of an existing one.
fn set_using(set: &SetUsing, context: &Context<'_>) -> Result<StatementPlan, SqlError> {
    let SetUsing { table, name, kind } = set;
    let spelt = format!("ALTER INDEX {name} ON table SET USING …");
    let table = holder((table.as_deref(), name), &spelt, context)?;
    let table = table.ok_or_else(|| no_such_index(name))?;
    let schema = &table.schema;
    let by = format!("{name}__next");
    let Some(create) = as_using(schema, name, (kind, &by))? else {
        return Ok(StatementPlan::Already(format!(
            "index {name} of table {} is as wanted",
            schema.name
        )));
    };
    let mut indexes = schema.indexes.iter().map(|it| &it.name);
    let mut thin = schema.thin.iter().map(|it| &it.name);
    let is_begun = indexes.any(|it| *it == by) || thin.any(|it| *it == by);
    if is_begun && !has_index(schema, &create)? {
        return Err(SqlError::with_state(
            sqlstate::DUPLICATE_TABLE,
            format!(
                "another change of index {name} has begun: end it with DROP INDEX {by} ON {}, or give \
             the same kind and options as before",
                schema.name
            ),
        ));
    }
    let wanted = match is_begun {
        false => {
            let wanted = with_index(schema, &create)?;
            // Whether the old index can go is known before the new one is made.
            let goes = table.layout.removable(&wanted, name);
            goes.map_err(|error| SqlError::with_state(sqlstate::DEPENDENT_OBJECTS, error.message))?;
            Some(Box::new(wanted))
        }
        true => None,
    };
    Ok(StatementPlan::ReplaceIndex {
        wanted,
        table: schema.name.clone(),
        name: name.clone(),
        by,
    })
}

fn no_such_index(name: &str) -> SqlError {
    let message = format!("there is no index {name}");
    SqlError::with_state(sqlstate::UNDEFINED_OBJECT, message)
}

/// Finds the table whose index is to be dropped, where the statement does not name it.
fn drop_index(
    table: Option<&str>,
    name: &str,
    if_exists: bool,
    context: &Context<'_>,
) -> Result<StatementPlan, SqlError> {
    let spelt = format!("DROP INDEX {name} ON table");
    match holder((table, name), &spelt, context)? {
        Some(table) => Ok(StatementPlan::DropIndex {
            table: table.schema.name.clone(),
            name: name.to_string(),
            if_exists,
        }),
        None if if_exists => Ok(StatementPlan::Already(format!("there is no index {name}"))),
        None => Err(no_such_index(name)),
    }
}

/// Returns the named table, or else the only one that has an index or a further copy of this name;
/// none if there is none. If there are several, the error says to write the statement as `spelt`.
fn holder<'a>(
    (table, name): (Option<&str>, &str),
    spelt: &str,
    context: &Context<'a>,
) -> Result<Option<&'a PlacedTable>, SqlError> {
    let holds = |it: &&PlacedTable| {
        let mut replexes = it
            .layout
            .numbers()
            .map(|number| &it.layout.replexes[number]);
        replexes.any(|replex| replex.name == name || it.schema.copy_of(&replex.name) == name)
    };
    if let Some(table) = table {
        return context.table(table).map(Some);
    }
    let holders: Vec<&PlacedTable> = context.configuration.tables.iter().filter(holds).collect();
    match holders[..] {
        [] => Ok(None),
        [table] => Ok(Some(table)),
        _ => {
            let names = holders.iter().map(|it| it.schema.name.as_str());
            Err(SqlError::statement(format!(
                "tables {} have an index {name}: write {spelt}",
                names.collect::<Vec<&str>>().join(", ")
            )))
        }
    }
}

impl<'a> Context<'a> {
    /// Returns the table of this name, which is no sequence.
    pub(crate) fn table(&self, name: &str) -> Result<&'a PlacedTable, SqlError> {
        let table = self.relation(name)?;
        sequence::refuse_sequence(table)?;
        Ok(table)
    }

    /// Returns the table or the sequence of this name.
    pub(crate) fn relation(&self, name: &str) -> Result<&'a PlacedTable, SqlError> {
        let tables = self.configuration.tables.iter();
        let tables = tables.filter(|it| it.schema.sequence.is_none());
        self.configuration
            .table_named(name)
            .ok_or_else(|| SqlError::UnknownTable {
                table: name.to_string(),
                tables: tables.map(|it| it.schema.name.clone()).collect(),
            })
    }

    /// Returns the columns of a table over which a statement was planned.
    fn columns(&self, table: TableId) -> &'a [Column] {
        let table = self.configuration.table(table);
        &table.expect("it was planned over").schema.columns
    }

    fn explaining(self) -> Self {
        Context {
            explains: true,
            ..self
        }
    }

    fn scope<'s>(&'s self, schema: &'s Schema, name: &'s TableName) -> Scope<'s> {
        Scope {
            schema: Some(schema),
            alias: name.alias.as_deref(),
            second: None,
            excluded: false,
            groups: None,
            parameters: self.parameters,
            now_us: Some(self.now_us),
            zone: self.settings.zone,
            stored_in: None,
        }
    }
}

/// Returns whether a table has a dense index. Its rows must then be inserted and removed one after
/// the other.
pub(crate) fn has_dense(schema: &Schema) -> bool {
    let dense = Some(placement::Constraint::Dense);
    schema.indexes.iter().any(|it| it.constraint == dense)
}

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod cost_tests;
#[cfg(test)]
mod drawn_tests;
#[cfg(test)]
mod grid_tests;
#[cfg(test)]
pub(crate) mod tests;
