//! Statements about the prepared statements and cursors of a session, which a server of SQL keeps.

use placement::ColumnType;
use sqlparser::ast::Expr;

use super::Statement;

/// A statement about a prepared statement or a cursor of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum NamedStatement {
    /// `PREPARE`.
    Prepare {
        /// The name.
        name: String,
        /// The types of the first parameters.
        types: Vec<ColumnType>,
        /// The statement.
        statement: Box<Statement>,
    },
    /// `EXECUTE`.
    Execute {
        /// The prepared statement.
        name: String,
        /// The values of its parameters.
        arguments: Vec<Expr>,
    },
    /// `DECLARE … CURSOR`.
    Declare {
        /// The name.
        name: String,
        /// Whether the cursor outlives its transaction.
        is_held: bool,
        /// The `SELECT`.
        select: Box<Statement>,
    },
    /// `FETCH` or `MOVE`.
    Fetch {
        /// The cursor.
        name: String,
        /// The rows after the present one.
        rows: FetchedRows,
        /// Whether the rows are skipped.
        moves: bool,
    },
    /// `CLOSE`: the cursor; none is all.
    Close(Option<String>),
}

/// The rows of a `FETCH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchedRows {
    /// At most so many.
    UpTo(u64),
    /// All that are left.
    All,
    /// The present one or earlier ones, which a cursor does not return.
    Earlier,
}
