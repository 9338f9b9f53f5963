//! The statements of the store, as the parser returns them. They have only the features of the
//! store.
//!
//! `parse` makes them from text, `plan` gives them a meaning over a configuration. Expressions
//! stay as the parser's trees, because their types depend on the table that they are about.

mod alter;
mod copy;
mod from_item;
mod named;
mod roles;

use placement::{ColumnType, Constraint, Deferral, ReferentialAction, Schema, Sequence};
use protocol::identity::{Epoch, TableId};
use protocol::operation::Mutation;
use sqlparser::ast::Expr;

pub use alter::{AlterAction, AlterTable, NewCheck, Truncate};
pub use copy::{CopyColumns, CopyDirection, CopyFormat, CopyHeader, CopyOptions, CopyStatement};
pub use from_item::FromItem;
pub use named::{FetchedRows, NamedStatement};
pub use roles::{GrantTarget, RoleName, RoleOptions, RoleStatement, Secret};

/// One statement.
#[allow(
    clippy::large_enum_variant,
    reason = "a statement is made once, by a person or a script; boxes would only be in the way"
)]
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `CREATE TABLE`, with the indexes in it and directly after it.
    CreateTable {
        /// The table.
        schema: Box<Schema>,
        /// Whether one of the same name is left as it is.
        if_not_exists: bool,
        /// The foreign keys. Their parents are in the configuration.
        references: Vec<Reference>,
        /// The columns that get sequences of their own.
        serials: Vec<SerialColumn>,
    },
    /// `CREATE SEQUENCE`.
    CreateSequence {
        /// The sequence's name.
        name: String,
        /// The options.
        options: SequenceOptions,
        /// Whether one of the same name is left as it is.
        if_not_exists: bool,
    },
    /// `ALTER SEQUENCE … RESTART`.
    RestartSequence {
        /// The sequence's name.
        name: String,
        /// The next value; none is the first one.
        restart: Option<i64>,
        /// Whether it need not exist.
        if_exists: bool,
    },
    /// `DROP SEQUENCE`.
    DropSequence {
        /// The sequences' names.
        names: Vec<String>,
        /// Whether they need not exist.
        if_exists: bool,
    },
    /// `CREATE INDEX` on its own.
    CreateIndex(CreateIndex),
    /// `DROP INDEX`.
    DropIndex {
        /// The table, if the statement names it.
        table: Option<String>,
        /// The name of the index or further copy.
        name: String,
        /// Whether it need not exist.
        if_exists: bool,
    },
    /// `ALTER INDEX … SET USING …`.
    SetUsing(SetUsing),
    /// `ALTER TABLE … SET (partitions = …)`.
    SetPartitions {
        /// The table.
        table: String,
        /// How many partitions each of its copies is to have.
        partitions: u32,
    },
    /// `ALTER TABLE … SET (failures_tolerated = …)`.
    SetFailures {
        /// The table.
        table: String,
        /// How many failures it is to survive.
        failures: u8,
    },
    /// `ALTER TABLE`, but for the options of `SET`, and `ALTER INDEX … RENAME`.
    AlterTable(AlterTable),
    /// `TRUNCATE`.
    Truncate(Truncate),
    /// `COMMENT`.
    Comment(CommentStatement),
    /// `DROP TABLE`.
    DropTable {
        /// The tables' names.
        names: Vec<String>,
        /// Whether they need not exist.
        if_exists: bool,
        /// Whether the foreign keys of other tables to them are dropped, too.
        cascade: bool,
    },
    /// `INSERT`.
    Insert(Insert),
    /// The rows of a `COPY`, encoded.
    InsertRows(NewRows),
    /// `SELECT`.
    Select(Select),
    /// `UPDATE`.
    Update(Update),
    /// `DELETE`.
    Delete(Delete),
    /// `EXPLAIN`: shows the plan of the statement without running it.
    Explain(Box<Statement>),
    /// `EXPLAIN ANALYZE`: runs the statement, and shows its plan and its work.
    ExplainAnalyze(Box<Statement>),
    /// `EXPLAIN (FORMAT JSON)`: an `EXPLAIN` or `EXPLAIN ANALYZE`, whose lines become JSON.
    ExplainAsJson(Box<Statement>),
    /// `SHOW`.
    Show(Show),
    /// `SET`.
    Set(Set),
    /// `SET` of a PostgreSQL setting to the value that it always has here.
    SetAlready,
    /// The start or the end of a transaction, or a point in it.
    Transaction(TransactionStatement),
}

