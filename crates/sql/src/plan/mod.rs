//! The meaning of a statement over a configuration: pure, so that it can be tested without a
//! cluster.
//!
//! A plan names the partitions of a replex to read, their filters, and the mutations to send. It
//! holds no promise: if the configuration has moved on, the client notices (R15) and the statement
//! is planned again.

mod access;
mod access_path;
mod change;
mod explain;
mod facts;
mod hyperspace;
mod insert;
mod select;
pub(crate) mod text;

use placement::{ColumnType, Schema, Value};
use protocol::configuration::{Configuration, PlacedTable};
use protocol::expression::{self, Assignment, Expression, ExpressionError, Scope as Names};
use protocol::identity::TableId;
use protocol::operation::Mutation;

pub use access::{Access, AccessKind, KEYS_MAX, Segment, ValueRange};
pub(crate) use access_path::too_large;
pub use facts::RangeEnd;
pub(crate) use insert::{default_value, encode};
pub(crate) use select::whole_table;

use crate::bind::Scope;
use crate::error::SqlError;
use crate::parse::with_index;
use crate::statement::{CreateIndex, SCAN_ROWS, Set, Show, Statement, TableName};

/// Settings of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// Whether statements that no index serves may read whole tables, however large.
    pub scan: bool,
    /// How many rows a table may have that they read unasked.
    pub scan_rows: u64,
    /// Whether reads may miss operations under way (R10).
    pub stale_reads: bool,
}

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        SessionSettings {
            scan: false,
            scan_rows: SCAN_ROWS,
            stale_reads: false,
        }
    }
}

/// The context in which a statement is planned.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Tables and servers.
    pub configuration: &'a Configuration,
    /// The session's.
    pub settings: SessionSettings,
    /// Values of `$1`, `$2`, …; a text may stand for any type.
    pub parameters: &'a [Value],
    /// The value of `now()`, in microseconds since 1970 UTC.
    pub now_us: i64,
}

/// How a statement is done.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementPlan {
    /// Asks the coordinator for a table.
    CreateTable {
        /// The table; valid on its own.
        schema: Box<Schema>,
        /// Whether one of the same name is left as it is.
        if_not_exists: bool,
    },
    /// Asks the coordinator for another copy of a table.
    AddIndex {
        /// The table with it; valid on its own.
        wanted: Box<Schema>,
        /// Its name.
        name: String,
    },
    /// Asks the coordinator to drop a copy of a table.
    DropIndex {
        /// The table.
        table: String,
        /// The copy.
        name: String,
        /// Whether it need not exist.
        if_exists: bool,
    },
    /// Asks the coordinator to cut the copies of a table into another number of partitions.
    SetPartitions {
        /// The table.
        table: String,
        /// How many.
        partitions: u32,
    },
    /// Asks the coordinator to drop a table.
    DropTable {
        /// Its name.
        name: String,
        /// Whether it need not exist.
        if_exists: bool,
    },
    /// Sends new rows.
    Insert(InsertPlan),
    /// Reads.
    Select(Box<SelectPlan>),
    /// Changes or removes rows.
    Change(ChangePlan),
    /// Returns these lines.
    Explain(Vec<String>),
    /// Returns rows about tables, servers or settings.
    Show(Show),
    /// Changes a setting.
    Set(Set),
    /// Sets a setting to its only value.
    SetAlready,
    /// The requested state exists already. Contains its description.
    Already(String),
}

/// Rows of one table, read from one replex.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadPlan {
    /// The table.
    pub table: TableId,
    /// Where to read.
    pub access: Access,
    /// The bound of the read, because no index serves it and no scan is asked for.
    pub unasked: Option<UnaskedScan>,
    /// The condition that the partitions check; none is none.
    pub filter: Option<Expression>,
    /// The columns that the partitions send, rising; none is all.
    pub projection: Option<Vec<u16>>,
    /// From the last key to the first.
    pub descending: bool,
}

