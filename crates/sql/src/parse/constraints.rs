//! Converts the CHECK constraints and the foreign keys of `CREATE TABLE`.
//!
//! A condition becomes an expression of the store, so that the primaries can test it on every row
//! that a change leaves, of whatever client.

use std::collections::BTreeSet;

use placement::{
    CheckConstraint, Constraint, Deferral, Expression, ReferentialAction, Schema, TimeZone,
};
use sqlparser::ast;

use super::{made_up_name, object_name};
use crate::bind::{Scope, StoredIn};
use crate::error::{SqlError, sqlstate};
use crate::spelling::name;
use crate::statement::{NewCheck, Reference};

/// Adds the CHECK constraints of a table, whose columns are known. A constraint without a name gets
/// the one that PostgreSQL gives it. Constants are local times of a zone.
pub(super) fn add_checks(
    schema: &mut Schema,
    checks: Vec<ast::CheckConstraint>,
    zone: TimeZone<'static>,
) -> Result<(), SqlError> {
    let mut taken = BTreeSet::new();
    let mut added = Vec::with_capacity(checks.len());
    for check in checks {
        if check.no_inherit || check.enforced == Some(false) {
            return Err(SqlError::unsupported(
                format!("\"{check}\""),
                "write CHECK (condition) and nothing behind it",
            ));
        }
        let condition = bound(schema, &check.expr, zone)?;
        let check_name = match &check.name {
            Some(given) => name(given),
            None => generated_name(schema, &condition, &taken),
        };
        if !taken.insert(check_name.clone()) {
            return Err(SqlError::with_state(
                sqlstate::DUPLICATE_OBJECT,
                format!(
                    "check constraint \"{check_name}\" already exists in table {}: rename one",
                    schema.name
                ),
            ));
        }
        added.push(CheckConstraint {
            name: check_name,
            condition,
            is_valid: true,
        });
    }
    added.sort_by(|one, other| one.name.cmp(&other.name));
    schema.constraints.checks = added;
    Ok(())
}

/// Returns a condition of a CHECK constraint over the columns of a table.
fn bound(
    schema: &Schema,
    check: &ast::Expr,
    zone: TimeZone<'static>,
) -> Result<Expression, SqlError> {
    let scope = Scope {
        schema: Some(schema),
        zone,
        stored_in: Some(StoredIn::Check),
        ..Scope::CONSTANTS
    };
    scope.check(check).map_err(|error| match error {
        SqlError::Unsupported { what, .. } => SqlError::unsupported(
            format!("{what} in the constraint \"CHECK ({check})\""),
            "a CHECK can use columns of its row, constants, and the operators that \
             docs/reference/sql.md lists",
        ),
        error => error,
    })
}

/// Returns a CHECK constraint that is added to a table. All rows are not known to satisfy it.
pub(crate) fn added_check(
    schema: &Schema,
    check: &NewCheck,
    zone: TimeZone<'static>,
) -> Result<CheckConstraint, SqlError> {
    let condition = bound(schema, &check.condition, zone)?;
    let taken = constraint_names(schema);
    let name = match &check.name {
        None => generated_name(schema, &condition, &taken),
        Some(name) if taken.contains(name) => {
            return Err(constraint_exists(schema, name));
        }
        Some(name) => name.clone(),
    };
    Ok(CheckConstraint {
        name,
        condition,
        is_valid: false,
    })
}

/// Returns the names of all constraints of a table, also of unique indexes.
pub(crate) fn constraint_names(schema: &Schema) -> BTreeSet<String> {
    let checks = schema.constraints.checks.iter().map(|it| &it.name);
    let keys = schema.constraints.foreign_keys.iter().map(|it| &it.name);
    let copies = schema.indexes.iter();
    let copies = copies.filter(|it| it.constraint == Some(Constraint::Unique));
    let thin = schema.thin.iter().filter(|it| it.unique);
    let unique = copies.map(|it| &it.name).chain(thin.map(|it| &it.name));
    checks.chain(keys).chain(unique).cloned().collect()
}