/// `COMMENT ON object IS text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentStatement {
    /// The object.
    pub object: CommentName,
    /// The text; none removes the comment.
    pub text: Option<String>,
}

/// The object of a comment, as a statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommentName {
    /// A table.
    Table(String),
    /// A sequence.
    Sequence(String),
    /// An index.
    Index(String),
    /// A column of a table.
    Column {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A constraint of a table.
    Constraint {
        /// The table.
        table: String,
        /// The constraint.
        constraint: String,
    },
}

/// A foreign key to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The name, if the statement has one.
    pub name: Option<String>,
    /// The names of the columns that refer.
    pub columns: Vec<String>,
    /// The table to which they refer.
    pub parent: String,
    /// The names of its columns; empty for its primary key.
    pub parent_columns: Vec<String>,
    /// The effect of the deletion of the parent's row.
    pub on_delete: ReferentialAction,
    /// The effect of a change of the key of the parent's row.
    pub on_update: ReferentialAction,
    /// When a transaction checks it.
    pub deferral: Deferral,
}

/// A statement about the transaction of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionStatement {
    /// `BEGIN`.
    Begin(Option<TransactionMode>),
    /// `SET TRANSACTION`.
    Set(Option<TransactionMode>),
    /// `COMMIT`.
    Commit,
    /// `ROLLBACK`.
    Rollback,
    /// `SAVEPOINT`. Contains its name.
    Savepoint(String),
    /// `RELEASE SAVEPOINT`. Contains its name.
    Release(String),
    /// `ROLLBACK TO SAVEPOINT`. Contains its name.
    RollbackTo(String),
    /// `SET CONSTRAINTS`.
    SetConstraints(SetConstraints),
}

/// `SET CONSTRAINTS`: when the transaction checks its foreign keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetConstraints {
    /// The names of the constraints; empty is all that are deferrable.
    pub names: Vec<String>,
    /// Whether only the commit checks them.
    pub deferred: bool,
}

/// Whether a transaction can write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionMode {
    /// It reads and writes. Every isolation level is serializable.
    #[default]
    ReadWrite,
    /// It reads one state.
    ReadOnly,
}

impl Statement {
    /// Returns the table whose rows the statement reads; none if it reads none.
    pub(crate) fn read_table(&self) -> Option<&str> {
        let table = match self {
            Statement::Select(select) => select.table.as_ref()?,
            Statement::Update(update) => &update.table,
            Statement::Delete(delete) => &delete.table,
            _ => return None,
        };
        Some(&table.name)
    }

    /// Returns whether the statement changes tables, sequences or indexes. Such a change takes
    /// effect at once, also in a transaction.
    pub fn defines(&self) -> bool {
        matches!(
            self,
            Statement::CreateTable { .. }
                | Statement::CreateIndex(_)
                | Statement::DropIndex { .. }
                | Statement::SetUsing(_)
                | Statement::SetPartitions { .. }
                | Statement::SetFailures { .. }
                | Statement::CreateSequence { .. }
                | Statement::RestartSequence { .. }
                | Statement::DropSequence { .. }
                | Statement::AlterTable(_)
                | Statement::Truncate(_)
                | Statement::Comment(_)
                | Statement::DropTable { .. }
        )
    }