/// A read that no index serves and for which no scan is asked: of a small table only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnaskedScan {
    /// How many rows the table may have. With more, the read is refused.
    pub rows_max: u64,
    /// How many rows the statement reads, by its `LIMIT` and `OFFSET`; none is the whole table.
    pub rows_wanted: Option<u64>,
}

/// A `SELECT`.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectPlan {
    /// The read; none computes one row from constants.
    pub read: Option<ReadPlan>,
    /// The expressions to return for each row, over the columns that were read.
    pub items: Vec<OutputItem>,
    /// Whether one row with their number is returned instead.
    pub count: bool,
    /// The order of rows; empty is any.
    pub order: Vec<SortKey>,
    /// Whether each segment of the read comes in that order already.
    pub ordered_by_index: bool,
    /// How many at most.
    pub limit: Option<u64>,
    /// How many to leave out first.
    pub offset: u64,
}

/// One column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputItem {
    /// Its name.
    pub name: String,
    /// Its value, over the columns that were read.
    pub expression: Expression,
    /// Its type; none where it is always NULL.
    pub column_type: Option<ColumnType>,
}

/// One part of an order.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// The value, over the columns that were read.
    pub expression: Expression,
    /// From the largest to the smallest.
    pub descending: bool,
    /// Where NULLs go.
    pub nulls_first: bool,
}

/// An `INSERT`: one mutation per row, each an operation of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct InsertPlan {
    /// The table.
    pub table: TableId,
    /// In the order of the statement.
    pub mutations: Vec<Mutation>,
    /// Whether each waits for the one before it: a dense index takes its values in order, and of
    /// rows that share a unique key the first one stays.
    pub in_order: bool,
    /// The duplicates that leave a row out.
    pub left_out: SkippedDuplicates,
}

/// Which duplicates leave a row out, where others are errors. Of the primary key, an
/// [`Action::InsertOrKeep`](protocol::operation::Action) leaves it out on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkippedDuplicates {
    /// None.
    Nothing,
    /// Violations of the unique index that this replex, by its number, is.
    By(usize),
    /// Violations of any unique index.
    ByAny,
}

impl SkippedDuplicates {
    /// Returns whether a duplicate that this replex found leaves the row out.
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
    /// Which rows.
    pub target: ChangeTarget,
    /// The condition for a row when it is changed, checked atomically by its primary partition.
    pub condition: Option<Expression>,
    /// Whether each waits for the one before it: a dense index takes its values in order.
    pub in_order: bool,
}

/// The kind of change of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeKind {
    /// New values.
    Update(Vec<Assignment>),
    /// It goes.
    Delete,
}

/// Which rows are changed.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeTarget {
    /// Those with these memcomparable primary keys.
    Keys(Vec<Vec<u8>>),
    /// The rows that a read of the primary key's columns finds, in the order of the schema.
    Rows(Box<ReadPlan>),
}

/// Gives a statement its meaning.
pub fn plan(statement: &Statement, context: &Context<'_>) -> Result<StatementPlan, SqlError> {
    match statement {
        Statement::CreateTable {
            schema,
            if_not_exists,
        } => {
            schema.validate()?;
            Ok(StatementPlan::CreateTable {
                schema: schema.clone(),
                if_not_exists: *if_not_exists,
            })
        }
        Statement::CreateIndex(index) => create_index(index, context),
        Statement::DropIndex {
            table,
            name,
            if_exists,
        } => drop_index(table.as_deref(), name, *if_exists, context),
        Statement::SetPartitions { table, partitions } => {
            context.table(table)?;
            Ok(StatementPlan::SetPartitions {
                table: table.clone(),
                partitions: *partitions,
            })
        }
        Statement::DropTable { name, if_exists } => Ok(StatementPlan::DropTable {
            name: name.clone(),
            if_exists: *if_exists,
        }),
        Statement::Insert(statement) => insert::plan(statement, context).map(StatementPlan::Insert),
        Statement::Select(statement) => {
            let plan = select::plan(statement, context)?;
            if let Some(read) = &plan.read {
                check_size(read.table, read.filter.as_ref(), context)?;
            }
            Ok(StatementPlan::Select(Box::new(plan)))
        }
        Statement::Update(_) | Statement::Delete(_) => {
            let plan = match statement {
                Statement::Update(statement) => change::update(statement, context)?,
                Statement::Delete(statement) => change::delete(statement, context)?,
                _ => unreachable!("one of the two"),
            };
            check_size(plan.table, plan.condition.as_ref(), context)?;
            Ok(StatementPlan::Change(plan))
        }
        Statement::Explain(statement) => {
            let lines = explain::lines(&plan(statement, context)?, context);
            Ok(StatementPlan::Explain(lines))
        }
        Statement::Show(Show::Table(name)) => {
            context.table(name)?;
            Ok(StatementPlan::Show(Show::Table(name.clone())))
        }
        Statement::Show(show) => Ok(StatementPlan::Show(show.clone())),
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
        return Err(SqlError::statement(format!(
            "table {} has an index {} already: choose another name, or write IF NOT EXISTS",
            index.table, index.name
        )));
    }
    Ok(StatementPlan::AddIndex {
        wanted: Box::new(with_index(&table.schema, index)?),
        name: index.name.clone(),
    })
}