/// Returns the error for a constraint whose name is taken.
pub(crate) fn constraint_exists(schema: &Schema, name: &str) -> SqlError {
    let table = &schema.name;
    SqlError::with_state(
        sqlstate::DUPLICATE_OBJECT,
        format!("constraint \"{name}\" for relation \"{table}\" already exists"),
    )
}

/// Returns the name of a constraint as PostgreSQL makes it: with the column if the condition uses
/// only one, and with a number if the name is taken.
fn generated_name(schema: &Schema, condition: &Expression, taken: &BTreeSet<String>) -> String {
    let positions = 0..u16::try_from(schema.columns.len()).unwrap_or(u16::MAX);
    let uses = |column: &u16| !condition.all_columns(&|used| used != *column);
    let used: Vec<u16> = positions.filter(uses).collect();
    let base = match used[..] {
        [column] => {
            let column = schema.columns[usize::from(column)].name.clone();
            made_up_name(&schema.name, &[column], "check")
        }
        _ => format!("{}_check", schema.name),
    };
    let numbered = (1..).map(|number| format!("{base}{number}"));
    let mut names = std::iter::once(base.clone()).chain(numbered);
    let free = names.find(|name| !taken.contains(name));
    free.expect("there are more numbers than constraints")
}

/// Returns a foreign key.
pub(super) fn reference(key: ast::ForeignKeyConstraint) -> Result<Reference, SqlError> {
    let text = key.to_string();
    let unsupported = |what: &str, remedy: &str| {
        SqlError::unsupported(format!("{what} of the foreign key \"{text}\""), remedy)
    };
    match key.match_kind {
        None | Some(ast::ConstraintReferenceMatchKind::Simple) => {}
        Some(kind) => {
            return Err(unsupported(
                &kind.to_string(),
                "leave it out for MATCH SIMPLE",
            ));
        }
    }
    let characteristics = &key.characteristics;
    let deferrable = characteristics.as_ref().and_then(|it| it.deferrable);
    if characteristics.as_ref().and_then(|it| it.enforced) == Some(false) {
        return Err(unsupported("NOT ENFORCED", "leave it out"));
    }
    let initially = characteristics.as_ref().and_then(|it| it.initially);
    let deferred = initially == Some(ast::DeferrableInitial::Deferred);
    let deferral = match (deferrable, deferred) {
        (Some(false), true) => {
            return Err(SqlError::with_state(
                sqlstate::SYNTAX,
                "a constraint that is INITIALLY DEFERRED must be DEFERRABLE",
            ));
        }
        (_, true) => Deferral::InitiallyDeferred,
        (Some(true), false) => Deferral::InitiallyImmediate,
        (_, false) => Deferral::NotDeferrable,
    };
    let action = |action: Option<ast::ReferentialAction>| match action {
        None | Some(ast::ReferentialAction::NoAction) => Ok(ReferentialAction::NoAction),
        Some(ast::ReferentialAction::Restrict) => Ok(ReferentialAction::Restrict),
        Some(ast::ReferentialAction::Cascade) => Ok(ReferentialAction::Cascade),
        Some(ast::ReferentialAction::SetNull) => Ok(ReferentialAction::SetNull),
        Some(ast::ReferentialAction::SetDefault) => Err(unsupported(
            "SET DEFAULT",
            "write NO ACTION, RESTRICT, CASCADE or SET NULL",
        )),
    };
    Ok(Reference {
        name: key.name.as_ref().map(name),
        columns: key.columns.iter().map(name).collect(),
        parent: object_name(&key.foreign_table)?,
        parent_columns: key.referred_columns.iter().map(name).collect(),
        on_delete: action(key.on_delete)?,
        on_update: action(key.on_update)?,
        deferral,
    })
}