    /// Returns the expressions of a change after `RETURNING`, and the table.
    pub(crate) fn returning(&self) -> Option<(&TableName, &[SelectItem])> {
        let (table, items) = match self {
            Statement::Insert(insert) => (&insert.table, &insert.returning),
            Statement::Update(update) => (&update.table, &update.returning),
            Statement::Delete(delete) => (&delete.table, &delete.returning),
            _ => return None,
        };
        (!items.is_empty()).then_some((table, items))
    }

    /// Returns the further table of an `UPDATE … FROM` or a `DELETE … USING`.
    pub(crate) fn further_table(&self) -> Option<&FromItem> {
        match self {
            Statement::Update(update) => update.from.as_ref(),
            Statement::Delete(delete) => delete.using.as_ref(),
            _ => None,
        }
    }

    /// Returns whether the statement must run in a transaction: it changes rows by those of a
    /// further table, or it returns what only a transaction can show, a row as it was changed or
    /// removed. The new row of an insert is known before.
    pub(crate) fn needs_transaction(&self) -> bool {
        match self {
            Statement::ExplainAnalyze(explained) | Statement::ExplainAsJson(explained) => {
                explained.needs_transaction()
            }
            Statement::Insert(insert) => {
                let on_conflict = insert.on_conflict.as_ref();
                let updates = on_conflict.is_some_and(|it| it.update.is_some());
                updates && !insert.returning.is_empty()
            }
            statement => statement.returning().is_some() || statement.further_table().is_some(),
        }
    }
}

/// Another kind for an existing index: a thin index becomes a copy, or a copy a thin index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetUsing {
    /// The table, if the statement names it.
    pub table: Option<String>,
    /// The name of the index.
    pub name: String,
    /// The kind that it gets. Its columns, their directions and its condition stay as they are.
    pub kind: IndexKind,
}

/// An index or a further copy to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateIndex {
    /// The index's name. If the statement has none, it is made from the table and the columns.
    pub name: String,
    /// The table.
    pub table: String,
    /// The names in the parentheses: columns; indexes for hybrids and replicas.
    pub names: Vec<String>,
    /// The index's kind.
    pub kind: IndexKind,
    /// Whether an existing one with the same name is kept.
    pub if_not_exists: bool,
}

/// The kind of an index after `USING`. Numbers are as in the statement; none if it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// A thin index: entries sorted by columns, and no copy.
    Thin {
        /// The directions of the columns.
        directions: Vec<Direction>,
        /// The columns that entries have beside those of the key.
        included: Vec<String>,
        /// Whether ranges of the order divide it; otherwise the hash of the key does. None is the
        /// usual one of both: the hash if it is unique.
        by_range: Option<bool>,
        /// Whether no two rows may have the same key.
        unique: bool,
        /// How often the entries are kept, at least once. None is as often as before, or once.
        copies: Option<u8>,
    },
    /// `replex (columns)`: a copy sorted by columns.
    Sorted {
        /// The condition that the index imposes on the rows.
        constraint: Option<Constraint>,
        /// The columns by which it is partitioned; none is all that it is sorted by.
        partition_by: Vec<String>,
        /// Whether ranges of the order divide it; otherwise a hash does.
        by_range: bool,
    },
    /// `hybrid (indexes)`: one copy for these indexes.
    Hybrid {
        /// For each index, into how many it is cut.
        divisions: Vec<u32>,
    },
    /// `hybrids_between (index, index)`: copies from one index to the other.
    HybridsBetween {
        /// One more than hybrids.
        factors: Vec<u32>,
    },
    /// `replica (index)`: a second copy with the same partitions and order.
    Replica,
    /// `hyperspace (columns)`: a copy with one axis per column.
    Hyperspace {
        /// For each column, into how many it is cut.
        divisions: Vec<u32>,
    },
}

/// The direction of a column of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Whether the column is sorted from large to small.
    pub descending: bool,
    /// Whether NULLs come first.
    pub nulls_first: bool,
}

