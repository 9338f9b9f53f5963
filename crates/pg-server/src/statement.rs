//! Statements as a client prepares them: parsed once, with the types of their parameters and of
//! their result.

use placement::ColumnType;
use protocol::configuration::Configuration;
use sql::statement::{CopyDirection, CopyStatement, NamedStatement, Statement};
use sql::{OutputColumn, SqlError, UnparsedStatement, describe};

use pg_wire::report::Report;

use crate::command::SessionCommand;
use crate::errors::{self, StatementScope, error, unsupported};
use crate::functions::FunctionNames;
use crate::types::{self, ParameterType};

/// The most columns of a result, as in PostgreSQL.
const COLUMNS_MAX: usize = 1664;
/// The option of `CREATE TABLE` that sets how many failures the table survives.
const TOLERANCE_OPTION: &str = "failures_tolerated";

/// The kinds of statements, by the part that runs them.
#[derive(Clone, Debug)]
pub enum StatementKind {
    /// Nothing: it is empty.
    Empty,
    /// It is about the session.
    Session(SessionCommand),
    /// It copies rows from the client or to it.
    Copy(Box<CopyStatement>),
    /// It is about a prepared statement or a cursor of the session.
    Named(Box<NamedStatement>),
    /// The store runs it.
    Stored(Box<StoredStatement>),
}

/// A statement that the store runs.
#[derive(Clone, Debug)]
pub struct StoredStatement {
    /// The statement.
    pub statement: Statement,
    /// Whether it is spelt `START TRANSACTION`, which has a tag of its own.
    pub is_start: bool,
    /// Whether it creates a table without saying how many failures the table survives.
    pub is_tolerance_open: bool,
}

/// A parameter of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementParameter {
    /// The OID that ParameterDescription returns.
    pub oid: u32,
    /// The type as which its values are read.
    pub declared: ParameterType,
}

/// A statement that was prepared.
#[derive(Clone, Debug)]
pub struct DescribedStatement {
    /// The query string, for the positions of errors.
    pub text: String,
    /// The statement itself.
    pub kind: StatementKind,
    /// Its parameters.
    pub parameters: Vec<StatementParameter>,
    /// The columns of its result; none if it returns no rows.
    pub columns: Option<Vec<OutputColumn>>,
}

impl StatementKind {
    /// Parses one statement of a string.
    ///
    /// # Errors
    /// The statement is invalid or not supported.
    pub fn parse(piece: &UnparsedStatement<'_>, text: &str) -> Result<StatementKind, Report> {
        let words = piece.words();
        if let Some(command) = SessionCommand::read(&words)? {
            return Ok(StatementKind::Session(command));
        }
        if words.first().is_some_and(|word| word == "copy") {
            let copy = piece.parse_copy();
            let copy =
                copy.map_err(|fault| errors::report(&fault, text, StatementScope::Statement));
            return Ok(StatementKind::Copy(Box::new(copy?)));
        }
        let named = piece.parse_named();
        let named = named.map_err(|fault| errors::report(&fault, text, StatementScope::Statement));
        if let Some(named) = named? {
            return Ok(StatementKind::Named(Box::new(named)));
        }
        let statement = piece
            .parse()
            .map_err(|fault| failure(&fault, text, &words))?;
        let creates = matches!(statement, Statement::CreateTable { .. });
        Ok(StatementKind::Stored(Box::new(StoredStatement {
            statement,
            is_start: words.first().is_some_and(|word| word == "start"),
            is_tolerance_open: creates && !words.iter().any(|word| word == TOLERANCE_OPTION),
        })))
    }

    /// Returns the kind of a statement that changes or reads rows.
    pub fn of_store(statement: Statement) -> StatementKind {
        StatementKind::Stored(Box::new(StoredStatement {
            statement,
            is_start: false,
            is_tolerance_open: false,
        }))
    }

