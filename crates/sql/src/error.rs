//! The errors of statements, with messages that tell a person how to fix the statement.
//!
//! Each variant names the thing and the remedy. A refusal by the store is returned as
//! [`SqlError::Store`], with the client's message. The rest was found before anything was sent,
//! unless the variant's comment differs.

use std::fmt;

use placement::{KeyError, RowError, SchemaError, ValueError, check_violation_text};
use protocol::expression::ExpressionError;

/// A statement that failed, or was not completed.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlError {
    /// The statement is not valid in this dialect of SQL.
    Syntax(SyntaxError),
    /// PostgreSQL supports the statement, but the store does not.
    Unsupported {
        /// The requested feature.
        what: String,
        /// The alternative.
        remedy: String,
    },
    /// No table has this name.
    UnknownTable {
        /// The name.
        table: String,
        /// The tables that there are.
        tables: Vec<String>,
    },
    /// The table has no column of this name.
    UnknownColumn {
        /// The table.
        table: String,
        /// The name.
        column: String,
        /// The columns that there are.
        columns: Vec<String>,
    },
    /// The schema is invalid.
    Schema(SchemaError),
    /// A literal is not of the required type.
    Literal {
        /// The target of the literal, as `column id of table t`; empty if the type was written with
        /// the literal.
        place: String,
        /// The fault of the literal.
        error: ValueError,
    },
    /// An expression has no type or no value.
    Expression {
        /// The expression as SQL.
        text: String,
        /// Why it has none.
        error: ExpressionError,
    },
    /// A row cannot be stored.
    Row {
        /// The table.
        table: String,
        /// Which row of the statement, from 1.
        row: usize,
        /// Why not.
        error: RowError,
    },
    /// A key cannot be stored.
    Key {
        /// The table.
        table: String,
        /// Which row of the statement, from 1.
        row: usize,
        /// Why not.
        error: KeyError,
    },
    /// No index serves the statement, and the table is too large to be read without permission.
    NoIndex {
        /// The table.
        table: String,
        /// The table has more rows than this limit.
        rows_max: u64,
        /// How many rows the statement reads by its `LIMIT` and `OFFSET`; none is all.
        rows_wanted: Option<u64>,
        /// The table's indexes, as `by_tail (tailnum)`.
        indexes: Vec<String>,
        /// The table's hyperspaces, as `s (origin, dest)`.
        hyperspaces: Vec<String>,
    },
    /// The statement changes a column of the primary key, which is not allowed.
    PrimaryKeyChange {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A row with this key exists. For a statement of several rows, `done` has the outcome of the
    /// others.
    Duplicate {
        /// The table.
        table: String,
        /// The index that refused it: `primary key` or its name, with columns and values.
        key: String,
        /// The completed part of the statement.
        done: StatementProgress,
    },
    /// A dense index lacks the preceding value.
    NotDense {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// The only value that an insert may have; a delete may take the one before it.
        expected: i64,
        /// The completed part of the statement.
        done: StatementProgress,
    },
    /// The row cannot take the change. Contains the reason and the remedy.
    Invalid {
        /// The table.
        table: String,
        /// For people.
        message: String,
        /// The completed part of the statement.
        done: StatementProgress,
    },
    /// The row would violate a CHECK constraint (SQLSTATE 23514).
    CheckFailed {
        /// The table.
        table: String,
        /// The constraint.
        constraint: String,
        /// The completed part of the statement.
        done: StatementProgress,
    },
    /// Rows violate a CHECK constraint that is added or validated (SQLSTATE 23514).
    RowsViolateCheck {
        /// The table.
        table: String,
        /// The constraint.
        constraint: String,
    },
    /// A foreign key would be violated (SQLSTATE 23503).
    ForeignKey {
        /// The violation.
        violation: Box<ForeignKeyViolation>,
        /// The completed part of the statement.
        done: StatementProgress,
    },
    /// Other operations held the row for too long. The row was not changed: run the statement
    /// again.
    Conflict {
        /// The table.
        table: String,
        /// The completed part of the statement.
        done: StatementProgress,
    },
    /// Another operation has changed what the transaction has used, or was in its way. Nothing was
    /// changed: begin the transaction again (SQLSTATE 40001). Contains the table and, if known, the
    /// key.
    Serialization {
        /// For people.
        message: String,
    },
    /// The statement does not fit the state of the session's transaction. Contains the error and
    /// the remedy.
    Transaction {
        /// The kind of the fault, for programs.
        fault: TransactionFault,
        /// For people.
        message: String,
    },
    /// The parts of the statement do not fit together. Contains the error and the remedy.
    Statement {
        /// The SQLSTATE that PostgreSQL has for such a statement.
        sqlstate: &'static str,
        /// For people.
        message: String,
    },
    /// An error of the client or the store, in its own words.
    Store {
        /// For people: the event, its object, and the remedy.
        message: String,
        /// Whether the change may have happened all the same (R14).
        unknown: bool,
        /// The completed part of the statement.
        done: StatementProgress,
    },
}