impl IndexKind {
    /// Returns the name of this kind of copy after `USING`.
    pub fn using(&self) -> &'static str {
        match self {
            IndexKind::Thin { .. } => "btree",
            IndexKind::Sorted { .. } => "replex",
            IndexKind::Hybrid { .. } => "hybrid",
            IndexKind::HybridsBetween { .. } => "hybrids_between",
            IndexKind::Replica => "replica",
            IndexKind::Hyperspace { .. } => "hyperspace",
        }
    }
}

impl std::fmt::Display for CreateIndex {
    /// Writes the index as in a statement: `by_route (origin, dest)`, `h USING hybrid (flights,
    /// by_tail)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.names.join(", ");
        match &self.kind {
            IndexKind::Thin { .. } | IndexKind::Sorted { .. } => {
                write!(f, "{} ({names})", self.name)
            }
            kind => write!(f, "{} USING {} ({names})", self.name, kind.using()),
        }
    }
}

/// A column that gets a sequence of its own. The column's default has the name of the sequence,
/// unless it is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerialColumn {
    /// The position of the column.
    pub column: usize,
    /// The rules of the sequence.
    pub rules: Sequence,
    /// Whether the statement has given the name of the sequence.
    pub is_named: bool,
}

/// The options of a sequence, as far as a statement has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceOptions {
    /// `AS`.
    pub value_type: Option<ColumnType>,
    /// `INCREMENT BY`.
    pub increment: Option<i64>,
    /// `MINVALUE`; none within is `NO MINVALUE`.
    pub min: Option<Option<i64>>,
    /// `MAXVALUE`; none within is `NO MAXVALUE`.
    pub max: Option<Option<i64>>,
    /// `START WITH`.
    pub start: Option<i64>,
    /// `RESTART WITH`; none within is without a value.
    pub restart: Option<Option<i64>>,
    /// `CACHE`.
    pub cache: Option<i64>,
    /// `CYCLE` or `NO CYCLE`.
    pub cycles: Option<bool>,
    /// `OWNED BY` a table and a column; none within is `OWNED BY NONE`.
    pub owner: Option<Option<(String, String)>>,
    /// `SEQUENCE NAME`, of an identity column.
    pub name: Option<String>,
}

/// `OVERRIDING … VALUE` of an `INSERT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overriding {
    /// Values for identity columns are taken, also for `GENERATED ALWAYS`.
    System,
    /// Values for identity columns are ignored.
    User,
}

/// The table of a statement, and its alias in the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// The table's name.
    pub name: String,
    /// The alias that qualifies the table's columns; none if the table's own name does.
    pub alias: Option<String>,
}

/// New rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// The table.
    pub table: TableName,
    /// The columns in the statement, in its order; none is all.
    pub columns: Option<Vec<String>>,
    /// `OVERRIDING … VALUE`.
    pub overriding: Option<Overriding>,
    /// One list of values per row; none is `DEFAULT`. There are none before the `SELECT` was read.
    pub rows: Vec<Vec<Option<Expr>>>,
    /// The `SELECT` that returns the rows; none if the statement has them.
    pub select: Option<Box<Select>>,
    /// The action if the primary key exists already.
    pub on_conflict: Option<OnConflict>,
    /// The expressions after `RETURNING`, over the row as it is then, or the removed one.
    pub returning: Vec<SelectItem>,
}

/// New rows that are encoded already.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRows {
    /// The table. Another one of the same name would have other columns.
    pub table: TableId,
    /// The epoch of the configuration by which the rows were encoded.
    pub planned: Epoch,
    /// The table's name, for errors.
    pub name: String,
    /// The insertions, at most as many as a transaction takes.
    pub rows: Vec<Mutation>,
}

/// The action for a row whose primary key exists already.
#[derive(Clone, Debug, PartialEq)]
pub struct OnConflict {
    /// The conflict columns in the statement, if there are any.
    pub target: Option<Vec<String>>,
    /// The update; none is `DO NOTHING`.
    pub update: Option<ConflictUpdate>,
}

