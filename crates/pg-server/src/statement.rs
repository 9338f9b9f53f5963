//! Statements as a client prepares them: parsed once, with the types of their parameters and of
//! their result.

use pg_catalog::{CatalogueStatement, PreparedTypes, SchemaCatalogue, SchemaDescription, Subject};
use placement::{ColumnType, TimeZone};
use protocol::configuration::{Configuration, PlacedTables};
use protocol::identity::Epoch;
use sql::statement::{CopyDirection, CopyStatement, NamedStatement, RoleStatement, Statement};
use sql::{OutputColumn, SqlError, UnparsedStatement, describe};

use pg_wire::report::Report;

use crate::catalogue;
use crate::command::SessionCommand;
use crate::errors::{self, StatementScope, error};
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
    /// It is about roles or privileges.
    Roles(Box<RoleStatement>),
    /// The store runs it.
    Stored(Box<StoredStatement>),
    /// It is about the catalogue.
    Catalogue(Box<CatalogueStatement>),
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
    /// The types of a statement about the catalogue. Such a statement has nothing in the two fields
    /// before.
    pub catalogue: Option<PreparedTypes>,
}

impl StatementKind {
    /// Parses one statement of a string. Constants that it stores are local times of a zone.
    ///
    /// # Errors
    /// The statement is invalid or not supported.
    pub fn parse(
        piece: &UnparsedStatement<'_>,
        text: &str,
        zone: TimeZone<'static>,
    ) -> Result<StatementKind, Report> {
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
        let roles = piece.parse_role();
        let roles = roles.map_err(|fault| errors::report(&fault, text, StatementScope::Statement));
        if let Some(roles) = roles? {
            return Ok(StatementKind::Roles(Box::new(roles)));
        }
        let (is_query, may_be) = (is_query(&words), may_be_of_catalogue(&words));
        if is_query
            && may_be
            && let Some(asked) = of_catalogue(piece)?
        {
            return Ok(asked);
        }
        let parsed = piece.parse_in(zone);
        if is_query && let Some(asked) = without_tables(piece, parsed.as_ref()) {
            return Ok(asked);
        }
        let statement =
            parsed.map_err(|fault| errors::report(&fault, text, StatementScope::Statement))?;
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
            StatementKind::Empty
            | StatementKind::Session(_)
            | StatementKind::Roles(_)
            | StatementKind::Catalogue(_) => return false,
        };
        let statement = match &stored.statement {
            Statement::ExplainAnalyze(explained) => explained,
            Statement::ExplainAsJson(explained) => match &**explained {
                Statement::ExplainAnalyze(explained) => explained,
                _ => return false,
            },
            statement => statement,
        };
        matches!(
            statement,
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)
        )
    }

    /// Returns whether the statement runs by the rights of a role.
    pub fn needs_role(&self) -> bool {
        match self {
            StatementKind::Copy(_) | StatementKind::Roles(_) => true,
            StatementKind::Stored(stored) => !matches!(stored.statement, Statement::Transaction(_)),
            // The statement within is another one.
            StatementKind::Named(_)
            | StatementKind::Empty
            | StatementKind::Session(_)
            | StatementKind::Catalogue(_) => false,
        }
    }

    /// Returns whether the statement changes tables or indexes.
    pub fn defines(&self) -> bool {
        matches!(self, StatementKind::Stored(stored) if stored.statement.defines())
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
            StatementKind::Session(_) | StatementKind::Copy(_) | StatementKind::Roles(_) => {
                Ok((Vec::new(), None))
            }
            StatementKind::Named(named) => match &**named {
                NamedStatement::Declare { select, .. } => {
                    let found = describe(select, configuration, declared, &FunctionNames)?;
                    Ok((found.parameters, None))
                }
                // The session knows the columns.
                _ => Ok((Vec::new(), None)),
            },
            StatementKind::Catalogue(_) => unreachable!("the catalogue describes it"),
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
            catalogue: None,
        })
    }

    /// Prepares the one statement of a string, which is about the catalogue.
    ///
    /// # Errors
    /// The statement is invalid or not supported.
    pub fn prepare_catalogue(
        statement: &CatalogueStatement,
        text: &str,
        types: &[u32],
        catalogue: &SchemaCatalogue,
    ) -> Result<DescribedStatement, Report> {
        let prepared = catalogue::prepare(statement, types, catalogue)?;
        Ok(DescribedStatement {
            text: text.to_owned(),
            kind: StatementKind::Catalogue(Box::new(statement.clone())),
            parameters: Vec::new(),
            columns: None,
            catalogue: Some(prepared),
        })
    }

    /// Returns the OIDs of the parameters.
    pub fn parameter_oids(&self) -> Vec<u32> {
        match &self.catalogue {
            Some(types) => types.parameters.clone(),
            None => self.parameters.iter().map(|it| it.oid).collect(),
        }
    }

    /// Returns how many columns the result has.
    pub fn column_count(&self) -> usize {
        match &self.catalogue {
            Some(types) => types.columns.len(),
            None => self.columns.as_ref().map_or(0, Vec::len),
        }
    }

    /// Returns whether the statement returns rows.
    pub fn returns_rows(&self) -> bool {
        self.catalogue.is_some() || self.columns.is_some()
    }
}

/// Returns whether a statement may be a query.
fn is_query(words: &[String]) -> bool {
    matches!(
        words.first().map(String::as_str),
        Some("select" | "with" | "values" | "(")
    )
}

/// Returns whether a statement has a word that begins as the names of the catalogue do.
fn may_be_of_catalogue(words: &[String]) -> bool {
    let mut words = words.iter();
    words.any(|word| word.starts_with("pg_") || word == "information_schema")
}

/// Returns the statement if it reads relations of the catalogue.
///
/// # Errors
/// It is a statement about the catalogue, and invalid.
fn of_catalogue(piece: &UnparsedStatement<'_>) -> Result<Option<StatementKind>, Report> {
    let parsed = CatalogueStatement::parse(piece.tokens());
    let parsed = parsed.map_err(|fault| catalogue::report(&fault))?;
    let asked = parsed.filter(|statement| statement.subject() == Subject::Catalogue);
    Ok(asked.map(|statement| StatementKind::Catalogue(Box::new(statement))))
}

/// Returns a statement without tables that the store cannot run and the catalogue can: it calls
/// functions, or has values, that only statements about the catalogue know.
fn without_tables(
    piece: &UnparsedStatement<'_>,
    parsed: Result<&Statement, &SqlError>,
) -> Option<StatementKind> {
    match parsed {
        Ok(Statement::Select(select)) if select.table.is_some() => return None,
        Ok(statement) => {
            let described = describe(statement, &no_tables(), &[], &FunctionNames);
            if described.is_ok() {
                return None;
            }
        }
        Err(_) => {}
    }
    let statement = CatalogueStatement::parse(piece.tokens()).ok().flatten()?;
    if statement.subject() != Subject::Nothing {
        return None;
    }
    // Of two errors, that of the store is about the statement as its documents describe it.
    let nothing = SchemaCatalogue::new(SchemaDescription::default());
    let prepared = statement.prepare(&[], &nothing);
    prepared
        .ok()
        .map(|_| StatementKind::Catalogue(Box::new(statement)))
}

/// Returns a configuration without servers and tables.
fn no_tables() -> Configuration {
    Configuration {
        cluster: 0,
        epoch: Epoch::default(),
        servers: Vec::new(),
        tables: PlacedTables::default(),
        roles: Default::default(),
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