/// The violation of a foreign key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKeyViolation {
    /// The table whose rows refer to others.
    pub table: String,
    /// The foreign key.
    pub constraint: String,
    /// For people: which foreign key of which table.
    pub message: String,
    /// For people: which key.
    pub detail: String,
}

/// Why a statement does not fit the state of the session's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionFault {
    /// A statement of the transaction has failed, so that only a rollback is possible.
    Failed,
    /// The transaction is `READ ONLY`, and the statement changes rows.
    ReadOnly,
    /// No transaction is open.
    NotOpen,
    /// The transaction has no savepoint of this name.
    NoSavepoint,
    /// The statement changes a table, or comes too late, so that it cannot run in the open
    /// transaction.
    Open,
    /// Another limit of transactions.
    Limit,
}

/// The part of a statement of many rows that was completed before it stopped. Each row is a
/// separate operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatementProgress {
    /// The number of changed rows.
    pub done: usize,
    /// The number of rows to change; 1 for most statements.
    pub of: usize,
}

/// A syntax error, with its position in the SQL string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The expected token and the found token.
    pub message: String,
    /// The line number, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The content of the line.
    pub source: String,
}

impl SqlError {
    /// Returns the error for a table that was dropped while the statement ran.
    pub(crate) fn dropped_meanwhile(table: &str) -> SqlError {
        let message = format!("table {table} was dropped meanwhile");
        SqlError::with_state(sqlstate::UNDEFINED_TABLE, message)
    }

