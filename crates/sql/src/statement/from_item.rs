//! The further table of an `UPDATE … FROM` or a `DELETE … USING`.

use sqlparser::ast::Expr;

use super::TableName;

/// The further table of a change. Its rows are joined with those of the changed table.
#[derive(Clone, Debug, PartialEq)]
pub enum FromItem {
    /// A table of the store.
    Table(TableName),
    /// `(VALUES …) AS name (columns)`.
    Values {
        /// The name of the table in the statement.
        name: String,
        /// The names of its columns, as many as a row has values.
        columns: Vec<String>,
        /// The values of each row.
        rows: Vec<Vec<Expr>>,
    },
    /// `unnest(array, …) AS name (columns)`.
    Unnest {
        /// The name of the table in the statement.
        name: String,
        /// The names of its columns, as many as there are arrays.
        columns: Vec<String>,
        /// The arrays. Each has the values of a column.
        arrays: Vec<Expr>,
    },
}

impl FromItem {
    /// Returns the name that qualifies the columns.
    pub fn name(&self) -> &str {
        match self {
            FromItem::Table(table) => table.alias.as_ref().unwrap_or(&table.name),
            FromItem::Values { name, .. } | FromItem::Unnest { name, .. } => name,
        }
    }
}