    /// Returns whether the statement changes rows, or may do so.
    pub fn writes(&self) -> bool {
        let stored = match self {
            StatementKind::Stored(stored) => stored,
            StatementKind::Copy(copy) => {
                return matches!(copy.direction, CopyDirection::From { .. });
            }
            StatementKind::Named(named) => {
                return matches!(**named, NamedStatement::Execute { .. });
            }
            StatementKind::Empty | StatementKind::Session(_) => return false,
        };
        let statement = match &stored.statement {
            Statement::ExplainAnalyze(explained) => explained,
            statement => statement,
        };
        matches!(
            statement,
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)
        )
    }

    /// Returns whether the statement changes tables or indexes.
    pub fn defines(&self) -> bool {
        let StatementKind::Stored(stored) = self else {
            return false;
        };
        matches!(
            stored.statement,
            Statement::CreateTable { .. }
                | Statement::CreateIndex(_)
                | Statement::DropIndex { .. }
                | Statement::SetUsing(_)
                | Statement::SetPartitions { .. }
                | Statement::DropTable { .. }
        )
    }

    /// Returns the columns of the statement's result and the types of its parameters.
    ///
    /// # Errors
    /// A table or a column does not exist.
    pub fn describe(
        &self,
        declared: &[Option<ColumnType>],
        configuration: &Configuration,
    ) -> Result<(Vec<ColumnType>, Option<Vec<OutputColumn>>), SqlError> {
        match self {
            StatementKind::Empty => Ok((Vec::new(), None)),
            StatementKind::Session(SessionCommand::Show(name)) => {
                let column = OutputColumn {
                    name: name.clone(),
                    column_type: Some(ColumnType::Text),
                };
                Ok((Vec::new(), Some(vec![column])))
            }
            // PostgreSQL looks for the table when it runs.
            StatementKind::Session(_) | StatementKind::Copy(_) => Ok((Vec::new(), None)),
            StatementKind::Named(named) => match &**named {
                NamedStatement::Declare { select, .. } => {
                    let found = describe(select, configuration, declared, &FunctionNames)?;
                    Ok((found.parameters, None))
                }
                // The session knows the columns.
                _ => Ok((Vec::new(), None)),
            },
            StatementKind::Stored(stored) => {
                let statement = &stored.statement;
                let found = describe(statement, configuration, declared, &FunctionNames)?;
                Ok((found.parameters, found.columns))
            }
        }
    }
}

impl DescribedStatement {
    /// Prepares the one statement of a string. `types` are the OIDs that the client has declared.
    ///
    /// # Errors
    /// The statement is invalid or not supported; a table, a column or a type does not exist.
    pub fn prepare(
        kind: StatementKind,
        text: &str,
        types: &[u32],
        configuration: &Configuration,
    ) -> Result<DescribedStatement, PrepareFailure> {
        let declared: Result<Vec<Option<ParameterType>>, Report> =
            types.iter().map(|oid| ParameterType::of(*oid)).collect();
        let declared = declared.map_err(PrepareFailure::Reported)?;
        let stored: Vec<Option<ColumnType>> = declared
            .iter()
            .map(|declared| declared.map(|it| it.0))
            .collect();
        let (found, columns) = kind
            .describe(&stored, configuration)
            .map_err(PrepareFailure::Planned)?;
        check_columns(columns.as_deref()).map_err(PrepareFailure::Reported)?;
        let parameters = found.iter().enumerate().map(|(position, column_type)| {
            match declared.get(position).copied().flatten() {
                Some(declared) => StatementParameter {
                    oid: types[position],
                    declared,
                },
                None => StatementParameter {
                    oid: types::oid(Some(*column_type)),
                    declared: ParameterType(*column_type),
                },
            }
        });
        Ok(DescribedStatement {
            text: text.to_owned(),
            parameters: parameters.collect(),
            kind,
            columns,
        })
    }
}

/// Why a statement could not be prepared.
#[derive(Debug)]
pub enum PrepareFailure {
    /// It is invalid.
    Reported(Report),
    /// It is invalid for this configuration. A newer one may change that.
    Planned(SqlError),
}

/// Checks that a result does not have too many columns.
///
/// # Errors
/// It has too many.
pub fn check_columns(columns: Option<&[OutputColumn]>) -> Result<(), Report> {
    match columns {
        Some(columns) if columns.len() > COLUMNS_MAX => {
            let text = format!("target lists can have at most {COLUMNS_MAX} entries");
            Err(error("54011", text))
        }
        _ => Ok(()),
    }
}

/// Returns the report of a statement that cannot be parsed or planned. A statement about
/// PostgreSQL's catalogue is refused as such, whichever of its parts has failed.
pub fn failure(fault: &SqlError, text: &str, words: &[String]) -> Report {
    let is_of_catalogue = |word: &String| {
        matches!(&**word, "pg_catalog" | "information_schema") || is_catalogue_table(word)
    };
    let asks = matches!(
        words.first().map(String::as_str),
        Some("select" | "with" | "(")
    );
    let is_expected = matches!(
        fault,
        SqlError::Syntax(_) | SqlError::Unsupported { .. } | SqlError::UnknownTable { .. }
    );
    if asks && is_expected && words.iter().any(is_of_catalogue) {
        return unsupported(
            "PostgreSQL's catalogue",
            "SHOW TABLES lists the tables, and SHOW TABLE name describes one.",
        );
    }
    errors::report(fault, text, StatementScope::Statement)
}

/// Returns whether a word is the name of one of the tables of PostgreSQL's catalogue that clients
/// ask for without their schema.
fn is_catalogue_table(word: &str) -> bool {
    matches!(
        word,
        "pg_attribute"
            | "pg_class"
            | "pg_constraint"
            | "pg_database"
            | "pg_enum"
            | "pg_index"
            | "pg_namespace"
            | "pg_proc"
            | "pg_range"
            | "pg_roles"
            | "pg_settings"
            | "pg_type"
    )
}
