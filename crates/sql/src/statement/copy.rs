//! `COPY` as it is parsed, and the options of its format.

use super::Select;

/// A `COPY` statement.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyStatement {
    /// The direction, and the rows.
    pub direction: CopyDirection,
    /// The format of the lines.
    pub options: CopyOptions,
}

/// The direction of a `COPY`, and its rows.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyDirection {
    /// `COPY … FROM STDIN`: the client's lines become rows of a table.
    From {
        /// The table.
        table: String,
        /// The columns of the fields; none is all.
        columns: Option<Vec<String>>,
    },
    /// `COPY … TO STDOUT`: the rows of a `SELECT`, which is that of all rows for a table.
    To(Box<Select>),
}

/// The format of the rows of a `COPY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyFormat {
    /// One line per row, with escapes after a backslash.
    #[default]
    Text,
    /// Comma-separated values, with quotes.
    Csv,
    /// PostgreSQL's binary format: the length and the bytes of each value.
    Binary,
}

/// Whether the first line has the names of the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyHeader {
    /// There is no such line.
    #[default]
    No,
    /// There is one, which a reader skips.
    Yes,
    /// There is one, with the names of the expected columns.
    Match,
}

/// Some columns of a `COPY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyColumns {
    /// All columns.
    All,
    /// Columns with these names.
    Named(Vec<String>),
}

impl Default for CopyColumns {
    fn default() -> CopyColumns {
        CopyColumns::Named(Vec::new())
    }
}

impl CopyColumns {
    /// Returns whether a column is one of them.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            CopyColumns::All => true,
            CopyColumns::Named(names) => names.iter().any(|it| it == name),
        }
    }

    /// Returns the names of the columns; none if they are all or none.
    pub fn names(&self) -> &[String] {
        match self {
            CopyColumns::All => &[],
            CopyColumns::Named(names) => names,
        }
    }
}

/// The options of a `COPY`. Characters are single bytes of ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// The format.
    pub format: CopyFormat,
    /// Whether the first line has names.
    pub header: CopyHeader,
    /// The character between two fields.
    pub delimiter: u8,
    /// The text of a field that is NULL.
    pub null: String,
    /// The character before and after a quoted field of CSV.
    pub quote: u8,
    /// The character before a quote within a quoted field of CSV.
    pub escape: u8,
    /// The columns whose fields are quoted, unless they are NULL.
    pub force_quote: CopyColumns,
    /// The columns whose fields are not NULL if they are not quoted.
    pub force_not_null: CopyColumns,
    /// The columns whose fields can be NULL although they are quoted.
    pub force_null: CopyColumns,
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions {
            format: CopyFormat::Text,
            header: CopyHeader::No,
            delimiter: b'\t',
            null: "\\N".into(),
            quote: b'"',
            escape: b'"',
            force_quote: CopyColumns::default(),
            force_not_null: CopyColumns::default(),
            force_null: CopyColumns::default(),
        }
    }
}