/// Refuses a condition that the partitions would refuse, though each part of it is allowed.
fn check_size(
    table: TableId,
    condition: Option<&Expression>,
    context: &Context<'_>,
) -> Result<(), SqlError> {
    let table = context.configuration.table(table);
    let columns = &table.expect("it was planned over").schema.columns;
    let checked = condition.map(|it| expression::check_condition(it, columns, Names::Row));
    match checked {
        Some(Err(error @ (ExpressionError::TooCostly | ExpressionError::TooDeep))) => {
            let text = "WHERE".to_string();
            Err(SqlError::Expression { text, error })
        }
        _ => Ok(()),
    }
}

/// Finds the table whose index is to be dropped, where the statement does not name it.
fn drop_index(
    table: Option<&str>,
    name: &str,
    if_exists: bool,
    context: &Context<'_>,
) -> Result<StatementPlan, SqlError> {
    let tables = context.configuration.tables.iter();
    let holds = |it: &&PlacedTable| {
        let mut replexes = it
            .layout
            .numbers()
            .map(|number| &it.layout.replexes[number]);
        replexes.any(|replex| replex.name == name || it.schema.copy_of(&replex.name) == name)
    };
    let holders: Vec<&str> = match table {
        Some(table) => vec![context.table(table)?.schema.name.as_str()],
        None => tables
            .filter(holds)
            .map(|it| it.schema.name.as_str())
            .collect(),
    };
    match holders[..] {
        [table] => Ok(StatementPlan::DropIndex {
            table: table.to_string(),
            name: name.to_string(),
            if_exists,
        }),
        [] if if_exists => Ok(StatementPlan::Already(format!("there is no index {name}"))),
        [] => Err(SqlError::statement(format!("there is no index {name}"))),
        _ => Err(SqlError::statement(format!(
            "tables {} have an index {name}: write DROP INDEX {name} ON table",
            holders.join(", ")
        ))),
    }
}

impl<'a> Context<'a> {
    /// Returns the table of this name.
    pub(crate) fn table(&self, name: &str) -> Result<&'a PlacedTable, SqlError> {
        let tables = &self.configuration.tables;
        self.configuration
            .table_named(name)
            .ok_or_else(|| SqlError::UnknownTable {
                table: name.to_string(),
                tables: tables.iter().map(|it| it.schema.name.clone()).collect(),
            })
    }

    fn scope<'s>(&'s self, schema: &'s Schema, name: &'s TableName) -> Scope<'s> {
        Scope {
            schema: Some(schema),
            alias: name.alias.as_deref(),
            excluded: false,
            parameters: self.parameters,
            now_us: Some(self.now_us),
        }
    }
}

/// Returns whether rows of this table must come and go one after the other.
pub(crate) fn has_dense(schema: &Schema) -> bool {
    let dense = Some(placement::Constraint::Dense);
    schema.indexes.iter().any(|it| it.constraint == dense)
}

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod drawn_tests;
#[cfg(test)]
mod grid_tests;
#[cfg(test)]
mod tests;