/// `DO UPDATE SET … WHERE …`
#[derive(Clone, Debug, PartialEq)]
pub struct ConflictUpdate {
    /// The new values of columns.
    pub assignments: Vec<SetColumn>,
    /// The condition of the update.
    pub condition: Option<Expr>,
}

/// A `SELECT` statement, as parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// The table; none computes from constants alone.
    pub table: Option<TableName>,
    /// The output expressions.
    pub items: Vec<SelectItem>,
    /// Whether equal rows of the result are returned once.
    pub distinct: bool,
    /// The condition on the rows.
    pub filter: Option<Expr>,
    /// The values by which the rows are grouped: columns, names or numbers of outputs, expressions.
    pub group_by: Vec<Expr>,
    /// The condition on the groups.
    pub having: Option<Expr>,
    /// The order of the rows.
    pub order: Vec<OrderItem>,
    /// Whether it has `FOR UPDATE` or the like. It locks no row, but needs the right to.
    pub locks: bool,
    /// The most rows to return.
    pub limit: Option<Expr>,
    /// The number of rows to skip first.
    pub offset: Option<Expr>,
    /// Whether the statement requests a scan.
    pub scan: bool,
}

/// One item after `SELECT`.
#[allow(
    clippy::large_enum_variant,
    reason = "a statement is made once, by a person or a script; boxes would only be in the way"
)]
#[derive(Clone, Debug, PartialEq)]
pub enum SelectItem {
    /// All columns.
    All,
    /// All columns of one of the two tables of a change. Contains the table's name or alias.
    AllOf(String),
    /// All columns but the generated ones: those that a `COPY` of a table has.
    AllButGenerated,
    /// An expression with this name.
    Expression {
        /// The expression to compute.
        expression: Expr,
        /// The output's name.
        name: String,
        /// Whether the statement gave the name, so that `ORDER BY` may use it.
        named: bool,
    },
}

/// A function over the rows of a group. It ignores NULLs, except for an array of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// The number of values, or of rows.
    Count,
    /// The smallest value; NULL if there is none.
    Min,
    /// The largest value; NULL if there is none.
    Max,
    /// The sum of the values; NULL if there is none.
    Sum,
    /// The mean of the values; NULL if there is none.
    Avg,
    /// Whether all values are true; NULL if there is none.
    BoolAnd,
    /// Whether some value is true; NULL if there is none.
    BoolOr,
    /// All values as an array, with those that are NULL; NULL if there is none.
    ArrayAgg,
    /// All texts, with a separator between them; NULL if there is none.
    StringAgg,
}

impl AggregateFunction {
    /// All functions, by their names in SQL.
    pub const NAMES: [(&str, AggregateFunction); 10] = [
        ("count", AggregateFunction::Count),
        ("min", AggregateFunction::Min),
        ("max", AggregateFunction::Max),
        ("sum", AggregateFunction::Sum),
        ("avg", AggregateFunction::Avg),
        ("bool_and", AggregateFunction::BoolAnd),
        ("every", AggregateFunction::BoolAnd),
        ("bool_or", AggregateFunction::BoolOr),
        ("array_agg", AggregateFunction::ArrayAgg),
        ("string_agg", AggregateFunction::StringAgg),
    ];

    /// Returns the name in SQL.
    pub fn name(self) -> &'static str {
        let mut names = AggregateFunction::NAMES.into_iter();
        let found = names.find(|(_, function)| *function == self);
        found.expect("each function has a name").0
    }
}

/// One item after `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderItem {
    /// A column, the name or number of an output, or an expression.
    pub expression: Expr,
    /// Whether to sort from the largest to the smallest.
    pub descending: bool,
    /// Whether NULLs come first, if the statement says so.
    pub nulls_first: Option<bool>,
}