    /// Returns the error for SQL that the store does not support.
    pub(crate) fn unsupported(what: impl Into<String>, remedy: impl Into<String>) -> SqlError {
        SqlError::Unsupported {
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// Returns the error for a statement that is beyond a limit of the session's transaction.
    pub(crate) fn transaction(message: impl Into<String>) -> SqlError {
        SqlError::fault(TransactionFault::Limit, message)
    }

    /// Returns the error for a statement that does not fit the session's transaction.
    pub(crate) fn fault(fault: TransactionFault, message: impl Into<String>) -> SqlError {
        SqlError::Transaction {
            fault,
            message: message.into(),
        }
    }

    /// Returns whether the session's role lacks a privilege.
    pub(crate) fn is_denial(&self) -> bool {
        matches!(
            self,
            SqlError::Statement {
                sqlstate: sqlstate::INSUFFICIENT_PRIVILEGE,
                ..
            }
        )
    }

    /// Returns the error for a statement whose parts do not fit together.
    pub(crate) fn statement(message: impl Into<String>) -> SqlError {
        SqlError::with_state(sqlstate::STATEMENT, message)
    }

    /// Returns the error for a statement for which PostgreSQL has this SQLSTATE.
    pub(crate) fn with_state(sqlstate: &'static str, message: impl Into<String>) -> SqlError {
        SqlError::Statement {
            sqlstate,
            message: message.into(),
        }
    }
}

/// The SQLSTATEs of [`SqlError::Statement`].
pub mod sqlstate {
    /// The statement breaks a rule that has no SQLSTATE of its own.
    pub const STATEMENT: &str = "42000";
    /// The parts of the statement do not fit together.
    pub const SYNTAX: &str = "42601";
    /// PostgreSQL refuses this, too.
    pub const UNSUPPORTED: &str = "0A000";
    /// A column that does not allow NULL has NULL in a row.
    pub const NOT_NULL: &str = "23502";
    /// A column is named twice.
    pub const DUPLICATE_COLUMN: &str = "42701";
    /// Two tables have a column of this name.
    pub const AMBIGUOUS_COLUMN: &str = "42702";
    /// Two tables of the statement have the same name.
    pub const DUPLICATE_ALIAS: &str = "42712";
    /// A constraint of this name exists.
    pub const DUPLICATE_OBJECT: &str = "42710";
    /// A table or an index of this name exists.
    pub const DUPLICATE_TABLE: &str = "42P07";
    /// There is no table of this name, or it is not part of the statement.
    pub const UNDEFINED_TABLE: &str = "42P01";
    /// A privilege is none of the object's kind.
    pub const INVALID_GRANT: &str = "0LP01";
    /// The role of the session lacks a privilege.
    pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
    /// There is no index, setting or option of this name.
    pub const UNDEFINED_OBJECT: &str = "42704";
    /// There is no such parameter.
    pub const UNDEFINED_PARAMETER: &str = "42P02";
    /// A clause names what it cannot name, or is no constant where only one may stand.
    pub const INVALID_REFERENCE: &str = "42P10";
    /// There is no column of this name.
    pub const UNDEFINED_COLUMN: &str = "42703";
    /// The definition of a table is invalid.
    pub const INVALID_DEFINITION: &str = "42P16";
    /// The definition of an object is invalid.
    pub const INVALID_OBJECT: &str = "42P17";
    /// The columns of a foreign key do not fit those to which they refer.
    pub const INVALID_FOREIGN_KEY: &str = "42830";
    /// A cursor or a sequence cannot do this in its state.
    pub const NOT_IN_STATE: &str = "55000";
    /// There is no function of this name that takes arguments of these types.
    pub const UNDEFINED_FUNCTION: &str = "42883";
    /// An aggregate where none may stand.
    pub const GROUPING: &str = "42803";
    /// Types do not fit together.
    pub const TYPE_MISMATCH: &str = "42804";
    /// The type of an expression cannot be determined.
    pub const INDETERMINATE_TYPE: &str = "42P18";
    /// A value cannot become one of another type.
    pub const CANNOT_CAST: &str = "42846";
    /// Other tables refer to the table.
    pub const DEPENDENT_OBJECTS: &str = "2BP01";
    /// The escape of a pattern is invalid.
    pub const INVALID_ESCAPE: &str = "22025";
    /// A text is no value of its type.
    pub const INVALID_TEXT: &str = "22P02";
    /// A setting or an option cannot have this value.
    pub const INVALID_VALUE: &str = "22023";
    /// The lines of a COPY are not in its format.
    pub const BAD_COPY: &str = "22P04";
    /// A text is longer than its column allows.
    pub const TRUNCATION: &str = "22001";
    /// A time or an interval is out of the range of its type.
    pub const DATETIME_RANGE: &str = "22008";
    /// A number is out of the range of its type.
    pub const OUT_OF_RANGE: &str = "22003";
    /// Bytes are no text of the encoding.
    pub const NOT_IN_ENCODING: &str = "22021";
    /// A schema does not exist.
    pub const UNDEFINED_SCHEMA: &str = "3F000";
    /// A name is no identifier.
    pub const INVALID_NAME: &str = "42602";
    /// A sequence has no further value.
    pub const SEQUENCE_LIMIT: &str = "2200H";
    /// The object is of another kind, such as a sequence in place of a table.
    pub const WRONG_OBJECT: &str = "42809";
    /// A value was given to a column that is generated.
    pub const GENERATED_ALWAYS: &str = "428C9";
    /// The statement is larger than a limit.
    pub const LIMIT: &str = "54000";
    /// The statement is nested too deeply, or has too many operators.
    pub const TOO_COMPLEX: &str = "54001";
}

impl fmt::Display for StatementProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of > 1 {
            write!(
                f,
                " ({} of {} rows were changed: each row is an operation of its own)",
                self.done, self.of
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SyntaxError {
            message,
            line,
            column,
            source,
        } = self;
        // Tabs and wide characters before the caret keep their width, so that it stands right.
        let indent: String = source
            .chars()
            .take(column.saturating_sub(1))
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        write!(
            f,
            "syntax error at line {line}, column {column}: {message}\n  {source}\n  {indent}^"
        )
    }
}

impl fmt::Display for SqlError {
    // tidy: long — a dispatching match over the errors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqlError::Syntax(error) => error.fmt(f),
            SqlError::Unsupported { what, remedy } => {
                write!(f, "{what} is not supported: {remedy}")
            }
            SqlError::UnknownTable { table, tables } if tables.is_empty() => {
                write!(f, "there is no table {table}, nor any other: create it")
            }
            SqlError::UnknownTable { table, tables } => write!(
                f,
                "there is no table {table}: create it, or name one of {}",
                client::listed(tables)
            ),
            SqlError::UnknownColumn {
                table,
                column,
                columns,
            } => write!(
                f,
                "table {table} has no column {column}: it has {}",
                columns.join(", ")
            ),
            SqlError::Schema(error) => error.fmt(f),
            SqlError::Literal { place, error } if place.is_empty() => error.fmt(f),
            SqlError::Literal { place, error } => write!(f, "{place}: {error}"),
            SqlError::Expression { text, error } => write!(f, "in {text}: {error}"),
            SqlError::Row { table, row, error } => write!(f, "table {table}, row {row}: {error}"),
            SqlError::Key { table, row, error } => write!(f, "table {table}, row {row}: {error}"),
            SqlError::NoIndex {
                table,
                rows_max,
                rows_wanted,
                indexes,
                hyperspaces,
            } => no_index(f, (table, *rows_max, *rows_wanted), indexes, hyperspaces),
            SqlError::PrimaryKeyChange { table, column } => write!(
                f,
                "column {column} is in the primary key of table {table} and cannot be changed: \
                 DELETE the row and INSERT it again"
            ),
            SqlError::Duplicate { table, key, done } => write!(
                f,
                "table {table} already has a row with {key}: choose another value; an INSERT can leave \
                 the row out by ON CONFLICT DO NOTHING{done}"
            ),
            SqlError::NotDense {
                table,
                index,
                expected,
                done,
            } => write!(
                f,
                "index {index} of table {table} is dense: the next value is {expected}, only the \
                 one before it can be deleted{done}"
            ),
            SqlError::Invalid {
                table,
                message,
                done,
            } => write!(f, "table {table}: {message}{done}"),
            SqlError::CheckFailed {
                table,
                constraint,
                done,
            } => {
                let text = check_violation_text(table, constraint);
                write!(f, "{text} (SQLSTATE 23514){done}")
            }
            SqlError::RowsViolateCheck { table, constraint } => write!(
                f,
                "check constraint \"{constraint}\" of relation \"{table}\" is violated by some row"
            ),
            SqlError::ForeignKey { violation, done } => {
                let ForeignKeyViolation {
                    message, detail, ..
                } = &**violation;
                write!(f, "{message} (SQLSTATE 23503): {detail}{done}")
            }
            SqlError::Conflict { table, done } => write!(
                f,
                "other operations held the row of table {table} for too long: run the statement \
                 again{done}"
            ),
            SqlError::Statement { message, .. } | SqlError::Transaction { message, .. } => {
                f.write_str(message)
            }
            SqlError::Serialization { message } => write!(
                f,
                "{message}: nothing was changed, begin the transaction again (SQLSTATE 40001)"
            ),
            SqlError::Store { message, done, .. } => write!(f, "{message}{done}"),
        }
    }
}

