//! Converts the expressions of generated columns.
//!
//! An expression becomes one of the store, so that the primaries can compute the column for every
//! row that a change leaves, of whatever client. It must give the same value whenever it is
//! computed.

use std::ops::ControlFlow;

use placement::{ColumnDefault, Schema, TimeZone};
use sqlparser::ast::{self, Expr};

use crate::bind::{Scope, StoredIn, WalkEnd, walk};
use crate::error::{SqlError, sqlstate};

/// The functions whose values depend on more than their arguments.
const NOT_IMMUTABLE: [&str; 22] = [
    "clock_timestamp",
    "current_catalog",
    "current_database",
    "current_date",
    "current_role",
    "current_schema",
    "current_setting",
    "current_time",
    "current_timestamp",
    "current_user",
    "currval",
    "gen_random_uuid",
    "lastval",
    "localtime",
    "localtimestamp",
    "nextval",
    "now",
    "random",
    "session_user",
    "setval",
    "statement_timestamp",
    "transaction_timestamp",
];

/// Adds the expressions of the generated columns of a table, whose columns are known. Constants are
/// local times of a zone.
pub(super) fn add(
    schema: &mut Schema,
    generated: &[(usize, Expr)],
    zone: TimeZone<'static>,
) -> Result<(), SqlError> {
    let mut bound = Vec::with_capacity(generated.len());
    for (position, written) in generated {
        if names_changing_function(written) {
            return Err(SqlError::with_state(
                sqlstate::INVALID_OBJECT,
                format!("generation expression is not immutable: {written}"),
            ));
        }
        let column = &schema.columns[*position];
        let scope = Scope {
            schema: Some(&*schema),
            zone,
            stored_in: Some(StoredIn::GeneratedColumn),
            ..Scope::CONSTANTS
        };
        let expression = scope.assigned(written, column)?;
        let mut others = generated.iter();
        if let Some((other, _)) = others.find(|(other, _)| expression.uses(*other)) {
            let used = &schema.columns[*other].name;
            return Err(SqlError::with_state(
                sqlstate::INVALID_OBJECT,
                format!(
                    "cannot use generated column \"{used}\" in column generation expression: a \
                     generated column cannot reference another generated column"
                ),
            ));
        }
        bound.push((*position, expression));
    }
    for (position, expression) in bound {
        schema.columns[position].default = Some(ColumnDefault::Generated(expression));
    }
    Ok(())
}

/// Returns whether an expression calls a function whose value is not always the same.
fn names_changing_function(written: &Expr) -> bool {
    let found = walk(written, |part| {
        let Expr::Function(function) = part else {
            return ControlFlow::Continue(());
        };
        let name = function.name.to_string().to_lowercase();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
        let arguments = match &function.args {
            ast::FunctionArguments::List(list) => list.args.len(),
            _ => 0,
        };
        // The age of one time is that of today.
        match NOT_IMMUTABLE.contains(&name) || name == "age" && arguments == 1 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    matches!(found, ControlFlow::Break(WalkEnd::Stopped(())))
}
