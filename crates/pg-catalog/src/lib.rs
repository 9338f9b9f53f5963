//! PostgreSQL's catalogue of a schema: answers statements about `pg_catalog` and
//! `information_schema`.
//!
//! A server describes its schema ([`SchemaDescription`]) and the session that asks
//! ([`SessionDescription`]). A [`CatalogueStatement`] is one `SELECT` about the catalogue. It is
//! bound ([`CatalogueStatement::prepare`]), which determines the types of its parameters and its
//! result, and executed over rows in memory ([`CatalogueStatement::execute`]).
//!
//! Invariants: a statement never sees the rows of a table, only the catalogue. Names, types and
//! errors are those of PostgreSQL 15; what is not supported is refused by name. Each statement is
//! bounded in time and memory. This crate must not know of the store, of sockets or of clocks.

mod bind;
mod casts;
mod catalogue;
mod datum;
mod definitions;
mod description;
mod error;
mod functions;
mod plan;
mod reading;
mod relations;
mod rights;
mod rows;
mod run;
mod types;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use sqlparser::ast;

pub use catalogue::SchemaCatalogue;
pub use description::{
    CheckDescription, CommentDescription, DescribedColumn, ForeignKeyDescription, GrantDescription,
    IndexDescription, IndexKey, ObjectRights, Oid, RoleDescription, SchemaDescription,
    SequenceDescription, SessionDescription, TableDescription,
};
pub use error::CatalogueError;
pub use reading::Subject;

use bind::Binder;
use catalogue::Calls;
use datum::Datum;
use plan::Query;
use run::{Held, Run};

/// A `SELECT` that the catalogue can answer.
#[derive(Clone, Debug)]
pub struct CatalogueStatement {
    query: Arc<ast::Query>,
    subject: Subject,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultColumn {
    /// The name, which need not be unique.
    pub name: String,
    /// The number of the type.
    pub type_oid: Oid,
    /// The bytes of a value, or -1 if they differ.
    pub type_length: i16,
}

/// The types of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedTypes {
    /// The types of the parameters.
    pub parameters: Vec<Oid>,
    /// The columns of the result.
    pub columns: Vec<ResultColumn>,
}

/// The value of a parameter as the client has sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentValue {
    /// The bytes; none is NULL.
    pub bytes: Option<Vec<u8>>,
    /// Whether they are in PostgreSQL's binary format of the type, and not in that of texts.
    pub is_binary: bool,
}

/// The values of a row as the client gets them; none is NULL.
pub type EncodedRow = Vec<Option<Vec<u8>>>;

/// The execution of a statement: its session and the values of its parameters.
#[derive(Clone, Copy, Debug)]
pub struct CatalogueExecution<'a> {
    /// The catalogue.
    pub catalogue: &'a SchemaCatalogue,
    /// The session.
    pub session: &'a SessionDescription,
    /// The types of the parameters, as `prepare` has returned them.
    pub types: &'a [Oid],
    /// The values of the parameters.
    pub parameters: &'a [SentValue],
    /// Whether each column is returned in binary. One value is for all columns, none is for texts.
    pub binary: &'a [bool],
    /// Ends the execution once it is true.
    pub canceled: &'a AtomicBool,
    /// The time for which the statement sleeps is added to this, in microseconds. The caller waits
    /// for that time before it returns the rows, so that no thread sleeps.
    pub sleep_us: &'a AtomicU64,
}

impl CatalogueStatement {
    /// Returns whether the statement is about the catalogue or about no tables at all.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// Determines the types of the statement. `declared` are the types of parameters as far as the
    /// client has declared them.
    ///
    /// # Errors
    /// The statement is invalid or not supported.
    pub fn prepare(
        &self,
        declared: &[Option<Oid>],
        catalogue: &SchemaCatalogue,
    ) -> Result<PreparedTypes, CatalogueError> {
        let mut binder = self.binder(declared, catalogue)?;
        let bound = binder.statement(&self.query)?;
        let parameters = binder.parameters.into_iter();
        Ok(PreparedTypes {
            parameters: parameters.map(|it| it.unwrap_or(types::TEXT)).collect(),
            columns: columns(&bound),
        })
    }

    fn binder<'c>(
        &self,
        declared: &[Option<Oid>],
        catalogue: &'c SchemaCatalogue,
    ) -> Result<Binder<'c>, CatalogueError> {
        let binder = Binder::new(declared, catalogue);
        match self.subject() {
            Subject::Nothing => binder.strict(),
            _ => Ok(binder),
        }
    }

    /// Executes the statement. Returns its columns and rows.
    ///
    /// # Errors
    /// The statement is invalid for the values, takes too much, or is canceled.
    pub fn execute(
        &self,
        execution: CatalogueExecution<'_>,
    ) -> Result<(Vec<ResultColumn>, Vec<EncodedRow>), CatalogueError> {
        let CatalogueExecution {
            catalogue,
            session,
            sleep_us,
            ..
        } = execution;
        let calls = Calls {
            catalogue,
            session,
            sleep_us,
        };
        let declared: Vec<Option<Oid>> = execution.types.iter().copied().map(Some).collect();
        let mut binder = self.binder(&declared, catalogue)?;
        let bound = binder.statement(&self.query)?;
        let mut parameters = Vec::with_capacity(execution.parameters.len());
        for (position, value) in execution.parameters.iter().enumerate() {
            let type_oid = binder.parameters.get(position).copied().flatten();
            let type_oid = type_oid.unwrap_or(types::TEXT);
            parameters.push(wire::decode(calls, value, type_oid, position + 1)?);
        }
        let held = Held::default();
        let run = Run::new(calls, &parameters, &held, execution.canceled);
        let rows = run.statement(&bound)?;
        let is_binary = |position: usize| match execution.binary {
            [] => false,
            [all] => *all,
            each => each.get(position).copied().unwrap_or(false),
        };
        let encode = |row: &Vec<Datum>| {
            let cells = row.iter().zip(&bound.columns).enumerate();
            let cells = cells.map(|(position, (value, column))| {
                let is_binary = is_binary(position);
                (!value.is_null()).then(|| wire::encode(calls, value, column, is_binary))
            });
            cells.collect()
        };
        Ok((columns(&bound), rows.iter().map(encode).collect()))
    }
}

fn columns(query: &Query) -> Vec<ResultColumn> {
    let columns = query.columns.iter().map(|column| ResultColumn {
        name: column.name.clone(),
        type_oid: column.type_oid,
        type_length: types::by_oid(column.type_oid).map_or(-1, |it| it.length),
    });
    columns.collect()
}
