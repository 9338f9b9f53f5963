//! Plans the foreign keys of `CREATE TABLE`: finds their parents, and the index that serves them.

use placement::{ColumnType, Constraint, ForeignKey, HIDDEN_KEY, Index, ReferentialAction, Schema};

use super::Context;
use crate::bind::unknown_column;
use crate::error::{SqlError, sqlstate};
use crate::statement::Reference;

/// Adds the foreign keys of a table. A foreign key that no copy of the table serves gets an index,
/// of which the notices tell.
pub(super) fn add(
    schema: &mut Schema,
    references: &[Reference],
    context: &Context<'_>,
) -> Result<Vec<String>, SqlError> {
    let mut notices = Vec::new();
    for reference in references {
        let parent = match reference.parent == schema.name {
            true => schema.clone(),
            false => context.table(&reference.parent)?.schema.clone(),
        };
        let key = foreign_key(schema, reference, &parent)?;
        if !schema.serves(&key) {
            let (index, notice) = index_for_reference(schema, &key);
            notices.push(notice);
            schema.indexes.push(index);
        }
        schema.constraints.foreign_keys.push(key);
    }
    Ok(notices)
}

/// Returns an index that serves a foreign key, and a notice that it is made.
pub(crate) fn index_for_reference(schema: &Schema, key: &ForeignKey) -> (Index, String) {
    let columns = key.columns.iter();
    let columns: Vec<String> = columns
        .map(|column| schema.columns[*column].name.clone())
        .collect();
    let name = index_name(schema, &columns);
    let notice = format!(
        "index {name} ({}), a copy of table {}, is made for foreign key {}",
        columns.join(", "),
        schema.name,
        key.name
    );
    let index = Index {
        name,
        columns: key.columns.clone(),
        constraint: None,
        partition_columns: None,
        by_range: false,
    };
    (index, notice)
}

/// Returns the foreign key that a definition means, to a table with this schema.
pub(super) fn foreign_key(
    schema: &Schema,
    reference: &Reference,
    parent: &Schema,
) -> Result<ForeignKey, SqlError> {
    let columns = positions(schema, &reference.columns)?;
    if parent.column_index(HIDDEN_KEY).is_some() && reference.parent_columns.is_empty() {
        let name = &parent.name;
        let text = format!("there is no primary key for referenced table \"{name}\"");
        return Err(SqlError::with_state(sqlstate::UNDEFINED_OBJECT, text));
    }
    let referred = match reference.parent_columns.is_empty() {
        true => parent.primary_key.clone(),
        false => positions(parent, &reference.parent_columns)?,
    };
    if columns.len() != referred.len() {
        return Err(SqlError::with_state(
            sqlstate::INVALID_FOREIGN_KEY,
            "number of referencing and referenced columns for foreign key disagree",
        ));
    }
    let is_key = |key: &[usize]| {
        let mut wanted = referred.clone();
        let mut key = key.to_vec();
        wanted.sort_unstable();
        key.sort_unstable();
        wanted == key
    };
    if !is_key(&parent.primary_key) {
        let copies = parent.indexes.iter();
        let copies = copies.filter(|index| index.constraint == Some(Constraint::Unique));
        let mut unique: Vec<Vec<usize>> = copies.map(|index| index.columns.clone()).collect();
        let thin = parent.thin.iter().filter(|index| index.unique);
        unique.extend(thin.map(|index| placement::columns_of(&index.columns)));
        return Err(match unique.iter().any(|key| is_key(key)) {
            true => SqlError::unsupported(
                format!(
                    "a foreign key to columns of table {} beside its primary key",
                    parent.name
                ),
                "refer to the primary key",
            ),
            false => SqlError::with_state(
                sqlstate::INVALID_FOREIGN_KEY,
                format!(
                    "there is no unique constraint matching given keys for referenced table \"{}\": \
                 refer to its primary key",
                    parent.name
                ),
            ),
        });
    }
    let in_order = parent.primary_key.iter().map(|column| {
        let place = referred.iter().position(|it| it == column);
        columns[place.expect("it is the primary key")]
    });
    let key = ForeignKey {
        name: constraint_name(schema, reference),
        columns: in_order.collect(),
        parent: parent.name.clone(),
        on_delete: reference.on_delete,
        on_update: reference.on_update,
        deferral: reference.deferral,
        is_valid: true,
    };
    check_types(schema, &key, parent)?;
    check_actions(schema, &key)?;
    Ok(key)
}

/// Checks that the columns have the types of those to which they refer.
fn check_types(schema: &Schema, key: &ForeignKey, parent: &Schema) -> Result<(), SqlError> {
    for (column, other) in key.columns.iter().zip(&parent.primary_key) {
        let (column, other) = (&schema.columns[*column], &parent.columns[*other]);
        let types: [ColumnType; 2] = [column.column_type, other.column_type];
        if !types[0].shares_keys(types[1]) {
            return Err(SqlError::with_state(
                sqlstate::TYPE_MISMATCH,
                format!(
                    "foreign key constraint \"{}\" cannot be implemented: columns \
                 \"{}\" and \"{}\" are of incompatible types: {} and {}",
                    key.name, column.name, other.name, types[0], types[1]
                ),
            ));
        }
    }
    Ok(())
}

/// Checks that no action sets a generated column.
fn check_actions(schema: &Schema, key: &ForeignKey) -> Result<(), SqlError> {
    let mut columns = key.columns.iter().map(|it| &schema.columns[*it]);
    if !key.sets_columns() || columns.all(|column| column.generation().is_none()) {
        return Ok(());
    }
    let event = match key.on_delete {
        ReferentialAction::SetNull => "DELETE",
        _ => "UPDATE",
    };
    Err(SqlError::with_state(
        sqlstate::SYNTAX,
        format!("invalid ON {event} action for foreign key constraint containing generated column"),
    ))
}

fn positions(schema: &Schema, names: &[String]) -> Result<Vec<usize>, SqlError> {
    let position = |name: &String| {
        let found = schema.column_index(name);
        found.ok_or_else(|| unknown_column(schema, name))
    };
    names.iter().map(position).collect()
}

/// Returns the name that is given, or the one that PostgreSQL makes.
fn constraint_name(schema: &Schema, reference: &Reference) -> String {
    if let Some(name) = &reference.name {
        return name.clone();
    }
    let base = format!("{}_{}_fkey", schema.name, reference.columns.join("_"));
    let constraints = &schema.constraints;
    let is_free = |name: &String| {
        let mut checks = constraints.checks.iter().map(|check| &check.name);
        let mut keys = constraints.foreign_keys.iter().map(|key| &key.name);
        !checks.any(|it| it == name) && !keys.any(|it| it == name)
    };
    free_name(&base, is_free)
}

fn index_name(schema: &Schema, columns: &[String]) -> String {
    let base = format!("{}_{}_idx", schema.name, columns.join("_"));
    let is_free = |name: &String| {
        let mut indexes = schema.indexes.iter().map(|index| &index.name);
        let mut thin = schema.thin.iter().map(|index| &index.name);
        let mut further = schema.further.iter().map(|copy| &copy.name);
        !indexes.any(|it| it == name) && !thin.any(|it| it == name) && !further.any(|it| it == name)
    };
    free_name(&base, is_free)
}

/// Returns the name itself, or else the first free one with a number at its end.
pub(super) fn free_name(base: &str, is_free: impl Fn(&String) -> bool) -> String {
    let numbered = (1..).map(|number| format!("{base}{number}"));
    let mut names = std::iter::once(base.to_string()).chain(numbered);
    let free = names.find(is_free);
    free.expect("there are more numbers than names")
}