fn no_index(
    f: &mut fmt::Formatter<'_>,
    (table, rows_max, rows_wanted): (&str, u64, Option<u64>),
    indexes: &[String],
    hyperspaces: &[String],
) -> fmt::Result {
    let indexes = indexes.join(" or of ");
    let any = match hyperspaces {
        [] => String::new(),
        some => format!(", or equate any column of {}", some.join(" or of ")),
    };
    match rows_wanted {
        None => write!(
            f,
            "no index of table {table} serves this statement, which would read the whole table, and \
             it has more than {rows_max} rows: "
        )?,
        Some(rows) => write!(
            f,
            "LIMIT and OFFSET make this statement read {rows} rows of table {table}, which has more \
             than {rows_max}: lower them to {rows_max} together, or "
        )?,
    }
    write!(
        f,
        "equate the first column of {indexes}, or give it a range{any}; or ask for the scan by \
         SELECT /*+ scan */ …, SET scan = on or SET scan_rows = a larger number"
    )
}

impl std::error::Error for SqlError {}

impl From<SyntaxError> for SqlError {
    fn from(error: SyntaxError) -> SqlError {
        SqlError::Syntax(error)
    }
}

impl From<SchemaError> for SqlError {
    fn from(error: SchemaError) -> SqlError {
        SqlError::Schema(error)
    }
}