/// `column = value` after `SET`.
#[derive(Clone, Debug, PartialEq)]
pub struct SetColumn {
    /// The column's name.
    pub column: String,
    /// The column's new value; none is `DEFAULT`.
    pub value: Option<Expr>,
}

/// Changes of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The table.
    pub table: TableName,
    /// The new values of columns.
    pub assignments: Vec<SetColumn>,
    /// The further table after `FROM`.
    pub from: Option<FromItem>,
    /// The condition on the rows.
    pub filter: Option<Expr>,
    /// Whether the statement requests a scan.
    pub scan: bool,
    /// The expressions after `RETURNING`, over the row as it is then, or the removed one.
    pub returning: Vec<SelectItem>,
}

/// Removals of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// The table.
    pub table: TableName,
    /// The further table after `USING`.
    pub using: Option<FromItem>,
    /// The condition on the rows.
    pub filter: Option<Expr>,
    /// Whether the statement requests a scan.
    pub scan: bool,
    /// The expressions after `RETURNING`, over the row as it is then, or the removed one.
    pub returning: Vec<SelectItem>,
}

/// The subject of a `SHOW`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Show {
    /// All tables.
    Tables,
    /// One table's columns and indexes.
    Table(String),
    /// The ranges of a table's thin indexes.
    IndexRanges(String),
    /// The servers.
    Servers,
    /// A setting of the session.
    Setting(Setting),
    /// A PostgreSQL setting with a fixed value.
    Fixed(FixedSetting),
}

/// The default of `scan_rows`.
pub const SCAN_ROWS: u64 = 100_000;

/// A setting of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `scan`: statements that no index serves may read tables of any size.
    Scan,
    /// `scan_rows`: otherwise such statements may read tables with at most this many rows.
    ScanRows,
    /// `stale_reads`: reads do not wait for operations in progress (R10).
    StaleReads,
}

/// A PostgreSQL setting with a fixed value here. Clients set it when they connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedSetting {
    /// The setting's name.
    pub name: &'static str,
    /// The setting's value, as `SHOW` reports it.
    pub value: &'static str,
    /// Other spellings of the value, in lower case.
    spellings: &'static [&'static str],
    /// The consequence of the fixed value for the user.
    pub remedy: &'static str,
}

impl FixedSetting {
    /// All fixed settings.
    pub const ALL: [FixedSetting; 4] = [
        FixedSetting {
            name: "timezone",
            value: "UTC",
            spellings: &["gmt", "etc/utc", "zulu", "0"],
            remedy: "timestamps have no zone and now() is in UTC: convert times in the application",
        },
        FixedSetting {
            name: "client_encoding",
            value: "UTF8",
            spellings: &["utf-8", "unicode"],
            remedy: "write and read UTF-8",
        },
        FixedSetting {
            name: "datestyle",
            value: "ISO, MDY",
            spellings: &["iso"],
            remedy: "write timestamps as 2013-01-01 05:15:00",
        },
        FixedSetting {
            name: "standard_conforming_strings",
            value: "on",
            spellings: &["true", "1", "yes"],
            remedy: "write e'…' where a backslash escapes",
        },
    ];

    /// Returns whether a string is a spelling of the setting's fixed value, or `default`.
    pub fn is(&self, text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        let known = [self.value.to_ascii_lowercase(), "default".to_string()];
        known.contains(&text) || self.spellings.contains(&text.as_str())
    }
}

/// `SET setting = value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// `scan`.
    Scan(bool),
    /// `scan_rows`.
    ScanRows(u64),
    /// `stale_reads`.
    StaleReads(bool),
}

impl Setting {
    /// All settings.
    pub const ALL: [Setting; 3] = [Setting::Scan, Setting::ScanRows, Setting::StaleReads];

    /// Returns the name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Setting::Scan => "scan",
            Setting::ScanRows => "scan_rows",
            Setting::StaleReads => "stale_reads",
        }
    }
}
